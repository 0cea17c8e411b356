/** Owns the policies of all kinds of devices at one moment, as things are and as they will be when every trial has ended. */
import type { EffectivePolicy } from '../../policy/effective.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { isolationKey, withIsolation } from '../../policy/isolation/isolation.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { groupsKey, GroupsInEffect } from '../groups-in-effect.ts';
import type { Organization } from '../organization.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import type { Effort } from './effort.ts';
import type { FleetIndex, Kind } from './fleet-index.ts';

/** Devices that have the same policy, whose rules name devices as they were written. */
export interface Cohort {
  /** Two cohorts of one key have the same policies. */
  readonly key: string;
  readonly policy: EffectivePolicy;
  /** What follows when trials end, in the order of time: each from a moment on, in milliseconds since 1970. Empty where the devices try nothing. */
  readonly later: readonly { readonly from: number; readonly policy: EffectivePolicy }[];
  /** When time alone changes one of these. */
  readonly changesAt: number;
}

const nobody: StoredRule = {
  ip_protocol: 'tcp',
  from_port: 0,
  to_port: 0,
  peers: [],
  members: { v4: [], v6: [] },
};
/** A policy that cannot be known, because a group is missing, admits nothing. */
const unknownPolicy: EffectivePolicy = {
  source: 'list',
  groups: [{ id: parseGroupId('00000000-0000-0000-0000-000000000000'), name: '', inbound: [], outbound: [nobody] }],
};

/** Trials end by a write of the server, and not by the clock: only rules and isolations do. */
function cohortOf(found: EffectivePolicy, { isolation }: Kind, at: number): Cohort {
  const keys: string[] = [];
  const policies: { readonly from: number; readonly policy: EffectivePolicy }[] = [];
  let changesAt = Number.POSITIVE_INFINITY;
  let from = Number.NEGATIVE_INFINITY;
  for (
    let each: EffectivePolicy | undefined = found;
    each !== undefined;
    from = each.next?.at ?? from, each = each.next?.policy
  ) {
    const { next: _next, ...alone } = each;
    const now = policyAt({ ...alone, ...(isolation && { isolation }) }, at);
    changesAt = Math.min(changesAt, now.changesAt ?? Number.POSITIVE_INFINITY);
    keys.push(
      `${from}|${groupsKey(now.policy)}|${now.policy.isolation === undefined ? '' : isolationKey(now.policy.isolation)}`,
    );
    policies.push({ from, policy: withIsolation(now.policy) });
  }
  const [first, ...later] = policies;
  return { key: keys.join('\n'), policy: first?.policy ?? unknownPolicy, later, changesAt };
}

export interface Cohorts {
  /** In the order of the kinds. */
  readonly ofKinds: readonly Cohort[];
  /** Every group in effect on any of them. */
  readonly groups: ReadonlySet<PolicyGroup>;
}

const groupsIn = ({ groups, guardrails }: EffectivePolicy): readonly PolicyGroup[] =>
  guardrails === undefined ? groups : [...groups, ...guardrails.forbid, ...guardrails.require];

/** The cohorts of all kinds. Those that are `known` stay the same objects. */
export function* cohortsOf(
  organization: Organization,
  { kinds }: Pick<FleetIndex, 'kinds'>,
  known: ReadonlyMap<string, Cohort>,
  effort: Effort,
): Generator<void, Cohorts> {
  const inEffect = new GroupsInEffect(organization);
  const groups = new Set<PolicyGroup>();
  const cohorts = new Map<string, Cohort>();
  const ofKinds: Cohort[] = [];
  for (const kind of kinds) {
    const found = inEffect.of(kind.device);
    const policy = 'missing' in found ? unknownPolicy : found;
    const made = cohortOf(policy, kind, organization.at);
    let cohort = cohorts.get(made.key);
    if (cohort === undefined) {
      cohorts.set(made.key, (cohort = known.get(made.key) ?? made));
      for (const each of [cohort, ...cohort.later]) for (const group of groupsIn(each.policy)) groups.add(group);
    }
    ofKinds.push(cohort);
    effort.take(50 + 10 * groupsIn(policy).length);
    yield;
  }
  return { ofKinds, groups };
}
