/**
 * Measures one change until a waiter learns that it is in force on 10,000 devices: real streams by device tokens; the
 * load generator sends each status as soon as it is requested. Floor in the same run: the same number of status writes
 * without a waiter. Not measured: the time that agents need to put a policy in force. The generator shares the
 * machine's processors: its own processor time is shown beside the server's.
 */
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { canonicalize } from '../src/policy/canonicalize.ts';
import { digestForm } from '../src/policy/digest/digest-form.ts';
import { policyDigest } from '../src/policy/digest/digest.ts';
import { parseGroupId } from '../src/policy/ids.ts';
import { Api, type Json } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { median, showGoals } from './lib/goals.ts';
import { ProcessorMeter, sumOf } from './lib/processor-time.ts';
import { figure, table } from './lib/table.ts';
import { resident } from './soak/memory.ts';
import { Fleet, makeDevices } from './receipts/fleet.ts';

const count = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 9);
/** Rounds before those that count: while Node compiles what a change runs, it costs twice as much. */
const coldRounds = 2;
/** Milliseconds: by the clock, and of processor time by the server with its database and by this generator. */
interface Cost {
  readonly wall: number;
  readonly server: number;
  readonly generator: number;
}

const adminToken = `rf_user_${'b'.repeat(43)}`;

const digestOf = (group: Json): string =>
  policyDigest(
    canonicalize({
      source: 'list',
      groups: [
        {
          id: parseGroupId(group.id),
          name: group.group_name,
          inbound: group.inbound_rules ?? [],
          outbound: group.outbound_rules ?? [],
        },
      ],
    }),
  );

const program = await Program.build();
const data = await temporaryDirectory();
let fleet: Fleet | undefined;
try {
  const server = program.run(
    [
      'server',
      '--listen',
      '127.0.0.1:0',
      '--data',
      data,
      '--log-level',
      'error',
      '--rate-limit',
      '0',
      '--workers',
      '2',
    ],
    { RINGFENCE_ADMIN_TOKEN: adminToken },
  );
  const url = await server.url();
  const api = new Api(url, adminToken);
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'bench' });
  const base = `/api/organizations/${org}`;
  const rules = (port: number) => ({ inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] });
  let group: Json = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'all', ...rules(1_000) });
  const reporting = new Fleet(url, org, await makeDevices(api, base, group.id, count));
  fleet = reporting;
  const pid = server.child.pid ?? 0;
  const measure = async (work: () => Promise<unknown>): Promise<Cost> => {
    const meter = new ProcessorMeter(pid);
    meter.start();
    const [own, started] = [process.cpuUsage(), performance.now()];
    await work();
    const [spent, wall] = [process.cpuUsage(own), performance.now() - started];
    meter.stop();
    return { wall, server: sumOf(meter.total) / 1_000, generator: (spent.user + spent.system) / 1_000 };
  };
  const opening = performance.now();
  await fleet.connect();
  console.log(`\n${figure(count)} streams in ${figure(performance.now() - opening)} ms`);

  // Everybody has reported before, over connections that stay open.
  await reporting.reportAll({ state: 'starting' });

  const cold: Cost[] = [];
  const change: Cost[] = [];
  const bare: Cost[] = [];
  const memory: number[] = [];
  for (let round = -coldRounds; round < rounds; round += 1) {
    const converge = async (): Promise<void> => {
      group = await api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, rules(2_000 + round));
      reporting.status = {
        state: 'applied',
        revision: group.revision,
        policy_digest: digestOf(group),
        policy_digest_form: digestForm,
      };
      const answer = await api.expect(200, 'GET', `${base}/convergence?revision=${group.revision}&wait=120&limit=1`);
      if (answer.in_force !== count) throw new Error(`in force on ${answer.in_force} of ${count}`);
    };
    const changed = await measure(converge);
    await sleep(1_000);
    const reported = await measure(() => reporting.reportAll(reporting.status));
    // What was reported is taken in, so that it does not count with the next change.
    await api.expect(200, 'GET', `${base}/convergence?limit=1`);
    await sleep(1_000);
    if (round < 0) cold.push(changed);
    else {
      change.push(changed);
      bare.push(reported);
      memory.push(resident(pid));
    }
  }

  const of = (costs: readonly Cost[], what: keyof Cost): number => median(costs.map((cost) => cost[what]));
  const row = (what: string, costs: readonly Cost[]): string[] => [
    what,
    figure(of(costs, 'wall')),
    figure(Math.max(...costs.map(({ wall }) => wall))),
    figure(of(costs, 'server')),
    figure((of(costs, 'server') * 1_000) / count),
    figure(of(costs, 'generator')),
  ];
  console.log(
    table(
      [
        `${figure(count)} devices, ${rounds} rounds`,
        'median ms',
        'worst ms',
        "server's processor ms",
        'µs a device',
        "generator's ms",
      ],
      [
        row('a change until "in force everywhere"', change),
        row('the same number of status writes alone', bare),
        row(`the first ${coldRounds} changes, which do not count`, cold),
      ],
    ),
  );
  console.log(
    `${figure(reporting.asked)} times a device was asked for its word, of ${figure(count * (coldRounds + rounds))} at least`,
  );
  const [early = 0, late = 0] = [memory[Math.floor(rounds / 2)], memory.at(-1)];
  showGoals([
    {
      what: 'a change until in force everywhere',
      goal: 2_000,
      measured: of(change, 'wall'),
      unit: 'ms',
      beside: `status writes alone ${figure(of(bare, 'wall'))} ms`,
    },
    {
      what: '… beside the status writes alone, by processor time',
      goal: 1.5,
      measured: of(change, 'server') / of(bare, 'server'),
      unit: '×',
      beside: `by the clock ${figure(of(change, 'wall') / of(bare, 'wall'))} ×`,
    },
    { what: 'memory after all rounds, beside half of them', goal: 1.1, measured: late / early, unit: '×' },
  ]);
  api.close();
} finally {
  fleet?.close();
  await program.close();
  await rm(data, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
