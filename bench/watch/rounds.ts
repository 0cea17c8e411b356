/** Owns rounds of one change to all streams of a contender: how long each took, and what it cost the server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { at, median } from '../lib/goals.ts';
import { ProcessorMeter, type ProcessorTime } from '../lib/processor-time.ts';
import { concurrently, documentBytes, ms } from './bench.ts';
import { pidsOf, type Peer } from './peers.ts';
import type { Load } from './tools.ts';

export interface Contender {
  readonly peer: Peer;
  readonly load: Load;
  readonly streams: number;
  /** Microseconds of the server's processors for a write without a listener: no part of a delivery. */
  readonly write: ProcessorTime;
}

/** What rounds showed. Milliseconds to the last stream; microseconds of the server's processors for each delivery. */
export interface Rounds {
  readonly rounds: number;
  readonly last: number;
  readonly worst: number;
  /** From the answer to the write instead of its sending. */
  readonly afterAnswer: number;
  readonly user: number;
  readonly system: number;
}

export const noRounds: Rounds = {
  rounds: 0,
  last: Number.NaN,
  worst: Number.NaN,
  afterAnswer: Number.NaN,
  user: Number.NaN,
  system: Number.NaN,
};

/** Collects rounds of one contender, in a row or in turn with others. */
export class RoundTaker {
  readonly #contender: Contender;
  readonly #meter: ProcessorMeter;
  readonly #times: { readonly last: number; readonly after: number }[] = [];

  constructor(contender: Contender) {
    this.#contender = contender;
    this.#meter = new ProcessorMeter(...pidsOf(contender.peer));
  }

  async take(): Promise<void> {
    const { peer, load } = this.#contender;
    const { reached } = await load.expect(1);
    this.#meter.start();
    const { sent, acknowledged } = await peer.write(documentBytes);
    const { last } = await reached;
    // What the server does after the last delivery is part of its price.
    await sleep(5);
    this.#meter.stop();
    this.#times.push({ last: ms(last - sent), after: Math.max(0, ms(last - acknowledged)) });
  }

  get shown(): Rounds {
    const rounds = this.#times.length;
    if (rounds === 0) return noRounds;
    const lasts = this.#times.map(({ last }) => last);
    const { user, system } = this.#meter.total;
    const { streams, write } = this.#contender;
    const deliveries = rounds * streams;
    return {
      rounds,
      last: median(lasts),
      worst: at(lasts, 1),
      afterAnswer: median(this.#times.map(({ after }) => after)),
      user: Math.max(0, user - rounds * write.user) / deliveries,
      system: Math.max(0, system - rounds * write.system) / deliveries,
    };
  }
}

/** A program that compiles while it runs needs some thousands of changes before it is done with that. */
const warm = { atOnce: 20, most: 5_000, forMs: 3_000 };

/** As many changes as fit into some seconds, to all streams, or to none without a load. */
export async function warmUp(peer: Peer, load?: Load): Promise<void> {
  const until = Date.now() + warm.forMs;
  for (let done = 0; done < warm.most && Date.now() < until; done += warm.atOnce) {
    const expected = await load?.expect(warm.atOnce);
    await concurrently(peer, warm.atOnce);
    await expected?.reached;
  }
}

const pause = 30;

/** What a write costs the server while it has no streams: warm, and as far apart as the rounds are that it is taken off from. */
export async function writeCost(peer: Peer): Promise<ProcessorTime> {
  await warmUp(peer);
  const meter = new ProcessorMeter(...pidsOf(peer));
  const writes = 40;
  for (let i = 0; i < writes; i += 1) {
    meter.start();
    await peer.write(documentBytes);
    await sleep(5);
    meter.stop();
    await sleep(pause);
  }
  const { user, system } = meter.total;
  return { user: user / writes, system: system / writes };
}

/** How many rounds, and for how long at most: slow contenders get fewer, so that the whole ends in minutes. */
export interface Bounds {
  readonly most: number;
  readonly least: number;
  readonly forMs: number;
}

const exactly = (rounds: number): Bounds => ({ most: rounds, least: rounds, forMs: 0 });

/** Rounds in a row. */
export async function inRow(contender: Contender, { most, least, forMs }: Bounds): Promise<Rounds> {
  const taker = new RoundTaker(contender);
  const until = Date.now() + forMs;
  for (let i = 0; i < most && (i < least || Date.now() < until); i += 1) {
    await taker.take();
    await sleep(pause);
  }
  return taker.shown;
}

/** Rounds that one contender takes before the next one has its turn. */
const turn = { uncounted: 1, counted: 2 };

/**
 * Turns of some rounds each, so that a machine that is slower for a while is so for all; gives each contender's turns in
 * their order. A turn's first round is not counted: the others were in the caches before it. Only the generator of whose
 * turn it is does not sleep.
 */
export async function inTurn(
  contenders: readonly Contender[],
  { most, least, forMs }: Bounds,
): Promise<readonly (readonly Rounds[])[]> {
  const turns = contenders.map((): Rounds[] => []);
  const until = Date.now() + forMs * contenders.length;
  for (let i = 0; i < most && (i < least || Date.now() < until); i += 1) {
    for (const [index, contender] of contenders.entries()) {
      await contender.load.awake(true);
      await inRow(contender, exactly(turn.uncounted));
      turns[index]?.push(await inRow(contender, exactly(turn.counted)));
      await contender.load.awake(false);
    }
  }
  return turns;
}
