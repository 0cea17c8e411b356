/** Owns the interface of enrollment keys in the store. */
import type { EnrollmentKeyId, GroupId, OrganizationId, UserId } from '../../../policy/ids.ts';
import type { Actor } from './actor.ts';
import type { Page } from './page.ts';
import type { EnrollmentKeyRecord } from './records.ts';
import type { Digest } from './tokens.ts';

export interface NewEnrollmentKey {
  readonly digest: Digest;
  readonly name: string;
  readonly expires_at: Date;
  readonly uses: number;
  readonly security_groups: readonly GroupId[];
  /** Sorted. A key with labels is an owner's: `labels_by_owner` otherwise. */
  readonly labels: readonly string[];
}

export interface EnrollmentKeys {
  /** The key of this digest; undefined when unknown, expired or used up. Using it up happens in `devices.create`. */
  authenticate(digest: Digest): Promise<EnrollmentKeyRecord | undefined>;
  issue(org: OrganizationId, by: Actor, key: NewEnrollmentKey): Promise<EnrollmentKeyRecord>;
  /** The keys of one user, or all of the organization's. */
  list(
    org: OrganizationId,
    query?: Page & { readonly user_id?: UserId | undefined },
  ): Promise<readonly EnrollmentKeyRecord[]>;
  get(org: OrganizationId, id: EnrollmentKeyId): Promise<EnrollmentKeyRecord>;
  revoke(org: OrganizationId, by: Actor, id: EnrollmentKeyId): Promise<EnrollmentKeyRecord>;
}
