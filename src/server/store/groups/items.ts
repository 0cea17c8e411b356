/** Owns the statement values of a group write: of a new group and of a change. */
import { countRanges } from '../../../policy/normalize.ts';
import type { GroupId } from '../../../policy/ids.ts';
import type { Selector, StoredRule } from '../../../policy/rule.ts';
import type { Actor } from '../contract/actor.ts';
import { refuse } from '../../problems.ts';
import type { GroupBefore } from '../contract/records.ts';
import type { GroupOwner, GroupPatch, NewGroup } from '../contract/groups.ts';
import { singleStatementItem } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { asItem } from '../write/single-statement.ts';
import { now } from '../write/stamp.ts';

const rulesText = (rules: readonly StoredRule[]): string => JSON.stringify(rules);
/** A peer counts as one range. Its addresses come from the fleet, and the agent keeps them in a separate set. */
export const countNamed = (rules: readonly StoredRule[]): number =>
  countRanges(rules) + rules.reduce((sum, { peers = [] }) => sum + peers.length, 0);
const selectorsText = (selectors: readonly Selector[]): string => JSON.stringify(selectors);

/** The devices that rules name as peers. */
export const devicesIn = (...lists: readonly (readonly StoredRule[] | undefined)[]): ReadonlySet<string> =>
  new Set(
    lists.flatMap((rules = []) =>
      rules.flatMap(({ peers = [] }) => peers.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : []))),
    ),
  );

export function refuseApplication(
  { phase }: Context,
  owner: GroupOwner,
  group: Pick<NewGroup, 'applies_to' | 'guardrail'>,
): void {
  const fields = [
    ...((group.applies_to ?? []).length > 0 ? (['applies_to'] as const) : []),
    ...(group.guardrail === undefined ? [] : (['guardrail'] as const)),
  ];
  if (fields.length === 0) return;
  if (owner !== 'organization') refuse({ code: 'application_refused', why: 'user_group', fields });
  if (phase !== 3) refuse({ code: 'application_refused', why: 'phase', fields });
}

export function newGroupItem(context: Context, by: Actor, owner: GroupOwner, id: string, group: NewGroup) {
  // A refusal that applies in every state of the organization comes before one that depends on its state.
  refuseApplication(context, owner, group);
  // reference 8 (1): the default group is the one group there is.
  if (context.phase === 1) return refuse({ code: 'phase_forbids' });
  const asked = {
    user_id: owner === 'organization' ? null : owner,
    group_name: group.group_name,
    group_description: group.group_description,
    inbound_rules: rulesText(group.inbound_rules),
    outbound_rules: rulesText(group.outbound_rules),
    applies_to: selectorsText(group.applies_to ?? []),
    guardrail: group.guardrail ?? null,
    mode: group.mode ?? 'enforce',
    inbound_ranges: countNamed(group.inbound_rules),
    outbound_ranges: countNamed(group.outbound_rules),
    most_ranges: context.quotas.group_ranges,
    most: context.quotas.groups,
    at: now(context),
    actor: by.user_id,
  };
  return asItem(id, asked, singleStatementItem(context, by));
}

/** How many ranges the rules of a patch name; null for a direction that stays. */
export const rangesIn = ({ inbound_rules, outbound_rules }: GroupPatch) => ({
  inbound: inbound_rules === undefined ? null : countNamed(inbound_rules),
  outbound: outbound_rules === undefined ? null : countNamed(outbound_rules),
});

interface GroupPatchWrite {
  readonly owner: GroupOwner;
  readonly id: GroupId;
  readonly patch: GroupPatch;
  readonly if_match?: number | undefined;
}

export function groupPatchItem(context: Context, by: Actor, { owner, id, patch, if_match }: GroupPatchWrite) {
  const { quotas } = context;
  const ranges = rangesIn(patch);
  const asked = {
    owner: owner === 'organization' ? '' : owner,
    expected: if_match ?? null,
    group_name: patch.group_name ?? null,
    group_description: patch.group_description ?? null,
    inbound_rules: patch.inbound_rules === undefined ? null : rulesText(patch.inbound_rules),
    outbound_rules: patch.outbound_rules === undefined ? null : rulesText(patch.outbound_rules),
    applies_to: patch.applies_to === undefined ? null : selectorsText(patch.applies_to),
    mode: patch.mode ?? null,
    inbound_ranges: ranges.inbound,
    outbound_ranges: ranges.outbound,
    most_ranges: quotas.group_ranges,
    most_device_ranges: quotas.device_ranges,
    at: now(context),
    actor: by.user_id,
  };
  return asItem(id, asked, singleStatementItem(context, by));
}

export const rulesIn = (text: string): readonly StoredRule[] => JSON.parse(text) as readonly StoredRule[];

/** The columns of a group that a trial brings back. */
type OldGroup = Pick<GroupBefore, 'group_name' | 'group_description'> &
  Readonly<Record<'inbound_rules' | 'outbound_rules' | 'applies_to' | 'mode', string>>;

/** The mode before a trial. It is left out where the group enforces with the change and without it, for agents that do not know the field. */
export const modeBefore = (before: string | undefined, after: string | undefined): Pick<GroupBefore, 'mode'> =>
  before === 'observe' ? { mode: 'observe' } : after === 'observe' ? { mode: 'enforce' } : {};

/** What a group is before a change that is being tried. */
export const fieldsBefore = (
  { group_name, group_description, ...rules }: OldGroup,
  { mode }: Pick<GroupPatch, 'mode'>,
): GroupBefore => ({
  group_name,
  group_description,
  inbound_rules: rulesIn(rules.inbound_rules),
  outbound_rules: rulesIn(rules.outbound_rules),
  applies_to: JSON.parse(rules.applies_to) as readonly Selector[],
  ...modeBefore(rules.mode, mode),
});
