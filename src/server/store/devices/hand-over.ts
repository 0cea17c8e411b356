/**
 * Owns the hand-over of devices to another member: all devices of a member who is removed, or one device that an owner moves. The groups that only the
 * old user could apply leave the devices.
 */
import { parseDeviceId, type UserId } from '../../../policy/ids.ts';
import type { Actor } from '../contract/actor.ts';
import type { MoveDeviceOptions } from '../contract/devices.ts';
import { refuse } from '../../problems.ts';
import type { DeviceRecord, Stored } from '../contract/records.ts';
import { overlay } from '../../../organization/organization.ts';
import { refuseOpened, refuseOpenedBetween } from './opening.ts';
import { statement } from '../postgres/sql.ts';
import { isMember } from '../schema/fragments.ts';
import { changeOf, subjectOf, type AuditChange, type AuditSubject } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { keepStates } from '../write/history.ts';
import { isNewerDevice } from '../write/newer-record.ts';
import { headVersion, logChanges, takeRevisions } from '../write/revisions.ts';
import { stored } from '../write/single-statement.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';
import { deviceBody, storedDeviceBody } from './body.ts';
import { fieldsOf } from './fields.ts';
import { leaveView } from './group-views.ts';
import { identityIfChanged, keepIdentities } from './identity.ts';
import { getDevice } from './statements.ts';

/** A device's list without the groups of user `$2`. */
const remaining = `ARRAY(
  SELECT l.id FROM unnest(d.security_groups) WITH ORDINALITY AS l (id, n) JOIN security_groups g ON g.id = l.id
  WHERE g.user_id IS DISTINCT FROM $2::uuid ORDER BY l.n)`;

/** Which devices are handed over: the device `$3`, or all devices of user `$2` where it is null. */
const isHandedOver = 'd.user_id = $2 AND ($3::uuid IS NULL OR d.id = $3)';

interface HandedOverRow {
  readonly id: string;
  readonly hostname: string;
  readonly user_id: string;
  readonly security_groups: readonly string[];
}

const whatChanges = 'SELECT d.id, d.hostname, d.user_id, d.security_groups FROM devices d WHERE d.org_id = $1 AND';

/** What a hand-over changes. Values: organization, user, device or null. */
const findBefore = statement<HandedOverRow>('find_devices_before_hand_over', `${whatChanges} ${isHandedOver}`);
/** Values: organization, devices. */
const findAfter = statement<HandedOverRow>('find_devices_after_hand_over', `${whatChanges} d.id = ANY ($2::uuid[])`);

/** Whether one of the devices has fields that this program does not know. Values: organization, user, device or null. */
const findNewerDevice = statement<{ id: string }>(
  'find_newer_device',
  `SELECT d.id FROM devices d WHERE d.org_id = $1 AND ${isHandedOver} AND ${isNewerDevice(storedDeviceBody('d'))} LIMIT 1`,
);

/** In a transaction. Values: organization, user, device or null, the new user, now, who. */
const handOver = statement<{ id: string; revision: number }>(
  'hand_over_devices',
  `WITH moving AS MATERIALIZED (
     SELECT d.org_id, d.id, $4::uuid AS user_id, ${fieldsOf('d')}, ${remaining} AS security_groups,
       ${remaining} <> d.security_groups AS identity_changed, d.trial, d.created_at, $5::timestamptz AS updated_at, ${headVersion}
     FROM devices d WHERE d.org_id = $1 AND ${isHandedOver}),
   ${takeRevisions('moving', 'ORDER BY moving.id')},
   new AS (
     UPDATE devices d SET user_id = n.user_id, security_groups = n.security_groups, updated_at = n.updated_at, revision = n.revision,
       body = ${deviceBody('n')}
     FROM numbered n WHERE d.id = n.id RETURNING d.org_id, d.id, d.revision, d.body, ${identityIfChanged('n', 'd')}),
   identities AS (${keepIdentities('new')}),
   kept AS (${keepStates({ kind: 'device', type: 'change', from: 'new', owner: '$4::uuid', by: '$6::uuid', at: '$5::timestamptz' })})
   ${logChanges({ kind: 'device', type: 'change', from: 'new', identity: 'new.identity' })} RETURNING id, revision`,
);

/** In a transaction: the devices hold no group of the old user any more. Values: organization, user, device or null: all devices. */
const unlinkGroups = statement<never>(
  'unlink_groups_of_user',
  `DELETE FROM device_groups l USING security_groups g
   WHERE g.id = l.group_id AND g.org_id = $1 AND g.user_id = $2 AND ($3::uuid IS NULL OR l.device_id = $3)`,
);

/** In a transaction: agents go on with the tokens that they have. Values: devices, the new user. */
const handOverTokens = statement<never>(
  'hand_over_tokens',
  'UPDATE tokens SET user_id = $2 WHERE device_id = ANY ($1::uuid[])',
);

/** Values: organization, user. */
const findMember = statement<{ is_member: boolean }>(
  'is_member_in_transaction',
  `SELECT ${isMember('$2::uuid')} AS is_member`,
);

interface HandOver {
  readonly by: Actor;
  readonly from: string;
  readonly to: UserId;
  /** Only this device; null: all devices of `from`. */
  readonly device: string | null;
  /** Also where it leaves a device with only the default group (`would_open` otherwise). */
  readonly detach?: boolean | undefined;
}

/** Refuses with `would_open` where handing over all devices of the user would leave one with only the default group. */
export async function refuseOpenedByHandOver(
  locked: Pick<Locked, 'tx' | 'org' | 'model'>,
  from: string,
): Promise<void> {
  const { tx, org, model } = locked;
  const before = await model.read(tx);
  const handedOver = await tx.run(findBefore, [org, from, null]);
  const changes = handedOver.flatMap(({ id }) => {
    const device = before.devices.get(parseDeviceId(id));
    if (device === undefined) return [];
    const list = device.list.filter((group) => before.groups.get(group)?.user_id !== from);
    return [{ kind: 'device' as const, id: device.id, device: { ...device, list } }];
  });
  await refuseOpenedBetween(locked, before, overlay(before, changes));
}

export type HandedOver = { readonly id: string; readonly revision: number } & AuditChange;

/** The devices become another user's: without the groups of the old user, with their tokens. */
export async function handOverDevices(
  context: Context,
  { tx, org, model }: Locked,
  { by, from, to, device, detach = false }: HandOver,
): Promise<readonly HandedOver[]> {
  const which = [org, from, device];
  const [newer] = await tx.run(findNewerDevice, which);
  if (newer !== undefined) refuse({ code: 'newer_record', what: 'device' });
  const organization = detach ? undefined : await model.read(tx);
  const before = await tx.run(findBefore, which);
  const rows = await tx.run(handOver, [...which, to, now(context), by.user_id]);
  const ids = rows.map(({ id }) => id);
  if (organization !== undefined) await refuseOpened({ tx, model }, organization, { among: ids.map(parseDeviceId) });
  const after = new Map((await tx.run(findAfter, [org, ids])).map((row) => [row.id, row]));
  const changes = new Map(
    before.map((row) => [row.id, { name: row.hostname, ...changeOf(row, after.get(row.id) ?? row) }]),
  );
  await tx.run(unlinkGroups, which);
  await tx.run(handOverTokens, [ids, to]);
  return rows.map((row) => ({ ...row, ...changes.get(row.id) }));
}

interface MovedDevice {
  readonly device: Stored<DeviceRecord>;
  readonly entry: Omit<AuditSubject, 'org_id'>;
}

/** In a transaction that has judged the right of the actor. The new user must be a member in the same transaction. */
export async function moveDevice(
  context: Context,
  locked: Locked,
  by: Actor,
  id: string,
  to: UserId,
  { if_match, detach }: MoveDeviceOptions,
): Promise<MovedDevice> {
  const { tx, org } = locked;
  const [old] = await tx.run(getDevice, [org, id]);
  if (old === undefined) return refuse({ code: 'not_found', what: 'device' });
  if (if_match !== undefined && if_match !== old.revision)
    return refuse({ code: 'precondition_failed', revision: old.revision });
  if ((await tx.run(findMember, [org, to]))[0]?.is_member !== true)
    return refuse({ code: 'not_found', what: 'member' });
  if (old.user_id === to) {
    const device = stored<DeviceRecord>(old);
    return { device, entry: { ...subjectOf(device), unchanged: true } };
  }
  // The end of a trial writes the list as it was, which may hold groups of the old user.
  if (old.trial !== null)
    return refuse({ code: 'trial_pending', trial: (JSON.parse(old.trial) as { readonly id: string }).id });
  const [change] = await handOverDevices(context, locked, { by, from: old.user_id, to, device: id, detach });
  await leaveView(locked, old.security_groups, { by: by.user_id, at: now(context) });
  const [row] = await tx.run(getDevice, [org, id]);
  if (row === undefined) return refuse({ code: 'unexpected' });
  const device = stored<DeviceRecord>(row);
  return { device, entry: { ...change, ...subjectOf(device) } };
}
