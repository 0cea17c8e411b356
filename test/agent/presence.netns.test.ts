/**
 * Proves presence with packets that are dropped: real agents in namespaces of their own reach a server over its own
 * TLS, behind nginx as documented, and behind an unadapted nginx. The server's intervals are short here;
 * `src/server/watch/signs.test.ts` checks the default ones against the promised 60 and 15 seconds.
 */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { uplink } from '../lib/certificates.ts';
import { eventually } from '../lib/eventually.ts';
import type { Json } from '../lib/http.ts';
import { connect } from '../lib/netns.ts';
import { startProxy, type TestProxy } from '../lib/reverse-proxy.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';
import { Device, Door, driver, installProgram, removeFolder, type RunningAgent } from './device.ts';

/** A sign every two seconds, offline after 4.5 s without one. */
const watch = { heartbeatMs: 1_000, silentMs: 4_500 };
const ways = ["over the server's own TLS", 'behind nginx as documented', 'behind nginx as it comes'] as const;

let postgres: TestPostgres;
let installed: Awaited<ReturnType<typeof installProgram>>;
let folder: string;
let place: Place;
const servers: TestServer[] = [];
const proxies: TestProxy[] = [];
const machines: Machine[] = [];

/** A device with its agent, and a cable to the server that can be pulled. */
class Machine {
  readonly device: Device;
  readonly door: Door;
  readonly id: string;
  readonly agent: RunningAgent;

  private constructor(device: Device, door: Door, id: string, agent: RunningAgent) {
    this.device = device;
    this.door = door;
    this.id = id;
    this.agent = agent;
  }

  static async start(number: number, target: string): Promise<Machine> {
    const device = await Device.open(installed.program);
    await connect(
      { namespace: device.namespace, name: 'up0', addresses: ['10.77.0.2/24'] },
      { namespace: device.peer, name: 'up0', addresses: ['10.77.0.1/24'] },
    );
    const door = await Door.open(device.peer, '10.77.0.1');
    door.target = target;
    const fields = { public_key: `key ${number}`, hostname: `machine-${number}` };
    const { id, device_token } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, fields);
    const [token, ca] = [join(folder, `token-${number}`), join(folder, 'ca.pem')];
    await Promise.all([writeFile(token, device_token, { mode: 0o600 }), writeFile(ca, uplink.cert)]);
    const server = door.url.replace('http:', 'https:');
    const who = `--organization ${place.org} --device ${id} --token-file ${token} --tls-ca ${ca}`;
    const where = `--server ${server} --interface ${driver} --state ${join(folder, `state-${number}`)}`;
    return new Machine(device, door, id, device.start(`${who} ${where}`.split(' ')));
  }

  /** Drops every packet on the cable silently, in both directions. */
  pull(): Promise<unknown> {
    const chain = (hook: string): string => `chain ${hook} { type filter hook ${hook} priority -300; policy drop; };`;
    return this.device.peer.run(['nft', `table inet cut { ${chain('input')} ${chain('output')} }`]);
  }

  plug(): Promise<unknown> {
    return this.device.peer.run(['nft', 'delete', 'table', 'inet', 'cut']);
  }

  async close(): Promise<void> {
    await this.agent.end('SIGKILL');
    await this.door.close();
    await this.device.close();
  }
}

beforeAll(async () => {
  [postgres, installed] = await Promise.all([startPostgres(), installProgram()]);
  folder = await mkdtemp(join(tmpdir(), 'ringfence-presence-'));
  const plain = await startTestServer(postgres, { watch });
  servers.push(plain);
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  await Promise.all([writeFile(cert, uplink.cert), writeFile(key, uplink.key)]);
  const secure = await startTestServer(postgres, { watch, url: plain.databaseUrl, tlsCert: cert, tlsKey: key });
  servers.push(secure);
  for (const name of ['nginx', 'nginx without the docs'] as const)
    proxies.push(await startProxy(name, plain.url, uplink));
  place = await newPlace(plain);
  const targets = [secure.url, ...proxies.map(({ url }) => url)];
  machines.push(...(await Promise.all(targets.map((target, index) => Machine.start(index + 1, target)))));
});
afterAll(async () => {
  await Promise.all(machines.map((machine) => machine.close()));
  await Promise.all(proxies.map((proxy) => proxy.close()));
  for (const server of servers.toReversed()) await server.close();
  await postgres?.stop();
  if (folder !== undefined) await removeFolder(folder);
  if (installed !== undefined) await removeFolder(installed.folder);
});

/** What the servers know of each machine, in the order of `ways`; asked at the server that holds no stream of the first. */
async function statuses(): Promise<readonly Json[]> {
  const all: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
  return machines.map(({ id }) => all.find(({ device_id }) => device_id === id));
}
const online = async (): Promise<Record<string, boolean>> => {
  const all = await statuses();
  return Object.fromEntries(ways.map((way, index) => [way, all[index]?.online]));
};
/** When each was last seen. */
const seen = async (): Promise<readonly number[]> =>
  (await statuses()).map(({ last_seen_at }) => Date.parse(last_seen_at));
const each = <T>(value: T): Record<string, T> => Object.fromEntries(ways.map((way) => [way, value]));
const logs = (): string => machines.map(({ agent }) => agent.output).join('\n');

async function become(what: string, expected: Record<string, boolean>): Promise<void> {
  let found: unknown;
  await eventually(
    () => `${what}: ${JSON.stringify(found)}\n${logs()}`,
    async () => {
      found = await online();
      return JSON.stringify(found) === JSON.stringify(expected);
    },
  );
}

/** How often agents and others have begun a TLS connection with the second server. */
async function handshakes(kind: 'full' | 'resumed'): Promise<number> {
  const counted = (await servers[1]?.measure())?.find(({ name }) => name === 'ringfence_tls_handshakes_total');
  return counted?.values.find(({ labels }) => labels['kind'] === kind)?.value ?? Number.NaN;
}

test('a device whose cable is pulled goes offline and was last seen before that; back again, it resumes its TLS session and follows again', async () => {
  await become('all are online', each(true));
  const started = Date.now();
  await eventually(
    () => `all show signs for longer than they may be silent\n${logs()}`,
    async () => (await seen()).every((at) => at > started + watch.silentMs),
  );
  await become('all are online still', each(true));

  const [full, resumed] = [await handshakes('full'), await handshakes('resumed')];
  await Promise.all(machines.map((machine) => machine.pull()));
  await become('all are offline', each(false));
  const silent = (await seen()).map((at) => Date.now() - at);
  for (const [index, way] of ways.entries()) expect(silent[index], way).toBeGreaterThanOrEqual(watch.silentMs);

  await place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${place.defaultGroup}`, {
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 443, to_port: 443 }],
  });
  await Promise.all(machines.map((machine) => machine.plug()));
  await Promise.all(machines.map(({ device, agent }) => device.untilOpen('443', agent)));
  await become('all are online again', each(true));
  expect([await handshakes('full'), (await handshakes('resumed')) > resumed]).toEqual([full, true]);
});
