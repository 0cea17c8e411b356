/** Owns what is measured of the change stream, part by part. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cell } from '../lib/table.ts';
import { Ours, type BenchDatabase } from './ours.ts';
import { startEtcd, startFloor, startNats, type Peer } from './peers.ts';
import { Load, nowNs, residentKb } from './tools.ts';

export interface Bench {
  readonly folder: string;
  readonly database: BenchDatabase;
  readonly program: string;
  readonly load: string;
  readonly floor: string;
}

export interface Part {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
}

const documentBytes = 500;
const ms = (ns: number): number => ns / 1e6;
const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

const startOurs = async (bench: Bench, args: readonly string[] = []): Promise<Ours> => {
  const databaseUrl = await bench.database.fresh();
  return (await Ours.start({ program: bench.program, folder: bench.folder, databaseUrl, args })).settle();
};

const openLoad = (bench: Bench, peer: Peer, streams: number, request = peer.request): ReturnType<typeof Load.open> =>
  Load.open({
    program: bench.load,
    folder: bench.folder,
    protocol: peer.protocol,
    port: peer.port,
    streams,
    request,
    ready: peer.ready,
  });

/** Every peer, ours in the middle, the floor first: the same job in one run. */
const contenders = (bench: Bench, streams: number): readonly (() => Promise<Peer>)[] => [
  () => startFloor(bench.floor, streams),
  () => startOurs(bench),
  () => startNats(),
  () => startEtcd(bench.folder),
];

async function withPeer<T>(make: () => Promise<Peer>, work: (peer: Peer) => Promise<T>): Promise<T> {
  const peer = await make();
  try {
    return await work(peer);
  } finally {
    await peer.stop();
  }
}

/** One change to the last of many streams. */
async function latency(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  for (const streams of [1_000, 10_000, 19_000]) {
    for (const make of contenders(bench, streams)) {
      rows.push(
        await withPeer(make, async (peer) => {
          const { load, ns } = await openLoad(bench, peer, streams);
          const idle = residentKb(peer.pid);
          const times: { readonly last: number; readonly half: number; readonly afterAnswer: number }[] = [];
          const rounds = 15;
          for (let i = 0; i < rounds; i += 1) {
            const reached = load.expect(1);
            const { sent, acknowledged } = await peer.write(documentBytes);
            const { p50, last } = await reached;
            times.push({ last: last - sent, half: p50 - sent, afterAnswer: last - acknowledged });
            await sleep(30);
          }
          await load.stop();
          const lasts = times.slice(5).map(({ last }) => ms(last));
          const halves = times.slice(5).map(({ half }) => ms(half));
          const after = times.slice(5).map(({ afterAnswer }) => Math.max(0, ms(afterAnswer)));
          const opened = Math.round(streams / (ns / 1e9));
          return [
            streams,
            peer.name,
            median(lasts),
            Math.max(...lasts),
            median(halves),
            median(after),
            opened,
            idle / streams,
          ];
        }),
      );
    }
  }
  const head = ['streams', '', 'last, ms', 'worst', 'half', 'last after the answer', 'opened/s', 'RSS/stream, KB'];
  return {
    title: `One change of ${documentBytes} bytes, from sending the write to the last stream; median of 10`,
    head,
    rows,
  };
}

/** About how long a burst should take. */
const burstSeconds = 3;

/** Many changes: so many at once as fast as the peer takes them; the clock stops at the last stream's last document. */
async function sustained(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  for (const [streams, changes] of [
    [1_000, 4_000],
    [10_000, 600],
  ] as const) {
    for (const make of contenders(bench, streams)) {
      rows.push(
        await withPeer(make, async (peer) => {
          const { load } = await openLoad(bench, peer, streams);
          // A short burst says how many changes make some seconds: peers differ by a hundred times.
          const first = await burst(peer, load, streams, 50);
          const count = Math.min(changes, Math.max(50, Math.round(((first / streams) * burstSeconds) / 50) * 50));
          const best = Math.max(
            first,
            await burst(peer, load, streams, count),
            await burst(peer, load, streams, count),
          );
          const rate = (best / streams) * 0.6;
          await load.lag();
          await atRate(peer, rate, 3_000);
          await sleep(500);
          const { p50, p99 } = await load.lag();
          await load.stop();
          return [streams, peer.name, best / 1e6, rate, p50, p99];
        }).catch((error: unknown) => {
          // A peer may cut readers off that do not keep up: that is its answer, and the others' turn.
          console.error(error);
          return [streams, 'a peer gave up', '–', '–', '–', '–'];
        }),
      );
    }
  }
  const head = ['streams', '', 'deliveries, M/s', 'changes/s for lag', 'lag p50, ms', 'lag p99, ms'];
  return { title: `Sustained: ${documentBytes}-byte changes as fast as they go, then lag at 0.6 of that`, head, rows };
}

async function burst(peer: Peer, load: Load, streams: number, changes: number): Promise<number> {
  const reached = load.expect(changes);
  const began = nowNs();
  if ('talker' in peer) {
    const floor = peer as unknown as { talker: { say(line: string): void; hears(word: string): Promise<string> } };
    for (let left = changes; left > 0; left -= 50) {
      floor.talker.say(`send 50 ${documentBytes}`);
      await floor.talker.hears('sent');
    }
  } else await concurrently(peer, changes);
  const { last } = await reached;
  return (streams * changes) / ((last - began) / 1e9);
}

async function concurrently(peer: Peer, changes: number): Promise<void> {
  let left = changes;
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await peer.write(documentBytes);
    }
  };
  await Promise.all(Array.from({ length: 128 }, work));
}

/** Offers changes at a steady rate, in small groups every 20 ms. */
async function atRate(peer: Peer, perSecond: number, forMs: number): Promise<void> {
  const writes: Promise<unknown>[] = [];
  const began = Date.now();
  for (let sent = 0; Date.now() - began < forMs; await sleep(20)) {
    for (; sent < ((Date.now() - began) / 1_000) * perSecond; sent += 1) writes.push(peer.write(documentBytes));
  }
  await Promise.all(writes);
}

/** What an idle stream keeps in memory. */
async function memory(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  const streams = 10_000;
  for (const make of contenders(bench, streams).slice(1)) {
    rows.push(
      await withPeer(make, async (peer) => {
        await peer.write(documentBytes);
        await sleep(1_000);
        const before = residentKb(peer.pid);
        const { load } = await openLoad(bench, peer, streams);
        await sleep(5_000);
        const idle = residentKb(peer.pid);
        await load.stop();
        return [peer.name, before / 1024, idle / 1024, (idle - before) / streams];
      }),
    );
  }
  const head = ['', 'RSS before, MB', `with ${streams} idle streams, MB`, 'KB a stream'];
  return { title: 'Memory of idle streams', head, rows };
}

/** Many agents list a large organization at once. */
async function listing(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  for (const [devices, agents] of [
    [10_000, 1_000],
    [100_000, 50],
  ] as const) {
    const ours = await startOurs(bench);
    await ours.fill(devices);
    const before = residentKb(ours.pid);
    let most = before;
    const watching = setInterval(() => (most = Math.max(most, residentKb(ours.pid))), 20);
    // The first is looked at closely; the others must then be sent as many bytes.
    const { load: one } = await openLoad(bench, ours, 1);
    const first = await one.count();
    await one.stop();
    if (first.documents < devices) throw new Error(`${first.documents} documents instead of ${devices}`);
    const { folder, load: program } = bench;
    const { port, request } = ours;
    const ready = String(first.bytes);
    const { load, ns } = await Load.open({ program, folder, protocol: 'bytes', port, streams: agents, request, ready });
    const seconds = ns / 1e9;
    clearInterval(watching);
    const { bytes } = await load.count();
    await load.stop();
    await ours.stop();
    rows.push([devices, agents, bytes / 1e9, seconds, bytes / 1e9 / seconds, (most - before) / 1024]);
  }
  const head = ['devices', 'agents at once', 'GB', 'seconds', 'GB/s', 'extra RSS, MB'];
  return { title: 'Listings: all agents have everything, and the tail', head, rows };
}

/** Streams that come at once, each with its credential: one process on one processor, then workers on all of them. */
async function opening(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  const streams = 10_000;
  for (const workers of [1, 2, 3]) {
    const databaseUrl = await bench.database.fresh();
    const cpu = workers === 1 ? undefined : { cpu: '0,1' };
    const args = ['--workers', String(workers)];
    const ours = await Ours.start({ program: bench.program, folder: bench.folder, databaseUrl, args, ...cpu });
    await ours.settle();
    await ours.hasWorkers(workers);
    const rates: number[] = [];
    const spent: number[] = [];
    let shares: readonly number[] = [];
    for (let round = 0; round < 5; round += 1) {
      const before = ours.cpu();
      const { load, ns } = await openLoad(bench, ours, streams);
      spent.push(((ours.cpu() - before) / streams) * 1e6);
      rates.push(streams / (ns / 1e9));
      shares = ours.sockets();
      await load.stop();
      await sleep(1_000);
    }
    await ours.stop();
    const uneven = Math.max(...shares) / (shares.reduce((sum, one) => sum + one, 0) / shares.length);
    rows.push([workers, median(rates), Math.max(...rates), median(spent), uneven]);
  }
  const head = ['workers', 'opened/s', 'best', 'processor, µs a stream', 'largest share ÷ mean'];
  return { title: `${streams} streams open at once, authenticated; median of 5`, head, rows };
}

/** A cohort comes back: how long it takes, and what it costs the database. */
async function reconnect(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  const streams = 10_000;
  for (const [what, back] of [
    ['at the head', 0],
    ['100 changes behind', 100],
  ] as const) {
    const ours = await startOurs(bench);
    const { load } = await openLoad(bench, ours, streams);
    await concurrently(ours, 200);
    await load.stop();
    const gt_revision = (await ours.head()) - back;
    const before = await bench.database.transactions(ours.databaseUrl);
    const items = [{ kind: 'device', gt_revision }];
    const { load: again, ns } = await openLoad(bench, ours, streams, ours.watch(items));
    const cost = (await bench.database.transactions(ours.databaseUrl)) - before;
    await again.stop();
    await ours.stop();
    rows.push([what, streams, ns / 1e9, streams / (ns / 1e9), cost, cost / streams]);
  }
  const head = ['resumed', 'streams', 'seconds', 'streams/s', 'database transactions', 'a stream'];
  return { title: 'A cohort reconnects at once, authenticated', head, rows };
}

/** Readers that take nothing must not slow the others. */
async function stuck(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  for (const stalled of [0, 1, 1_000]) {
    const ours = await startOurs(bench);
    const { load } = await openLoad(bench, ours, 5_000);
    if (stalled > 0) await load.stall(stalled);
    const before = residentKb(ours.pid);
    await load.lag();
    await atRate(ours, 100, 10_000);
    await sleep(500);
    const { p50, p99, max } = await load.lag();
    const after = residentKb(ours.pid);
    await load.stop();
    await ours.stop();
    rows.push([stalled, p50, p99, max, (after - before) / 1024]);
  }
  const head = ['stuck of 5,000', 'others: lag p50, ms', 'p99, ms', 'worst, ms', 'extra RSS, MB'];
  return { title: 'Stuck readers, while 100 changes a second go to all', head, rows };
}

/** A change written on one server, delivered by another. */
async function replicas(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  for (const hints of ['alive', 'dead']) {
    const ours = await startOurs(bench);
    const { databaseUrl, place } = ours;
    const other = await Ours.start({ program: bench.program, folder: bench.folder, databaseUrl });
    other.place = place;
    const { load } = await openLoad(bench, other, 100);
    const cut =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~* '^(LISTEN|SELECT pg_notify|NOTIFY)' AND pid <> pg_backend_pid()";
    const killing =
      hints === 'dead' ? setInterval(() => void bench.database.ask(cut, databaseUrl).catch(() => {}), 20) : undefined;
    await sleep(500);
    const times: number[] = [];
    for (let i = 0; i < 120; i += 1) {
      const reached = load.expect(1);
      const { acknowledged } = await ours.write(documentBytes);
      times.push(ms((await reached).last - acknowledged));
      await sleep(7 + Math.random() * 20);
    }
    clearInterval(killing);
    await load.stop();
    await other.stop();
    await ours.stop();
    const sorted = times.toSorted((a, b) => a - b);
    rows.push([hints, median(times), sorted[Math.floor(times.length * 0.99)] ?? 0, sorted.at(-1) ?? 0]);
  }
  const head = ['NOTIFY', 'median, ms', 'p99, ms', 'worst, ms'];
  return { title: 'From one server to 100 streams of another, from the acknowledgement', head, rows };
}

/** An hour's worth of changes in a minute, past readers of which some take nothing: memory must not grow with them. */
async function flat(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  const [streams, stalled, changes] = [1_000, 100, 100_000];
  const ours = await startOurs(bench, ['--stream-stuck', '86400']);
  const { load } = await openLoad(bench, ours, streams);
  await load.stall(stalled);
  for (let done = 0; done < changes; done += changes / 5) {
    const began = nowNs();
    const reached = load.expect(changes / 5);
    await ours.fillChanges(changes / 5, documentBytes);
    const { last } = await reached;
    const seconds = (last - began) / 1e9;
    const delivered = ((streams - stalled) * changes) / 5;
    rows.push([done + changes / 5, residentKb(ours.pid) / 1024, delivered / 1e6 / seconds]);
  }
  await load.stop();
  await ours.stop();
  const head = ['changes so far', 'RSS, MB', 'deliveries, M/s'];
  return { title: `Memory while changes go to ${streams} streams, ${stalled} of them stuck`, head, rows };
}

/** More streams than one process may open files: several workers behind one port, several loads. */
async function many(bench: Bench): Promise<Part> {
  const [workers, each] = [3, 16_666];
  const databaseUrl = await bench.database.fresh();
  const args = ['--workers', String(workers)];
  const ours = await (
    await Ours.start({ program: bench.program, folder: bench.folder, databaseUrl, args, cpu: '0,1' })
  ).settle();
  // All of them, so that connections are dealt out evenly.
  await ours.hasWorkers(workers);
  const began = nowNs();
  const loads = await Promise.all(Array.from({ length: workers }, () => openLoad(bench, ours, each)));
  const seconds = (nowNs() - began) / 1e9;
  const times: number[] = [];
  for (let i = 0; i < 10; i += 1) {
    const reached = loads.map(({ load }) => load.expect(1));
    const { sent } = await ours.write(documentBytes);
    times.push(Math.max(...(await Promise.all(reached)).map(({ last }) => ms(last - sent))));
    await sleep(100);
  }
  await Promise.all(loads.map(({ load }) => load.stop()));
  await ours.quit();
  const streams = workers * each;
  const rows = [[streams, workers, streams / seconds, median(times), Math.max(...times)]];
  const head = ['streams', 'workers', 'opened/s', 'one change to the last, ms', 'worst'];
  return { title: 'Many streams in several workers of one server', head, rows };
}

export const parts: Readonly<Record<string, (bench: Bench) => Promise<Part>>> = {
  latency,
  sustained,
  memory,
  opening,
  listing,
  reconnect,
  stuck,
  replicas,
  flat,
  many,
};
