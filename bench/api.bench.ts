/**
 * Measures the API as callers meet it: writes to one organization and to 64, and group reads.
 * Floors in the same run: the same SQL statements by pgbench (a C program, no server of ours), the store without HTTP, and an HTTP answer
 * without the database. Not measured: networks, and machines that do nothing else.
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import { parseDeviceId, parseGroupId, parseOrganizationId, parseUserId } from '../src/policy/ids.ts';
import { openDatabase } from '../src/server/database/supervise.ts';
import { openStore } from '../src/server/store/open.ts';
import { asServer, type Actor } from '../src/server/store/data/actor.ts';
import { Api } from '../test/lib/http.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { Program } from '../test/lib/run.ts';
import { httpLoad, type LoadResult } from './lib/http-load.ts';
import { median, showGoals } from './lib/goals.ts';
import { pgbench, readFunctions, updateCall, updateFunction, updateNote } from './lib/pgbench.ts';
import { table } from './lib/table.ts';

const connections = 64;
const seconds = Number(process.env['RINGFENCE_BENCH_SECONDS'] ?? 3);
const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 3);
const token = 'operator-token-0123456789-0123456789';

interface Target {
  readonly org: string;
  readonly device: string;
  readonly group: string;
}

/** Processor time of a process in milliseconds. */
async function cpuOf(pid: number): Promise<number> {
  const { readFile } = await import('node:fs/promises');
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Calls in this process, as many at a time as there are connections. */
async function inProcess(call: (c: number, n: number) => Promise<unknown>): Promise<number> {
  const started = performance.now();
  const until = started + seconds * 1000;
  let calls = 0;
  await Promise.all(
    Array.from({ length: connections }, async (_, c) => {
      for (let n = 0; performance.now() < until; n += 1) {
        await call(c, n);
        calls += 1;
      }
    }),
  );
  return (calls / (performance.now() - started)) * 1000;
}

function onlyGood(result: LoadResult): LoadResult {
  const bad = [...result.statuses].filter(([status]) => status >= 300);
  if (bad.length > 0) throw new Error(`answers other than success: ${JSON.stringify(bad)}`);
  return result;
}

async function throughput(program: Program): Promise<void> {
  const dir = await temporaryDirectory();
  const database = await openDatabase({ dir });
  try {
    const args = ['--listen', '127.0.0.1:0', '--data', join(dir, 'server'), '--database-url', database.url];
    const server = program.run(['server', ...args, '--log-level', 'warn', '--rate-limit', '0', '--workers', '1'], {
      RINGFENCE_ADMIN_TOKEN: token,
    });
    const url = await server.url();
    const api = new Api(url, token);
    const me = (await api.expect(200, 'GET', '/api/users/me')).id as string;
    const targets: Target[] = [];
    for (let i = 0; i < connections; i += 1) {
      const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: `bench ${i}` });
      const base = `/api/organizations/${org}`;
      const device = await api.expect(201, 'POST', `${base}/devices`, { public_key: `key ${i}` });
      const rule = { ip_protocol: 'tcp', from_port: 443, to_port: 443, ip_ranges: ['10.0.0.0/8'] };
      const body = { group_name: 'web', inbound_rules: Array.from({ length: 5 }, () => rule) };
      targets.push({
        org,
        device: device.id,
        group: (await api.expect(201, 'POST', `${base}/security_groups`, body)).id,
      });
    }
    // All of them in the first organization too.
    const first = targets[0] as Target;
    const crowd: Target[] = [];
    for (let i = 0; i < connections; i += 1) {
      const device = await api.expect(201, 'POST', `/api/organizations/${first.org}/devices`, {
        public_key: `crowd ${i}`,
      });
      crowd.push({ ...first, device: device.id });
    }
    api.close();

    const client = new Client({ connectionString: database.url });
    await client.connect();
    await client.query(
      'CREATE TABLE bench_targets (crowd boolean, i integer, org uuid, device uuid, sg uuid, me uuid, PRIMARY KEY (crowd, i))',
    );
    for (const [name, list] of [
      ['false', targets],
      ['true', crowd],
    ] as const) {
      for (const [i, { org, device, group }] of list.entries()) {
        await client.query('INSERT INTO bench_targets VALUES ($1, $2, $3, $4, $5, $6)', [
          name,
          i,
          org,
          device,
          group,
          me,
        ]);
      }
    }
    for (const definition of [updateFunction(), ...readFunctions]) {
      await client.query(definition);
    }
    await client.end();

    const store = await openStore({ url: database.url, phase: 3 });
    const at = (list: readonly Target[], c: number): Target => list[c % list.length] as Target;
    const user_id = parseUserId(me);
    const audit = updateNote(user_id);
    const actor: Actor = { user_id, audit, ...asServer };
    const write = (list: readonly Target[]) => (c: number, n: number) =>
      store.devices.update(parseOrganizationId(at(list, c).org), actor, parseDeviceId(at(list, c).device), {
        hostname: `host ${c} ${n}`,
      });
    const read = (c: number) =>
      store.groups.get(parseOrganizationId(at(targets, c).org), parseGroupId(at(targets, c).group), {
        reader: actor.user_id,
      });

    const pick = (crowded: boolean): string =>
      `SELECT org, device, sg, me FROM bench_targets WHERE crowd = ${crowded} AND i = :client_id \\gset\n`;
    const lookMember = 'SELECT * FROM bench_member(:org, :me);\n';
    const lookDevice = 'SELECT * FROM bench_device(:org, ARRAY[:device::uuid]);\n';
    const lookGroup = 'SELECT * FROM bench_group(:org, :me, NULL, ARRAY[:sg::uuid], false);\n';
    const writeFloor = (crowded: boolean): string => pick(crowded) + lookMember + lookDevice + updateCall;

    const patch = (list: readonly Target[]) => (c: number, n: number) => ({
      method: 'PATCH',
      path: `/api/organizations/${at(list, c).org}/devices/${at(list, c).device}`,
      body: `{"hostname":"host ${c} ${n}"}`,
    });
    const get = (c: number) => ({
      method: 'GET',
      path: `/api/organizations/${at(targets, c).org}/security_groups/${at(targets, c).group}`,
    });
    const wanted = (process.env['RINGFENCE_BENCH_JOBS'] ?? '').split(',').filter((word) => word !== '');
    const all = [
      { name: 'write, 64 organizations', floor: writeFloor(false), direct: write(targets), request: patch(targets) },
      { name: 'write, one organization', floor: writeFloor(true), direct: write(crowd), request: patch(crowd) },
      { name: 'read a group', floor: pick(false) + lookMember + lookGroup, direct: read, request: get },
    ];
    const jobs = all.filter(({ name }) => wanted.length === 0 || wanted.some((word) => name.includes(word)));
    const pid = server.child.pid ?? 0;
    const load = async (request: Parameters<typeof httpLoad>[0]['request']) => {
      const before = await cpuOf(pid);
      const result = onlyGood(await httpLoad({ url, token, connections, seconds, request }));
      return { ...result, cpu: ((await cpuOf(pid)) - before) / result.requests };
    };
    await load(get);
    const rows: (string | number)[][] = [];
    for (const { name, floor, direct, request } of jobs) {
      const sides: { raw: number; alone: number; api: Awaited<ReturnType<typeof load>> }[] = [];
      for (let round = 0; round < rounds; round += 1) {
        const raw = await pgbench({ database, dir, clients: connections, seconds }, floor);
        const alone = await inProcess(direct);
        sides.push({ raw, alone, api: await load(request) });
      }
      rows.push([
        name,
        median(sides.map(({ raw }) => raw)),
        median(sides.map(({ alone }) => alone)),
        median(sides.map(({ api: { perSecond } }) => perSecond)),
        median(sides.map(({ raw, api: { perSecond } }) => raw / perSecond)),
        Math.max(...sides.map(({ raw, api: { perSecond } }) => raw / perSecond)),
        median(sides.map(({ api: { p50 } }) => p50)),
        median(sides.map(({ api: { p99 } }) => p99)),
        median(sides.map(({ api: { cpu } }) => cpu)) * 1000,
      ]);
    }
    const bare = await load(() => ({ method: 'GET', path: '/healthz' }));
    rows.push([
      'an answer without the database',
      '-',
      '-',
      bare.perSecond,
      '-',
      '-',
      bare.p50,
      bare.p99,
      bare.cpu * 1000,
    ]);
    console.log(
      `\n${connections} connections, ${seconds} s each, medians of ${rounds} rounds, one server process, PostgreSQL on the same machine\n`,
    );
    const head = ['job', 'pgbench/s', 'store/s', 'API/s', 'floor ÷ API', 'worst', 'p50 ms', 'p99 ms', 'server CPU µs'];
    console.log(table(head, rows));
    // `npm run bench -- api` with some jobs named measures those only.
    const many = rows.find(([name]) => name === 'write, 64 organizations');
    if (many !== undefined)
      showGoals([{ what: 'write, 64 organizations: pgbench ÷ API', goal: 1.3, measured: Number(many[4]), unit: '×' }]);
    await store.close();
    await server.stop();
  } finally {
    await database.stop();
    await rm(dir, { recursive: true, force: true, maxRetries: 20 });
  }
}

const program = await Program.build();
try {
  await throughput(program);
} finally {
  await program.close();
}
