/**
 * Owns the measure of a label change on its way to many kernels: from the API's answer to the last of them. Each device is a namespace with its own
 * nft and netlink session, and a source and an enforcer as the agent's; these run in one process for each processor, because as many processes as devices are more than a small machine has room for.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Lab } from '../../src/cli/lab/lab.ts';
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
const patience = 60_000;
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
    const [first, last, whole]: [number[], number[], number[]] = [[], [], []];
    let spent: readonly number[] = [];
    for (let round = 0; round < rounds + warmUp; round += 1) {
      if (round === warmUp) spent = spentBy(processes);
      const labels = round % 2 === 0 ? ['app'] : [];
      const from = sharedClock();
      const { revision } = await client.devices.update(organization, mover.id, { labels });
      const answered = sharedClock();
      const times = await within(patience, Promise.all(processes.map((each) => each.reach(revision))));
      if (round >= warmUp) {
        first.push(Math.min(...times.map((each) => each.first)) - answered);
        last.push(Math.max(...times.map((each) => each.last)) - answered);
        whole.push(Math.max(...times.map((each) => each.last)) - from);
      }
      await sleep(pause);
    }
    const now = spentBy(processes);
    const perChange = now.map((each, i) => `${figure((each - (spent[i] ?? 0)) / rounds / 1_000)} ms`);
    for (const each of processes) await each.verify();
    const row = (what: string, values: readonly number[]): string[] => [
      what,
      `${figure(median(values))} ms`,
      `${figure(at(values, 0.99))} ms`,
    ];
    console.log(
      `\nA label change on its way to ${kernels} kernels, ${rounds} times; all devices in ${processes.length} processes:\n`,
    );
    console.log(
      table(
        ['', 'p50', 'p99'],
        [
          row('API answered to the first kernel', first),
          row(`API answered to the last of ${kernels}`, last),
          row(`API asked to the last of ${kernels}`, whole),
        ],
      ),
    );
    console.log('\nProcessor time of one change:\n');
    console.log(table(['server and database', 'all devices', 'their helpers'], [perChange]));
    return [
      { what: `API answer to the last of ${kernels} kernels, p50`, goal: 15, measured: median(last), unit: 'ms' },
    ];
  } finally {
    await Promise.all(processes.map((each) => each.close()));
    await lab.close();
    await rm(folder, { recursive: true, force: true });
  }
}
