/** Owns when two policies of a device are made of the same rules: the same groups, with the same far ends, at their moments. */
import type { EffectivePolicy } from '../../policy/effective.ts';
import { withIsolation } from '../../policy/isolation/isolation.ts';
import { sameRanges } from '../../policy/range.ts';
import type { Members, PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { ruleIdentity } from '../../policy/rule-identity/rule-identity.ts';

type Steps<T> = Generator<undefined, T, undefined>;

/** Rules that are compared between two pauses. */
const rulesAtOnce = 64;

const sameMembers = (a: Members | undefined, b: Members | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && sameRanges(a.v4, b.v4) && sameRanges(a.v6, b.v6));

const sameRule = (a: StoredRule, b: StoredRule): boolean =>
  a === b || (a.expired === b.expired && sameMembers(a.members, b.members) && ruleIdentity(a) === ruleIdentity(b));

function* sameRules(a: readonly StoredRule[] = [], b: readonly StoredRule[] = []): Steps<boolean> {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (const [index, rule] of a.entries()) {
    if (!sameRule(rule, b[index] as StoredRule)) return false;
    if (index % rulesAtOnce === rulesAtOnce - 1) yield;
  }
  return true;
}

function* sameGroups(a: readonly PolicyGroup[] = [], b: readonly PolicyGroup[] = []): Steps<boolean> {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (const [index, one] of a.entries()) {
    const other = b[index] as PolicyGroup;
    if (one === other) continue;
    if (one.id !== other.id || one.name !== other.name) return false;
    yield;
    if (!(yield* sameRules(one.inbound, other.inbound)) || !(yield* sameRules(one.outbound, other.outbound)))
      return false;
  }
  return true;
}

/** Descriptions do not count. Two policies that are not known are the same. The caller can do other work between two steps. */
export function* isSameInEffect(a: EffectivePolicy | undefined, b: EffectivePolicy | undefined): Steps<boolean> {
  if (a === undefined || b === undefined) return a === b;
  const [one, other] = [withIsolation(a), withIsolation(b)];
  return (
    (yield* sameGroups(one.groups, other.groups)) &&
    (yield* sameGroups(one.guardrails?.forbid, other.guardrails?.forbid)) &&
    (yield* sameGroups(one.guardrails?.require, other.guardrails?.require))
  );
}
