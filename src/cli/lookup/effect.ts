/** Owns the effect of a planned change on devices: asks the server, and lists which devices gain or lose what. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Simulation, SimulationWarning } from '../../api/change/simulation.ts';
import type { PolicyTestResult } from '../../api/policy-tests/policy-test.ts';
import { RingfenceError } from '../../client/error.ts';
import type { Line } from '../../client/words/changes.ts';
import { notInForceNote, tooMuchNote, trafficLines, trafficSummary } from '../../client/words/traffic.ts';
import { failureInWords, testInWords } from '../../policy/policy-test/words.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Session } from '../session/session.ts';
import { exitCodes } from '../terminal/exit.ts';
import { namedRefusal, type EntryNaming } from './write-changes.ts';

/** The most devices whose effects are listed; the others are only counted. */
const mostTold = 1_000;

export interface Effect {
  readonly lines: readonly Line[];
  /** One sentence; empty where nothing changes for any device. */
  readonly summary: string;
  /** What a person should know besides. */
  readonly notes: readonly string[];
  /** The server's answer. */
  readonly simulation: Simulation | undefined;
}

/** What the command needs to do it all the same. */
const remedies: Partial<Record<SimulationWarning['code'], string>> = {
  would_open: ' To do this, use --detach.',
  group_in_use: ' To do this, use --detach.',
};

const unknownEffect = (why: string): Effect => ({
  lines: [],
  summary: '',
  notes: [`The effect on devices is not known: ${why}`],
  simulation: undefined,
});

/** How the server ends a write that it refuses. A dry run ends so, too. */
const refusalStatuses: ReadonlySet<number | undefined> = new Set([403, 409, 412, 422]);

/** Whether the write would be refused because of this warning, and not only do less than was meant. */
function isRefusal({ code, devices = [], more_devices }: SimulationWarning, change: ChangeSetBody): boolean {
  if (code !== 'group_in_use') return code === 'would_open';
  // The write judges the devices as the same change leaves them.
  const written = new Set<string | undefined>(change.devices?.map(({ id }) => id));
  return more_devices !== undefined || devices.some((id) => !written.has(id));
}

/** Whether tests would fail that do not fail now: that refuses a write. */
async function breaksTests(session: Session, change: ChangeSetBody, { tests }: Simulation): Promise<boolean> {
  const failing = tests.filter(({ state }) => state === 'failing');
  if (failing.length === 0) return false;
  const stored = await (await session.client()).policyTests.list(await session.organization());
  // A test that the change writes is a new one where it says something else.
  const identify = (test: PolicyTestResult): string =>
    change.policy_tests === undefined ? test.name : `${test.name} ${testInWords(test)}`;
  const failed = new Set(stored.filter(({ state }) => state === 'failing').map(identify));
  return failing.some((test) => !failed.has(identify(test)));
}

/** Of a dry run: ends as a script's write would, with 5 where it needs `--detach` and 2 where it needs `--skip-tests`. */
async function endAsWrite(session: Session, change: ChangeSetBody, simulation: Simulation): Promise<void> {
  const { detach, skipTests } = session.values;
  if (detach !== true && simulation.warnings.some((warning) => isRefusal(warning, change)))
    process.exitCode = exitCodes.conflict;
  else if (skipTests !== true && (await breaksTests(session, change, simulation))) process.exitCode = exitCodes.usage;
}

export interface EffectOptions {
  readonly nameEntry?: EntryNaming;
  /** The server has judged the write itself: only its effect is asked for. */
  readonly isJudged?: boolean;
}

export async function effectOf(
  session: Session,
  change: ChangeSetBody,
  { nameEntry = () => undefined, isJudged = false }: EffectOptions = {},
): Promise<Effect> {
  const client = await session.client();
  const endsAsWrite = session.values.dryRun === true && !isJudged;
  try {
    const force = !endsAsWrite || session.values.force === true;
    const simulation = await client.simulate(await session.organization(), change, { limit: mostTold, force });
    if (endsAsWrite) await endAsWrite(session, change, simulation);
    const { affected, devices, warnings, tests } = simulation;
    const [notInForce, tooMuch] = [notInForceNote(simulation), tooMuchNote(simulation)];
    const more = affected - devices.length;
    return {
      lines: trafficLines(simulation),
      summary: affected === 0 ? '' : trafficSummary(simulation),
      notes: [
        ...(more > 0 ? [`${more} more ${more === 1 ? 'device is' : 'devices are'} affected and not shown.`] : []),
        ...(tooMuch === undefined ? [] : [tooMuch]),
        ...(notInForce === undefined ? [] : [`Note: ${notInForce}`]),
        ...warnings.map(({ code, detail }) => `Warning: ${detail}${remedies[code] ?? ''}`),
        ...tests.flatMap((test) =>
          test.failure === undefined
            ? []
            : [`Policy test ${test.name} would fail: ${failureInWords(test, test.failure)}`],
        ),
      ].map(printable),
      simulation,
    };
  } catch (error) {
    if (!(error instanceof RingfenceError)) throw error;
    const refusal = namedRefusal(error, change, nameEntry);
    // What the write would be refused for is how its dry run ends, too.
    if (endsAsWrite && refusalStatuses.has(error.status)) throw refusal;
    return unknownEffect(refusal.message);
  }
}

export function sayNotes(session: Session, { notes }: Effect): void {
  for (const note of notes) session.say(note);
}
