/** Owns the end of a trial inside a transaction: it keeps the change or restores the earlier state. Both take new revisions. */
import { parseGroupId } from '../../../policy/ids.ts';
import type { Actor } from '../contract/actor.ts';
import { refuse } from '../../problems.ts';
import type { GroupBefore, RecordTrial } from '../contract/records.ts';
import type { ListBefore } from '../../../policy/rule.ts';
import { leaveView } from '../devices/group-views.ts';
import { relink } from '../devices/statements.ts';
import { removeGroup } from '../groups/groups.ts';
import { countNamed } from '../groups/items.ts';
import type { Context } from '../write/context.ts';
import { now } from '../write/stamp.ts';
import type { Locked } from '../write/transaction.ts';
import * as sql from './statements.ts';

/** The records of a trial that still exist, each in its current state in this transaction. */
export interface TriedRecords {
  readonly groups: readonly {
    readonly id: string;
    readonly user_id: string | null;
    readonly trial: RecordTrial<GroupBefore>;
  }[];
  readonly devices: readonly {
    readonly id: string;
    readonly user_id: string;
    readonly trial: RecordTrial<ListBefore>;
    readonly security_groups: readonly string[];
  }[];
}

export async function triedRecords({ tx, org }: Locked, trial: sql.TrialRow): Promise<TriedRecords> {
  const groups = await tx.run(sql.findGroupsOnTrial, [org, trial.groups, trial.id]);
  const devices = await tx.run(sql.findDevicesOnTrial, [org, trial.devices, trial.id]);
  return {
    groups: groups.map((row) => ({ ...row, trial: JSON.parse(row.trial) as RecordTrial<GroupBefore> })),
    devices: devices.map((row) => ({ ...row, trial: JSON.parse(row.trial) as RecordTrial<ListBefore> })),
  };
}

interface Rewrites {
  readonly groups: readonly sql.GroupRewrite[];
  readonly devices: readonly sql.DeviceRewrite[];
}

const idsOf = (rewritten: readonly { readonly id: string }[]): string[] => rewritten.map(({ id }) => id);

/** Gives back the newest revision that was taken. A record of a later version is left to a server of that version: reference 4.5 (6). */
async function rewrite(context: Context, { tx, org }: Locked, by: Actor, rewrites: Rewrites): Promise<number> {
  const [newer] = await tx.run(sql.findNewer, [org, idsOf(rewrites.groups), idsOf(rewrites.devices)]);
  if (newer !== undefined) refuse({ code: 'newer_record', what: newer.what });
  const values = [by.user_id, now(context)] as const;
  const rows = [
    // Devices come first, so that no reader meets a device that names a group which is gone.
    ...(rewrites.devices.length === 0
      ? []
      : await tx.run(sql.rewriteDevices, [org, JSON.stringify(rewrites.devices), ...values])),
    ...(rewrites.groups.length === 0
      ? []
      : await tx.run(sql.rewriteGroups, [org, JSON.stringify(rewrites.groups), ...values])),
  ];
  return Math.max(0, ...rows.map(({ revision }) => revision));
}

/** The devices hold these lists, and no others any more. */
async function holdLists(
  context: Context,
  { tx, org }: Locked,
  by: Actor,
  lists: readonly { readonly id: string; readonly list: readonly string[]; readonly other: readonly string[] }[],
): Promise<void> {
  if (lists.length === 0) return;
  await tx.run(relink, [lists.map(({ id }) => id), lists.map(({ list }) => JSON.stringify(list))]);
  const leaving = [...new Set(lists.flatMap(({ other }) => other))];
  await leaveView({ tx, org }, leaving, { by: by.user_id, at: now(context) });
}

/** Another scope on all records. */
export function rewriteScope(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices }: TriedRecords,
  scope: RecordTrial<never>['scope'],
): Promise<number> {
  const widened = ({ id, trial }: { readonly id: string; readonly trial: RecordTrial<object> }) => {
    const { scope: _old, before, ...rest } = trial;
    return { id, trial: JSON.stringify({ ...rest, ...(scope && { scope }), before }) };
  };
  return rewrite(context, locked, by, { groups: groups.map(widened), devices: devices.map(widened) });
}

export async function keepChange(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices }: TriedRecords,
): Promise<number> {
  const ended = ({ id }: { readonly id: string }) => ({ id, trial: null });
  const revision = await rewrite(context, locked, by, { groups: groups.map(ended), devices: devices.map(ended) });
  await holdLists(
    context,
    locked,
    by,
    devices.map(({ id, security_groups, trial }) => ({
      id,
      list: security_groups,
      other: trial.before?.security_groups ?? [],
    })),
  );
  return revision;
}

/** Nothing that was true before the trial is judged again: a revert always works. Devices that rules name may be gone; then they match nothing. */
export async function takeBack(
  context: Context,
  locked: Locked,
  by: Actor,
  { groups, devices }: TriedRecords,
): Promise<number> {
  const lists = devices.map(({ id, security_groups, trial }) => ({
    id,
    list: trial.before?.security_groups ?? [],
    other: security_groups,
  }));
  const made = groups.filter(({ trial }) => trial.before === null);
  const restored = groups.flatMap(({ id, trial: { before } }): sql.GroupRewrite[] =>
    before === null ? [] : [{ id, trial: null, ...fieldsBefore(before) }],
  );
  const revision = await rewrite(context, locked, by, {
    groups: restored,
    devices: lists.map(({ id, list }) => ({ id, trial: null, security_groups: list })),
  });
  await holdLists(context, locked, by, lists);
  if (made.length > 0) await locked.tx.run(sql.releaseGroups, [locked.org, made.map(({ id }) => id)]);
  const revisions = [revision];
  for (const { id, user_id } of made) {
    const owner = (user_id as Actor['user_id'] | null) ?? 'organization';
    const options = { detach: true };
    const { last } = await removeGroup(context, locked, { by, owner, id: parseGroupId(id), options });
    revisions.push(last.revision);
  }
  return Math.max(...revisions);
}

const fieldsBefore = ({
  group_name,
  group_description,
  inbound_rules,
  outbound_rules,
  applies_to,
  mode,
}: GroupBefore) => ({
  group_name,
  group_description,
  inbound_rules: JSON.stringify(inbound_rules),
  outbound_rules: JSON.stringify(outbound_rules),
  applies_to: JSON.stringify(applies_to),
  mode: mode ?? 'enforce',
  inbound_ranges: countNamed(inbound_rules),
  outbound_ranges: countNamed(outbound_rules),
});
