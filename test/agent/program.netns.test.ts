/** Proves the whole agent as an operator runs it: the real program, a real server, a real kernel; through ends of every kind. */
import { chmod, chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { StatusDocument } from '../../src/agent/report/status-document.ts';
import { parseOrganizationId } from '../../src/policy/ids.ts';
import { writeEnrollmentKey } from '../../src/policy/names/enrollment-key.ts';
import { eventually } from '../lib/eventually.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';
import { comesTrue, Device, driver, installProgram, removeFolder, statusOf, type RunningAgent } from './device.ts';

let postgres: TestPostgres;
let server: TestServer;
let place: Place;
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
let state: string;
const agents: RunningAgent[] = [];
beforeEach(async () => {
  place = await newPlace(server);
  device = await Device.open(installed.program);
  device.door.target = server.url;
  state = await mkdtemp(join(tmpdir(), 'ringfence-state-'));
});
afterEach(async () => {
  for (const agent of agents.splice(0)) await agent.end('SIGKILL');
  await device?.close();
  if (state !== undefined) await removeFolder(state);
});

const tcp = (port: number) => ({ ip_protocol: 'tcp', from_port: port, to_port: port });

/** Sets the rules of the organization's default group. */
const allow = (...ports: readonly number[]): Promise<unknown> =>
  place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${place.defaultGroup}`, {
    inbound_rules: ports.map(tcp),
  });

const where = (): readonly string[] =>
  `--server ${device.door.url} --organization ${place.org} --interface ${driver} --state ${state}`.split(' ');
const startWith = (args: readonly string[], through: readonly string[] = []): RunningAgent => {
  const agent = device.start(args, through);
  agents.push(agent);
  return agent;
};
const start = (args: readonly string[], through: readonly string[] = []): RunningAgent =>
  startWith([...where(), ...args], through);

/** A key for one device. */
const newKey = async (): Promise<string> => {
  const { key } = await place.owner.api.expect(201, 'POST', `${place.base}/enrollment_keys`, {});
  return key;
};

/** A device that is registered, and the file with its token. */
const newDevice = async (): Promise<{ readonly id: string; readonly args: readonly string[] }> => {
  const { id, device_token } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const file = join(state, 'token');
  await writeFile(file, `${device_token}\n`, { mode: 0o600 });
  return { id, args: ['--device', id, '--token-file', file] };
};

const status = (): Promise<StatusDocument | undefined> => statusOf(state);
const statusByCommand = async (): Promise<Partial<StatusDocument>> =>
  JSON.parse((await device.run(['status', '--state', state, '--output', 'json'])).stdout) as Partial<StatusDocument>;

test('an owner has the agent renew its token: over the stream, without anybody at the machine; restarts and changes go on with the new one', async () => {
  await allow(22);
  const agent = start(['--enroll', await newKey()]);
  await device.untilOpen('22', agent);
  const tokenOnDisk = async (): Promise<string> =>
    JSON.parse(await readFile(join(state, 'identity.json'), 'utf8')).token;
  const old = await tokenOnDisk();
  const { api } = place.owner;
  const token = (await api.expect(200, 'GET', '/api/users/me/tokens')).find(
    (one: { kind: string }) => one.kind === 'device',
  );
  await api.expect(200, 'POST', `/api/tokens/${token.id}/rotate?by_device=true`);
  await eventually('the agent has renewed its token', async () => (await tokenOnDisk()) !== old);
  // The stream of the old token has ended; the change comes by that of the new one.
  await eventually(
    'the old token is refused',
    async () => (await server.nobody.as(old).get('/api/users/me')).status === 401,
  );
  await allow(80);
  await device.untilOpen('80', agent);
  await agent.end('SIGTERM');
  const again = start([]);
  await allow(443);
  await device.untilOpen('443', again);
  expect(agent.lines('the device renewed its token')).toBe(1);
  expect(again.lines('renewed')).toBe(0);
});

describe('an enrolled agent', () => {
  test('puts every change in force, tells how it stands, and stays enrolled over a restart', async () => {
    await allow(22);
    // The key carries the server and the organization.
    const key = writeEnrollmentKey(await newKey(), parseOrganizationId(place.org), device.door.url);
    await writeFile(join(state, 'key'), `${key}\n`, { mode: 0o600 });
    const local = ['--interface', driver, '--state', state];
    const agent = startWith([...local, '--enroll-file', join(state, 'key')]);
    await device.untilOpen('22', agent);
    await allow(22, 443);
    await device.untilOpen('22 443', agent);

    const [record] = await place.owner.api.expect(200, 'GET', `${place.base}/devices`);
    expect(record).toMatchObject({ tunnel_ip: '100.64.0.1', addresses: ['fd7f::1'] });
    await comesTrue(async () =>
      expect(await statusByCommand()).toMatchObject({
        running: true,
        version: expect.stringMatching(/^7\.7\.7(\+|$)/),
        device: record.id,
        interface: { name: driver, present: true },
        policy: { origin: 'server', source: 'default', groups: [{ inbound_rules: 2, outbound_rules: 0 }] },
        stream: { phase: 'live' },
        troubles: [],
      }),
    );
    expect((await stat(join(state, 'identity.json'))).mode & 0o777).toBe(0o600);
    expect((await stat(join(state, 'agent.sock'))).mode & 0o077).toBe(0);
    await eventually(
      () => `the server knows that the policy is in force\n${agent.output}`,
      async () => {
        const statuses = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
        return statuses[0]?.status.state === 'applied';
      },
    );

    // One packet that the policy admits, which nobody listens for, and some that no rule admits; the next agent knows of both.
    const knock = (port: number): readonly string[] => ['bash', '-c', `< /dev/tcp/100.64.0.1/${port}`];
    expect((await device.peer.attempt(knock(22))).stderr).toContain('Connection refused');
    const unheard = device.peer.spawn(knock(23), { stdio: 'ignore' });
    const counted = async (): Promise<string> => (await device.run(['status', '--state', state])).stdout;
    await comesTrue(async () =>
      expect(await counted()).toMatch(/in: 1 admitted by default, \d+ of established connections, .*[1-9]\d* refused/),
    );
    unheard.kill();
    expect((await statusByCommand()).packets).not.toHaveProperty('outbound');

    expect(await agent.end('SIGTERM')).toBe(0);
    expect(await device.openPorts()).toBe('22 443');
    const stopped = await device.run(['status', '--state', state]);
    expect(stopped.code).toBe(1);
    expect(stopped.stdout).toContain(`not running with ${state}`);
    expect(stopped.stdout).toContain(`the rules for ${driver} are still in force`);

    // The key is used up, and is no longer needed.
    await rm(join(state, 'key'));
    const again = startWith(local);
    await allow(80);
    await device.untilOpen('80', again);
    await comesTrue(async () => expect(await counted()).toContain('in: 1 admitted by default,'));
    expect(await place.owner.api.expect(200, 'GET', `${place.base}/devices`)).toHaveLength(1);
    expect(again.lines('is enrolled')).toBe(0);
  });

  test('on a copied disk refuses to speak for the original, until its identity is adopted', async () => {
    /** Runs a command on a machine with this id. */
    const onMachine = async (id: string): Promise<readonly string[]> => {
      const file = join(state, id);
      await writeFile(file, `${id.repeat(32)}\n`);
      return ['unshare', '--mount', 'sh', '-c', `mount --bind ${file} /etc/machine-id && exec "$@"`, 'sh'];
    };
    const [original, copy] = [await onMachine('a'), await onMachine('b')];
    await writeFile(join(state, 'key'), await newKey());
    const agent = start(['--enroll-file', join(state, 'key')], original);
    await device.untilOpen('22 80 443', agent);
    expect(await agent.end('SIGTERM')).toBe(0);
    for (const args of [[], ['--enroll', 'rf_enroll_other']]) {
      const refused = await device.run([...where(), ...args], copy);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toMatch(/^ringfence: .*identity\.json was created on another machine .*--adopt\n$/);
    }
    const adopted = start(['--adopt'], copy);
    await allow(80);
    await device.untilOpen('80', adopted);
    expect(await adopted.end('SIGTERM')).toBe(0);
    const again = start([], copy);
    await allow(443);
    await device.untilOpen('443', again);
    expect(await again.end('SIGTERM')).toBe(0);
    expect(await device.run(where(), original)).toMatchObject({ code: 2 });
  });

  test('holds its state against a second one, and is told to go before its rules are', async () => {
    const agent = start(['--enroll', await newKey()]);
    await device.untilOpen('22 80 443', agent);
    for (const args of [where(), ['--remove', '--state', state]]) {
      const outcome = await device.run(args);
      expect(outcome).toMatchObject({ code: 1, stderr: `ringfence: another agent is running with ${state}\n` });
    }
    // With a directory of its own it would take the rules away from the first, and the first from it.
    const elsewhere = `${state}-elsewhere`;
    const { args } = await newDevice();
    for (const other of [[...where(), ...args], ['--remove']]) {
      expect(await device.run([...other, '--state', elsewhere])).toMatchObject({
        code: 1,
        stderr: 'ringfence: another agent is running in this network namespace\n',
      });
    }
    await removeFolder(elsewhere);
    expect(await device.openPorts()).toBe('22 80 443');
    expect(await agent.end('SIGINT')).toBe(0);
    expect(await device.run(['--remove', '--state', state])).toMatchObject({ code: 0 });
    expect(await device.openPorts()).toBe('none');
    expect(await device.run(['--remove', '--state', state])).toMatchObject({ code: 0 });
  });

  test('enforces though `flock` hangs, removes nothing then, and stops once `flock` names another agent', async () => {
    await allow(22);
    const { args } = await newDevice();
    const tools = await mkdtemp(join(tmpdir(), 'ringfence-flock-'));
    const answer = join(tools, 'answer');
    const script = `#!/bin/sh\nwhile [ ! -e ${answer} ]; do sleep 0.1; done\nexec /usr/bin/flock "$@"\n`;
    await writeFile(join(tools, 'flock'), script, { mode: 0o755 });
    const hanging = ['env', `PATH=${tools}:${process.env['PATH'] ?? ''}`];
    try {
      const unlocked = start(args, hanging);
      await device.untilOpen('22', unlocked);
      await comesTrue(async () =>
        expect((await status())?.warnings.join()).toContain('the agent continues without its locks'),
      );
      const removal = await device.run(['--remove', '--state', state], hanging);
      expect(removal).toMatchObject({ code: 1 });
      expect(removal.stderr).toMatch(/^ringfence: .* cannot be locked: flock did not answer within \d+ s\n$/);
      expect(await device.openPorts()).toBe('22');
      // This one gets the locks.
      const locked = start(args);
      await eventually(
        () => `the second agent runs\n${locked.output}`,
        () => locked.lines('starting the agent') > 0,
      );
      await writeFile(answer, '');
      expect(await unlocked.ended).toBe(1);
      expect(unlocked.output).toContain(`ringfence: another agent is running with ${state}\n`);
      expect(await locked.end('SIGTERM')).toBe(0);
    } finally {
      await writeFile(answer, '');
      await removeFolder(tools);
    }
  });
});

describe('the rules in force', () => {
  test('outlive a killed agent, and come back from the disk without the server after the kernel lost them', async () => {
    await allow(22);
    const { args } = await newDevice();
    const agent = start(args);
    await device.untilOpen('22', agent);
    await eventually(
      () => 'the policy is kept',
      () =>
        readFile(join(state, 'policy.json'), 'utf8').then(
          (text) => text.includes('"to_port":22'),
          () => false,
        ),
    );
    expect(await agent.end('SIGKILL')).toBe('SIGKILL');
    expect(await device.openPorts()).toBe('22');

    // As after a reboot while the server is away.
    await device.namespace.run(['nft', 'delete', 'table', 'inet', 'service']);
    device.door.shut();
    const again = start(args);
    await device.untilOpen('22', again);
    await eventually(
      () => `the agent knocks in vain\n${again.output}`,
      async () => ((await status())?.stream.failures ?? 0) >= 3,
    );
    // Each trouble once, however often it is tried: a reset may be met while dialling or while waiting.
    expect(again.lines('not connected to the server')).toBeLessThanOrEqual(2);
    await comesTrue(async () => expect((await status())?.policy).toMatchObject({ origin: 'kept', pending: false }));
    expect(await device.openPorts()).toBe('22');

    await allow(443);
    device.door.target = server.url;
    await device.untilOpen('443', again);
  });

  test('stay when the server goes in the middle, and follow it when it is back', async () => {
    await allow(22);
    const { args } = await newDevice();
    const agent = start(args);
    await device.untilOpen('22', agent);
    device.door.shut();
    await allow(80);
    await eventually(
      () => `the loss is told\n${agent.output}`,
      () => agent.lines('not connected') > 0,
    );
    expect(await device.openPorts()).toBe('22');
    const held = '-p tcp -s 100.64.0.2 -d 100.64.0.1 --sport 5000 --dport 22 --state ESTABLISHED -u SEEN_REPLY -t 3600';
    await device.namespace.run(['conntrack', '-I', ...held.split(' ')]);
    await device.namespace.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_established=4000']);
    device.door.target = server.url;
    await device.untilOpen('80', agent);
    await eventually(
      () => `the end of the loss is told\n${agent.output}`,
      () => agent.lines('connected to the server again') === 1,
    );
    // The connection of the withdrawn rule is kept ended for as long as this kernel remembers silent ones.
    const table = async () =>
      (await device.namespace.attempt(['nft', 'list', 'table', 'inet', 'service-ended'])).stdout;
    await comesTrue(async () =>
      expect(await table()).toMatch(/set stream4 \{[^}]*timeout 1h6m40s\s[^}]*100\.64\.0\.2/),
    );
  });

  test('stay when the token is taken away or the device deleted, and one line says so', async () => {
    await allow(22);
    const { id, args } = await newDevice();
    const agent = start(args);
    await device.untilOpen('22', agent);
    await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${id}`);
    await eventually(
      () => `the refusal is told\n${agent.output}`,
      async () => ((await status())?.stream.failures ?? 0) >= 3,
    );
    expect(agent.lines(/not connected|the current rules stay in force/)).toBeLessThanOrEqual(2);
    expect(await device.openPorts()).toBe('22');
  });

  test('close inbound before the first policy, unless told otherwise', async () => {
    device.door.shut();
    const { args } = await newDevice();
    const agent = start(args);
    await device.untilOpen('', agent);
    expect(await agent.end('SIGTERM')).toBe(0);
    expect(await device.run(['--remove', '--state', state])).toMatchObject({ code: 0 });
    const open = start([...args, '--until-first-policy', 'open']);
    await eventually(
      () => `the agent knocks\n${open.output}`,
      () => open.lines('not connected') > 0,
    );
    expect(await device.openPorts()).toBe('none');
  });
});

describe('the program', () => {
  test('runs as a plain user whose only right is CAP_NET_ADMIN, flows and large policies included', async () => {
    const nobody = 65_534;
    await chown(state, nobody, nobody);
    const metrics = join(state, 'figures.prom');
    const rights = '-all,+net_admin';
    const agent = start(
      ['--enroll', await newKey(), '--metrics-file', metrics],
      `setpriv --reuid=${nobody} --regid=${nobody} --clear-groups --no-new-privs --inh-caps=${rights} --ambient-caps=${rights} --bounding-set=${rights}`.split(
        ' ',
      ),
    );
    await device.untilOpen('22 80 443', agent);
    const ranges = Array.from({ length: 2_000 }, (_, i) => `100.64.${i % 250}.${Math.floor(i / 250) * 8 + 2}`);
    await place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${place.defaultGroup}`, {
      inbound_rules: [{ ...tcp(22), ip_ranges: ranges }],
    });
    await device.untilOpen('22', agent);
    await device.namespace.run(['nft', 'flush', 'ruleset']);
    await device.untilOpen('22', agent);
    await eventually(
      () => `the figures are written\n${agent.output}`,
      () =>
        readFile(metrics, 'utf8').then(
          (text) => /^ringfence_agent_drift_repairs_total [1-9]/m.test(text),
          () => false,
        ),
    );
    expect((await stat(metrics)).mode & 0o777).toBe(0o644);
    expect(agent.output).not.toMatch(/^(error|warn): (?!no policy yet|another program)/m);
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  test('leaves a local user without root nothing to read, change, ask, lock or signal', async () => {
    const { args } = await newDevice();
    // As an operator may have made it; the temporary folder above is for everybody.
    await chmod(state, 0o755);
    const agent = start(args);
    await device.untilOpen('22 80 443', agent);
    await comesTrue(async () => expect(await status()).toMatchObject({ running: true }));
    const pid = (await status())?.pid ?? 0;
    const attempts: Readonly<Record<string, string>> = {
      'list the state': `ls ${state}`,
      'read the policy': `cat ${state}/policy.json`,
      'read the token': `cat ${state}/token`,
      'write the policy': `echo > ${state}/policy.json`,
      'put a file beside it': `touch ${state}/intent.json.0123456789abcdef.new`,
      'ask the socket': `curl --silent --fail --unix-socket ${state}/agent.sock http://agent/status`,
      'lock the state': `flock --nonblock ${state} true`,
      'lock the namespace': `flock --nonblock /run/ringfence-agent/net-$(stat -Lc %i /proc/self/ns/net) true`,
      'put a directory in its place': 'mkdir -p /run/ringfence-agent/net-1',
      'read its environment': `cat /proc/${pid}/environ`,
      'reach its descriptors and pipes': `ls /proc/${pid}/fd`,
      'signal it': `kill -STOP ${pid}`,
      'read the rules': 'nft list table inet service',
      'change the rules': 'nft delete table inet service',
      'move the interface': `ip link set ${driver} down`,
      'end connections': 'conntrack -F',
    };
    const lines = Object.entries(attempts).map(([name, command]) => `(${command}) > /dev/null 2>&1 && echo '${name}'`);
    const user = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
    // The same commands work for root, as far as they harm nothing: what fails for the user fails for lack of rights.
    const harmless = lines.filter((line) => /(?:ls|cat|curl|nft list) /.test(line));
    const asRoot = await device.namespace.attempt(['sh', '-c', `${harmless.join('\n')}\ntrue`]);
    expect(asRoot.stdout.split('\n')).toHaveLength(harmless.length + 1);
    const { stdout } = await device.namespace.attempt([...user, 'sh', '-c', `${lines.join('\n')}\ntrue`]);
    expect(stdout).toBe('');
    expect(await device.openPorts()).toBe('22 80 443');
    expect(await agent.end('SIGTERM')).toBe(0);
    // While the agent runs it holds its locks itself: whether others could take them shows when it does not.
    const locks = lines.filter((line) => line.includes('flock '));
    const free = await device.namespace.attempt(['sh', '-c', `${locks.join('\n')}\ntrue`]);
    expect(free.stdout).toBe('lock the state\nlock the namespace\n');
    const taken = await device.namespace.attempt([...user, 'sh', '-c', `${locks.join('\n')}\ntrue`]);
    expect(taken.stdout).toBe('');
  });

  test('says in one line what it lacks, and tries on', async () => {
    const { args } = await newDevice();
    const powerless = start(args, ['setpriv', '--bounding-set=-net_admin', '--inh-caps=-all']);
    await eventually(
      () => `the lack of rights is told\n${powerless.output}`,
      () => powerless.lines(/error: .*CAP_NET_ADMIN/) > 0,
    );
    await comesTrue(async () => expect((await status())?.troubles.length).toBeGreaterThan(0));
    expect(await powerless.end('SIGTERM')).toBe(0);
    expect(powerless.lines(/reading the state of the kernel and the disk failed/)).toBe(1);
  });

  test('says that its server speaks HTTP where its URL says https', async () => {
    const { args } = await newDevice();
    const secure = where().map((word) => word.replace(/^http:/, 'https:'));
    const agent = startWith([...secure, ...args]);
    await eventually(
      () => `the wrong scheme is told\n${agent.output}`,
      () => agent.lines(/the server speaks HTTP, not HTTPS; use http:/) > 0,
    );
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  test.each<[string, readonly string[], RegExp]>([
    ['no device', [], /^ringfence: no device identity: .*\n$/],
    ['a wrong value', ['--until-first-policy', 'ajar'], /^ringfence: .*must be one of closed, open.*\n$/],
    ['a wrong option', ['--untl-first-policy', 'open'], /^ringfence: unknown option .*Did you mean.*\n$/],
  ])('ends with 2 and one line over %s', async (_, args, message) => {
    const outcome = await device.run([...where(), ...args]);
    expect(outcome.code).toBe(2);
    expect(outcome.stderr).toMatch(message);
  });
});
