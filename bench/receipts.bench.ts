/**
 * Measures one change until a waiter is told that it is in force on 10,000 devices: real streams by device tokens, status by the load generator as soon as it is asked. Floor in the same run: the same
 * number of status writes with nobody waiting. And what presence of the idle fleet costs. Not measured: what agents need to put a policy in force; the generator shares the machine's processors.
 */
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { canonicalize } from '../src/policy/canonicalize.ts';
import { policyDigest } from '../src/policy/digest/digest.ts';
import { parseGroupId } from '../src/policy/ids.ts';
import { Api, type Json } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { goalTable, median } from './lib/goals.ts';
import { ProcessorMeter, sumOf } from './lib/processor-time.ts';
import { figure, table } from './lib/table.ts';
import { Fleet, type BenchDevice } from './receipts/fleet.ts';

const count = Number(process.env['RINGFENCE_BENCH_DEVICES'] ?? 10_000);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 5);
const idleSeconds = 30;
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

async function makeDevices(api: Api, base: string, group: string): Promise<readonly BenchDevice[]> {
  const devices: BenchDevice[] = [];
  for (let from = 0; from < count; from += 50) {
    const made = await Promise.all(
      Array.from({ length: Math.min(50, count - from) }, (_, index) =>
        api.expect(201, 'POST', `${base}/devices`, {
          public_key: `key ${from + index}`,
          hostname: `host-${from + index}`,
          security_groups: [group],
        }),
      ),
    );
    devices.push(...made.map((one: Json) => ({ id: one.id, token: one.device_token })));
  }
  return devices;
}

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
  fleet = new Fleet(url, org, await makeDevices(api, base, group.id));
  const meter = new ProcessorMeter(server.child.pid ?? 0);
  const opening = performance.now();
  await fleet.connect();
  console.log(`\n${figure(count)} streams in ${figure(performance.now() - opening)} ms`);

  const [change, bare]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    const started = performance.now();
    group = await api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, rules(1_001 + round));
    fleet.status = { state: 'applied', revision: group.revision, policy_digest: digestOf(group) };
    const answer = await api.expect(200, 'GET', `${base}/convergence?revision=${group.revision}&wait=120&limit=1`);
    if (answer.in_force !== count) throw new Error(`in force on ${answer.in_force} of ${count}`);
    change.push(performance.now() - started);
    await sleep(1_000);
    const writing = performance.now();
    await fleet.reportAll(fleet.status);
    bare.push(performance.now() - writing);
    await sleep(1_000);
  }
  await sleep(6_000);
  meter.start();
  await sleep(idleSeconds * 1_000);
  meter.stop();
  const idleShare = (sumOf(meter.total) / (idleSeconds * 1_000_000)) * 100;

  const row = (what: string, values: readonly number[]): string[] => [
    what,
    figure(median(values)),
    figure(Math.max(...values)),
  ];
  console.log(
    table(
      [`${figure(count)} devices, ${rounds} rounds`, 'median ms', 'worst ms'],
      [row('a change until "in force everywhere"', change), row('the same number of status writes alone', bare)],
    ),
  );
  console.log(
    goalTable([
      { what: 'a change until in force everywhere', goal: 2_000, measured: median(change), unit: 'ms' },
      { what: '… beside the status writes alone', goal: 1.5, measured: median(change) / median(bare), unit: '×' },
      { what: 'presence of the idle fleet (all the server does)', goal: 1, measured: idleShare, unit: '% of a core' },
    ]),
  );
  api.close();
} finally {
  fleet?.close();
  await program.close();
  await rm(data, { recursive: true, force: true });
}
