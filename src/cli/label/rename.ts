/** Owns the renaming of a label: on devices, in groups and in policy tests, as one change. */
import type { SecurityGroup } from '../../api/group.ts';
import type { EnrollmentKey } from '../../api/user.ts';
import { limits } from '../../api/limits.ts';
import type { ChangeSetBody, WrittenChangeSet } from '../../api/change/change-set.ts';
import { RingfenceError } from '../../client/error.ts';
import { printable } from '../../policy/names/printable.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import { parseLabel } from '../../policy/label.ts';
import type { Peer, StoredRule } from '../../policy/rule.ts';
import { allDevices } from '../lookup/device.ts';
import { allGroups } from '../lookup/group.ts';
import { effectOf, sayNotes } from '../lookup/effect.ts';
import { userNames } from '../lookup/resource.ts';
import { storedTests } from '../lookup/stored-tests.ts';
import { writeChanges } from '../lookup/write-changes.ts';
import type { Session } from '../session/session.ts';
import { CliError, usageError } from '../terminal/exit.ts';
import { shellWord } from '../terminal/text.ts';
import { labelsIn, rulesOf, type Labelled, tell } from './run.ts';

/** What has labels, with one of them renamed. Entries of a list that become equal are one. */
function renamer(from: string, to: string) {
  const labels = (given: readonly string[]): string[] =>
    [...new Set(given.map((one) => (one === from ? to : one)))].toSorted();
  const entry = <Entry extends object>(given: Entry): Entry => {
    const { labels: old } = given as Labelled;
    return old?.includes(from) === true ? { ...given, labels: labels(old) } : given;
  };
  const entries = <Entry extends Peer>(given: readonly Entry[]): Entry[] => [
    ...new Map(given.map(entry).map((one) => [peerKey(one), one])).values(),
  ];
  const rules = (given: readonly StoredRule[] = []): StoredRule[] =>
    given.map((rule) => (rule.peers === undefined ? rule : { ...rule, peers: entries(rule.peers) }));
  return { labels, entry, entries, rules };
}

const counted = (count: number, word: string): string => `${count} ${count === 1 ? word : `${word}s`}`;

/** `1 device and 2 groups, and in policy tests` */
const placesInWords = (devices: number, groups: number, isTested: boolean): string =>
  `${counted(devices, 'device')} and ${counted(groups, 'group')}${isTested ? ', and in policy tests' : ''}`;

/** Everything that names the label and that the caller may write, as it is with the new one. */
interface Renaming {
  readonly change: ChangeSetBody;
  /** What the change is about, in words. */
  readonly where: string;
  /** Groups of other members that name the label: only their owners may write them. */
  readonly foreign: readonly SecurityGroup[];
  /** Where the new label is in use already, in words: the two become one. */
  readonly merged: string | undefined;
}

/** Every record is changed only while it is what was read. */
async function readRenaming(session: Session, from: string, to: string): Promise<Renaming> {
  const renamed = renamer(from, to);
  const client = await session.client();
  const [allOfDevices, allOfGroups, stored, me] = await Promise.all([
    allDevices(session),
    allGroups(session),
    storedTests(session),
    client.whoAmI(),
  ]);
  const withLabel = (label: string) => ({
    devices: allOfDevices.filter(({ labels = [] }) => labels.includes(label)),
    groups: allOfGroups.filter((group) =>
      labelsIn([...(group.applies_to ?? []), ...rulesOf(group).flatMap(({ peers = [] }) => peers)]).includes(label),
    ),
    isTested: stored.tests.some((test) => labelsIn([test.from, test.to]).includes(label)),
  });
  const [old, other] = [withLabel(from), withLabel(to)];
  const isForeign = ({ user_id }: SecurityGroup): boolean => user_id !== undefined && user_id !== me.id;
  const devices = old.devices.map(({ id, revision, labels = [] }) => ({
    id,
    revision,
    labels: renamed.labels(labels),
  }));
  const security_groups = old.groups
    .filter((group) => !isForeign(group))
    .map((group) => ({
      id: group.id,
      revision: group.revision,
      ...(group.applies_to && { applies_to: renamed.entries(group.applies_to) }),
      inbound_rules: renamed.rules(group.inbound_rules),
      outbound_rules: renamed.rules(group.outbound_rules),
    }));
  const count = devices.length + security_groups.length;
  if (count === 0 && !old.isTested)
    throw new CliError('notFound', `no device, no group and no policy test that you can write uses the label ${from}`);
  if (count > limits.changeSetRecords) {
    const most = limits.changeSetRecords;
    throw new CliError(
      'failed',
      `${count} records use the label, and one change may have ${most}: nothing was changed`,
    );
  }
  const change = {
    ...(devices.length > 0 && { devices }),
    ...(security_groups.length > 0 && { security_groups }),
    ...(old.isTested && {
      policy_tests: stored.tests.map((test) => ({
        ...test,
        from: renamed.entry(test.from),
        to: renamed.entry(test.to),
      })),
      ...(stored.revision !== undefined && { policy_tests_revision: stored.revision }),
    }),
  };
  const isUsed = other.devices.length + other.groups.length > 0 || other.isTested;
  return {
    change,
    where: placesInWords(devices.length, security_groups.length, old.isTested),
    foreign: old.groups.filter(isForeign),
    merged: isUsed ? placesInWords(other.devices.length, other.groups.length, other.isTested) : undefined,
  };
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
async function sayLeftOut(session: Session, from: string, to: string, foreign: Renaming['foreign']): Promise<void> {
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

export async function rename(session: Session, from: string, to: string): Promise<void> {
  for (const label of [from, to]) {
    const parsed = parseLabel(label);
    if (typeof parsed !== 'string') throw usageError(`\`${label}\` is not a label: ${parsed.reason}`);
  }
  if (from === to) throw usageError('the labels are the same');
  const renaming = await readRenaming(session, from, to);
  const { change, where, merged, foreign } = renaming;
  await sayLeftOut(session, from, to, foreign);
  if (merged !== undefined)
    session.say(`Warning: label ${to} is already in use on ${merged}. After this, the two labels are one.`);
  const isDryRun = session.values.dryRun === true;
  // A merge gives devices rules that neither label gave them.
  if (isDryRun || (merged !== undefined && session.values.yes !== true)) {
    const effect = await effectOf(session, change);
    for (const [sign, line] of effect.lines) session.say(`${sign} ${printable(line)}`);
    sayNotes(session, effect);
    if (isDryRun) {
      const sentence = `Would rename label ${from} to ${to} on ${where}. ${effect.summary}`.trim();
      return session.printRecord(change, `${sentence} Nothing was written.`, '');
    }
    if (effect.summary !== '') session.say(effect.summary);
  }
  if (!(await session.confirm(`Rename label ${from} to ${to} on ${where}?`)))
    return session.say('Nothing was changed.');
  const { written, where: changed } = await write(session, { from, to }, renaming);
  return written && tell(session, written, `Renamed label ${from} to ${to} on ${changed}.`);
}

const attempts = 10;

/** Writes it. What somebody else wrote to the records in the meantime is kept. */
async function write(
  session: Session,
  { from, to }: { readonly from: string; readonly to: string },
  agreed: Renaming,
): Promise<{ readonly written: WrittenChangeSet | undefined; readonly where: string }> {
  let { change, where } = agreed;
  for (let attempt = 1; ; attempt += 1) {
    try {
      const [written] = await writeChanges(session, change);
      return { written, where };
    } catch (error) {
      const raced = error instanceof RingfenceError && error.code === 'precondition_failed';
      if (!raced || attempt === attempts) throw error;
      const newest = await readRenaming(session, from, to);
      if (newest.merged !== undefined && agreed.merged === undefined)
        throw new CliError('conflict', `label ${to} came into use in the meantime; nothing was changed`);
      ({ change, where } = newest);
    }
  }
}
