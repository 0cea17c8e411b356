/**
 * Owns the effect of time on a policy: which rules, isolations and trials have ended at a moment, and when the next one
 * ends.
 */
import type { EffectivePolicy } from '../effective.ts';
import { isolationAt } from '../isolation/isolation.ts';
import type { PolicyGroup, StoredRule } from '../rule.ts';
import { parseTimestamp } from './timestamp.ts';

/** A policy as it is at one moment. */
export interface PolicyAtMoment {
  /** The same policy where no rule has expired. */
  readonly policy: EffectivePolicy;
  /** Milliseconds since the epoch at which it changes next by time alone; absent where it never does. */
  readonly changesAt?: number;
}

/** The first moment at which the rule matches nothing any more, in milliseconds since the epoch; absent where it never ends. */
export function expiryOf({ expires_at }: Pick<StoredRule, 'expires_at'>): number | undefined {
  if (expires_at === undefined) return undefined;
  // A time that cannot be read is over: validation admits none, and no mistake may keep a rule open.
  return parseTimestamp(expires_at) ?? Number.NEGATIVE_INFINITY;
}

export const isExpired = (rule: Pick<StoredRule, 'expires_at'>, now: number): boolean =>
  (expiryOf(rule) ?? Number.POSITIVE_INFINITY) <= now;

/** Every moment at which one of these rules ends, ascending, each once. */
export function expiryMoments(rules: Iterable<Pick<StoredRule, 'expires_at'>>): readonly number[] {
  const moments = new Set<number>();
  for (const rule of rules) {
    const moment = expiryOf(rule);
    if (moment !== undefined) moments.add(moment);
  }
  return [...moments].toSorted((a, b) => a - b);
}

/** A group as it is from one moment to another. */
interface GroupSpan {
  readonly from: number;
  readonly until: number;
  readonly group: PolicyGroup;
}

const noMoments: readonly number[] = [];
/** Of groups that were asked about. Groups never change. */
const momentsOf = new WeakMap<PolicyGroup, readonly number[]>();
/** The last answer for each group, so that the same group at the same time is the same object. */
const spans = new WeakMap<PolicyGroup, GroupSpan>();

function groupMoments(group: PolicyGroup): readonly number[] {
  let moments = momentsOf.get(group);
  if (moments === undefined) {
    const found = expiryMoments([...group.inbound, ...group.outbound]);
    momentsOf.set(group, (moments = found.length === 0 ? noMoments : found));
  }
  return moments;
}

const markExpired = (rules: readonly StoredRule[], now: number): readonly StoredRule[] =>
  rules.some((rule) => rule.expired !== true && isExpired(rule, now))
    ? rules.map((rule) => (isExpired(rule, now) ? { ...rule, expired: true } : rule))
    : rules;

function groupAt(group: PolicyGroup, now: number): GroupSpan {
  const known = spans.get(group);
  if (known !== undefined && known.from <= now && now < known.until) return known;
  const moments = groupMoments(group);
  const from = moments.findLast((moment) => moment <= now) ?? Number.NEGATIVE_INFINITY;
  const until = moments.find((moment) => moment > now) ?? Number.POSITIVE_INFINITY;
  const [inbound, outbound] = [markExpired(group.inbound, now), markExpired(group.outbound, now)];
  const isSame = inbound === group.inbound && outbound === group.outbound;
  const span = { from, until, group: isSame ? group : { ...group, inbound, outbound } };
  spans.set(group, span);
  return span;
}

/**
 * The policy at a moment. An expired rule is marked and matches nothing; it is still a rule, so outbound stays closed.
 * An isolation that has ended is left out. Pass every policy through this function before you evaluate, canonicalize or
 * compile it. `isolationNow` is the moment by which isolations end, where it is another one.
 *
 *     const { policy, changesAt } = policyAt(effective, Date.now());
 */
export function policyAt(policy: EffectivePolicy, now: number, isolationNow: number = now): PolicyAtMoment {
  const { next } = policy;
  if (next !== undefined && now >= next.at) return policyAt(next.policy, now, isolationNow);
  let changesAt = next?.at ?? Number.POSITIVE_INFINITY;
  let isSame = true;
  const at = (groups: readonly PolicyGroup[]): readonly PolicyGroup[] =>
    groups.map((group) => {
      const span = groupAt(group, now);
      changesAt = Math.min(changesAt, span.until);
      isSame &&= span.group === group;
      return span.group;
    });
  const groups = at(policy.groups);
  const { guardrails } = policy;
  const above = guardrails && { forbid: at(guardrails.forbid), require: at(guardrails.require) };
  const { isolation, ...rest } = policy;
  const left = isolation && isolationAt(isolation, isolationNow);
  // By the clock of `now`, which is the one that callers look at.
  changesAt = Math.min(changesAt, (left?.changesAt ?? Number.POSITIVE_INFINITY) + now - isolationNow);
  isSame &&= left?.isolation === isolation;
  return {
    policy: isSame
      ? policy
      : { ...rest, groups, ...(above && { guardrails: above }), ...(left?.isolation && { isolation: left.isolation }) },
    ...(Number.isFinite(changesAt) && { changesAt }),
  };
}

/** The last moment up to now at which a rule or a trial of the policy ended; absent where none has. Isolations end by a time of their own. */
export function lastEnd({ groups, guardrails, next }: EffectivePolicy, now: number): number | undefined {
  const all = [...groups, ...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])];
  const ends = all.flatMap((group) => groupMoments(group).findLast((moment) => moment <= now) ?? []);
  if (next !== undefined && next.at <= now) ends.push(next.at, lastEnd(next.policy, now) ?? next.at);
  return ends.length === 0 ? undefined : Math.max(...ends);
}
