/** Owns the effect of a planned change on devices: asks the server, and lists which devices gain or lose what. */
import type { ChangeSetBody } from '../../api/change/change-set.ts';
import type { Simulation, SimulationWarning } from '../../api/change/simulation.ts';
import { RingfenceError } from '../../client/error.ts';
import type { Line } from '../../client/words/changes.ts';
import { notInForceNote, tooMuchNote, trafficLines, trafficSummary } from '../../client/words/traffic.ts';
import { failureInWords } from '../../policy/policy-test/words.ts';
import { printable } from '../../policy/names/printable.ts';
import type { Session } from '../session/session.ts';
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

export async function effectOf(
  session: Session,
  change: ChangeSetBody,
  nameEntry: EntryNaming = () => undefined,
): Promise<Effect> {
  const client = await session.client();
  try {
    const simulation = await client.simulate(await session.organization(), change, { limit: mostTold, force: true });
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
    if (session.values.dryRun === true && (error.status === 409 || error.status === 412)) throw refusal;
    return unknownEffect(refusal.message);
  }
}

export function sayNotes(session: Session, { notes }: Effect): void {
  for (const note of notes) session.say(note);
}
