/**
 * Owns the writing of a change set in one transaction. Groups come first, then devices, then deletions, so that no
 * reader of the log meets a device that names an unknown group. Checks that depend on several records run at the end
 * (`outcome.ts`).
 */
import { parseGroupId, parseTokenId, parseUserId, type TokenId } from '../../../policy/ids.ts';
import { rightRoles, serverRight, type Actor } from '../contract/actor.ts';
import type { ChangeOperation, DeviceChange, GroupChange, RecordChange } from '../contract/change/change-sets.ts';
import { refuse, StoreError, type StoreProblem } from '../../problems.ts';
import type { GroupOwner, GroupPatch, SavedGroup } from '../contract/groups.ts';
import type { DeviceRecord, GroupBefore, GroupRecord, Stored } from '../contract/records.ts';
import { devicePatchItem, removeDevice } from '../devices/devices.ts';
import { checkList, type CheckedList } from '../devices/group-list.ts';
import { enterView, leaveView } from '../devices/group-views.ts';
import { relink, updateDevice } from '../devices/statements.ts';
import { removeGroup } from '../groups/groups.ts';
import { groupPatchItem, modeBefore, newGroupItem, refuseApplication } from '../groups/items.ts';
import { createGroupSelectors, takenGroupIds, updateGroupSelectors } from '../groups/statements.ts';
import { withRevision } from '../postgres/sql.ts';
import { subjectOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import {
  readRow,
  type Item,
  type SingleStatementOperation,
  type SingleStatementRow,
} from '../write/single-statement.ts';
import { acceptByWriting } from '../write/pending-ownership.ts';
import { now } from '../write/stamp.ts';
import { keepTrial, startTrial, trialText, type StartedTrial } from '../write/trial.ts';
import type { Locked } from '../write/transaction.ts';
import { recordChanges } from './record-changes.ts';
import { judgeOutcome } from './outcome.ts';
import { holdPartRight, notePart, partActor, type ChangeSetWrite, type PartNote } from './part.ts';
import * as sql from './statements.ts';

type List = Extract<StoreProblem, { readonly code: 'change_refused' }>['list'];

export interface AppliedChanges {
  readonly groups: readonly SavedGroup[];
  readonly devices: readonly Stored<DeviceRecord>[];
  readonly deleted: readonly string[];
  /** Every record that the transaction changed, as it was and as it is. */
  readonly changes: readonly RecordChange[];
  /** The last revision that it took; the head where it took none. */
  readonly revision: number;
  /** Tokens of deleted devices. */
  readonly tokens: readonly TokenId[];
}

/** Runs a part of the set. A refusal names this part. */
async function inPart<T>(list: List, index: number, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreError) || error.problem.code === 'change_refused') throw error;
    throw new StoreError({ code: 'change_refused', list, index, problem: error.problem });
  }
}

class ChangeSetTransaction {
  readonly #context: Context;
  readonly #locked: Locked;
  readonly #write: ChangeSetWrite;
  readonly #trial: StartedTrial | undefined;

  constructor(context: Context, locked: Locked, write: ChangeSetWrite) {
    this.#context = context;
    this.#locked = locked;
    this.#write = write;
    this.#trial = write.options.trial && startTrial(context, write.by, write.options.trial);
  }

  async run(): Promise<AppliedChanges> {
    const { tx, org, head } = this.#locked;
    const { set, options } = this.#write;
    const deletedGroups = set.deletes.flatMap(({ kind, id }) => (kind === 'security-groups' ? [id] : []));
    const deletedDevices = set.deletes.flatMap(({ kind, id }) => (kind === 'device' ? [id] : []));
    const groupIds = [...set.groups.flatMap(({ id }) => id ?? []), ...deletedGroups];
    const deviceIds = [...set.devices.map(({ id }) => id), ...deletedDevices];
    const before = {
      groups: byId(await tx.run(sql.groupsBefore, [org, groupIds])),
      devices: byId(await tx.run(sql.devicesBefore, [org, deviceIds, deletedGroups])),
    };
    if (this.#isForOwners(before)) await acceptByWriting(this.#context, tx, org, this.#write.by);
    const organization = await this.#locked.model.read(tx);

    const groups = await this.#writeGroups(before.groups);
    const devices = await this.#writeDevices(before.devices);
    const tokens = await this.#deleteRecords(before.groups);
    await this.#keepTrial(groups, devices);

    const created = groups.flatMap(({ id }, index) => (set.groups[index]?.type === 'create' ? [id] : []));
    const changes = recordChanges(await tx.run(sql.loggedSince, [org, head]), before, new Set(created));
    await judgeOutcome(this.#context, this.#locked, {
      set,
      groups,
      before,
      organization,
      emptied: this.#emptied(),
      restores: options.restores === true,
      detach: options.detach === true,
      inPart,
    });
    const named = new Set<string>(set.devices.map(({ id }) => id));
    const others = changes.records.flatMap(({ kind, id, after }) =>
      kind === 'device' && after !== undefined && !named.has(id) ? [changes.stored(id)] : [],
    );
    return {
      groups,
      devices: [...devices, ...others],
      deleted: set.deletes.map(({ id }) => id),
      changes: changes.records,
      revision: changes.head ?? head,
      tokens,
    };
  }

  /** Whether a part is for owners only: then whoever writes the set does so as an owner. */
  #isForOwners({
    groups,
    devices,
  }: {
    readonly groups: ReadonlyMap<string, sql.GroupRow>;
    readonly devices: ReadonlyMap<string, sql.DeviceRow>;
  }): boolean {
    const { set, by } = this.#write;
    if (by.right.roles === rightRoles.server) return false;
    const isOthers = (id: string): boolean => (groups.get(id) ?? devices.get(id))?.user_id !== by.user_id;
    return (
      set.groups.some((one) => (one.type === 'create' ? one.owner === 'organization' : isOthers(one.id))) ||
      set.devices.some(({ id, patch }) => isOthers(id) || patch.labels !== undefined) ||
      set.deletes.some(({ id }) => isOthers(id))
    );
  }

  /** The devices whose own list the set empties: that asks for it. A revert asks for nothing. */
  #emptied(): ReadonlySet<string> {
    const { set, options } = this.#write;
    const emptied =
      options.restores === true ? [] : set.devices.filter(({ patch }) => patch.security_groups?.length === 0);
    return new Set(emptied.map(({ id }) => id));
  }

  /** What changes nothing is not on trial. */
  async #keepTrial(groups: readonly SavedGroup[], devices: readonly Stored<DeviceRecord>[]): Promise<void> {
    const trial = this.#trial;
    if (trial === undefined) return;
    const isTried = ({ record }: Stored<GroupRecord | DeviceRecord>): boolean => record.trial?.id === trial.id;
    const tried = { groups: groups.filter(isTried), devices: devices.filter(isTried) };
    const revision = Math.max(0, ...[...tried.groups, ...tried.devices].map((one) => one.revision));
    const idsOf = (some: readonly { readonly id: string }[]): readonly string[] => some.map(({ id }) => id);
    const ids = { groups: idsOf(tried.groups), devices: idsOf(tried.devices), revision };
    if (revision > 0) await keepTrial(this.#locked, trial, ids);
  }

  /** The trial of a record, as one more value of its write. */
  #tried(before: object | null): Item {
    return this.#trial === undefined ? {} : { trial: trialText(this.#trial, before) };
  }

  #actor(operation: ChangeOperation, more?: PartNote): Actor {
    return partActor(this.#write, operation, more);
  }

  /** One statement for all items; the rows in the order of the items. */
  async #runSet(
    operation: SingleStatementOperation,
    items: readonly Item[],
  ): Promise<ReadonlyMap<string, SingleStatementRow>> {
    if (items.length === 0) return new Map();
    const { tx, org } = this.#locked;
    // Policy tests are looked at after the whole set.
    const tested = items.map((item) => ({ ...item, tested: true, accepted: true }));
    return byId(await tx.run(operation.many, [org, JSON.stringify(tested)]));
  }

  async #writeGroups(before: ReadonlyMap<string, sql.GroupRow>): Promise<readonly SavedGroup[]> {
    const { set } = this.#write;
    const ids = set.groups.map((one) => one.id ?? parseGroupId(this.#context.newId()));
    await this.#checkNewIds();
    const items = await Promise.all(
      set.groups.map((one, index) =>
        inPart('security_groups', index, () => this.#groupItem(one, ids[index] ?? '', before)),
      ),
    );
    const of = (type: GroupChange['type']): Item[] => items.filter((_, index) => set.groups[index]?.type === type);
    const rows = new Map([
      ...(await this.#runSet(createGroupSelectors, of('create'))),
      ...(await this.#runSet(updateGroupSelectors, of('update'))),
    ]);
    const groups: SavedGroup[] = [];
    for (const [index, id] of ids.entries()) {
      groups.push(
        await inPart('security_groups', index, () => {
          const row = rows.get(id) ?? refuse({ code: 'unexpected' });
          const group = readRow<GroupRecord>(row, 'group', this.#context.quotas);
          return Object.assign(group, { mayBeVoid: row.told === true });
        }),
      );
    }
    return groups;
  }

  /** A new group may bring its id, so that devices of the same set can list it; but never one that means another record to somebody. */
  async #checkNewIds(): Promise<void> {
    const { tx, org } = this.#locked;
    const { set, options } = this.#write;
    const chosen = set.groups.flatMap((one) => (one.type === 'create' && one.id !== undefined ? [one.id] : []));
    if (chosen.length === 0) return;
    const rows = await (options.restores === true
      ? tx.run(takenGroupIds, [chosen])
      : tx.run(sql.usedGroupIds, [org, chosen]));
    const used = new Set<string>(rows.map(({ id }) => id));
    for (const [index, { id }] of set.groups.entries()) {
      if (id === undefined || set.groups[index]?.type !== 'create' || !used.has(id)) continue;
      const code = options.restores === true ? ('group_exists' as const) : ('group_id_used' as const);
      await inPart('security_groups', index, () => refuse({ code }));
    }
  }

  #groupItem(one: GroupChange, id: string, before: ReadonlyMap<string, sql.GroupRow>): Item {
    const context = this.#context;
    if (one.type === 'create') {
      const isOwn = one.owner !== 'organization';
      const made = isOwn ? 'createUserSecurityGroup' : 'createSecurityGroup';
      const name = this.#write.options.restores === true ? 'restoreSecurityGroup' : made;
      const item = newGroupItem(
        context,
        this.#actor('createSecurityGroup', { fields: one.fields, name }),
        one.owner,
        id,
        one.group,
      );
      return { ...item, ...this.#tried(null) };
    }
    const old = before.get(one.id) ?? refuse({ code: 'not_found', what: 'group' });
    const owner = ownerOf(old);
    refuseApplication(context, owner, one.patch);
    if (old.is_default && (one.patch.applies_to ?? []).length > 0)
      return refuse({ code: 'application_refused', why: 'default_group', fields: ['applies_to'] });
    if (old.is_default && one.patch.mode === 'observe')
      return refuse({ code: 'application_refused', why: 'default_mode', fields: ['mode'] });
    const item = groupPatchItem(context, this.#actor('updateSecurityGroup', { fields: one.fields }), { ...one, owner });
    return { ...item, ...this.#tried(groupBefore(old, one.patch)) };
  }

  async #writeDevices(before: ReadonlyMap<string, sql.DeviceRow>): Promise<readonly Stored<DeviceRecord>[]> {
    const { tx, org } = this.#locked;
    const { by, set } = this.#write;
    if (set.devices.length === 0) return [];
    const applied = { by: by.user_id, at: now(this.#context) };
    const lists = new Map<number, CheckedList>();
    for (const [index, { id, patch }] of set.devices.entries()) {
      const old = before.get(id);
      if (patch.security_groups === undefined || old === undefined) continue;
      const asked = {
        user: old.user_id,
        list: patch.security_groups,
        oldList: old.security_groups,
        trial: this.#trial?.id,
      };
      lists.set(index, await checkList(this.#locked, this.#context, asked));
    }
    const isValid = (index: number): boolean => (lists.get(index)?.problems ?? []).length === 0;
    const valid = [...lists].flatMap(([index, list]) => (isValid(index) ? [list] : []));
    await enterView(this.#locked, unique(valid.flatMap(({ entering }) => entering)), applied);
    const rows = await this.#updateDevices(isValid, before);
    const devices: Stored<DeviceRecord>[] = [];
    for (const [index, { id }] of set.devices.entries()) {
      devices.push(
        await inPart('devices', index, () => {
          const device = readRow<DeviceRecord>(
            rows.get(id) ?? refuse({ code: 'unexpected' }),
            'device',
            this.#context.quotas,
          );
          // What the statement refuses comes before what the list has wrong.
          if (!isValid(index))
            return refuse({ code: 'group_list_invalid', problems: lists.get(index)?.problems ?? [] });
          return device;
        }),
      );
    }
    const listed = set.devices.filter(({ patch }) => patch.security_groups !== undefined);
    if (listed.length > 0)
      await tx.run(relink, [
        listed.map(({ id }) => id),
        listed.map(({ id, patch }) =>
          JSON.stringify(
            this.#trial === undefined
              ? patch.security_groups
              : unique([...(patch.security_groups ?? []), ...(before.get(id)?.security_groups ?? [])]),
          ),
        ),
      ]);
    await leaveView({ tx, org }, unique(valid.flatMap(({ leaving }) => leaving)), applied);
    return devices;
  }

  async #updateDevices(
    isValid: (index: number) => boolean,
    before: ReadonlyMap<string, sql.DeviceRow>,
  ): Promise<ReadonlyMap<string, SingleStatementRow>> {
    const { org } = this.#locked;
    const { set } = this.#write;
    const itemOf = ({ id, patch, fields, if_match }: DeviceChange, index: number): Item => {
      // Whether a device opens and how many ranges it has is judged when everything is written.
      const item = devicePatchItem(this.#context, org, this.#actor('updateDevice', { fields }), id, patch, {
        if_match,
      });
      return {
        ...item,
        ...(isValid(index) && patch.security_groups && { security_groups: patch.security_groups }),
        ...this.#tried({ security_groups: before.get(id)?.security_groups ?? [] }),
      };
    };
    const items = await Promise.all(
      set.devices.map((one, index) => inPart('devices', index, () => itemOf(one, index))),
    );
    const hasKey = (index: number): boolean => set.devices[index]?.patch.public_key !== undefined;
    const rows = new Map(
      await this.#runSet(
        updateDevice,
        items.filter((_, index) => !hasKey(index)),
      ),
    );
    // Keys are unique, and one of them may become free for the next.
    for (const [index, item] of items.entries())
      if (hasKey(index)) for (const [id, row] of await this.#runSet(updateDevice, [item])) rows.set(id, row);
    return rows;
  }

  /** Devices first: then they hold no group that goes. */
  async #deleteRecords(before: ReadonlyMap<string, sql.GroupRow>): Promise<readonly TokenId[]> {
    const { set, options, by } = this.#write;
    const context = this.#context;
    const tokens: string[] = [];
    for (const [index, one] of set.deletes.entries()) {
      if (one.kind !== 'device') continue;
      await inPart('delete', index, async () => {
        const actor = this.#actor('deleteDevice');
        await holdPartRight(context, this.#locked, actor, { kind: 'device', id: one.id });
        const { gone, tokens: ended } = await removeDevice(this.#locked, one.id, undefined, by, now(context));
        tokens.push(...ended);
        await notePart(context, this.#locked, actor, subjectOf(gone));
      });
    }
    for (const [index, one] of set.deletes.entries()) {
      if (one.kind !== 'security-groups') continue;
      await inPart('delete', index, async () => {
        const old = before.get(one.id) ?? refuse({ code: 'not_found', what: 'group' });
        if (old.is_default) refuse({ code: 'not_found', what: 'group' });
        const actor = this.#actor('deleteSecurityGroup');
        await holdPartRight(context, this.#locked, actor, { kind: 'group', id: one.id });
        const removal = {
          by: { ...actor, right: serverRight },
          owner: ownerOf(old),
          id: one.id,
          // The way back from the creation of a group: whether it opens a device is judged when everything is written.
          options: { detach: options.detach, leaveByLabel: options.restores === true },
        };
        const { last } = await removeGroup(context, this.#locked, removal);
        await notePart(context, this.#locked, actor, subjectOf(last));
      });
    }
    return tokens.map((token) => parseTokenId(token));
  }
}

/** A record leaves out what is empty; what a trial brings back says it. */
function groupBefore({ body, revision }: sql.GroupRow, patch: GroupPatch): GroupBefore {
  const record = JSON.parse(withRevision(body, revision)) as GroupRecord;
  const { group_name, group_description, inbound_rules = [], outbound_rules = [], applies_to = [], mode } = record;
  return { group_name, group_description, inbound_rules, outbound_rules, applies_to, ...modeBefore(mode, patch.mode) };
}

const ownerOf = ({ user_id }: sql.GroupRow): GroupOwner => (user_id === null ? 'organization' : parseUserId(user_id));

const byId = <Row extends { readonly id: string }>(rows: readonly Row[]): ReadonlyMap<string, Row> =>
  new Map(rows.map((row) => [row.id, row]));

const unique = (ids: readonly string[]): readonly string[] => [...new Set(ids)];

/** Writes the set in a transaction that holds the organization's head. When this throws, the caller rolls the transaction back. */
export const applyChangeSet = (context: Context, locked: Locked, write: ChangeSetWrite): Promise<AppliedChanges> =>
  new ChangeSetTransaction(context, locked, write).run();
