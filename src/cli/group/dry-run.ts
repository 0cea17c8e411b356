/** Owns `--dry-run` of the commands that write a group: what would change and on which devices, with nothing written. */
import type { SecurityGroup } from '../../api/group.ts';
import { groupChanges } from '../../client/words/changes.ts';
import { printable } from '../../node/printable.ts';
import { paintLine } from '../terminal/change-line.ts';
import { allDevices, deviceName } from '../lookup/device.ts';
import { allGroups } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { sortByName } from '../terminal/table.ts';
import { devicesOf } from './devices-of.ts';
import { peerNames } from './peer-text.ts';

export interface GroupChange {
  /** Absent: it is not there yet. */
  readonly before?: SecurityGroup | undefined;
  /** Absent: it goes. */
  readonly after?: Partial<SecurityGroup> | undefined;
}

/** More names than these nobody reads in a line. */
const namedDevices = 8;

export async function printDryRun(session: Session, { before, after }: GroupChange): Promise<void> {
  const [devices, groups] = await Promise.all([allDevices(session), allGroups(session)]);
  // The head names a new group; a description that is not given is nothing new.
  const { group_name: _name, group_description, ...rest } = after ?? {};
  const made = { ...rest, ...(group_description !== '' && { group_description }) };
  const lines =
    after === undefined ? [] : groupChanges(before, before === undefined ? made : after, peerNames(devices));
  const touched = new Map(
    [before, after]
      .flatMap((group) => (group === undefined ? [] : devicesOf(group, devices, groups)))
      .map((device) => [device.id, device]),
  );
  const [sign, action] =
    before === undefined
      ? (['+', 'create'] as const)
      : after === undefined
        ? (['-', 'delete'] as const)
        : (['~', 'update'] as const);
  const name = before?.group_name ?? after?.group_name ?? '';
  const names = sortByName([...touched.values()].map(deviceName), (text) => text);
  await session.print({
    data: {
      action,
      kind: 'group',
      name,
      changes: lines.map(([mark, text]) => `${mark} ${text}`),
      devices: [...touched.keys()],
    },
    ids: [name],
    table: ({ paint }) =>
      [
        paintLine([sign, `group ${name}`], paint),
        ...lines.map((line) => `    ${paintLine(line, paint)}`),
        `${touchedWords(names)} Nothing was written.`,
      ]
        .map((line) => `${line}\n`)
        .join(''),
  });
}

function touchedWords(names: readonly string[]): string {
  if (names.length === 0) return 'It applies to no devices.';
  const more = names.length > namedDevices ? ` and ${names.length - namedDevices} more` : '';
  const shown = printable(names.slice(0, namedDevices).join(', '));
  return `It affects ${names.length === 1 ? '1 device' : `${names.length} devices`}: ${shown}${more}.`;
}
