/** Owns what a write makes of one device: who may, what is refused, and the state that comes of it. */
import type { GroupId } from '../../policy/ids.ts';
import type { IsolationRecord } from '../../policy/isolation/isolation-record.ts';
import { holdCredential, holdRole, isOwner } from './caller.ts';
import { holdRevision, refuseNewer, unchanged, written, type Deciding, type Decision } from './decision.ts';
import type { DeviceContent, DeviceFields, RecordState, StartedTrial } from './records.ts';
import { refuse } from './refusal.ts';

export type DevicePatch = Partial<DeviceFields> & {
  readonly security_groups?: readonly GroupId[];
  /** Null lifts the isolation. */
  readonly isolated?: IsolationRecord | null;
};

/** The fields that say what a device is and which groups it has: the view `identity` shows these and no other. */
export const identityFields = ['hostname', 'tunnel_ip', 'addresses', 'labels', 'security_groups', 'isolated'] as const;

/** The fields that decide who may reach a device, and which rules of others match it. The history keeps each of their states. */
export const policyFields = ['security_groups', 'tunnel_ip', 'addresses', 'labels', 'isolated'] as const;

/** What people and agents write. */
const writable = [
  'public_key',
  'local_ip',
  'child_prefix',
  'relay',
  'discovery',
  'reflexive_ip4',
  'endpoint_local_address_ip4',
  'symmetric_nat',
  ...identityFields,
] as const;

/** A list that is left out is empty. */
const nothing = '[]';
const textOf = (value: unknown): string => (value === undefined ? nothing : JSON.stringify(value));

/** Whether the devices differ in one of these. */
export const differIn = (a: DeviceContent, b: DeviceContent, names: readonly (keyof DeviceContent)[]): boolean =>
  names.some((name) => a[name] !== b[name] && textOf(a[name]) !== textOf(b[name]));

/** The groups that it lists, or listed before the change that is being tried. */
export const listedBy = ({ security_groups = [], trial }: DeviceContent): readonly string[] => [
  ...new Set<string>([...security_groups, ...(trial?.before.security_groups ?? [])]),
];

export interface DeviceCreation {
  readonly id: string;
  /** The device's user, and what the device says of itself. */
  readonly device: { readonly user_id: string; readonly fields: DeviceFields };
  /** It may be so: that was checked before. */
  readonly list?: readonly GroupId[];
}

export function createDevice(
  deciding: Deciding,
  { id, device: { user_id, fields }, list = [] }: DeviceCreation,
): Decision<RecordState<DeviceContent>> {
  const { context, org, records, caller, by, at } = deciding;
  const limit = context.quotas.devices;
  holdCredential(by, caller);
  holdRole(by, caller, user_id);
  const isForOther = user_id !== by.user_id;
  const hasLabels = fields.labels.length > 0;
  if (!isOwner(by, caller)) {
    if (isForOther) refuse({ code: 'forbidden' });
    if (hasLabels) refuse({ code: 'labels_by_owner' });
  }
  if (isForOther && !caller.is_member) refuse({ code: 'not_a_member' });
  if (records.hasKey(fields.public_key)) refuse({ code: 'public_key_taken' });
  if (records.countOf('devices') >= limit) refuse({ code: 'limit_reached', what: 'devices', limit });
  const made = {
    ...fields,
    id,
    user_id,
    organization_id: org,
    security_groups: list,
    created_at: at,
    updated_at: at,
  } as DeviceContent;
  const state = records.putDevice(made, { by: by.user_id, at });
  return written(deciding, state, { whose: user_id, asOwner: isForOther || hasLabels });
}

export interface DeviceUpdate {
  readonly id: string;
  readonly patch: DevicePatch;
  readonly if_match?: number | undefined;
  readonly trial?: StartedTrial | undefined;
}

/** Only what the patch gives. An isolation that is null is lifted. */
function patched(record: DeviceContent, patch: DevicePatch): DeviceContent {
  const after: Record<string, unknown> = { ...record };
  for (const [name, value] of Object.entries(patch)) if (value !== undefined) after[name] = value;
  if (patch.isolated === null) delete after['isolated'];
  return after as unknown as DeviceContent;
}

/** Only owners change labels and isolations, and the addresses of a device that has either. */
function ownersPart(record: DeviceContent, after: DeviceContent) {
  const isMarked = (record.labels ?? []).length > 0 || record.isolated !== undefined;
  return {
    relabels: differIn(after, record, ['labels']),
    isolates: differIn(after, record, ['isolated']),
    moves: isMarked && differIn(after, record, ['tunnel_ip', 'addresses']),
  };
}

/** A device whose list is given: that the list may be so was checked before. */
export function updateDevice(
  deciding: Deciding,
  { id, patch, if_match, trial }: DeviceUpdate,
): Decision<RecordState<DeviceContent>> {
  const { records, caller, by, at } = deciding;
  holdCredential(by, caller);
  const before = records.device(id);
  if (before === undefined) return refuse({ code: 'not_found', what: 'device' });
  const { record, owner: whose } = before;
  holdRole(by, caller, whose);
  holdRevision(if_match, before);
  if (record.trial !== undefined && patch.security_groups !== undefined)
    refuse({ code: 'trial_pending', trial: record.trial.id });
  const after = patched(record, patch);
  if (!differIn(after, record, writable)) return unchanged(before);
  refuseNewer(records, 'device', record);
  const { relabels, isolates, moves } = ownersPart(record, after);
  if (!isOwner(by, caller)) {
    if (relabels) refuse({ code: 'labels_by_owner' });
    if (isolates) refuse({ code: 'forbidden' });
    if (moves) refuse({ code: 'address_by_owner' });
  }
  if (after.public_key !== record.public_key && records.hasKey(after.public_key, id))
    refuse({ code: 'public_key_taken' });
  const list = record.security_groups ?? [];
  // What leaves the list as it is is no trial.
  const tried = trial &&
    differIn(after, record, ['security_groups']) && { trial: { ...trial, before: { security_groups: list } } };
  const state = records.putDevice({ ...after, ...tried, updated_at: at }, { by: by.user_id, at });
  // What the history keeps is not kept twice.
  const isKept = differIn(after, record, policyFields);
  return written(deciding, state, {
    whose,
    asOwner: relabels || isolates || moves,
    texts: { before: `${before.body}}`, after: isKept ? undefined : `${state.body}}` },
  });
}

/** Whether the patch gives nothing but where the device is: its agent says that often, and no person changes anything by it. */
export const isEndpointOnly = (patch: DevicePatch): boolean =>
  Object.entries(patch).every(
    ([name, value]) => value === undefined || (name !== 'public_key' && !identityFields.includes(name as never)),
  );

/** The device as another user's: without the groups that only the old user could apply. */
export function handedOver(
  device: DeviceContent,
  to: DeviceContent['user_id'],
  ownerOfGroup: (id: GroupId) => string | null | undefined,
): DeviceContent {
  const { user_id: from, security_groups = [] } = device;
  return { ...device, user_id: to, security_groups: security_groups.filter((id) => ownerOfGroup(id) !== from) };
}

/** Before a device goes to another user, who is a member. Undefined: it is this user's already. */
export function holdMove(
  before: RecordState<DeviceContent> | undefined,
  {
    to,
    isMember,
    if_match,
  }: { readonly to: string; readonly isMember: boolean; readonly if_match?: number | undefined },
): DeviceContent | undefined {
  if (before === undefined) return refuse({ code: 'not_found', what: 'device' });
  holdRevision(if_match, before);
  if (!isMember) return refuse({ code: 'not_found', what: 'member' });
  const { record } = before;
  if (record.user_id === to) return undefined;
  // The end of a trial writes the list as it was, which may hold groups of the old user.
  return record.trial === undefined ? record : refuse({ code: 'trial_pending', trial: record.trial.id });
}
