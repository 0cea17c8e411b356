/** Owns the way back of one device: its groups, labels and addresses as they were at a revision. */
import type { Device } from '../../api/device.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import { printable } from '../../policy/names/printable.ts';
import { fieldLines } from '../../client/words/changes.ts';
import { findDevice, deviceName } from '../lookup/device.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { allGroups } from '../lookup/group.ts';
import { sayUndo, writeChanges } from '../lookup/write-changes.ts';
import type { Session } from '../session/session.ts';
import { CliError } from '../terminal/exit.ts';
import { groupNames, readRevision, refuseFuture } from './run.ts';

const fields = ['security_groups', 'labels', 'addresses'] as const;

/** What of these fields was another thing then. */
function patchOf(now: Device, then: DevicePolicy): Partial<Record<(typeof fields)[number], readonly string[]>> {
  const listOf = (record: Device | DevicePolicy, name: (typeof fields)[number]): readonly string[] =>
    record[name] ?? [];
  return Object.fromEntries(
    fields
      .filter((name) => listOf(now, name).join() !== listOf(then, name).join())
      .map((name) => [name, listOf(then, name)]),
  );
}

export async function restoreDevice(session: Session, text: string, revisionText: string): Promise<void> {
  const revision = readRevision(revisionText);
  await refuseFuture(session, revision);
  const client = await session.client();
  const [device, groups] = await Promise.all([findDevice(session, text), allGroups(session)]);
  const name = printable(deviceName(device));
  const [then] = await client.history.device(device.organization_id, device.id, {
    limit: 1,
    after: String(revision + 1),
  });
  if (then === undefined || then.type === 'delete')
    throw new CliError(
      'notFound',
      `device ${name} did not exist at revision ${revision}, or its history is not kept that long`,
    );
  const patch = patchOf(device, then.record);
  const known = new Set<string>(groups.map(({ id }) => id));
  const gone = (patch.security_groups ?? []).filter((id) => !known.has(id));
  if (gone.length > 0)
    throw new CliError('conflict', `device ${name} had groups that no longer exist: restore these first`, gone);
  const body = { id: device.id, revision: device.revision, ...patch };
  const nameOf = groupNames(groups);
  const shown = (record: object): object => ({
    ...record,
    ...('security_groups' in record && { groups: (record.security_groups as readonly string[]).map(nameOf) }),
    security_groups: undefined,
  });
  const before = Object.fromEntries(Object.keys(patch).map((field) => [field, device[field as keyof Device] ?? []]));
  const lines = fieldLines(shown(before), shown(patch));
  if (lines.length === 0) return session.say(`Nothing to change: device ${name} is as it was at revision ${revision}.`);
  for (const [sign, line] of lines) session.say(`  ${sign} ${printable(line)}`);
  if (session.values.dryRun === true) {
    const effect = await effectOf(session, { devices: [body] });
    for (const [sign, line] of effect.lines) session.say(`${sign} ${printable(line)}`);
    sayNotes(session, effect);
    return session.printRecord(body, `Would restore device ${name}. ${effect.summary} Nothing was written.`);
  }
  if (!(await session.confirm(`Restore the groups, labels and addresses of device ${name} to revision ${revision}?`)))
    return session.say('Nothing was changed.');
  const written = await writeChanges(session, { devices: [body] });
  const restored = written[0]?.devices[0] ?? device;
  await session.printRecord(
    restored,
    `Restored device ${name} to revision ${revision}. The new revision is ${restored.revision}.`,
  );
  return sayUndo(session, written);
}
