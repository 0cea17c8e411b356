/**
 * Owns which rules decided recorded traffic: it asks `decide`, by the policy that was in force meanwhile (reference 4.18). The kernel cannot say it, because it merges
 * the rules of all groups into sets.
 */
import { setImmediate } from 'node:timers/promises';
import type { FlowReport } from '../../api/flows/flow-report.ts';
import { flowLimits } from '../../api/limits.ts';
import { decidingRules, rulesOf, type DecidingRule } from '../../policy/decide.ts';
import { groupsIn, type EffectivePolicy } from '../../policy/effective.ts';
import { packetOf } from '../../policy/flow/protocol.ts';
import { withIsolation } from '../../policy/isolation/isolation.ts';
import { isAboutTransport } from '../../policy/match.ts';
import type { Packet } from '../../policy/packet.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import type { PoliciesInForce, Recorded } from '../kernel/flow-recorder.ts';

type RecordedTuple = Recorded['tuples'][number];

/** What is known of the rules: of each tuple the place of the decision; undefined where that is not known. */
export interface JudgedTraffic {
  readonly report: Pick<FlowReport, 'rules' | 'decisions' | 'groups'>;
  readonly decisionOf: ReadonlyMap<RecordedTuple, number>;
}

export interface JudgingBounds {
  /** Rules that are looked at for one report: less than a second of the processor. */
  readonly looks: number;
  /** Places of rules that all decisions of a report have together. */
  readonly places: number;
}

const usualBounds: JudgingBounds = { looks: 1_000_000, places: 16_384 };
/** Rules that are looked at between two pauses: a few milliseconds, in which the agent does nothing else. */
const looksAtOnce = 20_000;

/** The policy with those rules only that speak of such packets, and one of each group that has any in this direction: it closes the direction. */
function aboutTransport(policy: EffectivePolicy, packet: Packet): EffectivePolicy {
  const { direction } = packet;
  const narrow = (groups: readonly PolicyGroup[]): readonly PolicyGroup[] =>
    groups.map((group) => {
      const all = rulesOf(group, direction);
      const about = all.filter((rule) => isAboutTransport(rule, packet));
      return { ...group, [direction]: about.length > 0 ? about : all.slice(0, 1) };
    });
  const { groups, guardrails } = policy;
  return {
    ...policy,
    groups: narrow(groups),
    ...(guardrails && { guardrails: { forbid: narrow(guardrails.forbid), require: narrow(guardrails.require) } }),
  };
}

/** Judges by one policy. Packets of one protocol and port are about the same few rules. */
class PolicyJudge {
  readonly #policy: EffectivePolicy;
  readonly #narrowed = new Map<string, EffectivePolicy>();
  readonly #look: (rules: number) => void;

  constructor(policy: EffectivePolicy, look: (rules: number) => void) {
    this.#policy = withIsolation(policy);
    this.#look = look;
  }

  /** Undefined where this policy decides otherwise than the kernel did. */
  rulesOf(tuple: RecordedTuple): readonly DecidingRule[] | undefined {
    const { direction, verdict, family, far, protocol, port = 0 } = tuple;
    const traffic = { direction: direction === 'inbound' ? 'in' : 'out', family, far, protocol, port } as const;
    // Records have no ICMP type.
    for (const isEcho of protocol === 1 || protocol === 58 ? [true, false] : [true]) {
      const packet = packetOf(traffic, { isEcho });
      const policy = this.#about(`${direction} ${family} ${protocol} ${port} ${isEcho}`, packet);
      this.#lookAt(policy, packet);
      const found = decidingRules(policy, packet);
      if ((found.verdict === 'accept') === (verdict === 'admitted')) return found.rules;
    }
    return undefined;
  }

  #about(key: string, packet: Packet): EffectivePolicy {
    let narrowed = this.#narrowed.get(key);
    if (narrowed === undefined) {
      this.#lookAt(this.#policy, packet);
      this.#narrowed.set(key, (narrowed = aboutTransport(this.#policy, packet)));
    }
    return narrowed;
  }

  #lookAt(policy: EffectivePolicy, { direction }: Packet): void {
    this.#look(groupsIn(policy).reduce((sum, group) => sum + 1 + rulesOf(group, direction).length, 0));
  }
}

/** Gives each rule and each decision its place in the report. Rules with the same content in a group are one. */
class NamedRules {
  readonly rules: { readonly group_id: string; readonly rule_id: string }[] = [];
  readonly decisions: (readonly number[])[] = [];
  readonly #known = new Map<DecidingRule['rule'], number | undefined>();
  readonly #byContent = new Map<string, number>();
  readonly #byRules = new Map<string, number>();
  #room: number;

  constructor(places: number) {
    this.#room = places;
  }

  /** Undefined where there is no more room for it. */
  decisionOf(rules: readonly DecidingRule[]): number | undefined {
    const places = new Set<number>();
    for (const rule of rules) {
      const place = this.#placeOf(rule);
      if (place === undefined) return undefined;
      places.add(place);
    }
    const key = [...places].join(' ');
    const known = this.#byRules.get(key);
    if (known !== undefined) return known;
    if (places.size > this.#room || this.decisions.length === flowLimits.decisionsPerReport) return undefined;
    this.#room -= places.size;
    const decision = this.decisions.push([...places]) - 1;
    this.#byRules.set(key, decision);
    return decision;
  }

  #placeOf({ group, direction, rule }: DecidingRule): number | undefined {
    let place = this.#known.get(rule);
    if (place !== undefined) return place;
    const named = { group_id: group.id, rule_id: ruleIdOf(direction, rule) };
    const key = `${named.group_id} ${named.rule_id}`;
    place = this.#byContent.get(key);
    if (place === undefined && this.rules.length < flowLimits.rulesPerReport) {
      place = this.rules.length;
      this.rules.push(named);
      this.#byContent.set(key, place);
    }
    this.#known.set(rule, place);
    return place;
  }
}

/**
 * Of each tuple every rule on which its verdict stood, by the newest of the policies that decides as the kernel did. Where none of them does, no rule is named. What is
 * beyond the bounds stays unknown.
 */
export async function judgeTraffic(
  tuples: readonly RecordedTuple[],
  policies: PoliciesInForce,
  bounds: JudgingBounds = usualBounds,
): Promise<JudgedTraffic> {
  const { known, areAll, groups } = policies;
  const decisionOf = new Map<RecordedTuple, number>();
  if (groups === undefined || groups.length > flowLimits.groupsPerReport) return { report: {}, decisionOf };
  let looks = 0;
  let paused = 0;
  const judges = known.map((policy) => new PolicyJudge(policy, (rules) => (looks += rules)));
  const named = new NamedRules(bounds.places);
  for (const tuple of tuples) {
    if (looks >= bounds.looks) break;
    let deciding: readonly DecidingRule[] | undefined;
    for (const judge of judges) deciding ??= judge.rulesOf(tuple);
    if (deciding === undefined && areAll) deciding = [];
    const decision = deciding && named.decisionOf(deciding);
    if (decision !== undefined) decisionOf.set(tuple, decision);
    if (looks - paused < looksAtOnce) continue;
    paused = looks;
    await setImmediate();
  }
  const { rules, decisions } = named;
  return { report: { rules, decisions, groups }, decisionOf };
}
