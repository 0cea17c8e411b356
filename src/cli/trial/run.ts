/** Owns what the trial commands do. */
import type { Trial } from '../../api/trial/trials.ts';
import { printable } from '../../policy/names/printable.ts';
import { isUuid } from '../../policy/ids.ts';
import { writeOrAsk } from '../lookup/write-changes.ts';
import { sentenceNames } from '../lookup/subject-names.ts';
import { findOne } from '../session/find-one.ts';
import { countsLine } from '../session/in-force.ts';
import type { Session } from '../session/session.ts';
import { scopeText } from '../session/trial-options.ts';
import { askAboutScope } from '../session/trial-scope.ts';
import { endingWords, hasTrouble, scopeWords, trialLines } from '../session/trial-words.ts';
import { CliError } from '../terminal/exit.ts';
import { idColumn } from '../terminal/table.ts';
import { shortTime, spanWords } from '../terminal/time.ts';

export interface RevertOptions {
  readonly only?: readonly string[];
}

export interface WidenOptions {
  readonly on: readonly string[];
}

/** Names of what trials change and of who started them; ids where there is no name, and for programs. */
async function namer(session: Session): Promise<(trial: Trial) => { readonly what: string; readonly by: string }> {
  if (!session.isForPeople) return () => ({ what: '', by: '' });
  const { groupOf, deviceOf, otherOf } = await sentenceNames(session, { isWholeServer: false });
  return ({ security_groups, devices, by }) => ({
    what: [
      ...security_groups.map((id) => `group ${groupOf(id) ?? id}`),
      ...devices.map((id) => `groups of device ${deviceOf(id) ?? id}`),
    ].join(', '),
    by: otherOf(by) ?? by,
  });
}

const leftWords = ({ ends_at }: Trial): string => spanWords(Date.parse(ends_at) - Date.now());

export async function list(session: Session): Promise<void> {
  const client = await session.client();
  const [trials, name] = await Promise.all([client.trials.list(await session.organization()), namer(session)]);
  await session.printList(trials, {
    none: 'No change is being tried.',
    columns: (layout) => [
      idColumn<Trial>('TRIAL', ({ id }) => id, layout),
      { head: 'CHANGES', text: (trial) => name(trial).what },
      { head: 'ON', text: scopeWords },
      { head: 'DEVICES', text: ({ enforcement }) => (enforcement === undefined ? '' : countsLine(enforcement)) },
      {
        head: 'FAILING TESTS',
        text: ({ failing_tests = [], more_failing_tests = 0 }) => String(failing_tests.length + more_failing_tests),
        align: 'right',
      },
      { head: 'ENDS IN', text: leftWords },
      { head: 'BY', text: (trial) => name(trial).by },
      { head: 'STARTED', text: ({ started_at }) => shortTime(started_at), wide: true },
    ],
  });
}

/** By its full id, also where it is over; else by a part of the id among those that are pending. */
async function find(session: Session, text: string): Promise<Trial> {
  const client = await session.client();
  const organization = await session.organization();
  if (isUuid(text)) return client.trials.get(organization, text.toLowerCase());
  return findOne('trial', text, await client.trials.list(organization), ({ id }) => ({ id, names: [] }));
}

async function print(session: Session, trial: Trial): Promise<void> {
  const { what, by } = (await namer(session))(trial);
  const { state, ended_at } = trial;
  await session.printRecord(trial, [
    ['trial', trial.id],
    ['changes', what],
    ['state', state === 'pending' ? `pending, ends in ${leftWords(trial)}` : state],
    ['by', by],
    ['started', shortTime(trial.started_at)],
    ['ends', shortTime(trial.ends_at)],
    ...(ended_at === undefined ? [] : ([['ended', shortTime(ended_at)]] as const)),
    ...(trial.enforcement === undefined ? [] : ([['devices', trialLines(trial, Date.now())]] as const)),
  ]);
}

export const show = async (session: Session, text: string): Promise<void> => print(session, await find(session, text));

/** A trial that is over cannot be ended again. */
function requirePending(trial: Trial): void {
  if (trial.state !== 'pending')
    throw new CliError('conflict', `the trial is over (${trial.state}). ${endingWords(trial)}`);
}

export async function confirm(session: Session, text: string): Promise<void> {
  const client = await session.client();
  const trial = await find(session, text);
  requirePending(trial);
  if (hasTrouble(trial)) {
    for (const line of trialLines(trial, Date.now())) session.terminal.note(printable(line));
    if (!(await session.confirm('Keep the change all the same?'))) return session.say('Nothing was changed.');
  }
  const organization = await session.organization();
  const kept = await writeOrAsk(session, (asked) =>
    client.trials.confirm(organization, trial.id, { ...session.testQuery, ...asked }),
  );
  return printEnd(session, kept);
}

export async function revert(session: Session, text: string, { only = [] }: RevertOptions): Promise<void> {
  const client = await session.client();
  const trial = await find(session, text);
  requirePending(trial);
  const organization = await session.organization();
  const records = await recordsNamed(session, trial, only);
  const reverted = await client.trials.revert(organization, trial.id, only.length === 0 ? {} : { records });
  if (reverted.state !== 'pending') return printEnd(session, reverted);
  session.noteWritten(reverted.revision);
  const left = reverted.security_groups.length + reverted.devices.length;
  const taken = trial.security_groups.length + trial.devices.length - left;
  return session.printRecord(reverted, `Took ${taken} of ${taken + left} records out of the trial (${trial.id}).`);
}

/** The records of the trial that these words name. */
async function recordsNamed(session: Session, trial: Trial, only: readonly string[]): Promise<string[]> {
  if (only.length === 0) return [];
  const { groupOf, deviceOf } = await sentenceNames(session, { isWholeServer: false });
  const records = [
    ...trial.security_groups.map((id) => ({ id: String(id), names: [groupOf(id) ?? ''], note: 'group' })),
    ...trial.devices.map((id) => ({ id: String(id), names: [deviceOf(id) ?? ''], note: 'device' })),
  ];
  return [...new Set(only.map((word) => findOne('record of the trial', word, records, (record) => record).id))];
}

function printEnd(session: Session, trial: Trial): Promise<void> {
  session.noteWritten(trial.revision);
  return session.printRecord(trial, `${endingWords(trial)} (${trial.id})`);
}

export async function widen(session: Session, text: string, { on }: WidenOptions): Promise<void> {
  const client = await session.client();
  const trial = await find(session, text);
  requirePending(trial);
  const organization = await session.organization();
  const scope = scopeText(on);
  await askAboutScope(session, on);
  const widened = await writeOrAsk(session, (asked) =>
    client.trials.widen(organization, trial.id, { scope }, { ...session.testQuery, ...asked }),
  );
  session.noteWritten(widened.revision);
  return print(session, widened);
}
