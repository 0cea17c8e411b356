/** Owns what a write makes of one device: who may, what is refused, and the state that comes of it. */
import { parseTokenId, type GroupId } from '../../../../policy/ids.ts';
import type { DevicePatch, NewDevice } from '../../data/devices.ts';
import type { DeviceRecord, Stored } from '../../data/records.ts';
import { refuse } from '../../../problems.ts';
import { statement } from '../../postgres/sql.ts';
import { holdCredential, holdRole, isOwner } from '../caller.ts';
import { stored } from '../stored.ts';
import type { StartedTrial } from '../trial.ts';
import { acceptsFor, note, type Deciding } from './deciding.ts';
import { differIn, identityFields, policyFields, type DeviceContent } from './device-text.ts';
import { refuseNewer } from './newer.ts';
import { keyDigest } from './records.ts';

/** Values: id, digest in hexadecimal, user, organization, device, name, now. */
const insertToken = statement<never>(
  'insert_token_of_new_device',
  `INSERT INTO tokens (id, digest, user_id, org_id, device_id, name, scope, created_at)
   VALUES ($1, decode($2, 'hex'), $3, $4, $5, $6, 'full', $7)`,
);

export interface DeviceCreation {
  readonly id: string;
  readonly device: Pick<NewDevice, 'user_id' | 'fields' | 'token'>;
  /** It may be so: that was checked before. */
  readonly list?: readonly GroupId[];
}

export function createDevice(
  deciding: Deciding,
  { id, device: { user_id, fields, token }, list = [] }: DeviceCreation,
): Stored<DeviceRecord> {
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
  if (records.isTaken(keyDigest(org, fields.public_key))) refuse({ code: 'public_key_taken' });
  if (records.countOf('devices') >= limit) refuse({ code: 'limit_reached', what: 'devices', limit });
  acceptsFor(deciding, user_id, isForOther || hasLabels);
  const state = records.putDevice(
    {
      ...fields,
      id,
      user_id,
      organization_id: org,
      security_groups: list,
      created_at: at,
      updated_at: at,
    } as DeviceContent,
    { by: by.user_id, at },
  );
  if (token !== undefined) {
    const digest = Buffer.from(token.digest).toString('hex');
    records.also(insertToken, [parseTokenId(context.newId()), digest, user_id, org, id, token.name, at]);
  }
  note(deciding, { subject_id: id, revision: state.revision });
  return stored(state);
}

export interface DeviceUpdate {
  readonly id: string;
  readonly patch: DevicePatch;
  readonly if_match?: number | undefined;
  readonly trial?: StartedTrial | undefined;
}

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

/** Only what the patch gives. An isolation that is null is lifted. */
function patched(record: DeviceContent, patch: DevicePatch): DeviceContent {
  const after: Record<string, unknown> = { ...record };
  for (const [name, value] of Object.entries(patch)) if (value !== undefined) after[name] = value;
  if (patch.isolated === null) delete after['isolated'];
  return after as unknown as DeviceContent;
}

/** A device whose list is given: that the list may be so was checked before. */
export function updateDevice(deciding: Deciding, { id, patch, if_match, trial }: DeviceUpdate): Stored<DeviceRecord> {
  const { org, records, caller, by, at } = deciding;
  holdCredential(by, caller);
  const before = records.device(id);
  if (before === undefined) return refuse({ code: 'not_found', what: 'device' });
  const { record } = before;
  holdRole(by, caller, before.owner);
  if (if_match !== undefined && if_match !== before.revision)
    refuse({ code: 'precondition_failed', revision: before.revision });
  if (record.trial !== undefined && patch.security_groups !== undefined)
    refuse({ code: 'trial_pending', trial: record.trial.id });
  const after = patched(record, patch);
  const revision = before.revision;
  if (!differIn(after, record, writable)) {
    note(deciding, { subject_id: id, revision, unchanged: true });
    return stored(before);
  }
  refuseNewer('device', record);
  const relabels = differIn(after, record, ['labels']);
  const isolates = differIn(after, record, ['isolated']);
  const isMarked = (record.labels ?? []).length > 0 || record.isolated !== undefined;
  const moves = isMarked && differIn(after, record, ['tunnel_ip', 'addresses']);
  if (!isOwner(by, caller)) {
    if (relabels) refuse({ code: 'labels_by_owner' });
    if (isolates) refuse({ code: 'forbidden' });
    if (moves) refuse({ code: 'address_by_owner' });
  }
  if (after.public_key !== record.public_key && records.isTaken(keyDigest(org, after.public_key), id))
    refuse({ code: 'public_key_taken' });
  acceptsFor(deciding, before.owner, relabels || isolates || moves);
  const list = record.security_groups ?? [];
  // What leaves the list as it is is no trial.
  const tried = trial &&
    differIn(after, record, ['security_groups']) && { trial: { ...trial, before: { security_groups: list } } };
  const state = records.putDevice({ ...after, ...tried, updated_at: at }, { by: by.user_id, at });
  const names = Object.keys(patch).filter((name) => patch[name as keyof DevicePatch] !== undefined);
  const isEndpoint = !names.some((name) => name === 'public_key' || identityFields.includes(name as never));
  // What a device says of itself is no person's change, and comes often. What the history keeps is not kept twice.
  const isTold = !isEndpoint || by.audit?.credential.kind !== 'device_token';
  const isKept = differIn(after, record, policyFields);
  note(deciding, {
    subject_id: id,
    revision: state.revision,
    ...(isTold && { texts: { before: `${before.body}}`, after: isKept ? undefined : `${state.body}}` } }),
  });
  return stored(state);
}
