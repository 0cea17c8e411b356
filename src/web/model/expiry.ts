/** Owns how long a credential lasts: choices in words, and the moment they mean. */

const hour = 3_600_000;
const day = 24 * hour;

const lengths = {
  hour: [hour, 'An hour'],
  day: [day, 'A day'],
  week: [7 * day, 'A week'],
  month: [30 * day, '30 days'],
  quarter: [90 * day, '90 days'],
  year: [365 * day, 'A year'],
} as const;

export type Length = keyof typeof lengths;
const isLength = (value: string): value is Length => value in lengths;

export const lengthChoices = (...of: readonly Length[]): { readonly value: string; readonly label: string }[] =>
  of.map((value) => ({ value, label: lengths[value][1] }));

/** The end of that length from now; nothing for anything that is no length: it lasts until it is revoked. */
export const endOf = (length: string, now: number): string | undefined =>
  isLength(length) ? new Date(now + lengths[length][0]).toISOString() : undefined;
