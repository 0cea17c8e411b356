/** Owns the comparison: ours, the floor and the peers at the same job, one change or many to thousands of streams. */
import { setTimeout as sleep } from 'node:timers/promises';
import { at, median, type Goal } from '../lib/goals.ts';
import type { Cell } from '../lib/table.ts';
import { atRate, concurrently, documentBytes, ms, openLoad, startOurs, type Bench, type Part } from './bench.ts';
import { startEtcd } from './etcd.ts';
import { startNats, startNatsKv } from './nats.ts';
import { startFloor, type Peer } from './peers.ts';
import { nowNs, residentKb, type Load } from './tools.ts';

/** What one contender showed; what it could not show stays NaN. */
interface Shown {
  readonly name: string;
  openedPerSecond: number;
  kbPerStream: number;
  /** One change to the last stream, from sending the write and from its answer; milliseconds. */
  last: number;
  worst: number;
  afterAnswer: number;
  deliveries: number;
  lagRate: number;
  lag50: number;
  lag99: number;
}

const names = {
  floor: 'floor (C)',
  ours: 'Ringfence',
  nats: 'NATS core',
  kv: 'NATS KV',
  etcd: 'etcd gRPC',
  gateway: 'etcd JSON',
} as const;
type Name = keyof typeof names;

const starters: Readonly<Record<Name, (bench: Bench, streams: number) => Promise<Peer>>> = {
  floor: (bench, streams) => startFloor(bench.floor, streams),
  ours: (bench) => startOurs(bench),
  nats: () => startNats(),
  kv: (bench) => startNatsKv(bench.folder),
  etcd: (bench) => startEtcd(bench.folder, 'gRPC'),
  gateway: (bench) => startEtcd(bench.folder, 'JSON'),
};

/** Slow peers get fewer rounds, so that the whole ends in minutes. */
const rounds = { most: 30, least: 6, warmUp: 5, forMs: 5_000 };
const burstSeconds = 1.5;
/** What is delivered per second while lag is looked at: this part of what was possible, and not more than the goal asks for. */
const lagShare = 0.6;

async function opened(bench: Bench, peer: Peer, streams: number, shown: Shown): Promise<Load> {
  await sleep(500);
  const before = residentKb(peer.pid);
  const { load, ns } = await openLoad(bench, peer, streams);
  shown.openedPerSecond = streams / (ns / 1e9);
  await sleep(1_500);
  shown.kbPerStream = (residentKb(peer.pid) - before) / streams;
  return load;
}

interface Contender {
  readonly peer: Peer;
  readonly load: Load;
  readonly shown: Shown;
}

/** In turns, so that a machine that is slower for a while is so for all. */
async function oneChange(contenders: readonly Contender[]): Promise<void> {
  const times = contenders.map((): { readonly last: number; readonly after: number }[] => []);
  const began = Date.now();
  for (let i = 0; i < rounds.most; i += 1) {
    if (i >= rounds.least && Date.now() - began > rounds.forMs * contenders.length) break;
    for (const [index, { peer, load }] of contenders.entries()) {
      const reached = load.expect(1);
      const { sent, acknowledged } = await peer.write(documentBytes);
      const { last } = await reached;
      times[index]?.push({ last: ms(last - sent), after: Math.max(0, ms(last - acknowledged)) });
      await sleep(30);
    }
  }
  for (const [index, { shown }] of contenders.entries()) {
    const all = times[index] ?? [];
    const counted = all.slice(all.length === rounds.most ? rounds.warmUp : 1);
    const lasts = counted.map(({ last }) => last);
    shown.last = median(lasts);
    shown.worst = at(lasts, 1);
    shown.afterAnswer = median(counted.map(({ after }) => after));
  }
}

/** So many at once as fast as the peer takes them; the clock stops at the last stream's last document. */
async function burst(peer: Peer, load: Load, streams: number, changes: number): Promise<number> {
  const reached = load.expect(changes);
  const began = nowNs();
  await concurrently(peer, changes);
  const { last } = await reached;
  return (streams * changes) / ((last - began) / 1e9);
}

async function manyChanges({ peer, load, shown }: Contender, streams: number, goal: number): Promise<void> {
  await peer.crowd?.();
  await sleep(500);
  // Short bursts say how many changes make a second or two: peers differ by a thousand times.
  let best = await burst(peer, load, streams, 4);
  if (best / streams > 10) best = Math.max(best, await burst(peer, load, streams, 100));
  // Sustained is what programs reach that compile while they run: twice more, and again as long as that brought much.
  for (let i = 0, before = 0; i < 2 || (i < 6 && best > before * 1.1); i += 1) {
    before = best;
    const changes = Math.max(4, Math.round((best / streams) * burstSeconds));
    best = Math.max(best, await burst(peer, load, streams, changes));
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
  openedPerSecond: Number.NaN,
  kbPerStream: Number.NaN,
  last: Number.NaN,
  worst: Number.NaN,
  afterAnswer: Number.NaN,
  deliveries: Number.NaN,
  lagRate: Number.NaN,
  lag50: Number.NaN,
  lag99: Number.NaN,
});

/** Shows those named side by side; a peer that gives up leaves what it has not shown unknown. */
async function show(bench: Bench, all: readonly Name[], { streams, sustained }: Wanted): Promise<Map<Name, Shown>> {
  const shown = new Map(all.map((name) => [name, nothingYet(name)]));
  const peers: Peer[] = [];
  const contenders: Contender[] = [];
  try {
    for (const [name, one] of shown) {
      const peer = await starters[name](bench, streams);
      peers.push(peer);
      contenders.push({ peer, shown: one, load: await opened(bench, peer, streams, one) });
    }
    await oneChange(contenders);
    if (sustained === undefined) return shown;
    for (const one of contenders) await manyChanges(one, streams, sustained);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    console.log(`${streams} streams: ${all.join(', ')} gave up: ${message}`);
  } finally {
    for (const { load } of contenders) await load.stop();
    for (const peer of peers) await peer.stop();
  }
  return shown;
}

const cell = (value: number): Cell => (Number.isNaN(value) ? '–' : value);

export interface Wanted {
  readonly streams: number;
  /** Those who are still when they are idle side by side, the others one by one. */
  readonly who: readonly (readonly Name[])[];
  /** Deliveries per second; absent: not measured. */
  readonly sustained?: number;
  readonly goals: (of: (name: Name) => Shown) => readonly Goal[];
}

export async function fanOut(bench: Bench, wanted: Wanted): Promise<Part> {
  const { streams, who, sustained, goals } = wanted;
  const all = new Map<Name, Shown>();
  for (const together of who) for (const [name, one] of await show(bench, together, wanted)) all.set(name, one);
  const of = (name: Name): Shown => {
    const shown = all.get(name);
    if (shown === undefined) throw new Error(`${name} was not measured`);
    return shown;
  };
  const first = ['', 'last, ms', 'worst', 'from the answer', 'opened/s', 'KB a stream'];
  const second = ['deliveries, M/s', 'lag at M/s', 'lag p50, ms', 'lag p99, ms'];
  return {
    title: `${streams} streams: one change of ${documentBytes} bytes from sending the write to the last stream (median), then as many as possible`,
    head: sustained === undefined ? first : [...first, ...second],
    rows: [...all.values()].map((s) => {
      const row = [
        s.name,
        cell(s.last),
        cell(s.worst),
        cell(s.afterAnswer),
        cell(s.openedPerSecond),
        cell(s.kbPerStream),
      ];
      const more = [cell(s.deliveries / 1e6), cell(s.lagRate / 1e6), cell(s.lag50), cell(s.lag99)];
      return sustained === undefined ? row : [...row, ...more];
    }),
    goals: goals(of),
  };
}

const atMost = (what: string, goal: number, measured: number, unit = ''): Goal => ({ what, goal, measured, unit });
const atLeast = (what: string, goal: number, measured: number, unit = ''): Goal => ({
  what,
  goal,
  measured,
  unit,
  atLeast: true,
});

/** Ours from an acknowledged write. Peers from its sending: NATS acknowledges nothing, and etcd is busy delivering when it should. */
const ratios = (count: string, of: (name: Name) => Shown, by: Readonly<Partial<Record<Name, number>>>): Goal[] =>
  (Object.entries(by) as [Name, number][]).map(([name, goal]) =>
    atMost(`one change to the last of ${count}, ÷ ${names[name]}`, goal, of('ours').afterAnswer / of(name).last, '×'),
  );

export const fanOuts = {
  '1k': {
    streams: 1_000,
    who: [['floor', 'ours', 'nats'], ['kv'], ['etcd'], ['gateway']],
    sustained: 2e6,
    goals: (of) => [
      ...ratios('1k', of, { floor: 1.5, etcd: 0.35, nats: 0.6 }),
      atLeast('sustained deliveries, 1k streams', 2, of('ours').deliveries / 1e6, 'M/s'),
    ],
  },
  '10k': {
    streams: 10_000,
    who: [['floor', 'ours', 'nats'], ['kv'], ['etcd'], ['gateway']],
    sustained: 1.5e6,
    goals: (of) => [
      ...ratios('10k', of, { floor: 1.3, etcd: 0.25, nats: 0.5 }),
      atLeast('sustained deliveries, 10k streams', 1.5, of('ours').deliveries / 1e6, 'M/s'),
      atLeast('sustained deliveries, 10k streams, ÷ NATS core', 6, of('ours').deliveries / of('nats').deliveries, '×'),
      atMost('lag under 1.5 M deliveries/s, 10k streams, p99', 150, of('ours').lag99, 'ms'),
      atMost('resident memory of an idle stream', 10, of('ours').kbPerStream, 'KB'),
    ],
  },
  '19k': { streams: 19_000, who: [['floor', 'ours', 'nats'], ['etcd']], goals: () => [] },
} satisfies Readonly<Record<string, Wanted>>;
