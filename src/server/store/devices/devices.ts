/** Owns devices in the store: their fields, their lists of groups, and how they are created, changed and deleted. */
import { holdRevision } from '../../../organization/decide/decision.ts';
import type { DevicePatch, DeviceUpdate } from '../../../organization/decide/device.ts';
import { refuseOverfullDevice } from '../../../organization/decide/outcome.ts';
import {
  parseDeviceId,
  parseTokenId,
  parseUserId,
  parseGroupId,
  type GroupId,
  type OrganizationId,
  type UserId,
  type DeviceId,
} from '../../../policy/ids.ts';
import type { Actor } from '../data/actor.ts';
import type { NewDevice, UpdateDeviceOptions, MoveDeviceOptions } from '../data/devices.ts';
import { refuse } from '../../problems.ts';
import type { DeviceRecord, Stored } from '../data/records.ts';
import { pageValues, rowsWithin, type Value } from '../postgres/sql.ts';
import { createDevice, updateDevice } from '../write/records/devices.ts';
import { keyDigest } from '../write/records/records.ts';
import { subjectOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { decidingIn } from '../write/run-transaction.ts';
import { now } from '../write/stamp.ts';
import { stored } from '../write/stored.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { keepTrial, startTrial } from '../write/trial.ts';
import { transactionWrite } from '../write/writer.ts';
import { checkList } from './group-list.ts';
import { enterView, leaveView } from './group-views.ts';
import { moveDevice } from './hand-over.ts';
import { ownedBy } from './owned.ts';
import { refuseIsolated } from './isolated.ts';
import { refuseOpened } from './opening.ts';
import type { RevisionPage, Rows, Expected } from '../data/page.ts';
import * as sql from './statements.ts';

interface ListWrite {
  /** The device's user; undefined when there is no such device, which the write will say. */
  readonly user: string | undefined;
  readonly list: readonly GroupId[];
  readonly oldList: readonly string[];
  readonly by: Actor;
  /** Writes the device; the list where it may be so. */
  readonly write: (list: readonly GroupId[] | undefined) => Promise<Stored<DeviceRecord>>;
}

/**
 * A write that gives a list, between the groups that enter everyone's view and those that leave it. Where the list has problems, the device is judged without
 * it: what that refuses comes first.
 */
async function writeList(
  context: Context,
  locked: Locked,
  { user, list, oldList, by, write }: ListWrite,
): Promise<Stored<DeviceRecord>> {
  const applied = { by: by.user_id, at: now(context) };
  const checked = user === undefined ? undefined : await checkList(locked, context, { user, list, oldList });
  if (checked?.problems.length !== 0) {
    await write(undefined);
    return refuse({ code: 'group_list_invalid', problems: checked?.problems ?? [] });
  }
  await enterView(locked, checked.entering, applied);
  const device = await write(list);
  await checkRanges(context, locked, device.id);
  await leaveView(locked, checked.leaving, applied);
  return device;
}

const sameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((id, index) => id === b[index]);

interface ListUpdate extends DeviceUpdate {
  readonly by: Actor;
  readonly list: readonly GroupId[];
  /** Also where the device is left with no group that enforces. */
  readonly detach: boolean;
}

async function updateList(context: Context, locked: Locked, asked: ListUpdate): Promise<Stored<DeviceRecord>> {
  const { id, by, list, trial, detach, patch } = asked;
  const { records, model, tx } = locked;
  await records.load({ devices: [id] });
  const old = records.device(id)?.record;
  const oldList = old?.security_groups ?? [];
  const before = detach ? undefined : await model.read(tx);
  const write = async (given: readonly GroupId[] | undefined): Promise<Stored<DeviceRecord>> => {
    const { security_groups: _given, ...rest } = patch;
    const device = await updateOne(context, locked, by, {
      ...asked,
      patch: given === undefined ? rest : { ...rest, security_groups: given },
    });
    if (given !== undefined && trial !== undefined && !sameList(list, oldList))
      await keepTrial(locked, trial, { devices: [id], revision: device.revision });
    return device;
  };
  const device = await writeList(context, locked, { user: old?.user_id, list, oldList, by, write });
  // A list that is given empty asks for it.
  const emptied = new Set(list.length === 0 ? [id] : []);
  if (before !== undefined) await refuseOpened(locked, before, { emptied, among: [parseDeviceId(id)] });
  return device;
}

/** The device is loaded. */
async function updateOne(
  context: Context,
  locked: Locked,
  by: Actor,
  update: DeviceUpdate,
): Promise<Stored<DeviceRecord>> {
  const { public_key } = update.patch;
  if (public_key !== undefined) await locked.records.load({ keys: [keyDigest(locked.org, public_key)] });
  const deciding = await decidingIn(context, locked, by);
  const device = updateDevice(deciding, update);
  await deciding.accept();
  return device;
}

/** What a device has by list and by label together: judged after the write, which is taken back where it is too much. */
async function checkRanges(
  { quotas }: Context,
  { tx, model }: Pick<Locked, 'tx' | 'model'>,
  id: string,
): Promise<void> {
  refuseOverfullDevice(await model.read(tx), id, quotas.device_ranges);
}

/** Takes one use of an enrollment key: the device becomes the key's user's with the key's labels, and one that names no groups gets the key's. */
async function useKey(
  context: Context,
  { tx, org }: Pick<Locked, 'tx' | 'org'>,
  key: string,
  device: NewDevice,
): Promise<NewDevice> {
  const [row] = await tx.run(sql.useKey, [org, key, now(context)]);
  if (row === undefined) return refuse({ code: 'enrollment_key_spent' });
  const preset = row.security_groups.map((id) => parseGroupId(id));
  return {
    ...device,
    user_id: parseUserId(row.user_id),
    fields: { ...device.fields, labels: row.labels },
    security_groups: device.security_groups.length > 0 ? device.security_groups : preset,
  };
}

/** In a transaction that has judged the right. */
export async function removeDevice(
  context: Context,
  locked: Locked,
  id: string,
  if_match: number | undefined,
  by: Actor,
): Promise<{ gone: Stored<DeviceRecord>; tokens: readonly string[] }> {
  const { tx, records } = locked;
  await records.load({ devices: [id] });
  const old = records.device(id);
  if (old === undefined) return refuse({ code: 'not_found', what: 'device' });
  holdRevision(if_match, old);
  await refuseIsolated(context, locked, by, [old.record]);
  const tokens = await tx.run(sql.revokeDeviceTokens, [[id]]);
  const made = { by: by.user_id, at: now(context) };
  const gone = stored<DeviceRecord>(records.removeDevice(id, made));
  await leaveView(locked, old.record.security_groups ?? [], made);
  return { gone, tokens: tokens.map(({ token_id }) => token_id) };
}

/** Characters, about. */
const sizeOf = (fields: object): number => JSON.stringify(fields).length;

/**
 * Only an owner may change labels (`labels_by_owner`), and the addresses of a device that has labels or is isolated
 * (`address_by_owner`). Anybody who may change the device may repeat the current value. Only an owner may isolate a
 * device or delete an isolated one (`isolated_by_owner`).
 */
export function devicesIn(context: Context) {
  const { reads, models, writer } = context;
  return {
    async list(org: OrganizationId, query?: RevisionPage): Promise<Rows<Stored<DeviceRecord>>> {
      const page: Value[] = [org, ...pageValues(query), query?.bytes ?? null];
      const since = query?.gt_revision ?? 0;
      const rows = await (since > 0
        ? reads.run(sql.listDevicesSince, [...page, since])
        : reads.run(sql.listDevices, page));
      return rowsWithin(rows, stored<DeviceRecord>);
    },

    /** The devices of one member. */
    async ofUser(org: OrganizationId, user: UserId): Promise<readonly DeviceId[]> {
      const { devices } = await ownedBy(reads, org, user);
      return devices.map(parseDeviceId);
    },

    async get(org: OrganizationId, id: DeviceId): Promise<Stored<DeviceRecord>> {
      const [row] = await reads.run(sql.findDevices, [org, [id]]);
      return row === undefined ? refuse({ code: 'not_found', what: 'device' }) : stored<DeviceRecord>(row);
    },

    /** Devices by their ids. Those that are gone are absent. */
    async find(org: OrganizationId, ids: readonly DeviceId[]): Promise<readonly Stored<DeviceRecord>[]> {
      return (await reads.run(sql.findDevices, [org, ids])).map((row) => stored<DeviceRecord>(row));
    },

    async create(org: OrganizationId, by: Actor, device: NewDevice): Promise<Stored<DeviceRecord>> {
      const { enrollment_key, fields, user_id } = device;
      const id = context.newId();
      const keys = [keyDigest(org, fields.public_key)];
      if (device.security_groups.length === 0 && fields.labels.length === 0 && enrollment_key === undefined)
        return writer.write(org, {
          kind: 'record',
          by,
          needs: { keys, whose: user_id },
          size: sizeOf(fields),
          decide: (deciding) => createDevice(deciding, { id, device }),
        });
      await models.warm(org);
      const run = async (locked: Locked): Promise<Stored<DeviceRecord>> => {
        // Labels of a key are set in the name of its user: a user who is no owner any more does not go on by a key that was made before.
        const asked = enrollment_key === undefined ? device : await useKey(context, locked, enrollment_key, device);
        const { user_id: user, security_groups: list } = asked;
        await locked.records.load({ keys });
        return writeList(context, locked, {
          user,
          list,
          oldList: [],
          by,
          async write(given) {
            const deciding = await decidingIn(context, locked, by, { whose: user });
            const made = createDevice(deciding, { id, device: asked, ...(given && { list: given }) });
            await deciding.accept();
            return made;
          },
        });
      };
      return writer.write(org, transactionWrite(by, run, { onlyReads: enrollment_key === undefined }));
    },

    async update(
      org: OrganizationId,
      by: Actor,
      id: DeviceId,
      patch: DevicePatch,
      options: UpdateDeviceOptions = {},
    ): Promise<Stored<DeviceRecord>> {
      const list = patch.security_groups;
      const trial = options.trial && startTrial(context, by, options.trial);
      const update = { id, patch, if_match: options.if_match, trial };
      const { public_key, labels } = patch;
      if (list === undefined && labels === undefined)
        return writer.write(org, {
          kind: 'record',
          by,
          needs: { devices: [id], keys: public_key === undefined ? [] : [keyDigest(org, public_key)] },
          size: sizeOf(patch),
          decide: (deciding) => updateDevice(deciding, update),
        });
      await models.warm(org);
      const detach = options.detach === true;
      const run = async (locked: Locked): Promise<Stored<DeviceRecord>> => {
        if (list !== undefined) return updateList(context, locked, { ...update, by, list, detach });
        // Labels may take the last group from the device, or give it more.
        const before = detach ? undefined : await locked.model.read(locked.tx);
        await locked.records.load({ devices: [id] });
        const device = await updateOne(context, locked, by, update);
        await checkRanges(context, locked, id);
        if (before !== undefined) await refuseOpened(locked, before, { among: [id] });
        return device;
      };
      return writer.write(org, transactionWrite(by, run, { onlyReads: trial === undefined }));
    },

    /**
     * Gives the device, with its tokens, to another user, who must be a member when the write commits (`not_found`, `member`). The groups of the old user
     * leave its list. While its list is on trial: `trial_pending`.
     */
    async move(
      org: OrganizationId,
      by: Actor,
      id: DeviceId,
      to: UserId,
      options: MoveDeviceOptions = {},
    ): Promise<Stored<DeviceRecord>> {
      await models.warm(org);
      const { device } = await inOrganization(
        context,
        org,
        by,
        (locked) => moveDevice(context, locked, by, id, to, options),
        ({ entry }) => entry,
      );
      return device;
    },

    /** Its tokens go with it. */
    async delete(org: OrganizationId, by: Actor, id: DeviceId, options: Expected = {}): Promise<Stored<DeviceRecord>> {
      const { gone, tokens } = await inOrganization(
        context,
        org,
        by,
        (locked) => removeDevice(context, locked, id, options.if_match, by),
        (result) => subjectOf(result.gone),
      );
      if (tokens.length > 0) context.hints.tell({ credentials: tokens.map((token) => parseTokenId(token)) });
      return gone;
    },
  };
}

export type Devices = ReturnType<typeof devicesIn>;
