/** Owns what a write makes of one group: who may, what is refused, and the state that comes of it. */
import type { UserId } from '../../policy/ids.ts';
import type { GroupMode, GuardrailKind, Selector, StoredRule } from '../../policy/rule.ts';
import { countNamed } from '../read-records.ts';
import { holdCredential, holdRole } from './caller.ts';
import { holdRevision, refuseNewer, unchanged, written, type Deciding, type Decision } from './decision.ts';
import type { Phase } from './phase.ts';
import type { GroupBefore, GroupContent, RecordState, StartedTrial } from './records.ts';
import { refuse } from './refusal.ts';

/** Whose groups: the organization's own (the default among them), or one user's. */
export type GroupOwner = 'organization' | UserId;

export interface NewGroup {
  readonly group_name: string;
  readonly group_description: string;
  readonly inbound_rules: readonly StoredRule[];
  readonly outbound_rules: readonly StoredRule[];
  readonly applies_to?: readonly Selector[] | undefined;
  /** Set when the group is made, never changed. */
  readonly guardrail?: GuardrailKind | undefined;
  /** `observe`: watch only. Never on the default group (`application_refused`). */
  readonly mode?: GroupMode | undefined;
}

/** What may be changed of a group. */
export type GroupPatch = Partial<Omit<NewGroup, 'guardrail'>>;

export const ownerOf = ({ user_id }: { readonly user_id?: UserId | undefined }): GroupOwner =>
  user_id ?? 'organization';

/** How many address ranges and peers its rules name. */
export const rangesOf = ({
  inbound_rules = [],
  outbound_rules = [],
}: Partial<Pick<GroupContent, 'inbound_rules' | 'outbound_rules'>>): number =>
  countNamed(inbound_rules) + countNamed(outbound_rules);

/** The devices that rules name as peers. */
export const devicesIn = (...lists: readonly (readonly StoredRule[] | undefined)[]): ReadonlySet<string> =>
  new Set(
    lists.flatMap((rules = []) =>
      rules.flatMap(({ peers = [] }) => peers.flatMap((peer) => ('device_id' in peer ? [peer.device_id] : []))),
    ),
  );

/** Groups apply by label in phase 3 only, and only the organization's own. Refused in every state of the organization. */
export function refuseApplication(
  phase: Phase,
  owner: GroupOwner,
  { applies_to = [], guardrail }: Pick<Partial<NewGroup>, 'applies_to' | 'guardrail'>,
): void {
  const fields = [
    ...(applies_to.length > 0 ? (['applies_to'] as const) : []),
    ...(guardrail === undefined ? [] : (['guardrail'] as const)),
  ];
  if (fields.length === 0) return;
  if (owner !== 'organization') refuse({ code: 'application_refused', why: 'user_group', fields });
  if (phase !== 3) refuse({ code: 'application_refused', why: 'phase', fields });
}

/** Of a new group. */
export function refuseCreation(phase: Phase, owner: GroupOwner, group: NewGroup): void {
  refuseApplication(phase, owner, group);
  // reference 8 (1): the default group is the one group there is.
  if (phase === 1) refuse({ code: 'phase_forbids' });
}

/** The default group applies to no label, and always enforces. */
export function refuseForDefault({ is_default }: Partial<GroupContent>, { applies_to = [], mode }: GroupPatch): void {
  if (is_default !== true) return;
  if (applies_to.length > 0) refuse({ code: 'application_refused', why: 'default_group', fields: ['applies_to'] });
  if (mode === 'observe') refuse({ code: 'application_refused', why: 'default_mode', fields: ['mode'] });
}

/** Whether the patch may take the group from devices that have it. A guardrail does not replace the default group: without it no device opens. */
export const mayLeaveDevices = ({ guardrail, mode }: Partial<GroupContent>, patch: GroupPatch): boolean =>
  (patch.applies_to !== undefined || patch.mode === 'observe') && guardrail === undefined && mode !== 'observe';

export interface GroupCreation {
  readonly id: string;
  readonly owner: GroupOwner;
  readonly group: NewGroup;
  readonly trial?: StartedTrial | undefined;
}

export function createGroup(
  deciding: Deciding,
  { id, owner, group, trial }: GroupCreation,
): Decision<RecordState<GroupContent>> {
  const { context, org, records, caller, by, at } = deciding;
  const { quotas } = context;
  const user_id = owner === 'organization' ? undefined : owner;
  holdCredential(by, caller);
  holdRole(by, caller, user_id ?? null);
  if (user_id !== undefined && !caller.is_member) refuse({ code: 'not_a_member' });
  if (rangesOf(group) > quotas.group_ranges) refuse({ code: 'too_many_ranges', limit: quotas.group_ranges });
  if (records.countOf('groups') >= quotas.groups)
    refuse({ code: 'limit_reached', what: 'groups', limit: quotas.groups });
  const made = {
    ...group,
    ...(user_id !== undefined && { user_id }),
    ...(trial && { trial: { ...trial, before: null } }),
    id,
    org_id: org,
    created_at: at,
    updated_at: at,
  } as GroupContent;
  return written(deciding, records.putGroup(made, { by: by.user_id, at }), { whose: user_id ?? null });
}

/** The mode before a trial. It is left out where the group enforces with the change and without it, for agents that do not know the field. */
const modeBefore = (before: string | undefined, after: string | undefined): Pick<GroupBefore, 'mode'> =>
  before === 'observe' ? { mode: 'observe' } : after === 'observe' ? { mode: 'enforce' } : {};

/** What a group is before a change that is being tried. */
const fieldsBefore = (record: GroupContent, { mode }: Pick<GroupPatch, 'mode'>): GroupBefore => ({
  group_name: record.group_name,
  group_description: record.group_description,
  inbound_rules: record.inbound_rules ?? [],
  outbound_rules: record.outbound_rules ?? [],
  applies_to: record.applies_to ?? [],
  ...modeBefore(record.mode, mode),
});

export interface GroupUpdate {
  readonly id: string;
  /** Undefined: whose it is does not matter. */
  readonly owner?: GroupOwner | undefined;
  readonly patch: GroupPatch;
  readonly if_match?: number | undefined;
  readonly trial?: StartedTrial | undefined;
  /** How many address ranges all groups of the organization name: only where that is more than a device may have, devices are looked at. Absent: that is done afterwards. */
  readonly ranges?: { all: number } | undefined;
}

const patchable = ['group_name', 'group_description', 'inbound_rules', 'outbound_rules', 'applies_to', 'mode'] as const;

const valueOf = (record: Partial<GroupContent>, name: (typeof patchable)[number]): string =>
  JSON.stringify(record[name] ?? (name === 'mode' ? 'enforce' : []));

export function updateGroup(
  deciding: Deciding,
  { id, owner, patch, if_match, trial, ranges: known = { all: 0 } }: GroupUpdate,
): Decision<RecordState<GroupContent>> {
  const { context, records, caller, by, at } = deciding;
  holdCredential(by, caller);
  const before = records.group(id);
  if (before === undefined || (owner !== undefined && (before.owner ?? 'organization') !== owner))
    return refuse({ code: 'not_found', what: 'group' });
  const { record, owner: whose } = before;
  holdRole(by, caller, whose);
  holdRevision(if_match, before);
  if (record.trial !== undefined) refuse({ code: 'trial_pending', trial: record.trial.id });
  const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
  const after = { ...record, ...given } as GroupContent;
  if (patchable.every((name) => after[name] === record[name] || valueOf(after, name) === valueOf(record, name)))
    return unchanged(before);
  refuseNewer(records, 'group', record);
  const ranges = rangesOf(after);
  const growth = ranges - rangesOf(record);
  if (growth > 0) {
    const { group_ranges, device_ranges } = context.quotas;
    if (ranges > group_ranges) refuse({ code: 'too_many_ranges', limit: group_ranges });
    const most = Math.max(record.is_default === true ? ranges : 0, known.all === 0 ? 0 : known.all + growth);
    if (most > device_ranges) refuse({ code: 'too_many_device_ranges', limit: device_ranges, devices: [] });
    if (known.all > 0) known.all += growth;
  }
  const tried = trial && { trial: { ...trial, before: fieldsBefore(record, patch) } };
  return written(deciding, records.putGroup({ ...after, ...tried, updated_at: at }, { by: by.user_id, at }), { whose });
}
