/** Owns labels wherever they are used, the list of them, and the undo of a change to several records. */
import type { ChangeSet, ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { printable } from '../../policy/names/printable.ts';
import { isUuid } from '../../policy/ids.ts';
import { plannedChange } from '../group/dry-run.ts';
import { allDevices } from '../lookup/device.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { allGroups } from '../lookup/group.ts';
import { writeOrAsk } from '../lookup/write-changes.ts';
import { storedTests } from '../lookup/stored-tests.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import type { StoredRule } from '../../policy/rule.ts';

interface LabelUse {
  readonly label: string;
  devices: number;
  groups: number;
  rules: number;
  keys: number;
  tests: number;
}

export async function list(session: Session): Promise<void> {
  const client = await session.client();
  const organization = await session.organization();
  const uses = new Map<string, LabelUse>();
  const count = (labels: readonly string[], what: Exclude<keyof LabelUse, 'label'>): void => {
    for (const label of new Set(labels)) {
      const use = uses.get(label) ?? { label, devices: 0, groups: 0, rules: 0, keys: 0, tests: 0 };
      use[what] += 1;
      uses.set(label, use);
    }
  };
  for (const { labels = [] } of await allDevices(session)) count(labels, 'devices');
  for (const group of await allGroups(session)) {
    count(labelsIn(group.applies_to), 'groups');
    for (const { peers } of rulesOf(group)) count(labelsIn(peers), 'rules');
  }
  for (const { labels = [] } of await client.enrollmentKeys.list(organization)) count(labels, 'keys');
  for (const { from, to } of (await storedTests(session)).tests) count(labelsIn([from, to]), 'tests');
  const rows = [...uses.values()].toSorted((a, b) => (a.label < b.label ? -1 : 1));
  await session.printList(
    rows.map((use) => ({ ...use, id: use.label })),
    {
      none: 'There are no labels. To label a device, run `ringfence device label add`.',
      columns: () => [
        { head: 'LABEL', text: ({ label }) => label },
        { head: 'DEVICES', text: ({ devices }) => String(devices), align: 'right' },
        { head: 'GROUPS', text: ({ groups }) => String(groups), align: 'right' },
        { head: 'RULES', text: ({ rules }) => String(rules), align: 'right' },
        { head: 'KEYS', text: ({ keys }) => String(keys), align: 'right' },
        { head: 'TESTS', text: ({ tests }) => String(tests), align: 'right' },
      ],
    },
  );
}

/** Prints a change, with the command that undoes it. */
export async function tell(session: Session, written: WrittenChangeSet, sentence: string): Promise<void> {
  await session.printRecord(written, `${sentence} To undo it: ringfence undo ${written.change_id}`, written.change_id);
}

/** What undoing does with a record. */
const opposite = { created: '-', changed: '~', deleted: '+' } as const;
const kinds = { 'security-groups': 'group', device: 'device' } as const;

/** So many entries of the audit are searched for a change. */
const mostSearched = 10_000;

/** The id of the change that is meant: given in full, by its end as `ringfence log` shows it, or none for the last one. */
async function changeNamed(session: Session, text: string): Promise<string> {
  const wanted = text.toLowerCase();
  if (isUuid(wanted)) return wanted;
  if (text !== '' && !/^[0-9a-f-]{8,}$/.test(wanted))
    throw usageError(`\`${text}\` is not the id of a change: \`ringfence log\` shows it`);
  const client = await session.client();
  const found = new Set<string>();
  let searched = 0;
  for await (const { change_id } of client.audit.each(await session.organization(), { limit: 200 })) {
    if (change_id?.endsWith(wanted) === true) found.add(change_id);
    searched += 1;
    if ((text === '' && found.size > 0) || searched === mostSearched) break;
  }
  const [id, ...others] = found;
  if (others.length > 0) throw usageError(`several changes end with \`${text}\`; give one in full:`, [...found]);
  if (id === undefined)
    throw new CliError(
      'notFound',
      text === '' ? 'there is no change of several records' : `no change ends with \`${text}\``,
    );
  // Somebody else may have made the last one: only a person who sees it, and a dry run, may mean it without naming it.
  if (text === '' && !session.terminal.isInteractive && session.values.dryRun !== true) {
    const { username, at } = await client.changes.get(await session.organization(), id);
    throw usageError('in a script, say which change. For the last one, run:', [
      `ringfence undo ${id} --yes  # by ${username} at ${at}`,
    ]);
  }
  return id;
}

/** What an undo would write, as a change that the server simulates. */
async function writtenAgain(
  session: Session,
  { records }: ChangeSet,
  { security_groups, devices, deleted }: WrittenChangeSet,
): Promise<ChangeSetBody> {
  const known = new Map<string, SecurityGroup>((await allGroups(session)).map((group) => [group.id, group]));
  const fieldsOf = new Map<string, readonly string[]>(records.map(({ id, fields }) => [id, fields]));
  return {
    security_groups: security_groups.flatMap(
      (group) => plannedChange({ before: known.get(group.id), after: group }).security_groups ?? [],
    ),
    devices: devices.flatMap((device) => {
      const fields = fieldsOf.get(device.id) ?? [];
      if (fields.length === 0) return [];
      const record = device as Readonly<Record<string, unknown>>;
      return [{ id: device.id, ...Object.fromEntries(fields.map((name) => [name, record[name] ?? []])) }];
    }),
    delete: [...deleted],
  };
}

export async function undo(session: Session, text: string): Promise<void> {
  const change = await changeNamed(session, text);
  const client = await session.client();
  const organization = await session.organization();
  const set = await client.changes.get(organization, change);
  const count = set.records.length;
  const what = `${count} ${count === 1 ? 'record' : 'records'} that ${set.username} changed at ${set.at}`;
  if (session.values.dryRun === true) {
    // The same code judges it as the undo itself, and takes it back.
    const undone = await writeOrAsk(session, (asked) =>
      client.changes.revert(organization, change, { ...session.groupQuery, ...asked, dry_run: true }),
    );
    for (const { kind, type, name, fields } of set.records)
      session.say(
        kind === 'policy-tests'
          ? '~ policy tests'
          : printable(`${opposite[type]} ${kinds[kind]} ${name}${fields.length === 0 ? '' : `: ${fields.join(', ')}`}`),
      );
    const effect = await effectOf(session, await writtenAgain(session, set, undone), { isJudged: true });
    for (const line of effect.lines) session.say(printable(line.join(' ')));
    sayNotes(session, effect);
    const sentence = `Would undo the change of ${what}. ${effect.summary}`.trim();
    return session.printRecord(set, `${sentence} Nothing was written.`, change);
  }
  if (!(await session.confirm(`Undo the change of ${what}?`))) return session.say('Nothing was changed.');
  const written = await writeOrAsk(session, (asked) =>
    client.changes.revert(organization, change, { ...session.groupQuery, ...asked }),
  );
  session.noteWritten(written.revision);
  return tell(session, written, `Undid the change of ${what}.`);
}

export type Labelled = object & { readonly labels?: readonly string[] };

export const labelsIn = (entries: readonly Labelled[] = []): readonly string[] =>
  entries.flatMap(({ labels = [] }) => labels);

export const rulesOf = ({ inbound_rules = [], outbound_rules = [] }: SecurityGroup): readonly StoredRule[] => [
  ...inbound_rules,
  ...outbound_rules,
];
