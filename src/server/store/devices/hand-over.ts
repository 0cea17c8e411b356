/**
 * Owns the hand-over of devices to another member: all devices of a member who is removed, or one device that an owner moves. The groups that only the
 * old user could apply leave the devices.
 */
import { parseDeviceId, type UserId } from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { MoveDeviceOptions } from '../data/devices.ts';
import { refuse } from '../../problems.ts';
import type { DeviceRecord, Stored } from '../data/records.ts';
import { overlay } from '../../../organization/organization.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { refuseOpened, refuseOpenedBetween } from './opening.ts';
import { statement } from '../postgres/sql.ts';
import type { DeviceContent } from '../write/records/device-text.ts';
import { refuseNewer } from '../write/records/newer.ts';
import { isMember } from '../schema/fragments.ts';
import { changeOf, subjectOf, type AuditChange, type AuditSubject } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import { stored } from '../write/stored.ts';
import type { Locked } from '../write/transaction.ts';
import { leaveView } from './group-views.ts';
import { devicesOfUser } from './statements.ts';

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
  { tx, org, model }: { readonly tx: Runner; readonly org: string; readonly model: ModelInTransaction },
  from: string,
): Promise<void> {
  const before = await model.read(tx);
  const handedOver = await tx.run(devicesOfUser, [org, from]);
  const changes = handedOver.flatMap(({ id }) => {
    const device = before.devices.get(parseDeviceId(id));
    if (device === undefined) return [];
    const list = device.list.filter((group) => before.groups.get(group)?.user_id !== from);
    return [{ kind: 'device' as const, id: device.id, device: { ...device, list } }];
  });
  await refuseOpenedBetween({ model }, before, overlay(before, changes));
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
  const ids = device === null ? (await tx.run(devicesOfUser, [org, from])).map(({ id }) => id).toSorted() : [device];
  await records.load({ devices: ids });
  const devices = ids.flatMap((id) => records.device(id)?.record ?? []);
  for (const one of devices) refuseNewer('device', one);
  await records.load({ groups: devices.flatMap(({ security_groups = [] }) => security_groups) });
  const organization = detach ? undefined : await model.read(tx);
  const at = now(context);
  const handedOver = devices.map((old): HandedOver => {
    const list = old.security_groups?.filter((id) => records.group(id)?.record.user_id !== from) ?? [];
    const state = records.putDevice(
      { ...old, user_id: to, security_groups: list, updated_at: at },
      { by: by.user_id, at },
      { isKept: true },
    );
    const change = changeOf(handedOverIn(old), handedOverIn(state.record));
    return { id: old.id, revision: state.revision, name: old.hostname, ...change };
  });
  if (organization !== undefined) await refuseOpened({ tx, model }, organization, { among: ids.map(parseDeviceId) });
  await tx.run(handOverTokens, [ids, to]);
  return handedOver;
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
  const old = records.device(id);
  if (old === undefined) return refuse({ code: 'not_found', what: 'device' });
  if (if_match !== undefined && if_match !== old.revision)
    return refuse({ code: 'precondition_failed', revision: old.revision });
  if ((await tx.run(findMember, [org, to]))[0]?.is_member !== true)
    return refuse({ code: 'not_found', what: 'member' });
  const { user_id, trial, security_groups = [] } = old.record;
  if (user_id === to) {
    const device = stored<DeviceRecord>(old);
    return { device, entry: { ...subjectOf(device), unchanged: true } };
  }
  // The end of a trial writes the list as it was, which may hold groups of the old user.
  if (trial !== undefined) return refuse({ code: 'trial_pending', trial: trial.id });
  const [change] = await handOverDevices(context, locked, { by, from: user_id, to, device: id, detach });
  await leaveView(locked, security_groups, { by: by.user_id, at: now(context) });
  const state = records.device(id);
  if (state === undefined) return refuse({ code: 'unexpected' });
  const device = stored<DeviceRecord>(state);
  return { device, entry: { ...change, ...subjectOf(device) } };
}
