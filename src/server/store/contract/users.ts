/** Owns the interface of users in the store. */
import type { OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Authority } from './actor.ts';
import type { Page } from './page.ts';
import type { OrganizationRecord, UserRecord } from './records.ts';
import type { Digest } from './tokens.ts';

/** A user who is gone, and where policy went along. */
export interface RemovedUser {
  readonly user: UserRecord;
  readonly changed: readonly { readonly organization_id: OrganizationId; readonly revision: number }[];
}

export interface Users {
  create(user: { readonly username: string; readonly is_admin?: boolean }, by: Authority): Promise<UserRecord>;
  list(query?: Page): Promise<readonly UserRecord[]>;
  get(id: UserId): Promise<UserRecord>;
  byName(username: string): Promise<UserRecord | undefined>;
  /**
   * The user that an identity provider names, made at first sight. The username is what the provider suggests; taken by another,
   * it gets a short suffix. `user_removed` when the user was removed: it does not come back by signing in.
   */
  forIdentity(identity: {
    readonly issuer: string;
    readonly subject: string;
    readonly username: string;
  }): Promise<UserRecord>;
  /**
   * Ends every membership (as `members.remove`, organization by organization) and every token, then hides the user for good: its name and
   * identity stay taken. `last_owner` while an organization has no other owner. Where this fails half-way, it can be repeated.
   */
  remove(id: UserId, by: Authority): Promise<RemovedUser>;
  /** On a database without users makes the administrator, its organization and its token, once, however many servers start; else undefined. */
  bootstrap(admin: {
    readonly username: string;
    readonly organization: string;
    readonly token: Digest;
  }): Promise<{ readonly user: UserRecord; readonly organization: OrganizationRecord } | undefined>;
}
