/** Owns the effective policy of a device: which groups and guardrails apply to it (reference 1.1, 1.3, 1.4). */
import { matchesAny } from './fleet/selector.ts';
import type { GroupId } from './ids.ts';
import type { PolicyIsolation } from './isolation/policy-isolation.ts';
import type { PolicyGroup } from './rule.ts';

/**
 * The groups in force on a device. Their rules are read as one merged set: traffic is admitted that any rule of any
 * group admits, and outbound is closed as soon as any group holds an outbound rule (reference 1.1 phase III, 1.2 (9)).
 */
export interface EffectivePolicy {
  /** Whether the default group applies because nothing else does: no entry of a list, and no group by label. */
  readonly source: 'default' | 'list';
  readonly groups: readonly PolicyGroup[];
  /** Absent where none applies. Whoever copies a policy copies these too: without them it admits other traffic. */
  readonly guardrails?: Guardrails;
  /** Absent where no isolated device concerns this one. `policyAt` turns it into groups and guardrails. */
  readonly isolation?: PolicyIsolation;
}

/**
 * What stands above the groups: what a `forbid` rule matches is refused; else what a `require` rule matches is admitted;
 * else the groups decide. Neither opens or closes the rest of a direction.
 */
export interface Guardrails {
  readonly forbid: readonly PolicyGroup[];
  readonly require: readonly PolicyGroup[];
}

/** Groups that a device names and nobody knows: the policy is not known, which is not the same as an empty one. */
export interface MissingGroups {
  readonly missing: readonly GroupId[] | 'default';
}

export interface EffectiveInput {
  /** The device's own list. Where it is empty and no group applies by label, the default group does. */
  readonly list: readonly GroupId[];
  readonly find: (id: GroupId) => PolicyGroup | undefined;
  readonly defaultGroup: PolicyGroup | undefined;
  /** What the device carries. */
  readonly labels?: readonly string[];
  /** The groups of the organization that may apply by label, guardrails among them; others do no harm. */
  readonly byLabel?: Iterable<PolicyGroup>;
  /** What isolated devices mean for this one, by `policyIsolation`. */
  readonly isolation?: PolicyIsolation | undefined;
}

const byId = (a: PolicyGroup, b: PolicyGroup): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

function guardrailsOf(applying: readonly PolicyGroup[]): { readonly guardrails?: Guardrails } {
  const of = (kind: PolicyGroup['guardrail']): readonly PolicyGroup[] =>
    applying.filter(({ guardrail }) => guardrail === kind);
  const guardrails: Guardrails = { forbid: of('forbid'), require: of('require') };
  return guardrails.forbid.length + guardrails.require.length === 0 ? {} : { guardrails };
}

/** The policy of a device, or what is missing to know it. An enforcer keeps its old rules while something is missing. */
export function effectivePolicy(input: EffectiveInput): EffectivePolicy | MissingGroups {
  const { list, find, defaultGroup, labels = [], byLabel = [], isolation } = input;
  const applying = [...byLabel].filter(({ appliesTo }) => matchesAny(appliesTo, labels)).toSorted(byId);
  const above = { ...guardrailsOf(applying), ...(isolation && { isolation }) };
  const listed = new Set(list);
  const further = applying.filter(({ id, guardrail }) => guardrail === undefined && !listed.has(id));
  if (list.length + further.length === 0) {
    if (defaultGroup === undefined) return { missing: 'default' };
    return { source: 'default', groups: [defaultGroup], ...above };
  }
  const groups: PolicyGroup[] = [];
  const missing: GroupId[] = [];
  for (const id of listed) {
    const group = find(id);
    if (group === undefined) missing.push(id);
    else groups.push(group);
  }
  return missing.length > 0 ? { missing } : { source: 'list', groups: [...groups, ...further], ...above };
}
