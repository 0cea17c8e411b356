/** Owns the effective policy of a device: which groups and guardrails apply to it (reference 1.1, 1.3, 1.4). */
import { matchesAny } from './fleet/selector.ts';
import type { GroupId } from './ids.ts';
import type { PolicyIsolation } from './isolation/policy-isolation.ts';
import type { ListBefore, PolicyGroup, Trial } from './rule.ts';
import { deviceFor, isTried, stateFor } from './trial/trial.ts';

/**
 * The groups in force on a device. Their rules are read as one merged set: traffic is admitted that any rule of any
 * group admits, and outbound is closed as soon as any group holds an outbound rule (reference 1.1 phase III, 1.2 (9)).
 */
export interface EffectivePolicy {
  /** Whether the default group applies because nothing else does: no entry of a list, and no group by label. */
  readonly source: 'default' | 'list';
  readonly groups: readonly PolicyGroup[];
  /** Absent where none applies. Copy them along with the policy: without them it admits different traffic. */
  readonly guardrails?: Guardrails;
  /** Absent where no isolated device concerns this one. `policyAt` turns it into groups and guardrails. */
  readonly isolation?: PolicyIsolation;
  /** What takes its place by time alone: the change that is being tried ends. */
  readonly next?: NextPolicy;
}

/** A policy that takes the place of another at a moment, in milliseconds since 1970 by the server's clock. */
export interface NextPolicy {
  readonly at: number;
  readonly policy: EffectivePolicy;
}

/**
 * Guardrails take precedence over the groups. What a `forbid` rule matches is refused; otherwise what a `require` rule
 * matches is admitted; otherwise the groups decide. Guardrails do not open or close the rest of a direction.
 */
export interface Guardrails {
  readonly forbid: readonly PolicyGroup[];
  readonly require: readonly PolicyGroup[];
}

/**
 * Groups that a device names but that are not known. The policy is then unknown, which differs from an empty policy.
 */
export interface MissingGroups {
  readonly missing: readonly GroupId[] | 'default';
}

export interface EffectiveInput {
  /** The device's own list. Where it is empty and no group applies by label, the default group does. */
  readonly list: readonly GroupId[];
  readonly find: (id: GroupId) => PolicyGroup | undefined;
  readonly defaultGroup: PolicyGroup | undefined;
  /** The change of the list that is being tried. */
  readonly trial?: Trial<ListBefore> | undefined;
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

/** Whether the group takes part in enforcement. One that is watch only is as if it were not there (reference 1.6). */
export const isEnforced = ({ mode }: Pick<PolicyGroup, 'mode'>): boolean => mode !== 'observe';

/** As the records say at one moment. */
function policyWhen(input: EffectiveInput, when?: number): EffectivePolicy | MissingGroups {
  const { labels = [], byLabel = [] } = input;
  const own = (group: PolicyGroup | undefined): PolicyGroup | undefined => group && stateFor(group, labels, when);
  const list = listAt(input, when);
  const applying = [...byLabel]
    .flatMap((group) => own(group) ?? [])
    .filter((group) => isEnforced(group) && matchesAny(group.appliesTo, labels))
    .toSorted(byId);
  const { isolation } = input;
  const above = { ...guardrailsOf(applying), ...(isolation && { isolation }) };
  const listed = new Set(list);
  const further = applying.filter(({ id, guardrail }) => guardrail === undefined && !listed.has(id));
  const groups: PolicyGroup[] = [];
  const missing: GroupId[] = [];
  for (const id of listed) {
    const group = own(input.find(id));
    if (group === undefined) missing.push(id);
    else if (isEnforced(group)) groups.push(group);
  }
  if (missing.length > 0) return { missing };
  if (groups.length + further.length > 0) return { source: 'list', groups: [...groups, ...further], ...above };
  const defaultGroup = own(input.defaultGroup);
  if (defaultGroup === undefined) return { missing: 'default' };
  return { source: 'default', groups: [defaultGroup], ...above };
}

function listAt({ list, labels = [], trial }: EffectiveInput, when?: number): readonly GroupId[] {
  return deviceFor({ security_groups: list, labels, ...(trial && { trial }) }, when).security_groups;
}

/** The moments, ascending, at which trials end that the device takes part in. */
function endsOf(input: EffectiveInput): readonly number[] {
  const { labels = [], byLabel = [], defaultGroup, trial } = input;
  const listed = [...listAt(input), ...(trial?.before?.security_groups ?? [])].map((id) => input.find(id));
  const trials = [trial, ...[...byLabel, defaultGroup, ...listed].map((group) => group?.trial)];
  const ends = trials.flatMap((one) => (one !== undefined && isTried(one, labels) ? [Date.parse(one.ends_at)] : []));
  return [...new Set(ends)].toSorted((a, b) => a - b);
}

/**
 * The policy of a device, or what is missing to know it. An enforcer keeps its old rules while something is missing. Where the device takes part in
 * trials, what follows at the end of each belongs to the policy: it is known with the policy or not at all.
 */
export function effectivePolicy(given: EffectiveInput): EffectivePolicy | MissingGroups {
  // Looked at once for each moment.
  const input = { ...given, byLabel: [...(given.byLabel ?? [])] };
  const policy = policyWhen(input);
  if ('missing' in policy) return policy;
  const ends = endsOf(input);
  let next: NextPolicy | undefined;
  for (const at of ends.toReversed()) {
    const after = policyWhen(input, at);
    if ('missing' in after) return after;
    next = { at, policy: next === undefined ? after : { ...after, next } };
  }
  return next === undefined ? policy : { ...policy, next };
}
