/** Owns what is measured of our change stream alone: openings, listings, reconnects, stuck readers, replicas, memory over time, many workers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { at, median, type Goal } from '../lib/goals.ts';
import type { Cell } from '../lib/table.ts';
import { atRate, concurrently, documentBytes, ms, openLoad, startOurs, type Bench, type Part } from './bench.ts';
import { Ours } from './ours.ts';
import { Load, nowNs, residentKb } from './tools.ts';

/** Many agents list a large organization at once. */
export async function listing(bench: Bench): Promise<Part> {
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
  const [, , , seconds, , extra] = rows[0] ?? [];
  const goals = [
    { what: '1,000 agents list 10k devices at once', goal: 3, measured: Number(seconds), unit: 's' },
    { what: '… and take memory for it', goal: 150, measured: Number(extra), unit: 'MB' },
  ];
  return { title: 'Listings: all agents have everything, and the tail', head, rows, goals };
}

/** Streams that come at once, each with its credential: one process on one processor, then workers on all of them. */
export async function opening(bench: Bench): Promise<Part> {
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
  const [one] = rows;
  const goals: Goal[] = [
    { what: 'streams opened, authenticated', goal: 6_000, measured: Number(one?.[1]), unit: '/s', atLeast: true },
  ];
  return { title: `${streams} streams open at once, authenticated; median of 5`, head, rows, goals };
}

/** A cohort comes back: how long it takes, and what it costs the database. */
export async function reconnect(bench: Bench): Promise<Part> {
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
    const { load: again, ns } = await openLoad(bench, ours, streams, { request: ours.watch(items) });
    const cost = (await bench.database.transactions(ours.databaseUrl)) - before;
    await again.stop();
    await ours.stop();
    rows.push([what, streams, ns / 1e9, streams / (ns / 1e9), cost, cost / streams]);
  }
  const head = ['resumed', 'streams', 'seconds', 'streams/s', 'database transactions', 'a stream'];
  return { title: 'A cohort reconnects at once, authenticated', head, rows };
}

/** Readers that take nothing must not slow the others. */
export async function stuck(bench: Bench): Promise<Part> {
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
export async function replicas(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  const goals: Goal[] = [];
  for (const hints of ['alive', 'dead']) {
    const ours = await startOurs(bench);
    const { databaseUrl, place } = ours;
    const other = await Ours.start({ program: bench.program, folder: bench.folder, databaseUrl });
    other.place = place;
    const { load } = await openLoad(bench, other, 100);
    const cut =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~* '(LISTEN|pg_notify|pg_try_advisory_lock)' AND pid <> pg_backend_pid()";
    const killing =
      hints === 'dead' ? setInterval(() => void bench.database.ask(cut, databaseUrl).catch(() => {}), 20) : undefined;
    await sleep(500);
    const times: number[] = [];
    for (let i = 0; i < 120; i += 1) {
      const { reached } = await load.expect(1);
      const { acknowledged } = await ours.write(documentBytes);
      times.push(ms((await reached).last - acknowledged));
      await sleep(7 + Math.random() * 20);
    }
    clearInterval(killing);
    await load.stop();
    await other.stop();
    await ours.stop();
    const p99 = at(times, 0.99);
    rows.push([hints, median(times), p99, at(times, 1)]);
    const wanted = hints === 'alive' ? 10 : 300;
    goals.push({ what: `from one server to another, NOTIFY ${hints}, p99`, goal: wanted, measured: p99, unit: 'ms' });
  }
  const head = ['NOTIFY', 'median, ms', 'p99, ms', 'worst, ms'];
  return { title: 'From one server to 100 streams of another, from the acknowledgement', head, rows, goals };
}

/** An hour's worth of changes in a minute, past readers of which some take nothing: memory must not grow with them. */
export async function flat(bench: Bench): Promise<Part> {
  const rows: Cell[][] = [];
  const [streams, stalled, changes] = [1_000, 100, 100_000];
  const ours = await startOurs(bench, ['--stream-stuck', '86400']);
  const { load } = await openLoad(bench, ours, streams);
  await load.stall(stalled);
  for (let done = 0; done < changes; done += changes / 5) {
    const began = nowNs();
    const { reached } = await load.expect(changes / 5);
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
export async function many(bench: Bench): Promise<Part> {
  const [workers, each] = [3, 16_667];
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
    const expected = await Promise.all(loads.map(({ load }) => load.expect(1)));
    const { sent } = await ours.write(documentBytes);
    times.push(
      Math.max(...(await Promise.all(expected.map(({ reached }) => reached))).map(({ last }) => ms(last - sent))),
    );
    await sleep(100);
  }
  await Promise.all(loads.map(({ load }) => load.stop()));
  await ours.quit();
  const streams = workers * each;
  const rows = [[streams, workers, streams / seconds, median(times), Math.max(...times)]];
  const head = ['streams', 'workers', 'opened/s', 'one change to the last, ms', 'worst'];
  const goals: Goal[] = [
    { what: 'streams on this machine', goal: 50_000, measured: streams, unit: 'streams', atLeast: true },
  ];
  return { title: 'Many streams in several workers of one server', head, rows, goals };
}
