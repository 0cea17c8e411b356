/**
 * Proves that servers are replaced one after the other without anybody noticing: a rolling restart, and a rolling upgrade from the previous release, under
 * streams and writers. Prints how long readers took to move.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { Device, driver, installProgram, type RunningAgent } from '../agent/device.ts';
import { adminToken, Replica } from '../faults/replicas.ts';
import { DatabaseNode } from '../lib/database-node.ts';
import { eventually } from '../lib/eventually.ts';
import { freePort } from '../lib/free-port.ts';
import { Api } from '../lib/http.ts';
import { rollingSince } from '../../src/server/store/schema/export-migrations.ts';
import { olderProgram, previousRelease, schemaVersion, unpackedProgram } from '../lib/older-program.ts';
import { sum, writerCount } from './fleet-load.ts';
import { GroupWriter } from './group-writers.ts';
import { startHaproxy, type Haproxy } from './haproxy.ts';
import { ReaderProcesses } from './reader-processes.ts';

const restartStreams = Number(process.env['RINGFENCE_FAULT_STREAMS'] ?? 500);
const upgradeStreams = Number(process.env['RINGFENCE_FAULT_STREAMS'] ?? 500);

interface ServerPlaces {
  readonly folder: string;
  readonly ports: readonly number[];
  readonly args: readonly string[];
}

/** Three servers on one database, each at a port that it keeps, and HAProxy in front of them. */
class Servers {
  readonly proxy: Haproxy;
  readonly urls: readonly string[];
  readonly database: DatabaseNode;
  readonly #running: Replica[];
  readonly #options: ServerPlaces;

  private constructor(proxy: Haproxy, database: DatabaseNode, running: Replica[], options: ServerPlaces) {
    this.proxy = proxy;
    this.database = database;
    this.#running = running;
    this.#options = options;
    this.urls = running.map(({ url }) => url);
  }

  static async start(program: string, args: readonly string[]): Promise<Servers> {
    const folder = await mkdtemp(join(tmpdir(), 'rf-rolling-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const database = await DatabaseNode.primary({ max_connections: '200' });
    onTestFinished(() => database.remove());
    const ports = [await freePort(), await freePort(), await freePort()];
    const running: Replica[] = [];
    onTestFinished(async () => void (await Promise.all(running.map((replica) => replica.stop('SIGKILL')))));
    const options = { folder, ports, args };
    for (const [index] of ports.entries()) running.push(await startReplica(program, index, database, options));
    const proxy = await startHaproxy(
      folder,
      running.map(({ url }) => url),
    );
    return new Servers(proxy, database, running, options);
  }

  /** Stops one properly, and starts this program in its place. */
  async replace(index: number, program: string): Promise<void> {
    await this.#running[index]?.stop('SIGTERM');
    this.#running[index] = await startReplica(program, index, this.database, this.#options);
  }
}

async function startReplica(
  program: string,
  index: number,
  database: DatabaseNode,
  { folder, ports, args }: ServerPlaces,
): Promise<Replica> {
  const data = join(folder, String(index));
  const parts = {
    program,
    port: ports[index] ?? 0,
    databaseUrl: database.url,
    data,
    workers: 1,
    args: ['--max-streams', '20000', ...args],
  };
  const replica = new Replica(parts);
  await replica.start();
  if (!replica.up) throw new Error(`the server did not start: ${replica.said}`);
  return replica;
}

interface Load {
  readonly org: string;
  readonly base: string;
  readonly api: Api;
  readonly readers: ReaderProcesses;
  readonly writers: readonly GroupWriter[];
  /** Waits until so many more writes are acknowledged. */
  more(count: number): Promise<void>;
  /** Waits until every request that a writer has sent by now is answered. */
  settled(): Promise<void>;
  /** Ends the writers, and looks at what everybody saw. Gives how often readers listed again. */
  finish(): Promise<number>;
}

async function startLoad(servers: Servers, count: number): Promise<Load> {
  const api = new Api(servers.proxy.url, adminToken);
  onTestFinished(() => api.close());
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'acme' });
  const base = `/api/organizations/${org}`;
  const readers = await ReaderProcesses.start({ servers: servers.urls, token: adminToken, org, count });
  const writing = new AbortController();
  onTestFinished(() => writing.abort());
  const writers = Array.from({ length: writerCount }, () => new GroupWriter());
  // About 4,000 documents a second, whatever the number of streams: two processors serve and read them.
  const pauseMs = Math.max(200, count * 4);
  const working = Promise.all(writers.map((one) => one.work([api], base, { signal: writing.signal, pauseMs })));
  const acknowledged = (): number => sum(writers.map((writer) => writer.acknowledged));
  return {
    org,
    base,
    api,
    readers,
    writers,
    async more(wanted) {
      const enough = acknowledged() + wanted;
      await Promise.race([eventually('writers write', () => acknowledged() >= enough), working]);
    },
    async settled() {
      const sent = writers.map((writer) => writer.sent);
      await eventually('requests are answered', () =>
        writers.every(({ settled }, index) => settled >= (sent[index] ?? 0)),
      );
    },
    async finish() {
      writing.abort();
      await working;
      const groups: { id: string; group_description: string; revision: number }[] = await api.expect(
        200,
        'GET',
        `${base}/security_groups`,
      );
      const found = new Map(groups.map(({ id, group_description }) => [id, group_description]));
      for (const { possible } of writers)
        for (const [id, states] of possible) expect(states, id).toContain(found.get(id));
      await readers.hold(groups.map(({ id, revision }) => [id, revision]));
      const { faults, errors, relists } = await readers.report();
      expect(faults).toEqual([]);
      expect(errors).toEqual([]);
      expect(writers.flatMap(({ failures }) => failures)).toEqual([]);
      return relists;
    },
  };
}

/** Replaces all servers, one after the other, with `before` and `after` around each. Gives what to print. */
async function roll(
  servers: Servers,
  load: Load,
  program: string,
  steps: Partial<Record<'before' | 'after', (index: number) => Promise<void>>> = {},
): Promise<string> {
  const moved: number[] = [];
  const streams = load.readers.count;
  const names = ['ringfence_watch_resumes_total', 'ringfence_watch_ring_hits_total'] as const;
  let [resumes, hits] = [0, 0];
  for (const index of servers.urls.keys()) {
    await load.more(5);
    const others = servers.urls.filter((_, at) => at !== index);
    const before = await Promise.all(names.map((name) => metric(name, others)));
    await steps.before?.(index);
    const begun = performance.now();
    await servers.replace(index, program);
    await eventually(
      'every reader has a stream',
      async () => (await metric('ringfence_watch_streams', servers.urls)) >= streams,
    );
    moved.push(performance.now() - begun);
    const after = await Promise.all(names.map((name) => metric(name, others)));
    resumes += (after[0] ?? 0) - (before[0] ?? 0);
    hits += (after[1] ?? 0) - (before[1] ?? 0);
    await steps.after?.(index);
  }
  await load.more(5);
  const times = moved.map((ms) => `${(ms / 1_000).toFixed(1)} s`).join(', ');
  return `${streams} streams; a server replaced and all readers moved within ${times}; ${resumes} resumes at the other servers, ${hits} of them from memory`;
}

async function schemaOf(database: DatabaseNode): Promise<number | undefined> {
  const [row] = await database.query<{ version: number }>('SELECT max(version) AS version FROM schema_versions');
  return row?.version;
}

/** The sum of a metric over servers. */
async function metric(name: string, urls: readonly string[]): Promise<number> {
  const texts = await Promise.all(urls.map(async (url) => (await fetch(`${url}/metrics`)).text()));
  return sum(texts.map((text) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1] ?? 0)));
}

test(`a rolling restart of three servers under ${restartStreams} streams and ${writerCount} writers: no reader lists again, and nobody sees an error`, async () => {
  const { folder } = await installProgram();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const program = join(folder, 'dist/ringfence.mjs');
  // As long as HAProxy needs to notice, and some more for a busy machine.
  const servers = await Servers.start(program, ['--shutdown-delay', '5']);
  const load = await startLoad(servers, restartStreams);
  const figures = await roll(servers, load, program);
  expect(await load.finish()).toBe(0);
  console.log(`rolling restart: ${figures}`);
}, 1_800_000);

/** Waits until the older agent opens this port of TCP alone. Its table is read as text: it differs from what the decompiler of this version reads. */
async function untilNamed(port: number, { namespace }: Device, agent: RunningAgent): Promise<void> {
  let seen: readonly string[] = [];
  await eventually(
    () => `the older agent opens ${port}, it opens ${seen.join(' ')}\n${agent.output}`,
    async () => {
      const { stdout } = await namespace.attempt(['nft', '-s', 'list', 'table', 'inet', 'service']);
      seen = [...stdout.matchAll(/tcp dport (\S+)/g)].map(([, found = '']) => found);
      return seen.join(' ') === String(port);
    },
  );
}

test(`a rolling upgrade from the previous release under ${upgradeStreams} streams, ${writerCount} writers and agents of both versions: nobody sees an error, and no server takes away what it does not know`, async () => {
  const commit = previousRelease();
  const checkout = await olderProgram(commit);
  onTestFinished(() => rm(checkout, { recursive: true, force: true }));
  const older = await unpackedProgram(checkout);
  const { folder, program: newer } = await installProgram();
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const servers = await Servers.start(join(older, 'dist/ringfence.mjs'), []);
  const olderSchema = await schemaOf(servers.database);
  expect(olderSchema).toBeGreaterThanOrEqual(rollingSince);
  const load = await startLoad(servers, upgradeStreams);
  const { api, base } = load;

  const untilOpen = (port: number, device: Device, agent: RunningAgent): Promise<void> =>
    device.untilOpen(String(port), agent);
  const devices: { until: typeof untilOpen; device: Device; agent: RunningAgent }[] = [];
  const programs = [
    { name: 'older', program: join(older, 'bin/ringfence'), until: untilNamed },
    { name: 'newer', program: newer, until: untilOpen },
  ];
  for (const { name, program, until } of programs) {
    const device = await Device.open(program);
    onTestFinished(() => device.close());
    device.door.target = servers.proxy.url;
    const { id, device_token } = await api.expect(201, 'POST', `${base}/devices`, { public_key: name });
    const state = join(folder, `state-${name}`);
    const file = join(folder, `token-${name}`);
    await writeFile(file, `${device_token}\n`, { mode: 0o600 });
    const where = `--server ${device.door.url} --organization ${load.org} --interface ${driver} --state ${state}`;
    devices.push({ until, device, agent: device.start(`${where} --device ${id} --token-file ${file}`.split(' ')) });
  }
  const defaultGroup = (await api.expect(200, 'GET', base)).security_groups[0];
  const enforced = async (port: number): Promise<void> => {
    await api.expect(200, 'PATCH', `${base}/security_groups/${defaultGroup}`, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
    });
    await Promise.all(devices.map(({ until, device, agent }) => until(port, device, agent)));
  };
  await enforced(22);

  // A record of a later version than both.
  const record = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'of the future' });
  const future = '"colour":{"of":"roses"},"group_name":';
  const database = new Client({ connectionString: servers.database.url });
  await database.connect();
  await database.query(`UPDATE security_groups SET body = replace(body, '"group_name":', $2) WHERE id = $1`, [
    record.id,
    future,
  ]);
  await database.end();
  const path = `${base}/security_groups/${record.id}`;

  // An older server may not be ready once the database is migrated.
  await servers.proxy.stopChecks();
  const before = async (index: number): Promise<void> => {
    await servers.proxy.use(index, false);
    await load.settled();
  };
  const after = async (index: number): Promise<void> => {
    await servers.proxy.use(index, true);
    await enforced(index % 2 === 0 ? 80 : 22);
    for (const url of servers.urls) {
      const direct = new Api(url, adminToken);
      expect(await direct.patch(path, { group_name: 'mine' })).toMatchObject({
        status: 409,
        json: { code: 'newer_record' },
      });
      expect((await direct.get(path)).text).toContain(future);
      direct.close();
    }
  };
  const figures = await roll(servers, load, join(folder, 'dist/ringfence.mjs'), { before, after });
  await enforced(443);
  expect(await load.finish()).toBe(0);
  expect(await schemaOf(servers.database)).toBe(schemaVersion);
  console.log(`rolling upgrade from ${commit}, database schema ${olderSchema} to ${schemaVersion}: ${figures}`);
}, 1_800_000);
