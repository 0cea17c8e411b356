/** Owns the options that limit the number of records of each kind (reference 8 (9)). */
import { limits } from '../../api/limits.ts';
import type { ServerOption } from './option.ts';
import { between } from './values.ts';

const most = 1_000_000_000;
const read = between(1, most);
const readBytes = between(1024, 1024 ** 4);

export const quotaOptions = {
  maxUserTokens: {
    flags: '--max-user-tokens <number>',
    env: 'RINGFENCE_MAX_USER_TOKENS',
    help: 'maximum number of tokens of a user, not counting device tokens',
    fallback: String(limits.tokensPerUser),
    read,
  },
  maxOwnedOrganizations: {
    flags: '--max-owned-organizations <number>',
    env: 'RINGFENCE_MAX_OWNED_ORGANIZATIONS',
    help: 'maximum number of organizations that a user owns',
    fallback: String(limits.organizationsPerUser),
    read,
  },
  maxGroups: {
    flags: '--max-groups <number>',
    env: 'RINGFENCE_MAX_GROUPS',
    help: 'maximum number of security groups in an organization',
    fallback: String(limits.groupsPerOrganization),
    read,
  },
  maxDevices: {
    flags: '--max-devices <number>',
    env: 'RINGFENCE_MAX_DEVICES',
    help: 'maximum number of devices in an organization',
    fallback: String(limits.devicesPerOrganization),
    read,
  },
  maxEnrollmentKeys: {
    flags: '--max-enrollment-keys <number>',
    env: 'RINGFENCE_MAX_ENROLLMENT_KEYS',
    help: 'maximum number of enrollment keys in an organization',
    fallback: String(limits.enrollmentKeysPerOrganization),
    read,
  },
  maxMembers: {
    flags: '--max-members <number>',
    env: 'RINGFENCE_MAX_MEMBERS',
    help: 'maximum number of members of an organization',
    fallback: String(limits.membersPerOrganization),
    read,
  },
  maxSelectors: {
    flags: '--max-selectors <number>',
    env: 'RINGFENCE_MAX_SELECTORS',
    help: 'maximum number of selectors in all groups of an organization together',
    fallback: String(limits.selectorsPerOrganization),
    read,
  },
  maxOrganizationRules: {
    flags: '--max-organization-rules <number>',
    env: 'RINGFENCE_MAX_ORGANIZATION_RULES',
    help: 'maximum number of rules in all groups of an organization together',
    fallback: String(limits.rulesPerOrganization),
    read,
  },
  maxOrganizationGroupBytes: {
    flags: '--max-organization-group-bytes <bytes>',
    env: 'RINGFENCE_MAX_ORGANIZATION_GROUP_BYTES',
    help: 'maximum bytes of all groups of an organization together',
    fallback: String(limits.groupBytesPerOrganization),
    read: readBytes,
  },
  maxMemberRules: {
    flags: '--max-member-rules <number>',
    env: 'RINGFENCE_MAX_MEMBER_RULES',
    help: 'maximum number of rules in all groups that a member owns in an organization',
    fallback: String(limits.rulesPerMember),
    read,
  },
  maxMemberGroupBytes: {
    flags: '--max-member-group-bytes <bytes>',
    env: 'RINGFENCE_MAX_MEMBER_GROUP_BYTES',
    help: 'maximum bytes of all groups that a member owns in an organization',
    fallback: String(limits.groupBytesPerMember),
    read: readBytes,
  },
  maxDeviceRanges: {
    flags: '--max-device-ranges <number>',
    env: 'RINGFENCE_MAX_DEVICE_RANGES',
    help: 'maximum number of address ranges in all groups of a device together',
    fallback: String(limits.rangesPerDevice),
    read,
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
