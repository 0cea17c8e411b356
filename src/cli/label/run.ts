/** Owns the implementation of the label commands, and the undo of a change to several records. */
import type { SecurityGroup } from '../../api/group.ts';
import type { EnrollmentKey } from '../../api/user.ts';
import { limits } from '../../api/limits.ts';
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import { printable } from '../../node/printable.ts';
import { isUuid } from '../../policy/ids.ts';
import { parseLabel } from '../../policy/label.ts';
import type { TestEnd } from '../../policy/policy-test/policy-test.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { allDevices } from '../lookup/device.ts';
import { allGroups } from '../lookup/group.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { userNames } from '../lookup/member.ts';
import { writeOrAsk } from '../lookup/opening.ts';
import { storedTests } from '../lookup/stored-tests.ts';
import { changeOptions, writeChanges } from '../lookup/write-changes.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { shellWord } from '../terminal/text.ts';

type Labelled = object & { readonly labels?: readonly string[] };

const labelsIn = (entries: readonly Labelled[] = []): readonly string[] => entries.flatMap(({ labels = [] }) => labels);

const rulesOf = ({ inbound_rules = [], outbound_rules = [] }: SecurityGroup): readonly StoredRule[] => [
  ...inbound_rules,
  ...outbound_rules,
];

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
        { head: 'APPLIES GROUPS', text: ({ groups }) => String(groups), align: 'right' },
        { head: 'RULES', text: ({ rules }) => String(rules), align: 'right' },
        { head: 'KEYS', text: ({ keys }) => String(keys), align: 'right' },
        { head: 'TESTS', text: ({ tests }) => String(tests), align: 'right' },
      ],
    },
  );
}

/** A list of labels, or of entries with labels, in which one has another name; entries that become equal are one. */
function renamer(from: string, to: string) {
  const labels = (given: readonly string[]): string[] => [...new Set(given.map((one) => (one === from ? to : one)))];
  const entries = <Entry extends object>(given: readonly Entry[]): Entry[] => {
    const renamed = given.map((entry) => {
      const { labels: old } = entry as Labelled;
      return old === undefined ? entry : { ...entry, labels: labels(old) };
    });
    return [...new Map(renamed.map((entry) => [JSON.stringify(entry), entry])).values()];
  };
  const rules = (given: readonly StoredRule[] = []): StoredRule[] =>
    given.map((rule) => (rule.peers === undefined ? rule : { ...rule, peers: entries(rule.peers) }));
  return { labels, entries, rules };
}

/** Prints a change, with the command that undoes it. */
async function tell(session: Session, written: WrittenChangeSet, sentence: string): Promise<void> {
  await session.printRecord(written, `${sentence} To undo it: ringfence undo ${written.change_id}`, written.change_id);
}

const counted = (count: number, word: string): string => `${count} ${count === 1 ? word : `${word}s`}`;

interface Renamed {
  readonly change: ChangeSetBody;
  /** Groups of other members that name the label: only their owners may write them. */
  readonly foreign: readonly SecurityGroup[];
}

/** Everything that names the label and that the caller may write, as it is with the new one. */
async function renamedRecords(session: Session, from: string, to: string): Promise<Renamed> {
  const renamed = renamer(from, to);
  const client = await session.client();
  const [allOfDevices, allOfGroups, stored, me] = await Promise.all([
    allDevices(session),
    allGroups(session),
    storedTests(session),
    client.whoAmI(),
  ]);
  const devices = allOfDevices
    .filter(({ labels = [] }) => labels.includes(from))
    .map(({ id, labels = [] }) => ({ id, labels: renamed.labels(labels) }));
  const naming = allOfGroups.filter((group) =>
    labelsIn([...(group.applies_to ?? []), ...rulesOf(group).flatMap(({ peers = [] }) => peers)]).includes(from),
  );
  const isForeign = ({ user_id }: SecurityGroup): boolean => user_id !== undefined && user_id !== me.id;
  const security_groups = naming
    .filter((group) => !isForeign(group))
    .map((group) => ({
      id: group.id,
      revision: group.revision,
      ...(group.applies_to && { applies_to: renamed.entries(group.applies_to) }),
      inbound_rules: renamed.rules(group.inbound_rules),
      outbound_rules: renamed.rules(group.outbound_rules),
    }));
  const isTested = stored.tests.some((test) => labelsIn([test.from, test.to]).includes(from));
  const renameEnd = (end: TestEnd): TestEnd => renamed.entries([end])[0] ?? end;
  const policy_tests = stored.tests.map((test) => ({ ...test, from: renameEnd(test.from), to: renameEnd(test.to) }));
  const change = {
    ...(devices.length > 0 && { devices }),
    ...(security_groups.length > 0 && { security_groups }),
    ...(isTested && {
      policy_tests,
      ...(stored.revision !== undefined && { policy_tests_revision: stored.revision }),
    }),
  };
  return { change, foreign: naming.filter(isForeign) };
}

/** The commands that put a key with the new label in the place of this one. Whoever uses the old key needs the new one. */
function replacingCommands(key: EnrollmentKey, labels: readonly string[]): readonly string[] {
  const { id, name, uses_left, expires_at, security_groups = [] } = key;
  const words = [
    'ringfence key create',
    ...(name === '' ? [] : [shellWord(name)]),
    `--label ${labels.join(',')}`,
    ...security_groups.map((group) => `--group ${group}`),
    `--uses ${uses_left}`,
    `--expires ${expires_at}`,
  ];
  return [words.join(' '), `ringfence key delete ${id}`];
}

/** What a rename does not reach: groups of other members, and enrollment keys, which nobody can change. */
async function sayLeftOut(session: Session, from: string, to: string, foreign: Renamed['foreign']): Promise<void> {
  if (!session.isForPeople) return;
  const client = await session.client();
  const keys = await client.enrollmentKeys.list(await session.organization());
  const nameOf = foreign.length === 0 ? String : await userNames(session);
  for (const { group_name, user_id = '' } of foreign)
    session.say(`Group ${printable(group_name)} of ${printable(nameOf(user_id))} still names the label ${from}.`);
  for (const key of keys) {
    const { name, id, labels = [], uses_left, expires_at } = key;
    if (!labels.includes(from) || uses_left === 0 || Date.parse(expires_at) <= Date.now()) continue;
    session.say(`Enrollment key ${printable(name || id)} still gives the label ${from}. To replace it:`);
    for (const command of replacingCommands(key, renamer(from, to).labels(labels))) session.say(`  ${command}`);
  }
}

export interface RenameOptions {
  readonly skipTests?: boolean;
}

export async function rename(session: Session, from: string, to: string, options: RenameOptions): Promise<void> {
  for (const label of [from, to]) {
    const parsed = parseLabel(label);
    if (typeof parsed !== 'string') throw usageError(`\`${label}\` is not a label: ${parsed.reason}`);
  }
  if (from === to) throw usageError('the labels are the same');
  const { change, foreign } = await renamedRecords(session, from, to);
  const { devices = [], security_groups = [], policy_tests } = change;
  const count = devices.length + security_groups.length;
  await sayLeftOut(session, from, to, foreign);
  if (count === 0 && policy_tests === undefined)
    throw new CliError('notFound', `no device, no group and no policy test that you can write uses the label ${from}`);
  if (count > limits.changeSetRecords) {
    const most = limits.changeSetRecords;
    throw new CliError(
      'failed',
      `${count} records use the label, and one change may have ${most}: nothing was changed`,
    );
  }
  const tested = policy_tests === undefined ? '' : ', and in policy tests';
  const what = `${counted(devices.length, 'device')} and ${counted(security_groups.length, 'group')}${tested}`;
  if (session.values.dryRun === true) {
    const effect = await effectOf(session, change);
    for (const [sign, line] of effect.lines) session.say(`${sign} ${printable(line)}`);
    sayNotes(session, effect);
    const sentence = `Would rename label ${from} to ${to} on ${what}. ${effect.summary}`.trim();
    return session.printRecord(change, `${sentence} Nothing was written.`, '');
  }
  if (!(await session.confirm(`Rename label ${from} to ${to} on ${what}?`))) return session.say('Nothing was changed.');
  const [written] = await writeChanges(session, change, changeOptions(options));
  return written && tell(session, written, `Renamed label ${from} to ${to} on ${what}.`);
}

export interface UndoOptions {
  readonly force?: boolean;
  readonly detach?: boolean;
  readonly skipTests?: boolean;
}

export async function undo(session: Session, change: string, options: UndoOptions): Promise<void> {
  const isId: boolean = isUuid(change);
  if (!isId)
    throw usageError(`\`${change}\` is not the id of a change: \`ringfence log -o json\` shows it as change_id`);
  const client = await session.client();
  const organization = await session.organization();
  const set = await client.changes.get(organization, change);
  const count = set.records.length;
  const what = `${count} ${count === 1 ? 'record' : 'records'} that ${set.username} changed at ${set.at}`;
  if (!(await session.confirm(`Undo the change of ${what}?`))) return session.say('Nothing was changed.');
  const { detach: _asked, ...given } = changeOptions(options);
  const written = await writeOrAsk(session, options.detach, (asked) =>
    client.changes.revert(organization, change, { ...given, ...asked }),
  );
  session.noteWritten(written.revision);
  return tell(session, written, `Undid the change of ${what}.`);
}
