/** Owns `--dry-run` of the commands that write a group: what would change and on which devices, with nothing written. */
import type { SecurityGroup } from '../../api/group.ts';
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import { devicesOf } from '../../organization/of-records.ts';
import { groupChanges } from '../../client/words/changes.ts';
import { printable } from '../../policy/names/printable.ts';
import { parseGroupId } from '../../policy/ids.ts';
import { paintLine } from '../terminal/screen.ts';
import { allDevices, deviceName } from '../lookup/device.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { allGroups } from '../lookup/group.ts';
import type { Session } from '../session/session.ts';
import { sortByName } from '../terminal/table.ts';
import { peerNames } from './peer-text.ts';

export interface GroupChange {
  /** Absent: it is not there yet. */
  readonly before?: SecurityGroup | undefined;
  /** Absent: it goes. */
  readonly after?: Partial<SecurityGroup> | undefined;
}

/** Stands for the id of a group that has none yet. */
const newGroup = parseGroupId('00000000-0000-4000-8000-000000000000');

/** The most device names that one line lists. */
const namedDevices = 8;

/** The change as the server simulates it: the fields of a record that are written. */
export function plannedChange({ before, after }: GroupChange): ChangeSetBody {
  if (after === undefined) return before === undefined ? {} : { delete: [before.id] };
  const { group_name, group_description, inbound_rules = [], outbound_rules = [], applies_to = [], guardrail } = after;
  // Given only where it changes: a server of an earlier version does not know it.
  const mode = after.mode !== before?.mode ? (after.mode ?? 'enforce') : undefined;
  const fields = { group_name, group_description, inbound_rules, outbound_rules, applies_to, guardrail, mode };
  const written = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  if (before !== undefined) return { security_groups: [{ ...written, id: before.id }] };
  const { id, user_id } = after;
  return {
    security_groups: [{ ...written, ...(id !== undefined && { id }), ...(user_id !== undefined && { user_id }) }],
  };
}

export async function printDryRun(session: Session, { before, after }: GroupChange): Promise<void> {
  const [devices, groups, effect] = await Promise.all([
    allDevices(session),
    allGroups(session),
    effectOf(session, plannedChange({ before, after })),
  ]);
  // The head names a new group; a description that is not given is nothing new.
  const { group_name: _name, user_id: _user, group_description, ...rest } = after ?? {};
  const made = { ...rest, ...(group_description !== '' && { group_description }) };
  const lines =
    after === undefined ? [] : groupChanges(before, before === undefined ? made : after, peerNames(devices));
  const id = before?.id ?? after?.id ?? newGroup;
  const others = groups.filter((group) => group.id !== id);
  const groupsAfter = after === undefined ? others : [...others, { ...after, id } as SecurityGroup];
  const touched = new Map(
    [...devicesOf(id, devices, groups), ...devicesOf(id, devices, groupsAfter)].map((device) => [device.id, device]),
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
      ...(effect.simulation && { gained: effect.simulation.gained, lost: effect.simulation.lost }),
    },
    ids: [name],
    table: ({ paint }) =>
      [
        paintLine([sign, `group ${name}`], paint),
        ...lines.map((line) => `    ${paintLine(line, paint)}`),
        ...effect.lines.map((line) => paintLine(line, paint)),
        `${touchedWords(names)} Nothing was written.`,
      ]
        .map((line) => `${line}\n`)
        .join(''),
  });
  sayNotes(session, effect);
}

function touchedWords(names: readonly string[]): string {
  if (names.length === 0) return 'It applies to no devices.';
  const more = names.length > namedDevices ? ` and ${names.length - namedDevices} more` : '';
  const shown = printable(names.slice(0, namedDevices).join(', '));
  return `It affects ${names.length === 1 ? '1 device' : `${names.length} devices`}: ${shown}${more}.`;
}
