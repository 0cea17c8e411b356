/** Owns the interface of users in the store. */
import type { OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Authority } from './actor.ts';
import type { Page } from './page.ts';
import type { OrganizationRecord, UserRecord } from './records.ts';
import type { Digest } from './tokens.ts';

export interface NamedOrganization {
  readonly id: OrganizationId;
  readonly name: string;
}

/** A user who is gone, where policy went along, and what became of the organizations that it owned alone. */
export interface RemovedUser {
  readonly user: UserRecord;
  readonly changed: readonly { readonly organization_id: OrganizationId; readonly revision: number }[];
  readonly deleted: readonly NamedOrganization[];
  readonly handedOver: readonly NamedOrganization[];
}

export interface RemoveUser {
  /** What becomes of the organizations that the user owns alone: absent, they are in the way (`last_owner`). */
  readonly organizations?: 'delete' | { readonly to: UserId } | undefined;
  /** Also where a device that is handed over is left with no group of its own, so that the default group applies to it (`would_open` otherwise). */
  readonly detach?: boolean | undefined;
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
   * Ends every token, every session and the sign-in in one transaction, and hides the user for good: its name and identity stay taken. Then it leaves its
   * organizations, each in a transaction of its own: as `members.remove`; or the organization is deleted or handed over, with the user's devices in it, to
   * somebody who then has to accept. Where an organization is in the way, the user stays hidden, and the removal can be repeated. `last_owner`
   * names the organizations before anything ends.
   */
  remove(id: UserId, by: Authority, options?: RemoveUser): Promise<RemovedUser>;
  /** On a database without users makes the administrator, its organization and its token, once, however many servers start; else undefined. */
  bootstrap(admin: {
    readonly username: string;
    readonly organization: string;
    readonly token: Digest;
  }): Promise<{ readonly user: UserRecord; readonly organization: OrganizationRecord } | undefined>;
}
