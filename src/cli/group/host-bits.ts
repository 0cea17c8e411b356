/** Owns the hint at prefixes with host bits: the user may have meant a single address. */
import { maskedPrefix } from '../../policy/address.ts';
import type { StoredRule } from '../../policy/rule.ts';
import type { Session } from '../session/session.ts';

function hostBitNotes(rules: readonly StoredRule[]): readonly string[] {
  const ranges = new Set(rules.flatMap(({ ip_ranges }) => ip_ranges ?? []));
  return [...ranges].flatMap((range) => {
    const meant = maskedPrefix(range);
    return meant === undefined ? [] : [`${range} means ${meant}: the bits after the prefix are ignored.`];
  });
}

export function sayHostBits(session: Session, rules: readonly StoredRule[]): void {
  for (const note of hostBitNotes(rules)) session.say(note);
}
