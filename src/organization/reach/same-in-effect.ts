/** Owns when two policies of a device are made of the same rules: the same groups, with the same far ends, at their moments. */
import type { EffectivePolicy } from '../../policy/effective.ts';
import { withIsolation } from '../../policy/isolation/isolation.ts';
import { sameRanges } from '../../policy/range.ts';
import type { Members, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';

const sameList = <T>(a: readonly T[] = [], b: readonly T[] = [], same: (x: T, y: T) => boolean): boolean =>
  a === b || (a.length === b.length && a.every((x, i) => same(x, b[i] as T)));

const sameMembers = (a: Members | undefined, b: Members | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && sameRanges(a.v4, b.v4) && sameRanges(a.v6, b.v6));

const sameRule = (a: StoredRule, b: StoredRule): boolean =>
  a === b || (a.expired === b.expired && sameMembers(a.members, b.members) && ruleIdentity(a) === ruleIdentity(b));

const sameGroup = (a: PolicyGroup, b: PolicyGroup): boolean =>
  a === b ||
  (a.id === b.id &&
    a.name === b.name &&
    sameList(a.inbound, b.inbound, sameRule) &&
    sameList(a.outbound, b.outbound, sameRule));

/** Descriptions do not count. Two policies that are not known are the same. */
export function isSameInEffect(a: EffectivePolicy | undefined, b: EffectivePolicy | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const [one, other] = [withIsolation(a), withIsolation(b)];
  return (
    sameList(one.groups, other.groups, sameGroup) &&
    sameList(one.guardrails?.forbid, other.guardrails?.forbid, sameGroup) &&
    sameList(one.guardrails?.require, other.guardrails?.require, sameGroup)
  );
}
