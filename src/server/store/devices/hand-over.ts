/**
 * Owns the hand-over of devices to another member: all devices of a member who is removed, or one device that an owner moves. The groups that only the
 * old user could apply leave the devices.
 */
import { parseDeviceId, type UserId } from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { MoveDeviceOptions } from '../data/devices.ts';
import { refuse } from '../../problems.ts';
import type { DeviceRecord, Stored } from '../data/records.ts';
import { handedOver, holdMove } from '../../../organization/decide/device.ts';
import type { DeviceContent } from '../../../organization/decide/records.ts';
import * as decide from '../../../organization/decide/outcome.ts';
import { overlay } from '../../../organization/organization.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { refuseOpened } from './opening.ts';
import { statement } from '../postgres/sql.ts';
import { refuseNewer } from '../write/records/newer.ts';
import { changeOf, subjectOf, type AuditChange, type AuditSubject } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { loadMembers } from '../write/members.ts';
import { now } from '../write/stamp.ts';
import { stored } from '../write/stored.ts';
import type { Locked } from '../write/transaction.ts';
import { leaveView } from './group-views.ts';
import { ownedBy } from './owned.ts';

/** In a transaction: agents go on with the tokens that they have. Values: devices, the new user. */
const handOverTokens = statement<never>(
  'hand_over_tokens',
  'UPDATE tokens SET user_id = $2 WHERE device_id = ANY ($1::uuid[])',
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
  { tx, org, model }: { readonly tx: Runner; readonly org: string; readonly model: ModelInTransaction },
  from: string,
): Promise<void> {
  const before = await model.read(tx);
  const { devices } = await ownedBy(tx, org, from);
  const changes = devices.flatMap((id) => {
    const device = before.devices.get(parseDeviceId(id));
    if (device === undefined) return [];
    const list = device.list.filter((group) => before.groups.get(group)?.user_id !== from);
    return [{ kind: 'device' as const, id: device.id, device: { ...device, list } }];
  });
  await model.run(decide.refuseOpened(before, overlay(before, changes)));
}

export type HandedOver = { readonly id: string; readonly revision: number } & AuditChange;

/** What a hand-over changes. */
const handedOverIn = ({ user_id, security_groups = [] }: DeviceContent) => ({ user_id, security_groups });

/** The devices become another user's: without the groups of the old user, with their tokens. */
export async function handOverDevices(
  context: Context,
  locked: Locked,
  { by, from, to, device, detach = false }: HandOver,
): Promise<readonly HandedOver[]> {
  const { tx, org, model, records } = locked;
  const ids = device === null ? (await ownedBy(tx, org, from)).devices : [device];
  await records.load({ devices: ids });
  const devices = ids.flatMap((id) => records.device(id)?.record ?? []);
  for (const one of devices) refuseNewer('device', one);
  await records.load({ groups: devices.flatMap(({ security_groups = [] }) => security_groups) });
  const organization = detach ? undefined : await model.read(tx);
  const at = now(context);
  const changes = devices.map((old): HandedOver => {
    const after = handedOver(old, to, (id) => records.group(id)?.owner);
    const state = records.putDevice({ ...after, updated_at: at }, { by: by.user_id, at }, { isKept: true });
    const change = changeOf(handedOverIn(old), handedOverIn(state.record));
    return { id: old.id, revision: state.revision, name: old.hostname, ...change };
  });
  if (organization !== undefined) await refuseOpened({ tx, model }, organization, { among: ids.map(parseDeviceId) });
  await tx.run(handOverTokens, [ids, to]);
  return changes;
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
  const { tx, org, records } = locked;
  await records.load({ devices: [id] });
  const isReceiver = (await loadMembers(tx, org, [to])).has(to);
  const before = records.device(id);
  const old = holdMove(before, { to, isMember: isReceiver, if_match });
  if (old === undefined && before !== undefined) {
    const device = stored<DeviceRecord>(before);
    return { device, entry: { ...subjectOf(device), unchanged: true } };
  }
  const { user_id = '', security_groups = [] } = old ?? {};
  const [change] = await handOverDevices(context, locked, { by, from: user_id, to, device: id, detach });
  await leaveView(locked, security_groups, { by: by.user_id, at: now(context) });
  const state = records.device(id);
  if (state === undefined) return refuse({ code: 'unexpected' });
  const device = stored<DeviceRecord>(state);
  return { device, entry: { ...change, ...subjectOf(device) } };
}
