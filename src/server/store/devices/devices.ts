/** Owns devices in the store: their fields, their lists of groups, and how they are created, changed and deleted. */
import { createHash } from 'node:crypto';
import { parseDeviceId, parseTokenId, parseUserId, parseGroupId, type GroupId } from '../../../policy/ids.ts';
import type { Actor } from '../contract/actor.ts';
import type { DevicePatch, Devices, NewDevice, UpdateDeviceOptions as UpdateOptions } from '../contract/devices.ts';
import { refuse } from '../../problems.ts';
import type { DeviceFields, DeviceRecord, Stored } from '../contract/records.ts';
import { pageValues, rowsWithin, type Value } from '../postgres/sql.ts';
import { singleStatementItem, subjectOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import {
  asItem,
  readRow,
  runOne,
  stored,
  type SingleStatementOperation,
  type SingleStatementRow,
} from '../write/single-statement.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { keepTrial, startTrial, trialText, type StartedTrial } from '../write/trial.ts';
import { transactionWrite } from '../write/writer.ts';
import { identityColumns } from './body.ts';
import { HeldGroups } from '../../../organization/held-groups.ts';
import { checkList } from './group-list.ts';
import { enterView, leaveView } from './group-views.ts';
import { moveDevice } from './hand-over.ts';
import { refuseIsolated } from './isolated.ts';
import { refuseOpened } from './opening.ts';
import * as sql from './statements.ts';

/** What makes a public key unique within its organization, in one column. */
const keyDigest = (org: string, key: string): string => createHash('sha256').update(`${org}\n${key}`).digest('hex');

/** The fields as statements take them: absent ones are null. */
function fieldItem(fields: Partial<DeviceFields> & Pick<DevicePatch, 'isolated'>) {
  const { child_prefix } = fields;
  return {
    public_key: fields.public_key ?? null,
    local_ip: fields.local_ip ?? null,
    tunnel_ip: fields.tunnel_ip ?? null,
    child_prefix: child_prefix === undefined || child_prefix === null ? null : JSON.stringify(child_prefix),
    relay: fields.relay ?? null,
    discovery: fields.discovery ?? null,
    reflexive_ip4: fields.reflexive_ip4 ?? null,
    endpoint_local_address_ip4: fields.endpoint_local_address_ip4 ?? null,
    symmetric_nat: fields.symmetric_nat ?? null,
    hostname: fields.hostname ?? null,
    addresses: fields.addresses ?? null,
    labels: fields.labels ?? null,
    isolated: fields.isolated === undefined ? null : fields.isolated === null ? '' : JSON.stringify(fields.isolated),
  };
}

type Item = ReturnType<typeof asItem>;

function newItem(context: Context, org: string, by: Actor, { user_id, fields, token }: NewDevice): Item {
  const rest = {
    user_id,
    key_digest: keyDigest(org, fields.public_key),
    at: now(context),
    token_id: token === undefined ? null : context.newId(),
    token_digest: token === undefined ? null : Buffer.from(token.digest).toString('hex'),
    token_name: token?.name ?? null,
    actor: by.user_id,
    most: context.quotas.devices,
  };
  return asItem(context.newId(), fieldItem({ ...fields, isolated: null }), rest, singleStatementItem(context, by));
}

export function devicePatchItem(
  context: Context,
  org: string,
  by: Actor,
  id: string,
  patch: DevicePatch,
  options: UpdateOptions,
): Item {
  const rest = {
    expected: options.if_match ?? null,
    prefix_given: patch.child_prefix !== undefined,
    key_digest: patch.public_key === undefined ? null : keyDigest(org, patch.public_key),
    at: now(context),
    actor: by.user_id,
  };
  return asItem(id, fieldItem(patch), rest, singleStatementItem(context, by));
}

/** The statement that does what is asked, and prepares nothing else. */
function updateFor(patch: DevicePatch): SingleStatementOperation {
  const isMore = patch.public_key !== undefined || identityColumns.some((name) => patch[name] !== undefined);
  return isMore ? sql.updateDevice : sql.updateEndpoint;
}

const reader =
  ({ quotas }: Context) =>
  (row: SingleStatementRow | undefined): Stored<DeviceRecord> =>
    row === undefined ? refuse({ code: 'unexpected' }) : readRow<DeviceRecord>(row, 'device', quotas);

type Place = Pick<Locked, 'tx' | 'org' | 'model'>;

interface ListWrite {
  /** Absent: the write makes the device. */
  readonly id?: string;
  readonly operation: SingleStatementOperation;
  readonly item: Item;
  /** The device's user; undefined when there is no such device, which the statement will say. */
  readonly user: string | undefined;
  readonly list: readonly GroupId[];
  readonly oldList: readonly string[];
  readonly by: Actor;
  readonly trial?: StartedTrial | undefined;
  /** Also where the device is left with no group that enforces. */
  readonly detach?: boolean | undefined;
}

const sameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((id, index) => id === b[index]);

/**
 * A write that gives a list: the same statement as without, with the list as one more value, between the groups that enter everyone's view
 * and those that leave it. Where the list has problems, the statement is run without it: what it refuses comes first.
 */
async function writeList(
  context: Context,
  locked: Place,
  { id, operation, item, user, list, oldList, by, trial, detach }: ListWrite,
): Promise<Stored<DeviceRecord>> {
  const { tx } = locked;
  const applied = { by: by.user_id, at: now(context) };
  const checked = user === undefined ? undefined : await checkList(locked, context, { user, list, oldList });
  const valid = checked?.problems.length === 0;
  const before = id === undefined || detach === true ? undefined : await locked.model.read(tx);
  if (valid) await enterView(locked, checked.entering, applied);
  const asked = {
    ...item,
    security_groups: list,
    ...(trial && { trial: trialText(trial, { security_groups: oldList }) }),
  };
  const device = reader(context)(await runOne(context, locked, by, operation, valid ? asked : item));
  if (!valid) return refuse({ code: 'group_list_invalid', problems: checked?.problems ?? [] });
  const isTried = trial !== undefined && !sameList(list, oldList);
  if (isTried) await keepTrial(locked, trial, { devices: [device.id], revision: device.revision });
  // The groups before a trial stay with the device: it may need them again at any moment.
  const held = isTried ? [...new Set([...list, ...oldList])] : list;
  await tx.run(sql.relink, [[device.id], [JSON.stringify(held)]]);
  await checkRanges(context, locked, device.id);
  // A list that is given empty asks for it.
  const emptied = new Set(list.length === 0 ? [device.id] : []);
  if (before !== undefined) await refuseOpened(locked, before, { emptied, among: [parseDeviceId(device.id)] });
  await leaveView(locked, checked.leaving, applied);
  return device;
}

/** What a device has by list and by label together: judged after the write, which is taken back where it is too much. */
async function checkRanges({ quotas }: Context, { tx, model }: Place, id: string): Promise<void> {
  const allowed = quotas.device_ranges;
  const organization = await model.read(tx);
  const device = organization.devices.get(parseDeviceId(id));
  const ranges = device === undefined ? 0 : new HeldGroups(organization).rangesOf(device);
  if (ranges > allowed)
    refuse({ code: 'group_list_invalid', problems: [{ index: -1, code: 'too_many_ranges', allowed, ranges }] });
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
  { org, tx }: Locked,
  id: string,
  if_match: number | undefined,
  actor: Actor,
  at: string,
): Promise<{ gone: Stored<DeviceRecord>; tokens: readonly string[] }> {
  const [old] = await tx.run(sql.getDevice, [org, id]);
  if (old === undefined) return refuse({ code: 'not_found', what: 'device' });
  if (if_match !== undefined && if_match !== old.revision)
    return refuse({ code: 'precondition_failed', revision: old.revision });
  const by = actor.user_id;
  await refuseIsolated(tx, actor, [org, id, null]);
  const tokens = await tx.run(sql.revokeDeviceTokens, [id]);
  const [row] = await tx.run(sql.deleteDevice, [org, id, by, at]);
  if (row === undefined) return refuse({ code: 'unexpected' });
  await leaveView({ org, tx }, old.security_groups, { by, at });
  return { gone: stored(row), tokens: tokens.map(({ token_id }) => token_id) };
}

export function devicesIn(context: Context): Devices {
  const { reads, models, writer } = context;
  const read = reader(context);
  return {
    async list(org, query) {
      const page: Value[] = [org, ...pageValues(query), query?.bytes ?? null];
      const since = query?.gt_revision ?? 0;
      const rows = await (since > 0
        ? reads.run(sql.listDevicesSince, [...page, since])
        : reads.run(sql.listDevices, page));
      return rowsWithin(rows, stored<DeviceRecord>);
    },

    async ofUser(org, user) {
      const rows = await reads.run(sql.devicesOfUser, [org, user]);
      return rows.map(({ id }) => parseDeviceId(id));
    },

    async get(org, id) {
      const [row] = await reads.run(sql.getDevice, [org, id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'device' }) : stored<DeviceRecord>(row);
    },

    async find(org, ids) {
      return (await reads.run(sql.findDevices, [org, ids])).map((row) => stored<DeviceRecord>(row));
    },

    async create(org, by, device) {
      const { enrollment_key } = device;
      if (device.security_groups.length === 0 && device.fields.labels.length === 0 && enrollment_key === undefined) {
        const item = newItem(context, org, by, device);
        const conflictKeys = [keyDigest(org, device.fields.public_key)];
        return writer.write(org, {
          kind: 'single-statement',
          operation: sql.createDevice,
          item,
          by,
          conflictKeys,
          decode: read,
        });
      }
      await models.warm(org);
      const write = transactionWrite(context, by, async (tx, _head, model) => {
        const locked = { tx, org, model };
        // Labels of a key are set in the name of its user: a user who is no owner any more does not go on by a key that was made before.
        const asked = enrollment_key === undefined ? device : await useKey(context, locked, enrollment_key, device);
        const item = newItem(context, org, by, asked);
        const { user_id: user, security_groups: list } = asked;
        return writeList(context, locked, { operation: sql.createDevice, item, user, list, oldList: [], by });
      });
      return writer.write(org, write);
    },

    async update(org, by, id, patch, options = {}) {
      const list = patch.security_groups;
      const trial = options.trial && startTrial(context, by, options.trial);
      const item = devicePatchItem(context, org, by, id, patch, options);
      if (list === undefined && patch.labels === undefined) {
        const conflictKeys = patch.public_key === undefined ? [id] : [id, keyDigest(org, patch.public_key)];
        const operation = updateFor(patch);
        return writer.write(org, { kind: 'single-statement', operation, item, by, conflictKeys, decode: read });
      }
      await models.warm(org);
      const write = transactionWrite(context, by, async (tx, _head, model) => {
        const locked = { tx, org, model };
        const { detach } = options;
        if (list !== undefined) {
          const [old] = await tx.run(sql.getDevice, [org, id]);
          const { user_id: user, security_groups: oldList = [] } = old ?? {};
          const operation = sql.updateDevice;
          return writeList(context, locked, { id, operation, item, user, list, oldList, by, trial, detach });
        }
        // Labels may take the last group from the device, or give it more.
        const before = detach === true ? undefined : await model.read(tx);
        const device = read(await runOne(context, locked, by, sql.updateDevice, item));
        await checkRanges(context, locked, id);
        if (before !== undefined) await refuseOpened(locked, before, { among: [id] });
        return device;
      });
      return writer.write(org, write);
    },

    async move(org, by, id, to, options = {}) {
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

    async delete(org, by, id, options = {}) {
      const { gone, tokens } = await inOrganization(
        context,
        org,
        by,
        (locked) => removeDevice(locked, id, options.if_match, by, now(context)),
        (result) => subjectOf(result.gone),
      );
      if (tokens.length > 0) context.hints.tell({ credentials: tokens.map((token) => parseTokenId(token)) });
      return gone;
    },
  };
}
