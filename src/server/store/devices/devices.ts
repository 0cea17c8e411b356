/** Owns devices in the store: their fields, their lists of groups, and what those lists mean for who sees a group. */
import { createHash } from 'node:crypto';
import { parseDeviceId, parseGroupId, parseTokenId, parseUserId, type GroupId } from '../../../policy/ids.ts';
import { quickItem } from '../write/audit-entry.ts';
import { inOrganization, now, pageValues, refuse, type Context, type Ledger } from '../write/context.ts';
import * as sql from './statements.ts';
import { StoreError, type GroupListProblem } from '../contract/errors.ts';
import { enterView, findGroups, findLeft, leaveView } from '../groups/statements.ts';
import { asItem, readRow, stored, toldOf, type QuickRow } from '../write/quick.ts';
import type { DeviceFields, DeviceRecord, Stored } from '../contract/records.ts';
import type { Value } from '../postgres/sql.ts';
import type { DevicePatch, Devices, NewDevice } from '../contract/devices.ts';
import type { Phase } from '../contract/phase.ts';

/** How many groups a device's list may hold (reference 8). */
export const listLimit: Readonly<Record<Phase, number>> = { 1: 0, 2: 1, 3: 64 };

/** What makes a public key unique within its organization, in one column. */
const keyDigest = (org: string, key: string): string => createHash('sha256').update(`${org}\n${key}`).digest('hex');

const patchedDigest = (org: string, { public_key }: DevicePatch): string | null =>
  public_key === undefined ? null : keyDigest(org, public_key);

/** The fields as statements take them: absent ones are null. */
function fieldItem(fields: Partial<DeviceFields>) {
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
  };
}

const newParts = (context: Context, { user_id, fields, token }: NewDevice, key_digest: string) =>
  [
    fieldItem(fields),
    {
      user_id,
      key_digest,
      at: now(context),
      token_id: token === undefined ? null : context.newId(),
      token_digest: token === undefined ? null : Buffer.from(token.digest).toString('hex'),
      token_name: token?.name ?? null,
    },
  ] as const;

const patchParts = (context: Context, patch: DevicePatch, key_digest: string | null) =>
  [fieldItem(patch), { prefix_given: patch.child_prefix !== undefined, key_digest, at: now(context) }] as const;

/** Fails with every problem of the list at once. Gives the groups that enter everyone's view with this device. */
export async function checkList(
  ledger: Ledger,
  phase: Phase,
  user: string,
  list: readonly GroupId[],
): Promise<readonly string[]> {
  const allowed = listLimit[phase];
  const problems: GroupListProblem[] = list.length > allowed ? [{ index: -1, code: 'too_many', allowed }] : [];
  const found = new Map((await ledger.tx.run(findGroups, [ledger.org, list])).map((group) => [group.id, group]));
  list.forEach((id, index) => {
    const group = found.get(id);
    if (group === undefined || (group.user_id !== null && group.user_id !== user))
      problems.push({ index, code: 'unknown_group', group: id });
    else if (group.is_default) problems.push({ index, code: 'default_group', group: id });
    else if (list.indexOf(id) < index) problems.push({ index, code: 'duplicate', group: id });
  });
  if (problems.length > 0) throw new StoreError({ code: 'group_list_invalid', problems });
  return list.filter((id) => found.get(id)?.user_id !== null && found.get(id)?.is_applied === false);
}

/** A group that becomes visible comes before the device that holds it, so that no reader meets an unknown group. */
async function enter(ledger: Ledger, groups: readonly string[]): Promise<void> {
  for (const id of groups) await ledger.tx.run(enterView, [ledger.org, id, ledger.take()]);
}

/** And it leaves after the last device that held it. */
async function leave(ledger: Ledger, candidates: readonly string[]): Promise<void> {
  if (candidates.length === 0) return;
  for (const { id } of await ledger.tx.run(findLeft, [ledger.org, candidates])) {
    await ledger.tx.run(leaveView, [ledger.org, id, ledger.take()]);
  }
}

async function admit(context: Context, ledger: Ledger, device: NewDevice): Promise<Stored<DeviceRecord>> {
  const { org, tx } = ledger;
  let user: string = device.user_id;
  let list = device.security_groups;
  if (device.enrollment_key !== undefined) {
    const [key] = await tx.run(sql.useKey, [org, device.enrollment_key, now(context)]);
    if (key === undefined) return refuse({ code: 'enrollment_key_spent' });
    user = key.user_id;
    if (list.length === 0) {
      const left = await tx.run(findGroups, [org, key.security_groups]);
      list = key.security_groups.filter((id) => left.some((group) => group.id === id)).map((id) => parseGroupId(id));
    }
  }
  const digest = keyDigest(org, device.fields.public_key);
  const item = asItem(context.newId(), ...newParts(context, { ...device, user_id: parseUserId(user) }, digest));
  if ((await tx.run(sql.isMember, [org, user])).length === 0) return refuse({ code: 'not_a_member' });
  const entering = await checkList(ledger, context.phase, user, list);
  if ((await tx.run(sql.findByKey, [Buffer.from(digest, 'hex')])).length > 0)
    return refuse({ code: 'public_key_taken' });
  await enter(ledger, entering);
  const [row] = await tx.run(sql.insertDevice, [org, JSON.stringify(item), list, ledger.take()]);
  return row === undefined ? refuse({ code: 'unexpected' }) : stored(row);
}

interface Change {
  readonly id: string;
  readonly patch: DevicePatch;
  readonly list: readonly GroupId[];
  readonly if_match: number | undefined;
}

async function change(
  context: Context,
  ledger: Ledger,
  { id, patch, list, if_match }: Change,
): Promise<Stored<DeviceRecord>> {
  const { org, tx } = ledger;
  const [old] = await tx.run(sql.getDevice, [org, id]);
  if (old === undefined) return refuse({ code: 'not_found', what: 'device' });
  if (if_match !== undefined && if_match !== old.revision)
    return refuse({ code: 'precondition_failed', revision: old.revision });
  const entering = await checkList(ledger, context.phase, old.user_id, list);
  const digest = patchedDigest(org, patch);
  if (digest !== null && patch.public_key !== old.public_key) {
    const taken = await tx.run(sql.findByKey, [Buffer.from(digest, 'hex')]);
    if (taken.length > 0) return refuse({ code: 'public_key_taken' });
  }
  // A group enters only with a changed list, so a device that stays as it is takes no revision here either.
  await enter(ledger, entering);
  const item = asItem(id, ...patchParts(context, patch, digest));
  const [row] = await tx.run(sql.putDevice, [org, JSON.stringify(item), list, ledger.take()]);
  if (row === undefined) {
    ledger.takeMany(-1);
    return stored(old);
  }
  await tx.run(sql.relink, [id, list]);
  await leave(
    ledger,
    old.security_groups.filter((group) => !list.some((kept) => kept === group)),
  );
  return stored(row);
}

async function remove(
  ledger: Ledger,
  id: string,
  if_match: number | undefined,
): Promise<{ gone: Stored<DeviceRecord>; tokens: readonly string[] }> {
  const { org, tx } = ledger;
  const [old] = await tx.run(sql.getDevice, [org, id]);
  if (old === undefined) return refuse({ code: 'not_found', what: 'device' });
  if (if_match !== undefined && if_match !== old.revision)
    return refuse({ code: 'precondition_failed', revision: old.revision });
  const tokens = await tx.run(sql.endTokensOfDevice, [id]);
  const [row] = await tx.run(sql.deleteDevice, [org, id, ledger.take()]);
  if (row === undefined) return refuse({ code: 'unexpected' });
  await leave(ledger, old.security_groups);
  return { gone: stored(row), tokens: tokens.map(({ token_id }) => token_id) };
}

export function devicesIn(context: Context): Devices {
  const { reads, writes, writer } = context;
  const read = (row: QuickRow): Stored<DeviceRecord> => readRow<DeviceRecord>(row, 'device');
  return {
    async list(org, query) {
      const page: Value[] = [org, ...pageValues(query)];
      const since = query?.gt_revision ?? 0;
      const rows = await (since > 0
        ? reads.run(sql.listDevicesSince, [...page, since])
        : reads.run(sql.listDevices, page));
      return rows.map((row) => stored<DeviceRecord>(row));
    },

    async get(org, id) {
      const [row] = await reads.run(sql.getDevice, [org, id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'device' }) : stored<DeviceRecord>(row);
    },

    async create(org, by, device) {
      if (device.security_groups.length > 0 || device.enrollment_key !== undefined) {
        return inOrganization(context, org, by, (ledger) => admit(context, ledger, device), toldOf);
      }
      const digest = keyDigest(org, device.fields.public_key);
      const parts = newParts(context, device, digest);
      const item = asItem(context.newId(), ...parts, { actor: by.user_id }, quickItem(context, by.audit));
      return writer.write(org, {
        kind: 'quick',
        operation: sql.createDevice,
        item,
        touches: [digest],
        decode: read,
      });
    },

    async update(org, by, id, patch, options = {}) {
      const { if_match } = options;
      const list = patch.security_groups;
      if (list !== undefined) {
        return inOrganization(
          context,
          org,
          by,
          (ledger) => change(context, ledger, { id, patch, list, if_match }),
          toldOf,
        );
      }
      const digest = patchedDigest(org, patch);
      const asked = patchParts(context, patch, digest);
      const rest = { expected: if_match ?? null, actor: by.user_id };
      const item = asItem(id, ...asked, rest, quickItem(context, by.audit));
      const touches = digest === null ? [id] : [id, digest];
      return writer.write(org, { kind: 'quick', operation: sql.updateDevice, item, touches, decode: read });
    },

    async delete(org, by, id, options = {}) {
      const { gone, tokens } = await inOrganization(
        context,
        org,
        by,
        (ledger) => remove(ledger, id, options.if_match),
        (result) => toldOf(result.gone),
      );
      if (tokens.length > 0) context.hints.tell({ credentials: tokens.map((token) => parseTokenId(token)) });
      return gone;
    },

    async report(org, id, status) {
      const rows = await writes.run(sql.reportStatus, [org, id, JSON.stringify(status ?? null), now(context)]);
      if (rows.length === 0) refuse({ code: 'not_found', what: 'device' });
    },

    async statuses(org, query) {
      const rows = await reads.run(sql.listStatuses, [org, ...pageValues(query)]);
      return rows.map(({ device_id, status, reported_at }) => ({
        device_id: parseDeviceId(device_id),
        reported_at,
        status: JSON.parse(status) as unknown,
      }));
    },
  };
}
