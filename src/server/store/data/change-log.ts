/**
 * Owns the interface of the change log and the promises that streams rely on. Revisions become visible in order: a
 * reader that sees N+1 in any of these answers can read N in every later one.
 */
import type { WatchKind } from '../../../api/kinds.ts';
import type { OrganizationId, TokenId, UserId } from '../../../policy/ids.ts';
import type { Rows } from './page.ts';

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
  /** Messages of other rooms (`broadcast`). */
  readonly messages: readonly string[];
  /** It came through the database, where everybody who may connect can send one: it says where to look, and proves nothing. */
  readonly isRumour?: boolean;
}

/** What a stream may show: the records of a kind, or devices by identity. */
export type Projection = WatchKind | 'device-identity';

export interface StateQuery {
  readonly projection: Projection;
  readonly after: number;
  /** What the page may weigh, but for the last revision in it. */
  readonly bytes: number;
  readonly deletions: boolean;
}

export interface StatePage {
  readonly entries: readonly Entry[];
  /** More may follow after this revision; absent where the page holds all. */
  readonly through?: number | undefined;
}

/** What is read to follow the log. The promises are those of `changeLogIn`. */
export interface LogSource {
  heads(orgs: readonly OrganizationId[], endedSince?: string): Promise<Heads>;
  resumption(org: OrganizationId): Promise<Resumption>;
  readChanges(org: OrganizationId, after: number, limit: number, bytes: number): Promise<Rows<Entry> | undefined>;
  readState(org: OrganizationId, query: StateQuery): Promise<StatePage>;
  onHint(listener: (hint: Hint) => void): () => void;
}
