/** Owns careful steps into JSON that came from outside. */

export type JsonRecord = Readonly<Record<string, unknown>>;

export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The record's own field, never an inherited one. */
export const field = (record: JsonRecord, key: string): unknown =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** The content of an object that has exactly this one field: nft's JSON tags its nodes so. */
export function tagged(value: unknown, tag: string): unknown {
  if (!isRecord(value)) return undefined;
  const keys = Object.keys(value);
  return keys.length === 1 && keys[0] === tag ? value[tag] : undefined;
}

export const isNumberBetween = (value: unknown, low: number, high: number): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high;
