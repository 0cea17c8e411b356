/** Owns the limits of a group and of a device, and their defaults (reference 8); a server may set others. */
export interface Limits {
  readonly rulesPerDirection: number;
  readonly rangesPerGroup: number;
  /** Characters of one address range. Rules that are stored already are read without this limit. */
  readonly rangeLength?: number;
  readonly nameLength: number;
  readonly descriptionLength: number;
  /** Entries of a rule's `peers`. Absent: rules have no such field here. */
  readonly peersPerRule?: number;
  /** Entries of a group's `applies_to`. Absent: groups have neither that field nor `guardrail` here. */
  readonly selectorsPerGroup?: number;
}

/** The limits with which rules and groups may name devices. */
export const namingLimits = { peersPerRule: 64, selectorsPerGroup: 64 } as const;

export const defaultLimits: Limits = {
  rulesPerDirection: 1_000,
  rangesPerGroup: 10_000,
  // Two IPv6 addresses with an IPv4 tail each, and room for spaces.
  rangeLength: 128,
  nameLength: 255,
  descriptionLength: 4_096,
  ...namingLimits,
};

/** Characters of a rule's description. */
export const ruleDescriptionLength = 255;

/** What a device may hold over all its groups (reference 8). Any policy within all limits is in force within seconds. */
export const deviceLimits = { groups: 64, ranges: 50_000 } as const;
