/** Owns what a write makes of one group: who may, what is refused, and the state that comes of it. */
import { countNamed } from '../../../../organization/read-records.ts';
import type { UserId } from '../../../../policy/ids.ts';
import type { GroupOwner, GroupPatch, NewGroup, SavedGroup } from '../../data/groups.ts';
import type { GroupBefore, GroupRecord } from '../../data/records.ts';
import { refuse } from '../../../problems.ts';
import { holdCredential, holdRole } from '../caller.ts';
import { stored } from '../stored.ts';
import type { StartedTrial } from '../trial.ts';
import { acceptsFor, note, type Deciding } from './deciding.ts';
import type { GroupContent } from './group-text.ts';
import { refuseNewer } from './newer.ts';
import type { GroupState } from './records.ts';

const saved = (state: GroupState, { caller }: Deciding): SavedGroup =>
  Object.assign(stored<GroupRecord>(state), { mayBeVoid: caller.forbids });

/** How many address ranges and peers its rules name. */
export const rangesOf = ({
  inbound_rules = [],
  outbound_rules = [],
}: Partial<Pick<GroupContent, 'inbound_rules' | 'outbound_rules'>>): number =>
  countNamed(inbound_rules) + countNamed(outbound_rules);

export interface GroupCreation {
  readonly id: string;
  readonly owner: GroupOwner;
  readonly group: NewGroup;
  readonly trial?: StartedTrial | undefined;
}

export function createGroup(deciding: Deciding, { id, owner, group, trial }: GroupCreation): SavedGroup {
  const { context, org, records, caller, by, at } = deciding;
  const { quotas } = context;
  const user_id = owner === 'organization' ? undefined : owner;
  holdCredential(by, caller);
  holdRole(by, caller, user_id ?? null);
  if (user_id !== undefined && !caller.is_member) refuse({ code: 'not_a_member' });
  if (rangesOf(group) > quotas.group_ranges) refuse({ code: 'too_many_ranges', limit: quotas.group_ranges });
  if (records.countOf('groups') >= quotas.groups)
    refuse({ code: 'limit_reached', what: 'groups', limit: quotas.groups });
  acceptsFor(deciding, user_id ?? null);
  const state = records.putGroup(
    {
      ...group,
      ...(user_id !== undefined && { user_id }),
      ...(trial && { trial: { ...trial, before: null } }),
      id,
      org_id: org,
      created_at: at,
      updated_at: at,
    } as GroupContent,
    { by: by.user_id, at },
  );
  note(deciding, { subject_id: id, revision: state.revision });
  return saved(state, deciding);
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

export const ownerOf = ({ user_id }: { readonly user_id?: UserId | undefined }): GroupOwner =>
  user_id ?? 'organization';

export function updateGroup(
  deciding: Deciding,
  { id, owner, patch, if_match, trial, ranges: known = { all: 0 } }: GroupUpdate,
): SavedGroup {
  const { context, records, caller, by, at } = deciding;
  holdCredential(by, caller);
  const before = records.group(id);
  if (before === undefined || (owner !== undefined && (before.owner ?? 'organization') !== owner))
    return refuse({ code: 'not_found', what: 'group' });
  const { record, owner: whose } = before;
  holdRole(by, caller, whose);
  if (if_match !== undefined && if_match !== before.revision)
    refuse({ code: 'precondition_failed', revision: before.revision });
  if (record.trial !== undefined) refuse({ code: 'trial_pending', trial: record.trial.id });
  const given = Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
  const after = { ...record, ...given } as GroupContent;
  if (patchable.every((name) => after[name] === record[name] || valueOf(after, name) === valueOf(record, name))) {
    note(deciding, { subject_id: id, revision: before.revision, unchanged: true });
    return saved(before, deciding);
  }
  refuseNewer('group', record);
  const ranges = rangesOf(after);
  const growth = ranges - rangesOf(record);
  if (growth > 0) {
    const { group_ranges, device_ranges } = context.quotas;
    if (ranges > group_ranges) refuse({ code: 'too_many_ranges', limit: group_ranges });
    const most = Math.max(record.is_default === true ? ranges : 0, known.all === 0 ? 0 : known.all + growth);
    if (most > device_ranges) refuse({ code: 'too_many_device_ranges', limit: device_ranges, devices: [] });
    if (known.all > 0) known.all += growth;
  }
  acceptsFor(deciding, whose);
  const state = records.putGroup(
    { ...after, ...(trial && { trial: { ...trial, before: fieldsBefore(record, patch) } }), updated_at: at },
    { by: by.user_id, at },
  );
  note(deciding, { subject_id: id, revision: state.revision });
  return saved(state, deciding);
}
