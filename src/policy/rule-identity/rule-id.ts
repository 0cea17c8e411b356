/** Owns the id by which the usage of a rule is counted: a hash of what the rule is, beside the id of its group. */
import { sha256Hex } from '#sha256';
import type { Direction, SecurityRule } from '../rule.ts';
import { ruleIdentity } from './rule-identity.ts';

/** Identifies a rule within its group by its content: 32 hexadecimal digits. */
export const ruleIdOf = (direction: Direction, rule: SecurityRule): string =>
  sha256Hex(`${direction} ${ruleIdentity(rule)}`).slice(0, 32);
