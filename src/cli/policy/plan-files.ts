/** Owns the plan for policy files: what would change on the server, and how it is reported. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import { printable } from '../../policy/names/printable.ts';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { isUuid } from '../../policy/ids.ts';
import { allDevices } from '../lookup/device.ts';
import { effectOf, type Effect } from '../lookup/effect.ts';
import { allGroups } from '../lookup/group.ts';
import { noTests, storedTests } from '../lookup/stored-tests.ts';
import type { EntryNaming } from '../lookup/write-changes.ts';
import { labelDoubts, type Doubt } from '../session/ask-about.ts';
import { sayHostBits } from '../group/doubts.ts';
import { namesFor, peerNames } from '../group/peer-text.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { readInput } from '../terminal/input-file.ts';
import { paintLine, type Paint } from '../terminal/screen.ts';
import { movedNames, type MovedName } from './moved-names.ts';
import { planPolicy, renderStep, type KeptRule, type Step } from './plan.ts';
import { namesInFiles, plannedChange } from './planned-change.ts';
import { readPolicy } from './policy-file.ts';

export interface FileOptions {
  readonly file?: readonly string[];
  readonly prune?: boolean;
}

export interface FilePlan {
  readonly steps: readonly Step[];
  /** The steps as one change. */
  readonly change: ChangeSetBody;
  /** What its entries are called in a refusal. */
  readonly nameEntry: EntryNaming;
  /** What only `--prune` would delete: no file names it. */
  readonly unlisted: readonly Step[];
  /** Labels that the files name and that no device has, also not by these files. */
  readonly doubts: readonly Doubt[];
  /** Names by which steps choose a device that is not the one which was called so before. */
  readonly moved: readonly MovedName[];
}

/** The steps that make the server match the files: those named by `-f` and those that follow the command. */
export async function planFiles(
  session: Session,
  given: readonly string[],
  { file = [], prune }: FileOptions,
): Promise<FilePlan> {
  const files = [...file, ...given];
  if (files.length === 0) throw usageError('no policy file given: name a file, a folder, or - for stdin');
  if (files.filter((name) => name === '-').length > 1) throw usageError('stdin can be used only once');
  const inputs = await Promise.all(files.map((name) => readInput(name, session)));
  const documents = inputs.flatMap((input) => input.documents);
  const names = await namesFor(
    session,
    documents.map(({ value }) => value),
  );
  const named = new Set<string>();
  const idOf = (text: string): string => {
    const id = names.idOf(text);
    if (!isUuid(text.trim())) named.add(id);
    return id;
  };
  const desired = readPolicy({ documents, faults: inputs.flatMap(({ faults }) => faults) }, { ...names, idOf });
  sayHostBits(
    session,
    desired.groups.flatMap(({ inbound, outbound }) => [...inbound, ...outbound]),
  );
  if (desired.groups.length + desired.devices.length === 0 && desired.tests === undefined)
    throw usageError('the files contain no groups, no devices and no tests');
  const client = await session.client();
  const [groups, devices, me, stored] = await Promise.all([
    allGroups(session),
    allDevices(session),
    client.whoAmI(),
    desired.tests === undefined ? noTests : storedTests(session),
  ]);
  const actual = { groups, devices, me: me.id, tests: stored.tests };
  const now = Date.now();
  const { steps, kept } = planPolicy(desired, actual, { prune: prune === true, now });
  sayKept(session, kept);
  const unlisted =
    prune === true
      ? []
      : planPolicy(desired, actual, { prune: true, now }).steps.filter(({ action }) => action === 'delete');
  const labels = new Set([...devices, ...desired.devices].flatMap((device) => device.labels ?? []));
  const inGroups = labelsIn(
    desired.groups.map(({ inbound, outbound, appliesTo }) => ({
      inbound_rules: [...inbound],
      outbound_rules: [...outbound],
      applies_to: [...appliesTo],
    })),
  );
  const inTests = (desired.tests ?? []).flatMap(({ test: { from, to } }) =>
    [from, to].flatMap((end) => ('labels' in end ? end.labels : [])),
  );
  const doubts = labelDoubts(new Set([...inGroups, ...inTests]), labels);
  const change = plannedChange(steps, actual, stored.revision);
  const nameEntry = namesInFiles(steps, change, peerNames(devices));
  return { steps, change, nameEntry, unlisted, doubts, moved: await movedNames(session, steps, { devices, named }) };
}

/** Names what was granted for a while, and stays. */
function sayKept(session: Session, kept: readonly KeptRule[]): void {
  if (kept.length === 0) return;
  session.say(
    kept.length === 1
      ? 'This rule is not in the files and stays until it expires:'
      : `These ${kept.length} rules are not in the files and stay until they expire:`,
  );
  for (const { group, line } of kept) session.say(`    ${printable(group)}: ${printable(line)}`);
}

/** Says what `--prune` would do, where it was not given. */
export function sayUnlisted(session: Session, unlisted: readonly Step[]): void {
  for (const kind of ['group', 'test'] as const) {
    const names = unlisted.flatMap((step) => (step.kind === kind ? [step.name] : []));
    if (names.length === 0) continue;
    const isOne = names.length === 1;
    session.say(
      `${names.length} ${isOne ? `${kind} is` : `${kind}s are`} not in these files and ${isOne ? 'stays' : 'stay'}: ${printable(names.join(', '))}. With --prune, apply deletes ${isOne ? 'it' : 'them'}.`,
    );
  }
}

/** Whether the steps were taken, or only planned. */
type ReportTense = 'would' | 'did';

/** `isShown`: the person has read the steps already. */
export function report(
  session: Session,
  steps: readonly Step[],
  tense: ReportTense,
  { isShown = false, effect }: { readonly isShown?: boolean; readonly effect?: Effect | undefined } = {},
): Promise<void> {
  return session.print({
    data: steps.map(({ action, kind, name, lines }) => ({
      action,
      kind,
      name,
      changes: lines.map(([sign, text]) => `${sign} ${text}`),
    })),
    ids: steps.map(({ name }) => name),
    table: ({ paint }) =>
      [
        ...(isShown ? [] : stepLines(steps, paint)),
        ...(effect?.lines ?? []).map((line) => paintLine(line, paint)),
        summary(steps, tense, effect),
      ]
        .map((line) => `${line}\n`)
        .join(''),
  });
}

export const stepLines = (steps: readonly Step[], paint: Paint): readonly string[] =>
  steps.flatMap((step) => renderStep(step, paint));

/** `1 to be created, 2 to be changed`. */
export function countSteps(steps: readonly Step[], tense: ReportTense): string {
  const words = { create: 'created', update: 'changed', delete: 'deleted' } as const;
  const counts = (['create', 'update', 'delete'] as const).flatMap((action) => {
    const count = steps.filter((step) => step.action === action).length;
    return count === 0 ? [] : [`${count} ${tense === 'would' ? 'to be ' : ''}${words[action]}`];
  });
  return counts.join(', ');
}

function summary(steps: readonly Step[], tense: ReportTense, effect: Effect | undefined): string {
  if (steps.length === 0) return 'No changes: everything matches the files.';
  const sentences = [
    `${countSteps(steps, tense)}.`,
    effect?.summary ?? '',
    tense === 'would' ? 'Nothing was written.' : '',
  ];
  return sentences.filter((sentence) => sentence !== '').join(' ');
}

/** What the steps do to devices; undefined where there are none. */
export const effectOfPlan = async (
  session: Session,
  { steps, change, nameEntry }: FilePlan,
): Promise<Effect | undefined> => (steps.length === 0 ? undefined : effectOf(session, change, { nameEntry }));
