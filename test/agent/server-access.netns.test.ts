/** Proves that a device whose only way to the server leads through its guarded interface never cuts itself off (reference 1.2 (24)). */
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { StatusDocument } from '../../src/agent/report/status-document.ts';
import { eventually } from '../lib/eventually.ts';
import { NameServer } from '../lib/name-server.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';
import { ask, serve } from '../lib/talk.ts';
import {
  comesTrue,
  Device,
  Door,
  driver,
  installProgram,
  removeFolder,
  statusOf,
  type RunningAgent,
} from './device.ts';

let postgres: TestPostgres;
let server: TestServer;
let installed: { readonly folder: string; readonly program: string };
beforeAll(async () => {
  [postgres, installed] = await Promise.all([startPostgres(), installProgram()]);
  server = await startTestServer(postgres);
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  if (installed !== undefined) await removeFolder(installed.folder);
});

let device: Device;
let place: Place;
let state: string;
const agents: RunningAgent[] = [];
const doors: Door[] = [];
beforeEach(async () => {
  place = await newPlace(server);
  device = await Device.open(installed.program);
  state = await mkdtemp(join(tmpdir(), 'ringfence-state-'));
});
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.end('SIGKILL');
  for (const door of doors.splice(0)) await door.close();
  await device?.close();
  if (state !== undefined) await removeFolder(state);
});

/** The server at an address of the peer: the device reaches it through the guarded interface only. */
async function openAt(host: string): Promise<Door> {
  const door = await Door.open(device.peer, host);
  door.target = server.url;
  doors.push(door);
  return door;
}

/** The device asks this name server, and no other. */
async function resolveBy(address: string): Promise<NameServer> {
  const file = join(state, 'resolv.conf');
  await writeFile(file, `nameserver ${address}\noptions timeout:1 attempts:1\n`);
  await device.namespace.run(['mount', '--bind', file, '/etc/resolv.conf']);
  return NameServer.open(device.peer, address);
}

const tcp = (port: number) => ({ ip_protocol: 'tcp', from_port: port, to_port: port });

/** Sets the rules of the group: some inbound ports are open, and outbound only an unused one. */
const allow = (ports: readonly number[], { closed = true } = {}): Promise<unknown> =>
  place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${place.defaultGroup}`, {
    inbound_rules: ports.map(tcp),
    outbound_rules: closed ? [tcp(9)] : [],
  });

async function register(): Promise<readonly string[]> {
  const { id, device_token } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const file = join(state, 'token');
  await writeFile(file, `${device_token}\n`, { mode: 0o600 });
  return ['--device', id, '--token-file', file];
}

function start(url: string, args: readonly string[]): RunningAgent {
  const where = `--server ${url} --organization ${place.org} --interface ${driver} --state ${state}`.split(' ');
  const agent = device.start([...where, ...args]);
  agents.push(agent);
  return agent;
}

const status = (): Promise<StatusDocument | undefined> => statusOf(state);
const isLive = async (agent: RunningAgent): Promise<void> =>
  eventually(
    () => `the stream is live\n${agent.output}`,
    async () => (await status())?.stream.phase === 'live',
  );

describe.each([
  ['IPv4', '100.64.0.2'],
  ['IPv6', 'fd7f::2'],
])('a server that is named by its %s address', (_, host) => {
  test('is followed through a closed outbound, and through restarts of both ends', async () => {
    const door = await openAt(host);
    const args = await register();
    await allow([22], { closed: false });
    const agent = start(door.url, args);
    await device.untilOpen('22', agent);
    await isLive(agent);
    await allow([443]);
    await device.untilOpen('443', agent);
    // The stream that brought the rule which does not name the server is the one that brings the next change.
    await allow([80]);
    await device.untilOpen('80', agent);
    expect(agent.lines('the stream was cut')).toBe(0);

    door.shut();
    await allow([22]);
    door.target = server.url;
    await device.untilOpen('22', agent);

    expect(await agent.end('SIGKILL')).toBe('SIGKILL');
    await allow([443]);
    const again = start(door.url, args);
    await device.untilOpen('443', again);

    await isLive(again);
    await comesTrue(async () => {
      const told = await status();
      expect(told?.server_access).toEqual({ addresses: [host], port: 8_080, resolvers: [] });
      expect(told?.packets.outbound?.server.packets).toBeGreaterThan(0);
    });
    const { stdout } = await device.run(['status', '--state', state]);
    expect(stdout).toMatch(new RegExp(`server access +${host} port 8080`));
    expect(stdout).toMatch(/out: .*[1-9]\d* between the agent and its server/);
    // What is out of use goes a moment later.
    await eventually(
      () => 'nothing is left that no rule needs',
      async () => (await device.kernel())?.findings.length === 0,
    );
  });
});

test('without that way, one outbound rule cuts the device off for good', async () => {
  const door = await openAt('100.64.0.2');
  await allow([22], { closed: false });
  const agent = start(door.url, [...(await register()), '--no-server-access']);
  await device.untilOpen('22', agent);
  await allow([443]);
  await device.untilOpen('443', agent);
  await eventually(
    () => `the stream is lost\n${agent.output}`,
    async () => !['live', undefined].includes((await status())?.stream.phase),
  );
  expect((await device.kernel())?.enforced).not.toHaveProperty('serverAccess');
  await comesTrue(async () => {
    const told = await status();
    expect(told).toBeDefined();
    expect(told).not.toHaveProperty('server_access');
  });
});

describe.each([
  ['IPv4', '100.64.0.2', '100.64.0.3', '100.64.0.53'],
  ['IPv6', 'fd7f::2', 'fd7f::3', 'fd7f::53'],
])('a server that is named by a host name, over %s', (_, first, second, resolver) => {
  const suffix = (address: string): string => (address.includes(':') ? `${address}/64` : `${address}/24`);
  const url = 'http://ringfence.test:8080';

  beforeEach(async () => {
    for (const address of [second, resolver]) {
      await device.peer.run([
        'ip',
        'address',
        'add',
        suffix(address),
        'dev',
        driver,
        ...(address.includes(':') ? ['nodad'] : []),
      ]);
    }
  });

  test('is followed to another address, and found again at a start when no name server answers', async () => {
    const names = await resolveBy(resolver);
    await names.answer(first);
    const here = await openAt(first);
    const args = await register();
    await allow([22]);
    const agent = start(url, args);
    await device.untilOpen('22', agent);
    await isLive(agent);
    const access = (address: string) => ({ addresses: [address], port: 8_080, resolvers: [resolver] });
    await comesTrue(async () => expect((await status())?.server_access).toEqual(access(first)));

    // It moves: the old address is gone, the new one is known to the name server only.
    const there = await openAt(second);
    await names.answer(second);
    here.shut();
    await allow([443]);
    await device.untilOpen('443', agent);
    await isLive(agent);
    await comesTrue(async () => {
      expect((await status())?.server_access?.addresses).toContain(second);
      expect(JSON.parse(await readFile(join(state, 'server-addresses.json'), 'utf8'))).toMatchObject({
        host: 'ringfence.test',
        addresses: [second],
      });
    });

    // The name server no longer answers, and both ends restart under closed rules.
    expect(await agent.end('SIGKILL')).toBe('SIGKILL');
    await names.silence();
    there.shut();
    there.target = server.url;
    await allow([80]);
    const again = start(url, args);
    await device.untilOpen('80', again);
    await comesTrue(async () => expect((await status())?.server_access).toEqual(access(second)));
  });

  test('opens a way to it and to its resolver, and to nobody else', async () => {
    const names = await resolveBy(resolver);
    await names.answer(first);
    await openAt(first);
    await allow([22]);
    const agent = start(url, await register());
    await device.untilOpen('22', agent);
    await isLive(agent);
    const [from, to] = [device.namespace, device.peer];
    const protocols = ['tcp', 'udp'] as const;
    await Promise.all([
      ...protocols.map((protocol) => serve({ namespace: to, protocol, address: first, port: 8_081 })),
      serve({ namespace: to, protocol: 'tcp', address: second, port: 8_080 }),
      serve({ namespace: to, protocol: 'udp', address: first, port: 8_080 }),
      serve({ namespace: to, protocol: 'udp', address: first, port: 53 }),
      serve({ namespace: to, protocol: 'udp', address: resolver, port: 54 }),
      serve({ namespace: to, protocol: 'tcp', address: resolver, port: 8_080 }),
      serve({ namespace: to, protocol: 'tcp', address: resolver, port: 53 }),
      ...protocols.map((protocol) =>
        serve({ namespace: from, protocol, address: first.includes(':') ? 'fd7f::1' : '100.64.0.1', port: 2_222 }),
      ),
    ]);
    /** What is refused has time for two attempts more. */
    const silence = { within: 4_000 };
    const out = (protocol: 'tcp' | 'udp', address: string, port: number, bound = silence) =>
      ask({ namespace: from, protocol, address, port, ...bound });
    const own = first.includes(':') ? 'fd7f::1' : '100.64.0.1';
    const verdicts = await Promise.all([
      out('tcp', resolver, 53, { within: 60_000 }),
      out('tcp', first, 8_081),
      out('udp', first, 8_081),
      out('udp', first, 8_080),
      out('udp', first, 53),
      out('tcp', second, 8_080),
      out('udp', resolver, 54),
      out('tcp', resolver, 8_080),
      // A connection from the server's address and port gets no access by that.
      ask({ namespace: to, protocol: 'tcp', address: own, port: 2_222, ...silence }),
      ask({ namespace: to, protocol: 'udp', address: own, port: 2_222, localPort: 5_353, ...silence }),
    ]);
    expect(verdicts.map((verdict) => verdict === 'answered')).toEqual([true, ...Array<boolean>(9).fill(false)]);
    await isLive(agent);
  });
});
