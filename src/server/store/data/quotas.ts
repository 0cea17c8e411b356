/** Owns the quotas for records of each kind (reference 8 (9)). They are far above honest use and are counted under a lock. */
import { limits } from '../../../api/limits.ts';

export interface Quotas {
  /** Tokens of a user; those of its devices do not count. */
  readonly tokens: number;
  /** Organizations that a user owns. */
  readonly organizations: number;
  /** In an organization. */
  readonly groups: number;
  readonly devices: number;
  readonly enrollment_keys: number;
  readonly members: number;
  readonly webhooks: number;
  /** Labels that groups of an organization apply by. */
  readonly selectors: number;
  /** Rules and bytes of all groups of an organization. */
  readonly rules: number;
  readonly bytes: number;
  /** Those of all groups that a member owns in it. */
  readonly member_rules: number;
  readonly member_bytes: number;
  /** Address ranges of a group. */
  readonly group_ranges: number;
  /** Address ranges over all groups of a device. */
  readonly device_ranges: number;
}

/** What there may be only so many of. */
export type CountedQuota = Exclude<keyof Quotas, 'group_ranges' | 'device_ranges'>;

export const defaultQuotas: Quotas = {
  tokens: limits.tokensPerUser,
  organizations: limits.organizationsPerUser,
  groups: limits.groupsPerOrganization,
  devices: limits.devicesPerOrganization,
  enrollment_keys: limits.enrollmentKeysPerOrganization,
  members: limits.membersPerOrganization,
  webhooks: limits.webhooksPerOrganization,
  selectors: limits.selectorsPerOrganization,
  rules: limits.rulesPerOrganization,
  bytes: limits.groupBytesPerOrganization,
  member_rules: limits.rulesPerMember,
  member_bytes: limits.groupBytesPerMember,
  group_ranges: limits.rangesPerGroup,
  device_ranges: limits.rangesPerDevice,
};

/** What the groups of an organization and of a member hold together. The database sums it up and refuses what is too much (`schema/export-migrations.ts`). */
export const groupQuotas = [
  'selectors',
  'rules',
  'bytes',
  'member_rules',
  'member_bytes',
] as const satisfies readonly CountedQuota[];
