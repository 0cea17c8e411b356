/** Proves what becomes of connections where another program meddles with their tracking or the kernel's table of them is full, and that an operator learns of it. */
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TrackingAdvice } from '../../src/agent/host/tracking-advice.ts';
import { deviceId, organization } from '../../src/client/records.fixture.ts';
import { connect } from '../lib/netns.ts';
import { Talker } from '../lib/talker.ts';
import { comesTrue, Device, driver, installProgram, removeFolder, statusOf, type RunningAgent } from './device.ts';

describe('the agent', () => {
  let installed: { readonly folder: string; readonly program: string };
  beforeAll(async () => {
    installed = await installProgram();
  });
  afterAll(() => removeFolder(installed.folder));

  let host: Device;
  let state: string;
  let agent: RunningAgent;
  beforeEach(async () => {
    host = await Device.open(installed.program);
    state = await mkdtemp(join(tmpdir(), 'ringfence-state-'));
    await writeFile(join(state, 'token'), 'rf_device_x\n', { mode: 0o600 });
  });
  afterEach(async () => {
    await agent?.end('SIGKILL');
    await host?.close();
    if (state !== undefined) await removeFolder(state);
  });

  /** Without a server: inbound is closed until there is a policy. */
  const start = async (): Promise<void> => {
    const where = `--server ${host.door.url} --organization ${organization} --interface ${driver} --state ${state}`;
    agent = host.start([...where.split(' '), '--device', deviceId(1), '--token-file', join(state, 'token')]);
    await host.untilOpen('', agent);
  };
  const warnsOf = (part: string): Promise<void> =>
    comesTrue(async () => expect((await statusOf(state))?.warnings.join('\n')).toContain(part));

  test('warns where another program exempts packets from tracking, whose answers are refused', async () => {
    await Talker.serve(host.peer, 7_002);
    const call = (bound = {}) => Talker.call(host.namespace, '100.64.0.2', 7_002, bound);
    await start();
    expect(await (await call()).isHeard()).toBe(true);
    expect((await statusOf(state))?.warnings.join('\n')).not.toContain('notrack');
    await host.namespace.run([
      'nft',
      'table ip raw { comment "no notrack here"; chain out { type filter hook output priority raw; tcp dport 7002 notrack comment "a word"; }; }',
    ]);
    await expect(call({ within: 1_500 })).rejects.toThrow('never heard');
    // It reads all rules again after ten minutes, and at its start.
    await agent.end('SIGTERM');
    await start();
    await warnsOf('`notrack` in ip raw');
  });

  test('warns of a full table of connections, which drops new ones on every interface; those that are known go on', async () => {
    await connect(
      { namespace: host.namespace, name: 'eth1', addresses: ['10.9.0.1/24'] },
      { namespace: host.peer, name: 'eth1', addresses: ['10.9.0.2/24'] },
    );
    await Talker.serve(host.namespace, 2_200);
    const call = (bound = {}) => Talker.call(host.peer, '10.9.0.1', 2_200, bound);
    await start();
    const before = await call();
    // The limit is the machine's, the table is this namespace's.
    const limit = Number(await readFile('/proc/sys/net/netfilter/nf_conntrack_max', 'utf8'));
    const fill = `awk 'BEGIN { for (i = 0; i < ${limit}; i++) printf "-I -p tcp -s 172.%d.%d.%d -d 172.16.0.1 --sport 1024 --dport 80 --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 600\\n", 17 + i / 65536, i / 256 % 256, i % 256 }' | conntrack --load-file -`;
    // The last ones find no room.
    expect((await host.namespace.attempt(['sh', '-c', fill])).stderr).toContain('not enough memory');
    // A connection that ended just now leaves room for another: it is filled again until there is none.
    let port = 2_000;
    await comesTrue(async () => {
      port += 1;
      const more = `awk 'BEGIN { for (i = 0; i < 250; i++) printf "-I -p tcp -s 173.0.0.%d -d 172.16.0.1 --sport ${port} --dport 80 --state ESTABLISHED -u SEEN_REPLY,ASSURED -t 600\\n", i }' | conntrack --load-file -`;
      expect((await host.namespace.attempt(['sh', '-c', more])).stderr).toContain('not enough memory');
      await expect(call({ within: 1_500 })).rejects.toThrow('never heard');
    });
    expect(await before.isHeard()).toBe(true);
    await warnsOf('100 % full: a full one drops new connections on every interface');
  });
});

describe('advice on tracking', () => {
  const settings = (count: number) => async (name: string) => (name === 'nf_conntrack_count' ? String(count) : '1000');

  test('reads all rules again only after ten minutes', async () => {
    let [now, stdout] = [0, 'table inet service {\n}\n'];
    const run = async () => ({ code: 0, stdout, stderr: '' });
    const advice = new TrackingAdvice({ run, read: settings(10), monotonic: () => now });
    expect(await advice.warnings()).toEqual([]);
    stdout = 'table ip raw {\n\tchain out {\n\t\ttcp dport 7002 notrack\n\t}\n}\n';
    expect(await advice.warnings()).toEqual([]);
    now += 11 * 60_000;
    expect(await advice.warnings()).toEqual([expect.stringContaining('`notrack` in ip raw')]);
  });

  test.each([
    [899, []],
    [950, [expect.stringContaining('95 % full')]],
  ])('finds a table that holds %i of 1,000 worth a word, or not', async (count, warnings) => {
    const run = async () => ({ code: 0, stdout: 'table inet service {\n}\n', stderr: '' });
    const advice = new TrackingAdvice({ run, read: settings(count), monotonic: () => 0 });
    expect(await advice.warnings()).toEqual(warnings);
  });
});
