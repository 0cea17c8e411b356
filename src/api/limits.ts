/** Owns the numeric limits of the API (reference 8). */
import { labelLimits } from '../policy/label.ts';
import { defaultLimits, deviceLimits, namingLimits } from '../policy/limits.ts';

export const largestRevision = Number.MAX_SAFE_INTEGER;
/** Packets that one report of an agent may count: a device that lies spoils no more than that of a picture. */
export const mostPackets = 1_000_000_000_000;
/** Groups that one report counts for at most: those that matched most. */
export const mostCountedGroups = 128;

/** Bounds of what agents report of the traffic. */
export const flowLimits = {
  /** Per direction, family and minute. */
  tuplesPerMinute: 4_096,
  /** Both directions and families of one minute. */
  tuplesPerReport: 4 * 4_096,
  /** Minutes that one report may be of. */
  minutesPerReport: 60,
  /** Rules that a report names, groups, and different decisions: lists of rules. */
  rulesPerReport: 1_000,
  groupsPerReport: 1_000,
  decisionsPerReport: 4_096,
} as const;

export const limits = {
  name: defaultLimits.nameLength,
  /** Characters of the reason for which a device is isolated. */
  isolationReason: 255,
  description: defaultLimits.descriptionLength,
  /** Entries in a device's list of groups (phase 3). */
  deviceGroups: deviceLimits.groups,
  /** Address ranges over all groups of a device. */
  rangesPerDevice: deviceLimits.ranges,
  /** Those of its devices do not count. */
  tokensPerUser: 1_000,
  /** That a user owns. */
  organizationsPerUser: 100,
  groupsPerOrganization: 10_000,
  devicesPerOrganization: 100_000,
  enrollmentKeysPerOrganization: 1_000,
  webhooksPerOrganization: 16,
  membersPerOrganization: 10_000,
  /** Of all groups together. */
  selectorsPerOrganization: 100_000,
  rulesPerOrganization: 1_000_000,
  groupBytesPerOrganization: 256 * 1024 * 1024,
  rulesPerMember: 100_000,
  groupBytesPerMember: 32 * 1024 * 1024,
  childPrefixes: 256,
  /** Labels of a device or an enrollment key, and own addresses of a device besides `tunnel_ip`. */
  deviceLabels: labelLimits.perDevice,
  deviceAddresses: 16,
  selectorLabels: labelLimits.perSelector,
  ...namingLimits,
  /** Characters of a scope, as a text. */
  scopeText: 4_096,
  /** Seconds until a change on trial must be confirmed. */
  trialSeconds: { least: 10, most: 86_400 },
  rulesPerDirection: defaultLimits.rulesPerDirection,
  rangesPerGroup: defaultLimits.rangesPerGroup,
  enrollmentUses: 100_000,
  /** Records of one change set. */
  changeSetRecords: 1_000,
  /** Devices that a proposal names by id. */
  proposalDevices: 1_000,
  /** Devices that one entry of a simulation names. */
  simulatedFarDevices: 100,
  page: 10_000,
  /** Bytes of a request body that holds rules. */
  body: 4 * 1024 * 1024,
  /** Bytes of any other request body. */
  plainBody: 64 * 1024,
  /** Bytes of an answer that is worked out. Lists of records and streams are sent as they are read. */
  answer: 16 * 1024 * 1024,
  /** Arrays and objects in each other. */
  jsonDepth: 32,
} as const;
