/** Owns the checks after all records of a change set are written: only the state after the whole set counts. */
import { devicesIn, mayLeaveDevices } from '../../../organization/decide/group.ts';
import { refuseFull } from '../../../organization/decide/outcome.ts';
import { devicesBeyond, HeldGroups } from '../../../organization/held-groups.ts';
import type { Organization } from '../../../organization/organization.ts';
import type { NewChangeSet } from '../data/change-sets.ts';
import { refuse, type StoreProblem } from '../../problems.ts';
import type { SavedGroup } from '../data/groups.ts';
import { refuseOpened } from '../devices/opening.ts';
import { checkOpenKeys, checkPeers } from '../groups/groups.ts';
import type { Context } from '../write/context.ts';
import type { Locked } from '../write/transaction.ts';
import type { RecordsBefore } from './record-changes.ts';

type List = Extract<StoreProblem, { readonly code: 'change_refused' }>['list'];

export interface Outcome {
  readonly set: NewChangeSet;
  /** In the order of the set. */
  readonly groups: readonly SavedGroup[];
  readonly before: RecordsBefore;
  /** Before the set. */
  readonly organization: Organization;
  /** Devices whose list the set empties, which asks for it. */
  readonly emptied: ReadonlySet<string>;
  readonly restores: boolean;
  readonly detach: boolean;
  readonly inPart: <T>(list: List, index: number, work: () => T | Promise<T>) => Promise<T>;
}

/** Throws where the state after the set is not admitted: the caller takes the transaction back. */
export async function judgeOutcome(context: Context, locked: Locked, outcome: Outcome): Promise<void> {
  await checkNamedDevices(locked, outcome);
  await checkRanges(context, locked, outcome);
  if (outcome.detach) return;
  await refuseOpened(locked, outcome.organization, { emptied: outcome.emptied });
  await checkKeys(context, locked, outcome);
}

async function checkKeys(context: Context, locked: Locked, { set, before, inPart }: Outcome): Promise<void> {
  for (const [index, one] of set.groups.entries()) {
    if (one.type === 'create' || one.patch.mode !== 'observe') continue;
    const old = before.groups.get(one.id)?.record;
    if (old === undefined || !mayLeaveDevices(old, { mode: 'observe' })) continue;
    await inPart('security_groups', index, () => checkOpenKeys(context, locked, one.id));
  }
}

/** A device that a group names for the first time must be there when all is written. */
async function checkNamedDevices(locked: Locked, { set, groups, before, restores, inPart }: Outcome): Promise<void> {
  if (restores) return;
  for (const [index, one] of set.groups.entries()) {
    const { inbound_rules, outbound_rules } = one.type === 'create' ? one.group : one.patch;
    const named = devicesIn(inbound_rules, outbound_rules);
    if (named.size === 0) continue;
    const old = before.groups.get(groups[index]?.id ?? '')?.record;
    const known = devicesIn(old?.inbound_rules, old?.outbound_rules);
    await inPart('security_groups', index, () => checkPeers(locked, named, known));
  }
}

async function checkRanges({ quotas }: Context, locked: Locked, { set, groups, inPart }: Outcome): Promise<void> {
  const limit = quotas.device_ranges;
  const organization = await locked.model.read(locked.tx);
  const held = new HeldGroups(organization);
  const full = await locked.model.run(devicesBeyond(organization, held, limit));
  for (const [index, one] of set.groups.entries()) {
    const { inbound_rules, outbound_rules, applies_to } = one.type === 'create' ? one.group : one.patch;
    if ((inbound_rules ?? outbound_rules ?? applies_to) === undefined) continue;
    await inPart('security_groups', index, () => refuseFull(full, held, { group: groups[index]?.id ?? '', limit }));
  }
  for (const [index, { id, patch }] of set.devices.entries()) {
    const device = full.find((one) => one.id === id);
    if (device === undefined || (patch.security_groups ?? patch.labels) === undefined) continue;
    const ranges = held.rangesOf(device);
    const problems = [{ index: -1, code: 'too_many_ranges' as const, allowed: limit, ranges }];
    await inPart('devices', index, () => refuse({ code: 'group_list_invalid', problems }));
  }
}
