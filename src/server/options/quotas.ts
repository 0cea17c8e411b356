/** Owns the options that bound how much there may be of each thing (reference 8 (9)). */
import { limits } from '../../api/limits.ts';
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

const most = 1_000_000_000;
const read = between(1, most);

export const quotaOptions = {
  maxUserTokens: {
    flags: '--max-user-tokens <number>',
    env: 'RINGFENCE_MAX_USER_TOKENS',
    help: 'most tokens of a user; those of its devices do not count',
    fallback: String(limits.tokensPerUser),
    read,
  },
  maxOwnedOrganizations: {
    flags: '--max-owned-organizations <number>',
    env: 'RINGFENCE_MAX_OWNED_ORGANIZATIONS',
    help: 'most organizations that a user owns',
    fallback: String(limits.organizationsPerUser),
    read,
  },
  maxGroups: {
    flags: '--max-groups <number>',
    env: 'RINGFENCE_MAX_GROUPS',
    help: 'most security groups of an organization',
    fallback: String(limits.groupsPerOrganization),
    read,
  },
  maxDevices: {
    flags: '--max-devices <number>',
    env: 'RINGFENCE_MAX_DEVICES',
    help: 'most devices of an organization',
    fallback: String(limits.devicesPerOrganization),
    read,
  },
  maxEnrollmentKeys: {
    flags: '--max-enrollment-keys <number>',
    env: 'RINGFENCE_MAX_ENROLLMENT_KEYS',
    help: 'most enrollment keys of an organization',
    fallback: String(limits.enrollmentKeysPerOrganization),
    read,
  },
  maxMembers: {
    flags: '--max-members <number>',
    env: 'RINGFENCE_MAX_MEMBERS',
    help: 'most members of an organization',
    fallback: String(limits.membersPerOrganization),
    read,
  },
  maxDeviceRanges: {
    flags: '--max-device-ranges <number>',
    env: 'RINGFENCE_MAX_DEVICE_RANGES',
    help: 'most address ranges over all groups of a device',
    fallback: String(limits.rangesPerDevice),
    read,
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
