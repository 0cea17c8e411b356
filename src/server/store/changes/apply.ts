/**
 * Owns the writing of a change set in one transaction. Groups come first, then devices, then deletions, so that no
 * reader of the log meets a device that names an unknown group. Checks that depend on several records run at the end
 * (`outcome.ts`).
 */
import { rightRoles, type Caller } from '../../../organization/decide/caller.ts';
import { ownerOf, refuseApplication, refuseCreation, refuseForDefault } from '../../../organization/decide/group.ts';
import type { CheckedList } from '../../../organization/decide/list.ts';
import type { StartedTrial } from '../../../organization/decide/records.ts';
import { parseTokenId, type TokenId } from '../../../policy/ids.ts';
import { serverRight, type Actor } from '../data/actor.ts';
import type { ChangeOperation, Deletion, GroupChange, RecordChange } from '../data/change-sets.ts';
import { refuse, StoreError, type StoreProblem } from '../../problems.ts';
import type { SavedGroup } from '../data/groups.ts';
import type { DeviceRecord, GroupRecord, Stored } from '../data/records.ts';
import { removeDevice } from '../devices/devices.ts';
import { checkList } from '../devices/group-list.ts';
import { enterView, leaveView } from '../devices/group-views.ts';
import { removeGroup } from '../groups/groups.ts';
import { usedGroupIds } from '../groups/statements.ts';
import type { Deciding } from '../write/records/deciding.ts';
import { updateDevice } from '../write/records/devices.ts';
import { createGroup, updateGroup } from '../write/records/groups.ts';
import { keyDigest, type DeviceState, type GroupState } from '../write/records/records.ts';
import { subjectOf } from '../write/audit-entry.ts';
import type { Context } from '../write/context.ts';
import { acceptByWriting } from '../write/members.ts';
import { decidingIn } from '../write/run-transaction.ts';
import { now } from '../write/stamp.ts';
import { stored } from '../write/stored.ts';
import { keepTrial, startTrial } from '../write/trial.ts';
import type { Locked } from '../write/transaction.ts';
import { recordChanges, type RecordsBefore } from './record-changes.ts';
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
    const { tx, head, records } = this.#locked;
    const { set, options, by } = this.#write;
    const before = await this.#before();
    if (this.#isForOwners(before)) await acceptByWriting(this.#context, this.#locked, by);
    const organization = await this.#locked.model.read(tx);

    const groups = await this.#writeGroups(before.groups);
    const devices = await this.#writeDevices(before.devices);
    const tokens = await this.#deleteRecords(before.groups);
    await this.#keepTrial(groups, devices);

    const created = groups.flatMap(({ id }, index) => (set.groups[index]?.type === 'create' ? [id] : []));
    const log = records.entries.filter(({ revision }) => revision > head);
    const changes = recordChanges(log, before, new Set(created));
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
    const others = changes.flatMap(({ kind, id, after }) => {
      const device = kind === 'device' && after !== undefined && !named.has(id) ? records.device(id) : undefined;
      return device === undefined ? [] : [stored<DeviceRecord>(device)];
    });
    return {
      groups,
      devices: [...devices, ...others],
      deleted: set.deletes.map(({ id }) => id),
      changes,
      revision: records.revision,
      tokens,
    };
  }

  /** The records that the set names, and the devices that list a group which it deletes. */
  async #before(): Promise<RecordsBefore> {
    const { tx, org, records } = this.#locked;
    const { set } = this.#write;
    const deleted = (kind: Deletion['kind']): string[] =>
      set.deletes.filter((one) => one.kind === kind).map(({ id }) => id);
    const gone = deleted('security-groups');
    const listing = gone.length === 0 ? [] : await tx.run(sql.devicesListing, [org, gone]);
    const groupIds = [...set.groups.flatMap(({ id }) => id ?? []), ...gone];
    const deviceIds = [...set.devices, ...listing].map(({ id }) => id).concat(deleted('device'));
    await records.load({ groups: groupIds, devices: deviceIds });
    return {
      groups: byId(groupIds.flatMap((id) => records.group(id) ?? [])),
      devices: byId(deviceIds.flatMap((id) => records.device(id) ?? [])),
    };
  }

  /** Whether a part is for owners only: then whoever writes the set does so as an owner. */
  #isForOwners({ groups, devices }: RecordsBefore): boolean {
    const { set, by } = this.#write;
    if (by.right.roles === rightRoles.server) return false;
    const isOthers = (id: string): boolean => (groups.get(id) ?? devices.get(id))?.record.user_id !== by.user_id;
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

  #actor(operation: ChangeOperation, more?: PartNote): Actor {
    return partActor(this.#write, operation, more);
  }

  async #writeGroups(before: ReadonlyMap<string, GroupState>): Promise<readonly SavedGroup[]> {
    const { set } = this.#write;
    await this.#checkNewIds();
    const prepared: (() => SavedGroup)[] = [];
    for (const [index, one] of set.groups.entries())
      prepared.push(await inPart('security_groups', index, () => this.#prepareGroup(one, before)));
    const groups: SavedGroup[] = [];
    const refusals: unknown[] = [];
    // New ones take the first revisions. Of what is refused, the first in the order of the set is told.
    for (const type of ['create', 'update'] as const)
      for (const [index, write] of prepared.entries()) {
        if (set.groups[index]?.type !== type) continue;
        await inPart('security_groups', index, () => {
          groups[index] = write();
        }).catch((cause: unknown) => (refusals[index] = cause));
      }
    for (const refusal of refusals) if (refusal !== undefined) throw refusal;
    return groups;
  }

  /** A new group may bring its id, so that devices of the same set can list it; but never one that means another record to somebody. */
  async #checkNewIds(): Promise<void> {
    const { tx, org } = this.#locked;
    const { set, options } = this.#write;
    const chosen = set.groups.flatMap((one) => (one.type === 'create' && one.id !== undefined ? [one.id] : []));
    if (chosen.length === 0) return;
    const rows = await tx.run(usedGroupIds, [org, chosen]);
    const isUsed = ({ is_taken, is_used }: (typeof rows)[number]): boolean =>
      is_taken || (is_used && options.restores !== true);
    const used = new Set<string>(rows.filter(isUsed).map(({ id }) => id));
    for (const [index, { id }] of set.groups.entries()) {
      if (id === undefined || set.groups[index]?.type !== 'create' || !used.has(id)) continue;
      const code = options.restores === true ? ('group_exists' as const) : ('group_id_used' as const);
      await inPart('security_groups', index, () => refuse({ code }));
    }
  }

  async #prepareGroup(one: GroupChange, before: ReadonlyMap<string, GroupState>): Promise<() => SavedGroup> {
    const context = this.#context;
    const trial = this.#trial;
    if (one.type === 'create') {
      const { owner, group, fields } = one;
      const id = one.id ?? context.newId();
      const isOwn = owner !== 'organization';
      const made = isOwn ? 'createUserSecurityGroup' : 'createSecurityGroup';
      const name = this.#write.options.restores === true ? 'restoreSecurityGroup' : made;
      refuseCreation(context.phase, owner, group);
      const deciding = await this.#deciding('createSecurityGroup', { fields, name }, isOwn ? owner : undefined);
      return () => createGroup(deciding, { id, owner, group, trial });
    }
    const { record } = before.get(one.id) ?? refuse({ code: 'not_found', what: 'group' });
    refuseApplication(context.phase, ownerOf(record), one.patch);
    refuseForDefault(record, one.patch);
    const deciding = await this.#deciding('updateSecurityGroup', { fields: one.fields });
    return () => updateGroup(deciding, { id: one.id, patch: one.patch, if_match: one.if_match, trial });
  }

  readonly #callers = new Map<string, Caller>();

  /** What a part is decided by: the caller is the same in all of them, and what it accepts was accepted before. */
  async #deciding(operation: ChangeOperation, more: PartNote, whose = ''): Promise<Deciding> {
    const by = this.#actor(operation, more);
    const caller = this.#callers.get(whose);
    const entryId = this.#context.newId();
    if (caller !== undefined) return { ...this.#place(), by, caller, entryId };
    const deciding = await decidingIn(this.#context, this.#locked, by, whose === '' ? {} : { whose });
    this.#callers.set(whose, deciding.caller);
    return { ...deciding, ...this.#place(), entryId };
  }

  #place(): Pick<Deciding, 'context' | 'org' | 'records' | 'at' | 'onAccepting'> {
    const { org, records } = this.#locked;
    return { context: this.#context, org, records, at: now(this.#context), onAccepting: () => {} };
  }

  async #writeDevices(before: ReadonlyMap<string, DeviceState>): Promise<readonly Stored<DeviceRecord>[]> {
    const { records, org } = this.#locked;
    const { by, set } = this.#write;
    if (set.devices.length === 0) return [];
    const made = { by: by.user_id, at: now(this.#context) };
    const lists = new Map<number, CheckedList>();
    for (const [index, { id, patch }] of set.devices.entries()) {
      const old = before.get(id)?.record;
      if (patch.security_groups === undefined || old === undefined) continue;
      const asked = {
        user: old.user_id,
        list: patch.security_groups,
        oldList: old.security_groups ?? [],
        trial: this.#trial?.id,
      };
      lists.set(index, await checkList(this.#locked, this.#context, asked));
    }
    const isValid = (index: number): boolean => (lists.get(index)?.problems ?? []).length === 0;
    const valid = [...lists].flatMap(([index, list]) => (isValid(index) ? [list] : []));
    await enterView(this.#locked, unique(valid.flatMap(({ entering }) => entering)), made);
    await records.load({
      keys: set.devices.flatMap(({ patch: { public_key } }) =>
        public_key === undefined ? [] : [keyDigest(org, public_key)],
      ),
    });
    const devices: Stored<DeviceRecord>[] = [];
    for (const [index, { id, patch, fields, if_match }] of set.devices.entries())
      devices.push(
        await inPart('devices', index, async () => {
          const { security_groups: list, ...rest } = patch;
          const asked = list === undefined || !isValid(index) ? rest : patch;
          // Whether a device opens and how many ranges it has is judged when everything is written.
          const deciding = await this.#deciding('updateDevice', { fields });
          const device = updateDevice(deciding, { id, patch: asked, if_match, trial: this.#trial });
          // What is wrong with the device itself comes before what the list has wrong.
          if (!isValid(index))
            return refuse({ code: 'group_list_invalid', problems: lists.get(index)?.problems ?? [] });
          return device;
        }),
      );
    await leaveView(this.#locked, unique(valid.flatMap(({ leaving }) => leaving)), made);
    return devices;
  }

  /** Devices first: then they hold no group that goes. */
  async #deleteRecords(before: ReadonlyMap<string, GroupState>): Promise<readonly TokenId[]> {
    const { set, options, by } = this.#write;
    const context = this.#context;
    const tokens: string[] = [];
    for (const [index, one] of set.deletes.entries()) {
      if (one.kind !== 'device') continue;
      await inPart('delete', index, async () => {
        const actor = this.#actor('deleteDevice');
        await holdPartRight(context, this.#locked, actor, { kind: 'device', id: one.id });
        const { gone, tokens: ended } = await removeDevice(context, this.#locked, one.id, undefined, by);
        tokens.push(...ended);
        notePart(context, this.#locked, actor, subjectOf(gone));
      });
    }
    for (const [index, one] of set.deletes.entries()) {
      if (one.kind !== 'security-groups') continue;
      await inPart('delete', index, async () => {
        const { record } = before.get(one.id) ?? refuse({ code: 'not_found', what: 'group' });
        if (record.is_default === true) refuse({ code: 'not_found', what: 'group' });
        const actor = this.#actor('deleteSecurityGroup');
        await holdPartRight(context, this.#locked, actor, { kind: 'group', id: one.id });
        const removal = {
          by: { ...actor, right: serverRight },
          owner: ownerOf(record),
          id: one.id,
          // The way back from the creation of a group: whether it opens a device is judged when everything is written.
          options: { detach: options.detach, leaveByLabel: options.restores === true },
        };
        const { last } = await removeGroup(context, this.#locked, removal);
        notePart(context, this.#locked, actor, subjectOf(last));
      });
    }
    return tokens.map((token) => parseTokenId(token));
  }
}

const byId = <Row extends { readonly id: string }>(rows: readonly Row[]): ReadonlyMap<string, Row> =>
  new Map(rows.map((row) => [row.id, row]));

const unique = (ids: readonly string[]): readonly string[] => [...new Set(ids)];

/** Writes the set in a transaction that holds the organization's head. When this throws, the caller rolls the transaction back. */
export const applyChangeSet = (context: Context, locked: Locked, write: ChangeSetWrite): Promise<AppliedChanges> =>
  new ChangeSetTransaction(context, locked, write).run();
