/**
 * Owns the measure of how many streams over TLS one machine holds: opening all of them, memory, a change to the last of them, and everyone reconnecting, beside
 * bare Node `tls` in as many processes. `RINGFENCE_BENCH_STREAMS` says how many, 100,000 unless given.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { median, type Goal } from '../lib/goals.ts';
import type { Cell } from '../lib/table.ts';
import { documentBytes, ms, openLoad, type Bench, type Part } from './bench.ts';
import { Ours } from './ours.ts';
import { startFloor, type Peer } from './peers.ts';
import { nowNs, processorSeconds, residentKb, type Load, type Security } from './tools.ts';

/** Of one process: it may have 20,000 files open on many systems. */
const mostEach = 16_000;
const changes = 10;

interface Contender {
  readonly name: string;
  /** Where the streams of each load go. */
  readonly peers: readonly Peer[];
  cpu(): number;
  residentKb(): number;
  /** One change to all streams; gives when it began. */
  write(): Promise<number>;
  stop(): Promise<void>;
}

async function bareNode(bench: Bench, each: readonly number[]): Promise<Contender> {
  const peers: Peer[] = [];
  for (const streams of each) peers.push(await startFloor(bench.floor, streams, 'node-tls', bench.tls));
  const sum = (of: (pid: number) => number): number => peers.reduce((all, { pid }) => all + of(pid), 0);
  return {
    name: 'bare Node tls',
    peers,
    cpu: () => sum(processorSeconds),
    residentKb: () => sum(residentKb),
    write: async () =>
      Math.min(...(await Promise.all(peers.map((peer) => peer.write(documentBytes)))).map(({ sent }) => sent)),
    stop: async () => {
      for (const peer of peers) await peer.stop();
    },
  };
}

async function ringfence(bench: Bench, each: readonly number[]): Promise<Contender> {
  const { program, folder, database, tls } = bench;
  const args = ['--workers', String(each.length), '--max-organization-streams', '1000000'];
  const databaseUrl = await database.fresh();
  const ours = await Ours.start({
    program,
    folder,
    databaseUrl,
    args,
    cpu: '0,1',
    host: '0.0.0.0',
    security: { by: 'server', ...tls },
  });
  await ours.settle();
  await ours.hasWorkers(each.length);
  return {
    name: 'Ringfence',
    peers: each.map(() => ours),
    cpu: () => ours.cpu(),
    residentKb: () => ours.residentKb(),
    write: async () => (await ours.write(documentBytes)).sent,
    stop: () => ours.stop(),
  };
}

/** Opens all streams at once. */
async function openAll(
  bench: Bench,
  { peers }: Contender,
  each: readonly number[],
  security: Security,
): Promise<readonly Load[]> {
  const opened = await Promise.all(
    peers.map((peer, index) =>
      openLoad(bench, peer, each[index] ?? 0, {
        security,
        // The floor listens on one address, with a port for each process.
        ...(peer instanceof Ours && { host: `127.0.0.${2 + index}` }),
      }),
    ),
  );
  return opened.map(({ load }) => load);
}

interface Found {
  /** Of one process without streams. */
  readonly processMb: number;
  readonly openSeconds: number;
  readonly openUs: number;
  readonly kb: number;
  readonly heartbeatUs: number;
  readonly lastMs: number;
  readonly deliveryUs: number;
  readonly reopenSeconds: number;
  readonly reopenUs: number;
}

/** Each idle stream gets a heartbeat in this time; the floor sends none. */
const heartbeatMs = 15_000;
const heartbeats = 2;

/** µs of processor time for each heartbeat of a stream, with all that an idle server does besides. */
async function idleCost(contender: Contender, streams: number): Promise<number> {
  const cpu = contender.cpu();
  await sleep(heartbeats * heartbeatMs);
  return ((contender.cpu() - cpu) / (streams * heartbeats)) * 1e6;
}

async function measure(bench: Bench, contender: Contender, each: readonly number[]): Promise<Found> {
  const streams = each.reduce((sum, count) => sum + count, 0);
  const timed = async (security: Security) => {
    const [began, cpu] = [nowNs(), contender.cpu()];
    const loads = await openAll(bench, contender, each, security);
    return { loads, seconds: (nowNs() - began) / 1e9, us: ((contender.cpu() - cpu) / streams) * 1e6 };
  };
  const before = contender.residentKb();
  const first = await timed('tls');
  // What opening left behind is collected.
  await sleep(10_000);
  const kb = (contender.residentKb() - before) / streams;
  const heartbeatUs = await idleCost(contender, streams);
  const times: number[] = [];
  const spent: number[] = [];
  for (let change = 0; change < changes; change += 1) {
    const expected = await Promise.all(first.loads.map((load) => load.expect(1)));
    const cpu = contender.cpu();
    const sent = await contender.write();
    const reached = await Promise.all(expected.map(async (one) => (await one.reached).last));
    times.push(ms(Math.max(...reached) - sent));
    await sleep(200);
    spent.push(((contender.cpu() - cpu) / streams) * 1e6);
  }
  await Promise.all(first.loads.map((load) => load.stop()));
  await sleep(2_000);
  const again = await timed('resume');
  await Promise.all(again.loads.map((load) => load.stop()));
  return {
    processMb: before / each.length / 1024,
    openSeconds: first.seconds,
    openUs: first.us,
    kb,
    heartbeatUs,
    lastMs: median(times),
    deliveryUs: median(spent),
    reopenSeconds: again.seconds,
    reopenUs: again.us,
  };
}

export async function capacity(bench: Bench): Promise<Part> {
  const streams = Number(process.env['RINGFENCE_BENCH_STREAMS'] ?? 100_000);
  const workers = Math.max(2, Math.ceil(streams / mostEach));
  const each = Array.from(
    { length: workers },
    (_, n) => Math.floor((streams * (n + 1)) / workers) - Math.floor((streams * n) / workers),
  );
  const found = new Map<string, Found>();
  for (const start of [bareNode, ringfence]) {
    const contender = await start(bench, each);
    try {
      found.set(contender.name, await measure(bench, contender, each));
    } finally {
      await contender.stop();
    }
  }
  const rows = [...found].map(([name, one]): Cell[] => [
    name,
    streams,
    workers,
    one.processMb,
    one.kb,
    one.heartbeatUs,
    one.openSeconds,
    one.openUs,
    one.lastMs,
    one.deliveryUs,
    one.reopenSeconds,
    one.reopenUs,
  ]);
  const head = [
    '',
    'streams',
    'processes',
    'MB a process before',
    'KB a stream',
    'µs a heartbeat',
    'all open, s',
    'µs a stream that opens',
    'a change to the last, ms',
    'µs a delivery',
    'all back, s',
    'µs a stream that resumes',
  ];
  const [floor, ours] = [found.get('bare Node tls'), found.get('Ringfence')];
  const ratio = (of: (one: Found) => number): number =>
    floor === undefined || ours === undefined ? Number.NaN : of(ours) / of(floor);
  const goals: Goal[] = [
    {
      what: 'streams over TLS',
      goal: streams,
      measured: ours === undefined ? 0 : streams,
      unit: 'streams',
      atLeast: true,
    },
    { what: 'memory of a stream ÷ bare Node tls', goal: 1.1, measured: ratio(({ kb }) => kb), unit: '×' },
    { what: 'a delivery ÷ bare Node tls', goal: 1.3, measured: ratio(({ deliveryUs }) => deliveryUs), unit: '×' },
    {
      what: 'a stream that comes back ÷ bare Node tls',
      goal: 1.5,
      measured: ratio(({ reopenUs }) => reopenUs),
      unit: '×',
    },
  ];
  return { title: 'Streams over TLS on one machine', head, rows, goals };
}
