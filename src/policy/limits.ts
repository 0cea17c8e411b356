/** Owns the limits of a group and their defaults (reference 8); a server may set others. */
export interface Limits {
  readonly rulesPerDirection: number;
  readonly rangesPerGroup: number;
  readonly nameLength: number;
  readonly descriptionLength: number;
}

export const defaultLimits: Limits = {
  rulesPerDirection: 1_000,
  rangesPerGroup: 10_000,
  nameLength: 255,
  descriptionLength: 4_096,
};
