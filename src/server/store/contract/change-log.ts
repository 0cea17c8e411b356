/**
 * Owns the interface of the change log and the promises that streams rely on. Revisions become visible in order: a
 * reader that sees N+1 in any of these answers can read N in every later one.
 */
import type { WatchKind } from '../../../api/kinds.ts';
import type { OrganizationId, TokenId, UserId } from '../../../policy/ids.ts';

/** One state of one resource, at one revision. */
export interface Entry {
  readonly revision: number;
  /** `organization` entries keep the log gap-free; no stream shows them. */
  readonly kind: WatchKind | 'organization';
  readonly type: 'change' | 'delete';
  readonly id: string;
  /** The record as it goes over the wire, its `revision` included (of a deletion: the deletion's). */
  readonly json: string;
  /** Undefined: every member may see it. Otherwise only this user may: a user's group that is applied to no device. */
  readonly only_for: UserId | undefined;
  /** Of a device in the exact log: the record by identity with this revision, where this change is one of identity or a deletion. */
  readonly identity?: string | undefined;
  /** The revision at which a user's group last left everyone's view; 0: never. Entering and leaving take a revision of their own. */
  readonly left_at: number;
  /** Only in the exact log: the era that wrote it (`schema/eras.ts`). Absent where a server of an earlier version wrote it. */
  readonly era?: string | undefined;
  /**
   * Only from `readState`: a separate deletion at the revision `left_at`, for a group that left everyone's view. Every
   * reader but this user must get it, independent of later changes by the owner.
   */
  readonly hidden_from?: UserId | undefined;
}

export interface Head {
  readonly revision: number;
  /** Another text whenever `resumption` has another answer. */
  readonly version: string;
}

/** Revisions from which no reader can resume, both ends included. */
export interface RevisionGap {
  /** The kind whose deletions are forgotten. Undefined: a restored backup discarded these revisions, of every kind. */
  readonly kind: WatchKind | undefined;
  readonly first: number;
  readonly last: number;
}

/** A stretch of history that one run of one database has written. After a cut, what follows is of another era. */
export interface EraStart {
  readonly era: string;
  readonly first: number;
}

export interface Resumption {
  readonly gaps: readonly RevisionGap[];
  /** Ascending. */
  readonly eras: readonly EraStart[];
}

export const isInGap = (gaps: readonly RevisionGap[], kind: WatchKind, revision: number): boolean =>
  gaps.some((gap) => (gap.kind ?? kind) === kind && gap.first <= revision && revision <= gap.last);

export interface Heads {
  /** Organizations that do not exist are absent. */
  readonly organizations: ReadonlyMap<OrganizationId, Head>;
  /**
   * Rights that ended, members' removals among them, and that an earlier answer could not show: the backstop for lost hints. Some may
   * come again. Without an earlier answer: those of the last minutes.
   */
  readonly ended: readonly EndedRight[];
  /** To be given to the next call, so that it neither misses an ending nor reads all of them again. */
  readonly endedThrough: string;
}

/** A token that was revoked, rotated or deleted with its device, or a member that was removed. `serial` identifies the ending. */
export type EndedRight =
  | { readonly serial: number; readonly token_id: TokenId }
  | { readonly serial: number; readonly organization_id: OrganizationId; readonly user_id: UserId };

/** Something committed, here or on another server. Hints may be lost: `heads` is the truth. */
export interface Hint {
  /** Organizations with news. */
  readonly organizations: readonly OrganizationId[];
  /**
   * Of those, what a transaction of this server has logged, as `readChanges` will give it: all of that transaction, ascending. Not of every
   * transaction, and never of another server's.
   */
  readonly logged: readonly { readonly organization_id: OrganizationId; readonly entries: readonly Entry[] }[];
  /** Credentials that are no longer valid. */
  readonly credentials: readonly TokenId[];
  readonly removed_members: readonly { readonly organization_id: OrganizationId; readonly user_id: UserId }[];
  readonly deleted_organizations: readonly OrganizationId[];
  /** Messages of other rooms (`broadcast.ts`). */
  readonly messages: readonly string[];
  /** It came through the database, where everybody who may connect can send one: it says where to look, and proves nothing. */
  readonly isRumour?: boolean;
}

/** What a stream may show: the records of a kind, or devices by identity. */
export type Projection = WatchKind | 'device-identity';

export interface StateQuery {
  readonly kinds: readonly Projection[];
  readonly after: number;
  readonly limit: number;
  readonly deletions: boolean;
}

export interface ChangeLog {
  /**
   * Two queries, however many organizations. `endedSince`: the `endedThrough` of an earlier answer. No head is below one that this server has seen: where
   * the database lost a part of its history, every organization has leapt before this answers.
   */
  heads(orgs: readonly OrganizationId[], endedSince?: string): Promise<Heads>;
  /**
   * From where readers can resume. A gap holds no revision that a record has, so that a reader that just listed can resume. Gaps never
   * go away: an answer holds for every later moment.
   */
  resumption(org: OrganizationId): Promise<Resumption>;
  /** Fails with `revision_gone` where a listing after this revision would mislead its reader: it is above the head, or discarded (reference 4.5 (5)). */
  checkListing(org: OrganizationId, revision: number | undefined): Promise<void>;
  /**
   * The exact log after a revision, ascending, without a hole: the first entry is `after` + 1, each next one more.
   * Undefined when the log no longer reaches back that far (or jumps): resync with `readState`.
   */
  readChanges(org: OrganizationId, after: number, limit: number): Promise<readonly Entry[] | undefined>;
  /**
   * The newest state of every resource of these kinds changed after a revision, ascending by revision, at most `limit`. With
   * `deletions` also those, and departures of users' groups (`hidden_from`), so that one revision may come twice. Pages need no
   * common snapshot: a record that changes meanwhile moves to a higher revision and is met there. Devices by identity come with `json` and
   * `revision` as that view shows them.
   */
  readState(org: OrganizationId, query: StateQuery): Promise<readonly Entry[]>;
  /** Called for every commit of this process at once, of this server's others soon, and of other servers through the database. Returns what ends it. */
  onHint(listener: (hint: Hint) => void): () => void;
  /** Forgets superseded log rows, and deletions past their retention that no reader needs. Safe to run anywhere, any time; one server does it, the others pass. */
  compact(): Promise<void>;
}
