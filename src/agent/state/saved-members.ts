/** Owns the text of addresses in a saved policy. */
import { parseRange, printRange } from '../../policy/address.ts';
import { mergeRanges, type RangeSet } from '../../policy/range.ts';
import type { Family, Members } from '../../policy/rule.ts';
import { UnusablePolicy } from './unusable-policy.ts';

export const writeMembers = ({ v4, v6 }: Members): readonly string[] => [
  ...v4.map((range) => printRange(4, range)),
  ...v6.map((range) => printRange(6, range)),
];

export function readMembers(value: unknown): Members {
  if (!Array.isArray(value)) throw new UnusablePolicy('the members of a rule are not a list');
  const ranges = (value as readonly unknown[]).map((text) => {
    const range = typeof text === 'string' ? parseRange(text) : undefined;
    if (range === undefined || 'fault' in range) throw new UnusablePolicy('a member of a rule is not an address');
    return range;
  });
  const of = (family: Family): RangeSet => mergeRanges(ranges.filter((range) => range.family === family));
  return { v4: of(4), v6: of(6) };
}
