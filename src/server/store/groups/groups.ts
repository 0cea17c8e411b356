/** Owns security groups in the store: who sees them, and how they are created, changed and deleted. */
import { holdRevision } from '../../../organization/decide/decision.ts';
import {
  type GroupOwner,
  type GroupPatch,
  type NewGroup,
  devicesIn,
  mayLeaveDevices,
  ownerOf,
  refuseApplication,
  refuseCreation,
  refuseForDefault,
  type GroupCreation,
  type GroupUpdate,
} from '../../../organization/decide/group.ts';
import { holdersToLeave, refuseOpenKeys, refuseOverfull, refuseUnknown } from '../../../organization/decide/outcome.ts';
import { setTimeout } from 'node:timers/promises';
import { forbidsOn, type StandingForbids } from '../../../organization/forbids.ts';
import type { OrganizationDevice } from '../../../organization/organization.ts';
import { parseGroupId, type GroupId, type OrganizationId } from '../../../policy/ids.ts';

import { serverRight, type Actor } from '../data/actor.ts';
import { countNamed } from '../../../organization/read-records.ts';
import { refuse, StoreError } from '../../problems.ts';
import type { SavedGroup, GroupReader, AsTrial, ExpiringRules } from '../data/groups.ts';
import type { Expected, RevisionPage, Rows } from '../data/page.ts';
import type { GroupRecord, Stored } from '../data/records.ts';
import { pageValues, rowsWithin, type Value } from '../postgres/sql.ts';
import { updateDevice } from '../write/records/devices.ts';
import { createGroup, updateGroup } from '../write/records/groups.ts';
import { subjectOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { decidingIn } from '../write/run-transaction.ts';
import { now } from '../write/stamp.ts';
import { stored } from '../write/stored.ts';
import { inOrganization, type Locked } from '../write/transaction.ts';
import { keepTrial, startTrial } from '../write/trial.ts';
import { transactionWrite } from '../write/writer.ts';
import { endKeys, keysWith } from '../devices/enrollment-keys.ts';
import { makeDefaultGroup } from './default-group.ts';
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
  if ([...named].every((id) => before.has(id))) return;
  refuseUnknown(await model.read(tx), named, before);
}

/** Judged after the write, which is taken back where devices that have the group would have too many ranges. */
async function checkOverfull({ tx, model }: Place, id: string, limit: number): Promise<void> {
  await model.run(refuseOverfull(await model.read(tx), id, limit));
}

/** Takes a group off every device that holds it, each with a revision of its own. The write that it is part of was judged already, as what it is. */
async function takeOff(
  context: Context,
  locked: Locked,
  by: Actor,
  group: GroupId,
  holders: readonly OrganizationDevice[],
): Promise<void> {
  if (holders.length === 0) return;
  await locked.records.load({ devices: holders.map(({ id }) => id) });
  const audit = by.audit && { ...by.audit, operation: 'updateDevice', fields: ['security_groups'] };
  const deciding = await decidingIn(context, locked, { ...by, right: serverRight, audit });
  for (const { id, list } of holders)
    updateDevice(deciding, { id, patch: { security_groups: list.filter((one) => one !== group) } });
}

interface Removal {
  readonly by: Actor;
  readonly owner: GroupOwner;
  readonly id: GroupId;
  readonly options: Expected & {
    readonly detach?: boolean | undefined;
    /** Devices that have it by label do not keep it: the caller judges which of them open. */
    readonly leaveByLabel?: boolean;
    /** Its trial ends by that. */
    readonly onTrial?: boolean;
  };
}

/** In a transaction that has judged the right. */
export async function removeGroup(
  context: Context,
  locked: Locked,
  { by, owner, id, options }: Removal,
): Promise<Removed> {
  const { tx, org, records, model } = locked;
  await records.load({ groups: [id] });
  const group = records.group(id);
  if (group === undefined || ownerOf(group.record) !== owner) return refuse({ code: 'not_found', what: 'group' });
  const { trial, guardrail, is_default } = group.record;
  holdRevision(options.if_match, group);
  // Nothing but the end of its trial changes a record on trial.
  if (trial !== undefined && options.onTrial !== true) refuse({ code: 'trial_pending', trial: trial.id });
  const keys = await keysWith(context, locked, id);
  const { detach = false, leaveByLabel = false } = options;
  const holders = await model.run(holdersToLeave(await model.read(tx), { id, guardrail, keys, detach, leaveByLabel }));
  await takeOff(context, locked, by, id, holders);
  // Without the group a key would admit devices that nothing closes: it ends with the group.
  if (keys.length > 0)
    await endKeys(
      context,
      locked,
      by,
      keys.map((key) => key.id),
    );
  const made = { by: by.user_id, at: now(context) };
  const last = stored<GroupRecord>(records.removeGroup(id, made));
  if (is_default !== true) return { last };
  // There is never more than one.
  await records.flush();
  return { last, fresh: stored<GroupRecord>(makeDefaultGroup(records, { id: context.newId(), org, ...made })).record };
}

interface Removed {
  readonly last: Stored<GroupRecord>;
  /** What took its place: after a reset of the default group. */
  readonly fresh?: GroupRecord;
}

/** Whether a group names devices by its rules, or applies by label. */
const namesDevices = ({ inbound_rules, outbound_rules, applies_to = [] }: NewGroup): boolean =>
  applies_to.length > 0 || devicesIn(inbound_rules, outbound_rules).size > 0;

async function createNamed(context: Context, locked: Locked, by: Actor, creation: GroupCreation): Promise<SavedGroup> {
  const { owner, trial } = creation;
  const deciding = await decidingIn(context, locked, by, { whose: owner === 'organization' ? undefined : owner });
  const made = createGroup(deciding, creation);
  await deciding.accept();
  await checkOverfull(locked, made.id, context.quotas.device_ranges);
  if (trial !== undefined) await keepTrial(locked, trial, { groups: [made.id], revision: made.revision });
  return made;
}

/** Judged after the write that made the group watch only. */
export async function checkOpenKeys(context: Context, locked: Place, id: string): Promise<void> {
  const keys = await keysWith(context, locked, id);
  await locked.model.run(refuseOpenKeys(await locked.model.read(locked.tx), keys));
}

interface NamedUpdate extends GroupUpdate {
  readonly by: Actor;
  /** The devices that the new rules name, and that have to be there. */
  readonly named: ReadonlySet<string>;
  /** Also where devices are left with the default group. */
  readonly detach: boolean;
}

/** An update that names devices, changes which devices have the group, or is a trial. */
async function updateNamed(context: Context, locked: Locked, asked: NamedUpdate): Promise<SavedGroup> {
  const { by, id, named, patch, detach, trial } = asked;
  const { records, model, tx } = locked;
  await records.load({ groups: [id] });
  const old = records.group(id);
  const mayLeave = !detach && mayLeaveDevices(old?.record ?? {}, patch);
  const before = mayLeave ? await model.read(tx) : undefined;
  refuseForDefault(old?.record ?? {}, patch);
  await checkPeers(
    locked,
    named,
    old === undefined ? named : devicesIn(old.record.inbound_rules, old.record.outbound_rules),
  );
  const deciding = await decidingIn(context, locked, by);
  const group = updateGroup(deciding, asked);
  await deciding.accept();
  // What changes nothing is no trial.
  if (trial !== undefined && group.revision !== old?.revision)
    await keepTrial(locked, trial, { groups: [id], revision: group.revision });
  await checkOverfull(locked, id, context.quotas.device_ranges);
  if (before !== undefined) {
    await refuseOpened(locked, before);
    if (patch.mode === 'observe') await checkOpenKeys(context, locked, id);
  }
  return group;
}

/** Characters, about. */
const sizeOf = (fields: GroupPatch): number => JSON.stringify(fields).length;

/** A write waits so long for what only warns, in milliseconds. */
const mostWarningMs = 1_000;

/**
 * Devices that rules name as peers must be in the organization when the rules are written (`device_unknown`); those that the group named before may be
 * gone, and so may those of a state that is restored. A group that applies by label is the organization's, not the default one, in phase 3 (`application_refused`).
 */
export function groupsIn(context: Context) {
  const { reads, models, writer } = context;
  return {
    /** The organization's groups that `reader` may see; `owner` narrows. */
    async list(
      org: OrganizationId,
      query: RevisionPage & { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
    ): Promise<Rows<Stored<GroupRecord>>> {
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

    /** One group that `reader` may see; `not_found` otherwise. */
    async get(
      org: OrganizationId,
      id: GroupId,
      query: { readonly reader: GroupReader; readonly owner?: GroupOwner | undefined },
    ): Promise<Stored<GroupRecord>> {
      const values = [org, query.reader ?? null, ownerValue(query.owner), [id], false];
      const [row] = await reads.run(sql.findGroups, values);
      return row === undefined ? refuse({ code: 'not_found', what: 'group' }) : stored<GroupRecord>(row);
    },

    /** Groups of the organization by their ids; with a query only those that this reader may see. Those that are gone are absent. */
    async find(
      org: OrganizationId,
      ids: readonly GroupId[],
      query?: { readonly reader: GroupReader },
    ): Promise<readonly Stored<GroupRecord>[]> {
      const rows = await reads.run(sql.findGroups, [org, query?.reader ?? null, null, ids, query === undefined]);
      return rows.map((row) => stored<GroupRecord>(row));
    },

    /** Fails with `phase_forbids` in phase 1. A user's group needs the user to be a member. */
    async create(
      org: OrganizationId,
      by: Actor,
      owner: GroupOwner,
      group: NewGroup,
      options: AsTrial = {},
    ): Promise<SavedGroup> {
      // A refusal that applies in every state of the organization comes before one that depends on its state.
      refuseCreation(context.phase, owner, group);
      const trial = options.trial && startTrial(context, by, options.trial);
      const creation = { id: context.newId(), owner, group, trial };
      if (!namesDevices(group) && trial === undefined)
        return writer.write(org, {
          kind: 'record',
          by,
          needs: { whose: owner === 'organization' ? undefined : owner },
          size: sizeOf(group),
          decide: (deciding) => createGroup(deciding, creation),
        });
      await models.warm(org);
      const run = async (locked: Locked): Promise<SavedGroup> => {
        await checkPeers(locked, devicesIn(group.inbound_rules, group.outbound_rules), new Set());
        return createNamed(context, locked, by, creation);
      };
      return writer.write(org, transactionWrite(by, run, { onlyReads: trial === undefined }));
    },

    /**
     * Brings a deleted group back under its id, as it was once. `group_exists` when there is one, here or in another organization.
     */
    async recreate(
      org: OrganizationId,
      by: Actor,
      owner: GroupOwner,
      id: GroupId,
      group: NewGroup,
      options: AsTrial = {},
    ): Promise<SavedGroup> {
      refuseCreation(context.phase, owner, group);
      const trial = options.trial && startTrial(context, by, options.trial);
      await models.warm(org);
      const write = transactionWrite(by, async (locked) => {
        const [used] = await locked.tx.run(sql.usedGroupIds, [org, [id]]);
        if (used?.is_taken === true) return refuse({ code: 'group_exists' });
        return createNamed(context, locked, by, { id, owner, group, trial });
      });
      return writer.write(org, write);
    },

    /**
     * `not_found` unless the group belongs to `owner`. `would_open` where a device that has the group would have none, by label or because the group becomes watch only, unless `detach`.
     * `restores`: the patch is what the group was once.
     */
    async update(
      org: OrganizationId,
      by: Actor,
      owner: GroupOwner,
      id: GroupId,
      patch: GroupPatch,
      options: Expected & AsTrial & { readonly restores?: boolean; readonly detach?: boolean | undefined } = {},
    ): Promise<SavedGroup> {
      refuseApplication(context.phase, owner, patch);
      const named = devicesIn(patch.inbound_rules, patch.outbound_rules);
      const trial = options.trial && startTrial(context, by, options.trial);
      const asked = { id, owner, patch, if_match: options.if_match, trial };
      const afterwards = async () => {
        await models.warm(org);
        // An earlier state may name a deleted device. A restore keeps that name, and it matches no device.
        const needed = options.restores === true ? new Set<string>() : named;
        const update = { ...asked, by, named: needed, detach: options.detach === true };
        const run = (locked: Locked): Promise<SavedGroup> => updateNamed(context, locked, update);
        return writer.write(org, transactionWrite(by, run, { onlyReads: trial === undefined }));
      };
      const movesDevices = patch.applies_to !== undefined || patch.mode !== undefined;
      if (named.size > 0 || movesDevices || trial !== undefined) return afterwards();
      try {
        return await writer.write(org, {
          kind: 'record',
          by,
          // A direction that is not given stays as it is, and one without ranges has none more.
          needs: {
            groups: [id],
            ranges: countNamed([...(patch.inbound_rules ?? []), ...(patch.outbound_rules ?? [])]) > 0,
          },
          size: sizeOf(patch),
          decide: (deciding) => updateGroup(deciding, { ...asked, ranges: deciding.ranges }),
        });
      } catch (error) {
        // All groups of the organization together have more ranges than a device may have: now it is looked at devices.
        if (!(error instanceof StoreError) || error.problem.code !== 'too_many_device_ranges') throw error;
        return afterwards();
      }
    },

    /**
     * The `forbid` guardrails on devices that have a group, each set of them once with the number of its devices, the most common first; where no
     * device has it, those on all devices. At most a few sets. Undefined where that is not found out quickly.
     */
    async forbidsOn(org: OrganizationId, id: GroupId): Promise<readonly StandingForbids[] | undefined> {
      const finding = async () => models.run(forbidsOn(await models.read(org), id));
      const timer = new AbortController();
      const late = setTimeout(mostWarningMs, undefined, { signal: timer.signal });
      // The write has happened, whatever becomes of its warnings.
      return Promise.race([finding(), late])
        .catch(() => undefined)
        .finally(() => timer.abort());
    },

    /** The bytes of all groups of the organization together. */
    async bytesOf(org: OrganizationId): Promise<number> {
      return Number((await reads.run(sql.sumBytes, [org]))[0]?.bytes ?? 0);
    },

    /** Groups of the owner that have this name, other than the group itself; at most a few. */
    async sameName(org: OrganizationId, owner: GroupOwner, name: string, id: GroupId): Promise<readonly GroupId[]> {
      const rows = await reads.run(sql.findSameName, [org, name, ownerValue(owner), id]);
      return rows.map((row) => parseGroupId(row.id));
    },

    /** Rules that expire between two moments, in milliseconds since the epoch; at most a thousand moments. */
    async expiring(
      org: OrganizationId,
      { from, until }: { readonly from: number; readonly until: number },
    ): Promise<readonly ExpiringRules[]> {
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

    /**
     * Gives the record as last known with the revision of its deletion. Held by devices, by list or by label, or enrollment keys: `group_in_use`, or with
     * `detach` the group is taken off its devices first, each with a revision of its own, and the keys end. The default group is *reset*: it goes, and a
     * fresh one with another id comes in the same transaction (the next revision).
     */
    async delete(
      org: OrganizationId,
      by: Actor,
      owner: GroupOwner,
      id: GroupId,
      options: Expected & { readonly detach?: boolean | undefined } = {},
    ): Promise<Stored<GroupRecord>> {
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
        { onlyReads: true },
      );
      return last;
    },
  };
}

export type Groups = ReturnType<typeof groupsIn>;
