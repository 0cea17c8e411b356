/** Owns the port through which the hub reads the database: what it asks for, and the promises it builds on. */
import type { WatchKind } from '../../api/kinds.ts';
import type { OrganizationId, TokenId, UserId } from '../../policy/ids.ts';

/** One state of one resource, at one revision. */
export interface Entry {
  readonly revision: number;
  /** Entries of other kinds keep the log gap-free; no stream shows them. */
  readonly kind: WatchKind | 'organization';
  readonly type: 'change' | 'delete';
  readonly id: string;
  /** The record as it goes over the wire, its `revision` included. */
  readonly json: string;
  /** Undefined: every member may see it. Otherwise only this user may: a user's group that is applied to no device. */
  readonly only_for: UserId | undefined;
  /** The revision at which a user's group last left everyone's view; 0: never. */
  readonly left_at: number;
  /** On a departure that `readState` reports on its own: the group's owner, for whom it is none. */
  readonly hidden_from?: UserId | undefined;
}

export interface Head {
  readonly revision: number;
  /** Deletions up to and including this revision are forgotten: resuming below it is impossible. */
  readonly purged: number;
}

export interface Heads {
  /** Organizations that do not exist are absent. */
  readonly organizations: ReadonlyMap<OrganizationId, Head>;
  /** Rights that ended within the last minutes, members' removals among them: the backstop for lost hints. */
  readonly ended: readonly Ended[];
}

/** A credential that was revoked or rotated or went with its device, or a member that was removed. `serial` tells one ending from another. */
export type Ended =
  | { readonly serial: number; readonly token_id: TokenId }
  | { readonly serial: number; readonly organization_id: OrganizationId; readonly user_id: UserId };

export interface StateQuery {
  readonly kinds: readonly WatchKind[];
  readonly after: number;
  readonly limit: number;
  readonly deletions: boolean;
}

/** Something committed, here or on another server. Hints may be lost: `heads` is the truth. */
export interface Hint {
  readonly organizations: readonly OrganizationId[];
  readonly credentials: readonly TokenId[];
  readonly removed_members: readonly { readonly organization_id: OrganizationId; readonly user_id: UserId }[];
  readonly deleted_organizations: readonly OrganizationId[];
}

/** Revisions become visible in order: whoever sees N+1 in any of these answers can read N in every later one. */
export interface Source {
  heads(orgs: readonly OrganizationId[]): Promise<Heads>;
  /** The exact log after a revision, ascending; undefined when it no longer reaches back that far. */
  readChanges(org: OrganizationId, after: number, limit: number): Promise<readonly Entry[] | undefined>;
  /**
   * The newest state of every resource changed after a revision, ascending, at most `limit`. With `deletions` also those, and
   * each departure of a user's group from everyone's view, as a bare deletion at the revision of the departure.
   */
  readState(org: OrganizationId, query: StateQuery): Promise<readonly Entry[]>;
  onHint(listener: (hint: Hint) => void): () => void;
}
