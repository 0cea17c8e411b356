/** Owns what a new record is stamped with: an id and a time, both from sources that are passed in. */

export interface Stamps {
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly newId: () => string;
}

export const now = ({ clock }: Pick<Stamps, 'clock'>): string => new Date(clock()).toISOString();
