/**
 * Owns the measure of a label change and of an isolation on their way to many kernels: from the API's answer to the last of them. Each device is a namespace with its own
 * nft and netlink session, and a source and an enforcer as the agent's; these run in one process for each processor, because as many processes as devices are more than a small machine has room for.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Lab } from '../../dev/lab/lab.ts';
import { at, median, type Goal } from '../lib/goals.ts';
import { ranFor, treeOf } from '../lib/processor-time.ts';
import { figure, table } from '../lib/table.ts';
import { FollowerProcess } from './follower-process.ts';
import { sharedClock } from './follower.ts';

const kernels = Number(process.env['RINGFENCE_BENCH_KERNELS'] ?? 100);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 200);
const cores = Number(process.env['RINGFENCE_BENCH_PROCESSES'] ?? availableParallelism());
/** Between two changes, so that all are at rest again. */
const pause = 50;
const timeout = 60_000;
const warmUp = 5;

async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  const end = new AbortController();
  const late = sleep(milliseconds, undefined, { signal: end.signal, ref: false }).then(() => {
    throw new Error('a kernel never had the change');
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    late.catch(() => {});
    end.abort();
  }
}

/** Microseconds of processors so far: of the server with its database, of the devices, and of the helpers that carry their messages to kernels. */
function spentBy(processes: readonly FollowerProcess[]): readonly [number, number, number] {
  const sum = (pids: readonly number[]): number => pids.reduce((total, pid) => total + ranFor(pid), 0);
  const own = processes.map(({ pid }) => pid);
  const helpers = own.flatMap((pid) => treeOf(pid).filter((each) => each !== pid));
  const others = treeOf(process.pid).filter(
    (pid) => pid !== process.pid && !own.includes(pid) && !helpers.includes(pid),
  );
  return [sum(others), sum(own), sum(helpers)];
}

interface Times {
  readonly first: number;
  readonly last: number;
  readonly whole: number;
}

/** Rounds that are reported together. */
class Phase {
  readonly times: Times[] = [];
  readonly #name: string;
  readonly #rounds: number;
  #from: readonly number[] | undefined;
  #to: readonly number[] = [];

  constructor(name: string, count: number) {
    this.#name = name;
    this.#rounds = count;
  }

  /** Before each round. The processes' accounts are read around all of them, and not within. */
  begin(processes: readonly FollowerProcess[]): void {
    this.#from ??= spentBy(processes);
  }

  add(times: Times): void {
    this.times.push(times);
  }

  /** After each round. */
  end(processes: readonly FollowerProcess[]): void {
    if (this.times.length === this.#rounds) this.#to = spentBy(processes);
  }

  row(): string[] {
    const cell = (name: keyof Times): string => {
      const values = this.times.map((each) => each[name]);
      return `${figure(median(values))}, ${figure(at(values, 0.99))} ms`;
    };
    return [this.#name, String(this.#rounds), cell('first'), cell('last'), cell('whole')];
  }

  processorRow(): string[] {
    const spent = this.#to.map((to, i) => (to - (this.#from?.[i] ?? 0)) / this.#rounds / 1_000);
    return [this.#name, ...spent.map((each) => `${figure(each)} ms`)];
  }
}

const addressOf = (i: number): string => `100.64.${Math.floor(i / 250)}.${1 + (i % 250)}`;

export async function measureFleet(program: string): Promise<readonly Goal[]> {
  const lab = await Lab.open({
    devices: 0,
    bare: true,
    tunnel: 'veth',
    program: [process.execPath, program],
    serverArguments: ['--rate-limit', '0', '--log-level', 'error'],
  });
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-bench-fleet-'));
  const processes = Array.from({ length: cores }, () => new FollowerProcess());
  try {
    const client = lab.client(lab.adminToken);
    const { id: organization } = await client.organizations.create({ name: 'bench' });
    const group = await client.groups.create(organization, {
      group_name: 'db',
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432, peers: [{ labels: ['app'] }] }],
    });
    const mover = await client.devices.create(organization, {
      public_key: 'mover',
      hostname: 'app-1',
      tunnel_ip: '100.65.0.1',
    });
    const devices: { id: string; token: string }[] = [];
    for (let i = 0; i < kernels; i += 1) {
      const { id, device_token } = await client.devices.create(organization, {
        public_key: `key ${i}`,
        hostname: `db-${i}`,
        tunnel_ip: addressOf(i),
        security_groups: [group.id],
      });
      devices.push({ id, token: device_token });
    }
    await Promise.all(
      processes.map((each, n) =>
        each.follow({
          url: lab.url,
          organization,
          folder,
          devices: devices.filter((_, i) => i % processes.length === n),
        }),
      ),
    );
    const { id: held } = await client.devices.create(organization, {
      public_key: 'held',
      hostname: 'app-2',
      tunnel_ip: '100.65.0.2',
    });
    // Node compiles while it runs, which on two cores takes as long as the work. So the first half is reported
    // separately from the second.
    const half = Math.ceil(rounds / 2);
    const all = new Phase('all', rounds);
    const phases = [all, new Phase('first half', half), new Phase('second half', rounds - half)];
    const measureRound = async (now: readonly Phase[], change: () => Promise<{ readonly revision: number }>) => {
      for (const phase of now) phase.begin(processes);
      const from = sharedClock();
      const { revision } = await change();
      const answered = sharedClock();
      const times = await within(timeout, Promise.all(processes.map((each) => each.reach(revision))));
      const last = Math.max(...times.map((each) => each.last));
      const first = Math.min(...times.map((each) => each.first));
      for (const phase of now) phase.add({ first: first - answered, last: last - answered, whole: last - from });
      await sleep(pause);
      for (const phase of now) phase.end(processes);
    };
    const relabel = (round: number) => () =>
      client.devices.update(organization, mover.id, { labels: round % 2 === 0 ? ['app'] : [] });
    const isolate = (round: number) => () =>
      round % 2 === 0
        ? client.devices.isolate(organization, mover.id, { reason: 'bench' })
        : client.devices.liftIsolation(organization, mover.id);
    for (let round = 0; round < rounds + warmUp; round += 1) {
      const now = round < warmUp ? [] : phases.filter((_, i) => i === 0 || i === (round < warmUp + half ? 1 : 2));
      await measureRound(now, relabel(round));
    }
    // The first isolation and the last release change rules. While another device is isolated, the next changes one set, as a label does.
    const firsts = new Phase('first isolation and last release', half);
    const beside = new Phase('isolation beside another', half);
    const labels = new Phase('label change in between', half);
    for (let round = 0; round < half + warmUp; round += 1)
      await measureRound(round < warmUp ? [] : [firsts], isolate(round));
    await client.devices.liftIsolation(organization, mover.id).catch(() => {});
    await client.devices.isolate(organization, held, { reason: 'bench' });
    for (let round = 0; round < half + warmUp; round += 1) {
      await measureRound(round < warmUp ? [] : [beside], isolate(round));
      await measureRound(round < warmUp ? [] : [labels], relabel(round));
    }
    // The same without any isolation again: what the machine does meanwhile shows here.
    const { revision: released } = await client.devices.liftIsolation(organization, held);
    await within(timeout, Promise.all(processes.map((each) => each.reach(released))));
    const afterwards = new Phase('label change afterwards', half);
    for (let round = 0; round < half + warmUp; round += 1)
      await measureRound(round < warmUp ? [] : [afterwards], relabel(round));
    phases.push(firsts, beside, labels, afterwards);
    for (const each of processes) await each.verify();
    const names = [
      'API answered to the first kernel',
      `API answered to the last of ${kernels}`,
      `API asked to the last of ${kernels}`,
    ];
    console.log(
      `\nA change on its way to ${kernels} kernels, a label's at first; all devices in ${processes.length} processes:\n`,
    );
    console.log(
      table(
        ['', 'times', ...names.map((name) => `${name}: p50, p99`)],
        phases.map((phase) => phase.row()),
      ),
    );
    console.log('\nProcessor time of one change:\n');
    console.log(
      table(
        ['', 'server and database', 'all devices', 'their helpers'],
        phases.map((phase) => phase.processorRow()),
      ),
    );
    const goal = (what: string, { times }: Phase): Goal => ({
      what: `${what}: API answer to the last of ${kernels} kernels, p50`,
      goal: 15,
      measured: median(times.map(({ last }) => last)),
      unit: 'ms',
    });
    return [goal('label change', all), goal('first isolation', firsts), goal('further isolation', beside)];
  } finally {
    await Promise.all(processes.map((each) => each.close()));
    await lab.close();
    await rm(folder, { recursive: true, force: true });
  }
}
