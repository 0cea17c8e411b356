/** Owns which groups and guardrails a device has, and its effective policy (reference 1.1, 1.3, 1.4). */
import { matchesAny } from './fleet/selector.ts';
import type { GroupId } from './ids.ts';
import type { PolicyIsolation } from './isolation/policy-isolation.ts';
import type { GroupMode, GuardrailKind, ListBefore, PolicyGroup, Selector, Trial } from './rule.ts';
import { isTried, stateFor, type OnTrial } from './trial/trial.ts';

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

/** Groups and guardrails of a policy. */
export const groupsIn = ({ groups, guardrails }: EffectivePolicy): readonly PolicyGroup[] => [
  ...groups,
  ...(guardrails?.forbid ?? []),
  ...(guardrails?.require ?? []),
];

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

/** What decides whether a device has a group. */
export interface SelectableGroup extends OnTrial {
  readonly trial?: Trial<Pick<SelectableGroup, 'appliesTo'>> | undefined;
  readonly id: GroupId;
  readonly appliesTo?: readonly Selector[] | undefined;
  readonly guardrail?: GuardrailKind | undefined;
  readonly mode?: GroupMode | undefined;
}

/** What a device says about its groups. */
export interface SelectingDevice {
  /** The device's own list. Where it is empty and no group applies by label, the default group does. */
  readonly list: readonly GroupId[];
  /** The change of the list that is being tried. */
  readonly trial?: Trial<ListBefore> | undefined;
  /** What the device carries. */
  readonly labels?: readonly string[];
}

/** The groups among which a device's are found. */
export interface GroupSource<Group> {
  readonly find: (id: GroupId) => Group | undefined;
  readonly defaultGroup: Group | undefined;
  /** The groups of the organization that may apply by label, guardrails among them; others do no harm. */
  readonly byLabel?: Iterable<Group>;
}

export interface SelectedGroup<Group> {
  readonly id: GroupId;
  /** Why the device has it: its list names it, it applies by label, or nothing else does. */
  readonly by: 'list' | 'label' | 'default';
  /** The state of it that counts for the device; undefined where it is not known. */
  readonly group: Group | undefined;
}

/** The groups of a device. */
export interface GroupSelection<Group> {
  /** Those that decide: by its list, in that order, and by label, in the order of their ids. Empty where not even a default group is known. */
  readonly groups: readonly SelectedGroup<Group>[];
  /** Guardrails, which take precedence over the groups, in the order of their ids. */
  readonly forbid: readonly Group[];
  readonly require: readonly Group[];
  /** Watch-only groups that it has, guardrails among them. They decide nothing. */
  readonly watchOnly: readonly Group[];
}

export interface EffectiveInput extends SelectingDevice, GroupSource<PolicyGroup> {
  /** What isolated devices mean for this one, by `policyIsolation`. */
  readonly isolation?: PolicyIsolation | undefined;
}

/** Whether the group takes part in enforcement. One that is watch only is as if it were not there (reference 1.6). */
export const isEnforced = ({ mode }: Pick<SelectableGroup, 'mode'>): boolean => mode !== 'observe';

/** Whether some device, or one that carries these labels, may have the group by label, with a change that is being tried or without it. */
export const mayApplyByLabel = (
  { appliesTo = [], trial }: Pick<SelectableGroup, 'appliesTo' | 'trial'>,
  labels?: readonly string[],
): boolean =>
  [appliesTo, trial?.before?.appliesTo ?? []].some((selectors) =>
    labels === undefined ? selectors.length > 0 : matchesAny(selectors, labels),
  );

/** The list that counts for a device, without doubles. `when`: in milliseconds since 1970; absent: as the records say. */
export function listFor({ list, labels = [], trial }: SelectingDevice, when?: number): readonly GroupId[] {
  const before = trial === undefined || isTried(trial, labels, when) ? undefined : trial.before;
  return [...new Set(before?.security_groups ?? list)];
}

const byId = (a: SelectableGroup, b: SelectableGroup): number => (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);

/**
 * Which groups a device has: the one place that decides it, for agents, servers, pages and commands (reference 1.1, 4.2). `when`: in milliseconds since
 * 1970; absent: as the records say.
 */
export function selectGroups<Group extends SelectableGroup>(
  device: SelectingDevice,
  { find, defaultGroup, byLabel = [] }: GroupSource<Group>,
  when?: number,
): GroupSelection<Group> {
  const { labels = [] } = device;
  const own = (group: Group | undefined): Group | undefined => group && stateFor(group, labels, when);
  const list = listFor(device, when).map((id) => ({ id, by: 'list' as const, group: own(find(id)) }));
  const listed = new Set(list.map(({ id }) => id));
  const applying = [...byLabel]
    .flatMap((group) => own(group) ?? [])
    .filter(({ appliesTo }) => matchesAny(appliesTo, labels))
    .toSorted(byId);
  const further = applying.filter(({ id, guardrail }) => guardrail === undefined && !listed.has(id));
  const deciding = [
    ...list.filter(({ group }) => group === undefined || isEnforced(group)),
    ...further.filter(isEnforced).map((group) => ({ id: group.id, by: 'label' as const, group })),
  ];
  const otherwise = own(defaultGroup);
  const guardrails = (kind: GuardrailKind): readonly Group[] =>
    applying.filter((group) => group.guardrail === kind && isEnforced(group));
  return {
    groups:
      deciding.length > 0 || otherwise === undefined
        ? deciding
        : [{ id: otherwise.id, by: 'default', group: otherwise }],
    forbid: guardrails('forbid'),
    require: guardrails('require'),
    watchOnly: [...list.flatMap(({ group }) => group ?? []), ...applying.filter(({ id }) => !listed.has(id))].filter(
      (group) => !isEnforced(group),
    ),
  };
}

/** The ids of all groups that a device has, those that decide nothing among them. */
export const idsIn = ({ groups, forbid, require, watchOnly }: GroupSelection<SelectableGroup>): readonly GroupId[] =>
  [...groups, ...forbid, ...require, ...watchOnly].map(({ id }) => id);

/** As the records say at one moment. */
function policyWhen(input: EffectiveInput, when?: number): EffectivePolicy | MissingGroups {
  const { groups: selected, forbid, require } = selectGroups(input, input, when);
  const missing = selected.filter(({ group }) => group === undefined).map(({ id }) => id);
  if (missing.length > 0) return { missing };
  if (selected.length === 0) return { missing: 'default' };
  const { isolation } = input;
  return {
    source: selected.some(({ by }) => by === 'default') ? 'default' : 'list',
    groups: selected.flatMap(({ group }) => group ?? []),
    ...(forbid.length + require.length > 0 && { guardrails: { forbid, require } }),
    ...(isolation && { isolation }),
  };
}

/** The moments, ascending, at which trials end that the device takes part in. */
function endsOf(input: EffectiveInput): readonly number[] {
  const { labels = [], byLabel = [], defaultGroup, trial } = input;
  const listed = [...listFor(input), ...(trial?.before?.security_groups ?? [])].map((id) => input.find(id));
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
