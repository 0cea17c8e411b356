/** Owns security groups in the store: who sees them, and how they are created, changed and deleted. */
import { setTimeout } from 'node:timers/promises';
import { forbidsOn } from '../../../organization/forbids.ts';
import { HeldGroups, holdersOf } from '../../../organization/held-groups.ts';
import { Closures } from '../../../organization/openings.ts';
import type { OrganizationDevice } from '../../../organization/organization.ts';
import {
  parseDeviceId,
  parseEnrollmentKeyId,
  parseGroupId,
  type GroupId,
  type OrganizationId,
} from '../../../policy/ids.ts';
import { serverRight, type Actor } from '../contract/actor.ts';
import { refuse, StoreError } from '../../problems.ts';
import type { GroupOwner, GroupPatch, Groups, NewGroup, SavedGroup } from '../contract/groups.ts';
import type { Expected } from '../contract/page.ts';
import type { GroupRecord, Stored } from '../contract/records.ts';
import { relink, updateDevice } from '../devices/statements.ts';
import { pageValues, rowsWithin, type Value } from '../postgres/sql.ts';
import { singleStatementItem, subjectOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { readRow, runOne, stored, type Item, type SingleStatementRow } from '../write/single-statement.ts';
import { now } from '../write/stamp.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { keepTrial, startTrial, trialText, type StartedTrial } from '../write/trial.ts';
import { transactionWrite } from '../write/writer.ts';
import { endKeys } from '../devices/enrollment-keys.ts';
import { makeDefaultGroup } from './default-group.ts';
import {
  devicesIn,
  fieldsBefore,
  groupPatchItem,
  newGroupItem,
  rangesIn,
  refuseApplication,
  rulesIn,
} from './items.ts';
import { refuseOpened } from '../devices/opening.ts';
import * as sql from './statements.ts';

const ownerValue = (owner: GroupOwner | undefined): string | null =>
  owner === undefined ? null : owner === 'organization' ? '' : owner;

type Place = Pick<Locked, 'tx' | 'org' | 'model'>;

/** A device that is named for the first time must be there; one that the group named before may be gone since. */
export async function checkPeers(
  { tx, model }: Place,
  named: ReadonlySet<string>,
  before: ReadonlySet<string>,
): Promise<void> {
  const asked = [...named].filter((id) => !before.has(id)).map(parseDeviceId);
  if (asked.length === 0) return;
  const { devices } = await model.read(tx);
  const unknown = asked.filter((id) => !devices.has(id));
  if (unknown.length > 0) refuse({ code: 'device_unknown', devices: unknown });
}

/** An answer names at most so many devices. */
const mostNamed = 1000;

const nameOf = ({ id, hostname }: OrganizationDevice) => ({ id, hostname });

/** Judged after the write, which is taken back where devices that have the group would have too many ranges. */
export async function refuseOverfull({ tx, model }: Place, id: string, limit: number): Promise<void> {
  const organization = await model.read(tx);
  const devices = await model.run(holdersOf(organization, parseGroupId(id), { beyond: limit }));
  if (devices.length > 0)
    refuse({ code: 'too_many_device_ranges', limit, devices: devices.slice(0, mostNamed).map(nameOf) });
}

/** Takes a group off every device that holds it, each with a revision of its own. */
async function takeOff(
  context: Context,
  { tx, org }: Locked,
  by: Actor,
  group: GroupId,
  holders: readonly OrganizationDevice[],
): Promise<void> {
  if (holders.length === 0) return;
  const at = now(context);
  const lists = holders.map(({ list }) => list.filter((id) => id !== group));
  // The write that it is part of was judged already, as what it is.
  const audit = by.audit && { ...by.audit, operation: 'updateDevice', fields: ['security_groups'] };
  const items = holders.map(({ id }, index) => ({
    id,
    at,
    actor: by.user_id,
    ...singleStatementItem(context, { right: serverRight, audit }),
    security_groups: lists[index],
    tested: true,
  }));
  for (const row of await tx.run(updateDevice.many, [org, JSON.stringify(items)]))
    readRow(row, 'device', context.quotas);
  await tx.run(relink, [holders.map(({ id }) => id), lists.map((list) => JSON.stringify(list))]);
}

interface Removal {
  readonly by: Actor;
  readonly owner: GroupOwner;
  readonly id: GroupId;
  readonly options: Expected & {
    readonly detach?: boolean | undefined;
    /** Devices that have it by label do not keep it: the caller judges which of them open. */
    readonly leaveByLabel?: boolean;
  };
}

/** Nothing but the end of its trial changes a record on trial. */
function refuseOnTrial(trial: string | null): void {
  if (trial !== null) refuse({ code: 'trial_pending', trial: (JSON.parse(trial) as { readonly id: string }).id });
}

const keyNameOf = ({ id, name }: { readonly id: string; readonly name: string }) => ({
  id: parseEnrollmentKeyId(id),
  name,
});

/** In a transaction that has judged the right. */
export async function removeGroup(
  context: Context,
  locked: Locked,
  { by, owner, id, options }: Removal,
): Promise<Removed> {
  const { tx, org } = locked;
  const [group] = await tx.run(sql.findGroup, [org, id]);
  if (group === undefined || (group.user_id ?? 'organization') !== owner)
    return refuse({ code: 'not_found', what: 'group' });
  if (options.if_match !== undefined && options.if_match !== group.revision)
    return refuse({ code: 'precondition_failed', revision: group.revision });
  refuseOnTrial(group.trial);
  const organization = await locked.model.read(tx);
  const having = await locked.model.run(holdersOf(organization, id));
  // Also one that had the group before a trial of its list: the end of the trial brings it back.
  const lists = ({ list, trial }: OrganizationDevice): boolean =>
    list.includes(id) || trial?.before?.security_groups.includes(id) === true;
  const holders = having.filter(lists);
  for (const { trial } of holders) if (trial !== undefined) refuse({ code: 'trial_pending', trial: trial.id });
  const keys = await tx.run(sql.findKeys, [org, id, now(context)]);
  // A guardrail may go at any time: no device falls back to the default group by that.
  const held = new HeldGroups(organization);
  const applies = (device: OrganizationDevice): boolean => held.of({ ...device, list: [], trial: undefined }).has(id);
  const byLabel = group.guardrail === null ? having.filter(applies) : [];
  const judgedByLabel = options.leaveByLabel === true ? [] : byLabel;
  const users = holders.length + keys.length + judgedByLabel.length;
  if (users > 0 && options.detach !== true) {
    const devices = new Map([...holders, ...byLabel].map((device) => [device.id, device]));
    return refuse({
      code: 'group_in_use',
      by: { list: holders.length > 0, label: judgedByLabel.length > 0 },
      devices: [...devices.values()].map(nameOf),
      enrollment_keys: keys.map(keyNameOf),
    });
  }
  await takeOff(context, locked, by, id, holders);
  // Without the group a key would admit devices that nothing closes: it ends with the group.
  if (keys.length > 0)
    await endKeys(
      context,
      locked,
      by,
      keys.map((key) => key.id),
    );
  const [gone] = await tx.run(sql.deleteGroup, [org, id, by.user_id, now(context)]);
  if (gone === undefined) return refuse({ code: 'unexpected' });
  const last = stored<GroupRecord>(gone);
  if (!group.is_default) return { last };
  return { last, fresh: (await makeDefaultGroup(context, tx, org, by.user_id)).record };
}

interface Removed {
  readonly last: Stored<GroupRecord>;
  /** What took its place: after a reset of the default group. */
  readonly fresh?: GroupRecord;
}

/** Whether a group names devices by its rules, or applies by label. */
const namesDevices = ({ inbound_rules, outbound_rules, applies_to = [] }: NewGroup): boolean =>
  applies_to.length > 0 || devicesIn(inbound_rules, outbound_rules).size > 0;

const readWritten = (row: SingleStatementRow | undefined, { quotas }: Pick<Context, 'quotas'>): SavedGroup =>
  row === undefined
    ? refuse({ code: 'unexpected' })
    : Object.assign(readRow<GroupRecord>(row, 'group', quotas), { mayBeVoid: row.told === true });

async function createNamed(
  context: Context,
  locked: Place,
  by: Actor,
  item: Item,
  trial?: StartedTrial,
): Promise<SavedGroup> {
  const { quotas } = context;
  const asked = trial === undefined ? item : { ...item, trial: trialText(trial, null) };
  const made = readWritten(await runOne(context, locked, by, sql.createGroupSelectors, asked), context);
  await refuseOverfull(locked, made.id, quotas.device_ranges);
  if (trial !== undefined) await keepTrial(locked, trial, { groups: [made.id], revision: made.revision });
  return made;
}

/** Judged after the write that made the group watch only: devices that come with a key are no more open than those that are here. */
export async function refuseOpenKeys(context: Context, { tx, org, model }: Place, id: string): Promise<void> {
  const closures = new Closures(await model.read(tx));
  const all = await tx.run(sql.findKeys, [org, id, now(context)]);
  const keys = all.filter(({ security_groups, labels }) => {
    const device = { list: security_groups.map(parseGroupId), labels };
    return !closures.isClosed(device, 'kept') || !closures.isClosed(device, 'ended');
  });
  if (keys.length > 0)
    refuse({
      code: 'group_in_use',
      by: { list: false, label: false },
      devices: [],
      enrollment_keys: keys.map(keyNameOf),
    });
}

interface NamedUpdate {
  readonly by: Actor;
  readonly id: GroupId;
  readonly item: Item;
  /** The devices that the new rules name, and that have to be there. */
  readonly named: ReadonlySet<string>;
  readonly patch: GroupPatch;
  /** Also where devices are left with the default group. */
  readonly detach: boolean;
  readonly trial: StartedTrial | undefined;
}

/** An update that names devices, changes which devices have the group, or is a trial. */
async function updateNamed(
  context: Context,
  locked: Place,
  { by, id, item, named, patch, detach, trial }: NamedUpdate,
): Promise<SavedGroup> {
  const { tx, org, model } = locked;
  const [old] = await tx.run(sql.findGroup, [org, id]);
  // A guardrail does not replace the default group: without it no device opens.
  const mayLeave =
    (patch.applies_to !== undefined || patch.mode === 'observe') &&
    old?.guardrail === null &&
    old.mode === 'enforce' &&
    !detach;
  const before = mayLeave ? await model.read(tx) : undefined;
  if (old?.is_default === true && (patch.applies_to ?? []).length > 0)
    return refuse({ code: 'application_refused', why: 'default_group', fields: ['applies_to'] });
  if (old?.is_default === true && patch.mode === 'observe')
    return refuse({ code: 'application_refused', why: 'default_mode', fields: ['mode'] });
  await checkPeers(
    locked,
    named,
    old === undefined ? named : devicesIn(rulesIn(old.inbound_rules), rulesIn(old.outbound_rules)),
  );
  const asked =
    trial === undefined || old === undefined ? item : { ...item, trial: trialText(trial, fieldsBefore(old, patch)) };
  const group = readWritten(await runOne(context, locked, by, sql.updateGroupSelectors, asked), context);
  // What changes nothing is no trial.
  if (trial !== undefined && group.revision !== old?.revision)
    await keepTrial(locked, trial, { groups: [id], revision: group.revision });
  await refuseOverfull(locked, id, context.quotas.device_ranges);
  if (before !== undefined) {
    await refuseOpened(locked, before);
    if (patch.mode === 'observe') await refuseOpenKeys(context, locked, id);
  }
  return group;
}

/** A write waits so long for what only warns, in milliseconds. */
const mostWarningMs = 1_000;

export function groupsIn(context: Context): Groups {
  const { reads, models, writer } = context;
  const read = (row: SingleStatementRow): SavedGroup => readWritten(row, context);
  return {
    async list(org: OrganizationId, query) {
      const values: Value[] = [
        org,
        query.reader ?? null,
        ownerValue(query.owner),
        query.gt_revision ?? 0,
        ...pageValues(query),
        query.bytes ?? null,
      ];
      return rowsWithin(await reads.run(sql.listGroups, values), stored<GroupRecord>);
    },

    async get(org, id, query) {
      const [row] = await reads.run(sql.getGroup, [org, query.reader ?? null, ownerValue(query.owner), id]);
      return row === undefined ? refuse({ code: 'not_found', what: 'group' }) : stored<GroupRecord>(row);
    },

    async find(org, ids, query) {
      const rows = await (query === undefined
        ? reads.run(sql.findGroups, [org, ids])
        : reads.run(sql.findVisibleGroups, [org, query.reader ?? null, ids]));
      return rows.map((row) => stored<GroupRecord>(row));
    },

    async create(org, by, owner, group, options = {}) {
      const item = newGroupItem(context, by, owner, context.newId(), group);
      const trial = options.trial && startTrial(context, by, options.trial);
      if (!namesDevices(group) && trial === undefined)
        return writer.write(org, {
          kind: 'single-statement',
          operation: sql.createGroup,
          item,
          by,
          conflictKeys: [],
          decode: read,
        });
      await models.warm(org);
      return writer.write(
        org,
        transactionWrite(context, by, async (tx, _head, model) => {
          const locked = { tx, org, model };
          await checkPeers(locked, devicesIn(group.inbound_rules, group.outbound_rules), new Set());
          return createNamed(context, locked, by, item, trial);
        }),
      );
    },

    async recreate(org, by, owner, id, group, options = {}) {
      const item = newGroupItem(context, by, owner, id, group);
      const trial = options.trial && startTrial(context, by, options.trial);
      await models.warm(org);
      const write = transactionWrite(context, by, async (tx, _head, model) => {
        if ((await tx.run(sql.takenGroupIds, [[id]])).length > 0) return refuse({ code: 'group_exists' });
        return createNamed(context, { tx, org, model }, by, item, trial);
      });
      return writer.write(org, write);
    },

    async update(org, by, owner, id, patch, options = {}) {
      refuseApplication(context, owner, patch);
      const item = groupPatchItem(context, by, { owner, id, patch, if_match: options.if_match });
      const named = devicesIn(patch.inbound_rules, patch.outbound_rules);
      const trial = options.trial && startTrial(context, by, options.trial);
      const asTransaction = async () => {
        await models.warm(org);
        // An earlier state may name a deleted device. A restore keeps that name, and it matches no device.
        const needed = options.restores === true ? new Set<string>() : named;
        const detach = options.detach === true;
        const write = transactionWrite(context, by, (tx, _head, model) =>
          updateNamed(context, { tx, org, model }, { by, item, named: needed, patch, id, detach, trial }),
        );
        return writer.write(org, write);
      };
      const movesDevices = patch.applies_to !== undefined || patch.mode !== undefined;
      if (named.size > 0 || movesDevices || trial !== undefined) return asTransaction();
      const ranges = rangesIn(patch);
      // One device may hold several groups that grow: each counts what the others before it left.
      const writesRules = (patch.inbound_rules ?? patch.outbound_rules) !== undefined;
      const conflictKeys = writesRules ? [id, 'ranges'] : [id];
      try {
        // A direction that is not given stays as it is, and one without ranges has none more.
        const mayGrow = (ranges.inbound ?? 0) + (ranges.outbound ?? 0) > 0;
        const operation = mayGrow ? sql.updateGroup : sql.updateGroupNoLarger;
        return await writer.write(org, { kind: 'single-statement', operation, item, by, conflictKeys, decode: read });
      } catch (error) {
        // All groups of the organization together have more ranges than a device may have: now it is looked at devices.
        if (!(error instanceof StoreError) || error.problem.code !== 'too_many_device_ranges') throw error;
        return asTransaction();
      }
    },

    async forbidsOn(org, id) {
      const finding = async () => models.run(forbidsOn(await models.read(org), id));
      const timer = new AbortController();
      const late = setTimeout(mostWarningMs, undefined, { signal: timer.signal });
      // The write has happened, whatever becomes of its warnings.
      return Promise.race([finding(), late])
        .catch(() => undefined)
        .finally(() => timer.abort());
    },

    async bytesOf(org) {
      return Number((await reads.run(sql.sumBytes, [org]))[0]?.bytes ?? 0);
    },

    async sameName(org, owner, name, id) {
      const rows = await reads.run(sql.findSameName, [org, name, ownerValue(owner), id]);
      return rows.map((row) => parseGroupId(row.id));
    },

    async expiring(org, { from, until }) {
      const rows = await reads.run(sql.findExpiringRules, [
        org,
        new Date(from).toISOString(),
        new Date(until).toISOString(),
      ]);
      return rows.map(({ id, group_name, expires_at, rules, since }) => ({
        group_id: parseGroupId(id),
        group_name,
        expires_at,
        rules,
        since: new Date(since).getTime(),
      }));
    },

    async delete(org, by, owner, id, options = {}) {
      await models.warm(org);
      const { last } = await inOrganization(
        context,
        org,
        by,
        (locked) => removeGroup(context, locked, { by, owner, id, options }),
        (removed) => ({
          ...subjectOf(removed.last),
          ...(removed.fresh && { before: removed.last.record, after: removed.fresh }),
        }),
      );
      return last;
    },
  };
}
