/** Owns the forms of nft's JSON. */
import { isObject } from '../../policy/json.ts';

/** The content of an object that has exactly this one field: nft's JSON tags its nodes so. */
export function tagged(value: unknown, tag: string): unknown {
  if (!isObject(value)) return undefined;
  const keys = Object.keys(value);
  return keys.length === 1 && keys[0] === tag ? value[tag] : undefined;
}

export const isNumberBetween = (value: unknown, low: number, high: number): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high;
