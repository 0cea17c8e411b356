/** Owns the comparison: ours, the floor and the peers at the same job, one change or many to thousands of streams, alone and in turn. */
import { setTimeout as sleep } from 'node:timers/promises';
import { median, type Goal } from '../lib/goals.ts';
import { ProcessorMeter, sumOf, treeOf } from '../lib/processor-time.ts';
import { figure, type Cell } from '../lib/table.ts';
import { atRate, concurrently, documentBytes, openLoad, startOurs, type Bench, type Part } from './bench.ts';
import { startEtcd } from './etcd.ts';
import { startNats, startNatsKv } from './nats.ts';
import { floors, pidsOf, startFloor, type Peer } from './peers.ts';
import { inRow, inTurn, noRounds, warmUp, writeCost, type Contender, type Rounds } from './rounds.ts';
import { nowNs, residentKb, type Load, type Security } from './tools.ts';

/** What one contender showed; what it could not show stays NaN. */
export interface Shown {
  readonly name: string;
  /** Each time it was opened: streams a second, and microseconds of the server's processors for each. */
  readonly openings: { readonly perSecond: number; readonly cost: number }[];
  /** The same for streams that open in a process that has opened as many before: its code is compiled. */
  readonly reopenings: { readonly perSecond: number; readonly cost: number }[];
  /** The same again, with resumed TLS sessions. */
  readonly resumptions: { readonly perSecond: number; readonly cost: number }[];
  /** Microseconds of its processors for a write without a listener, which is no part of a delivery. */
  writeCost: number;
  kbPerStream: number;
  /** Alone: the first changes after it started, later ones, and those to a receiver that sleeps between them. */
  cold: Rounds;
  warm: Rounds;
  asleep: Rounds;
  /** In turn with ours, which runs beside it: between the two turns of a pair a machine hardly changes, between two measurements alone it may. */
  turns: readonly Turns[];
  deliveries: number;
  lagRate: number;
  lag50: number;
  lag99: number;
  /** Why there is no more to show. */
  trouble: string | undefined;
}

/** One turn of a contender, and the turn of ours right after it. */
export interface Turns {
  readonly its: Rounds;
  readonly ours: Rounds;
}

export const names = {
  floor: floors.send,
  'floor-write': floors.write,
  'floor-node': floors.node,
  ours: 'Ringfence',
  nats: 'NATS core',
  kv: 'NATS KV',
  etcd: 'etcd gRPC',
  gateway: 'etcd JSON',
  'tls-floor': floors.tls,
  'tls-node': floors['node-tls'],
  'tls-ours': 'Ringfence, own TLS',
  nginx: 'Ringfence behind nginx with TLS',
  'tls-nats': 'NATS core with TLS',
} as const;
export type Name = keyof typeof names;

const starters: Readonly<Record<Name, (bench: Bench, streams: number) => Promise<Peer>>> = {
  floor: (bench, streams) => startFloor(bench.floor, streams),
  'floor-write': (bench, streams) => startFloor(bench.floor, streams, 'write'),
  'floor-node': (bench, streams) => startFloor(bench.floor, streams, 'node'),
  ours: (bench) => startOurs(bench),
  nats: () => startNats(),
  kv: (bench) => startNatsKv(bench.folder),
  etcd: (bench) => startEtcd(bench.folder, 'gRPC'),
  gateway: (bench) => startEtcd(bench.folder, 'JSON'),
  'tls-floor': (bench, streams) => startFloor(bench.floor, streams, 'tls', bench.tls),
  'tls-node': (bench, streams) => startFloor(bench.floor, streams, 'node-tls', bench.tls),
  'tls-ours': (bench) => startOurs(bench, [], { by: 'server', ...bench.tls }),
  nginx: (bench) => startOurs(bench, [], { by: 'nginx', ...bench.tls }),
  'tls-nats': (bench) => startNats(bench),
};

const bounds = {
  cold: { most: 3, least: 3, forMs: 0 },
  warmUp: { most: 12, least: 4, forMs: 3_000 },
  warm: { most: 25, least: 5, forMs: 4_000 },
  asleep: { most: 10, least: 4, forMs: 2_000 },
  firstTurns: { most: 1, least: 1, forMs: 0 },
  turns: { most: 40, least: 10, forMs: 20_000 },
} as const;
const burstSeconds = 1.5;
/** What is delivered per second while lag is looked at: this part of what was possible, and not more than the goal asks for. */
const lagShare = 0.6;

async function opened(
  bench: Bench,
  peer: Peer,
  streams: number,
  shown?: Shown,
  openings = shown?.openings,
  security?: Security,
): Promise<Contender> {
  // A write costs the same before streams open again in the same process.
  const isAgain = openings !== shown?.openings;
  const write = peer.isFloor || isAgain ? { user: 0, system: 0 } : await writeCost(peer);
  await sleep(500);
  const resident = (): number =>
    pidsOf(peer)
      .flatMap(treeOf)
      .reduce((sum, pid) => sum + residentKb(pid), 0);
  const before = resident();
  const meter = new ProcessorMeter(...pidsOf(peer));
  meter.start();
  const { load, ns, resumed } = await openLoad(bench, peer, streams, security === undefined ? {} : { security });
  if (security === 'resume' && resumed < streams - 1) throw new Error(`${resumed} of ${streams} resumed`);
  meter.stop();
  await sleep(1_500);
  if (shown !== undefined) {
    openings?.push({ perSecond: streams / (ns / 1e9), cost: sumOf(meter.total) / streams });
    // The first time only: later streams find memory that those before them left.
    if (Number.isNaN(shown.kbPerStream)) shown.kbPerStream = (resident() - before) / streams;
    if (!isAgain) shown.writeCost = sumOf(write);
  }
  return { peer, load, streams, write };
}

/** So many at once as fast as the peer takes them; the clock stops at the last stream's last document. */
async function burst({ peer, load, streams }: Contender, changes: number): Promise<number> {
  const { reached } = await load.expect(changes);
  const began = nowNs();
  await concurrently(peer, changes);
  const { last } = await reached;
  return (streams * changes) / ((last - began) / 1e9);
}

async function manyChanges(contender: Contender, shown: Shown, goal: number): Promise<void> {
  const { peer, load, streams } = contender;
  await peer.crowd?.();
  await sleep(500);
  // Short bursts say how many changes make a second or two: peers differ by a thousand times.
  let best = await burst(contender, 4);
  if (best / streams > 10) best = Math.max(best, await burst(contender, 100));
  // Sustained is what programs reach that compile while they run: twice more, and again as long as that brought much.
  for (let i = 0, before = 0; i < 2 || (i < 6 && best > before * 1.1); i += 1) {
    before = best;
    best = Math.max(best, await burst(contender, Math.max(4, Math.round((best / streams) * burstSeconds))));
  }
  shown.deliveries = best;
  shown.lagRate = Math.min(best * lagShare, goal);
  await load.lag();
  const { documents } = await load.count();
  const written = await atRate(peer, shown.lagRate / streams, 2_500);
  for (let i = 0; i < 100 && (await load.count()).documents < documents + written * streams; i += 1) await sleep(100);
  const { p50, p99 } = await load.lag();
  shown.lag50 = p50;
  shown.lag99 = p99;
}

const nothingYet = (name: Name): Shown => ({
  name: names[name],
  openings: [],
  reopenings: [],
  resumptions: [],
  writeCost: Number.NaN,
  kbPerStream: Number.NaN,
  cold: noRounds,
  warm: noRounds,
  asleep: noRounds,
  turns: [],
  deliveries: Number.NaN,
  lagRate: Number.NaN,
  lag50: Number.NaN,
  lag99: Number.NaN,
  trouble: undefined,
});

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** One contender with the machine to itself. What fails leaves the rest unknown, and says why. */
async function alone(bench: Bench, name: Name, { streams, sustained }: Wanted): Promise<Shown> {
  const shown = nothingYet(name);
  let peer: Peer | undefined;
  let load: Load | undefined;
  try {
    peer = await starters[name](bench, streams);
    const contender = await opened(bench, peer, streams, shown);
    load = contender.load;
    await load.awake(true);
    shown.cold = await inRow(contender, bounds.cold);
    await warmUp(peer, load);
    await inRow(contender, bounds.warmUp);
    shown.warm = await inRow(contender, bounds.warm);
    await load.awake(false);
    shown.asleep = await inRow(contender, bounds.asleep);
    await load.awake(true);
    if (sustained !== undefined) await manyChanges(contender, shown, sustained);
  } catch (error) {
    shown.trouble = reasonOf(error);
  } finally {
    await load?.stop();
    await peer?.stop();
  }
  return shown;
}

/** Its streams open once more, in a server that has the machine to itself. */
async function openOnceMore(bench: Bench, name: Name, { streams, resumes }: Wanted, shown: Shown): Promise<void> {
  let peer: Peer | undefined;
  let load: Load | undefined;
  try {
    peer = await starters[name](bench, streams);
    ({ load } = await opened(bench, peer, streams, shown));
    if (!resumes) return;
    await load.stop();
    ({ load } = await opened(bench, peer, streams, shown, shown.reopenings));
    await load.stop();
    ({ load } = await opened(bench, peer, streams, shown, shown.resumptions, 'resume'));
  } catch (error) {
    console.log(`${streams} streams: ${names[name]} gave up: ${reasonOf(error)}`);
  } finally {
    await load?.stop();
    await peer?.stop();
  }
}

/** Ours and one that sleeps while it is idle, side by side, and no other: further servers would evict their caches. */
async function together(
  bench: Bench,
  name: Name,
  { streams, ours: subject = 'ours' }: Wanted,
  shown: Shown,
): Promise<void> {
  const peers: Peer[] = [];
  const contenders: Contender[] = [];
  try {
    for (const one of [name, subject]) {
      const peer = await starters[one](bench, streams);
      peers.push(peer);
      const contender = await opened(bench, peer, streams);
      contenders.push(contender);
      await contender.load.awake(true);
      await warmUp(peer, contender.load);
      await contender.load.awake(false);
    }
    await inTurn(contenders, bounds.firstTurns);
    const [its = [], ours = []] = await inTurn(contenders, bounds.turns);
    shown.turns = its.map((rounds, turn) => ({ its: rounds, ours: ours[turn] ?? noRounds }));
  } catch (error) {
    console.log(`${streams} streams: ${names[name]} and ours in turn gave up: ${reasonOf(error)}`);
  } finally {
    for (const { load } of contenders) await load.stop();
    for (const peer of peers) await peer.stop();
  }
}

const cell = (value: number): Cell => (Number.isNaN(value) ? '–' : value);

export interface Wanted {
  readonly streams: number;
  readonly who: readonly Name[];
  /** Those of them that are measured in turn with ours too: they are still when they are idle. */
  readonly turns: readonly Name[];
  /** Those whose streams open several times, one contender after the other: what counts is the median. */
  readonly openings?: readonly Name[];
  /** Those streams open again with resumed TLS sessions. */
  readonly resumes?: true;
  /** Which of ours is measured in turn with the others: the one without TLS, unless said otherwise. */
  readonly ours?: Name;
  /** Deliveries per second; absent: not measured. */
  readonly sustained?: number;
  readonly goals: (of: (name: Name) => Shown) => readonly Goal[];
}

/** How often streams open where that is judged. */
const openingTimes = Number(process.env['RINGFENCE_BENCH_OPENINGS'] ?? 5);

export const costOf = ({ user, system }: Rounds): number => user + system;
export const costInTurn = (turns: readonly Turns[], whose: keyof Turns): number =>
  median(turns.map((turn) => costOf(turn[whose])));
export const openingCost = ({ openings }: Shown): number => median(openings.map(({ cost }) => cost));
export const reopeningCost = (times: Shown['reopenings']): number => median(times.map(({ cost }) => cost));
export const openingCosts = ({ openings }: Shown): string => openings.map(({ cost }) => figure(cost)).join(', ');

const columns: readonly (readonly [string, (shown: Shown) => Cell])[] = [
  ['', ({ name }) => name],
  ['last, ms: cold', ({ cold }) => cell(cold.last)],
  ['warm', ({ warm }) => cell(warm.last)],
  ['worst', ({ warm }) => cell(warm.worst)],
  ['from the answer', ({ warm }) => cell(warm.afterAnswer)],
  ['receiver asleep', ({ asleep }) => cell(asleep.last)],
  ['in turn', ({ turns }) => cell(median(turns.map(({ its }) => its.last)))],
  ['ours then', ({ turns }) => cell(median(turns.map(({ ours }) => ours.last)))],
  ['µs a delivery: user', ({ warm }) => cell(warm.user)],
  ['system', ({ warm }) => cell(warm.system)],
  ['cold', ({ cold }) => cell(costOf(cold))],
  ['asleep', ({ asleep }) => cell(costOf(asleep))],
  ['in turn', ({ turns }) => cell(costInTurn(turns, 'its'))],
  ['ours then', ({ turns }) => cell(costInTurn(turns, 'ours'))],
  ['µs a write', ({ writeCost: cost }) => cell(cost)],
  ['opened/s', ({ openings }) => cell(median(openings.map(({ perSecond }) => perSecond)))],
  ['µs a stream', (shown) => cell(openingCost(shown))],
  ['again', ({ reopenings }) => cell(reopeningCost(reopenings))],
  ['resumed', ({ resumptions }) => cell(reopeningCost(resumptions))],
  ['KB a stream', ({ kbPerStream }) => cell(kbPerStream)],
];
const sustainedColumns: typeof columns = [
  ['deliveries, M/s', ({ deliveries }) => cell(deliveries / 1e6)],
  ['lag at M/s', ({ lagRate }) => cell(lagRate / 1e6)],
  ['lag p50, ms', ({ lag50 }) => cell(lag50)],
  ['lag p99, ms', ({ lag99 }) => cell(lag99)],
];

/** Those named in `RINGFENCE_BENCH_CONTENDERS`, all unless it is set. */
const asked = process.env['RINGFENCE_BENCH_CONTENDERS']?.split(',');
export const isAsked = (name: Name): boolean => asked === undefined || asked.includes(name);

export async function fanOut(bench: Bench, wanted: Wanted): Promise<Part> {
  const { streams, sustained, goals } = wanted;
  const [who, turns] = [wanted.who.filter(isAsked), wanted.turns.filter(isAsked)];
  const all = new Map<Name, Shown>();
  for (const name of who) all.set(name, await alone(bench, name, wanted));
  for (let time = 1; time < openingTimes; time += 1) {
    for (const [name, shown] of all) {
      if (wanted.openings?.includes(name)) await openOnceMore(bench, name, wanted, shown);
    }
  }
  for (const name of turns) await together(bench, name, wanted, all.get(name) ?? nothingYet(name));
  for (const { name, trouble } of all.values()) {
    if (trouble !== undefined) console.log(`${streams} streams: ${name} gave up: ${trouble}`);
  }
  const of = (name: Name): Shown => all.get(name) ?? nothingYet(name);
  const shownColumns = sustained === undefined ? columns : [...columns, ...sustainedColumns];
  return {
    title: `${streams} streams: one change of ${documentBytes} bytes from sending the write to the last stream (medians), each contender alone and some in turn, with the server’s own processor time; then as many as possible`,
    head: shownColumns.map(([head]) => head),
    rows: [...all.values()].map((shown) => shownColumns.map(([, value]) => value(shown))),
    goals: goals(of),
  };
}
