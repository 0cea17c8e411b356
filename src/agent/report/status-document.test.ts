/** Proves what an operator is shown: by the socket, as a document and as metrics. */
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { organization } from '../../client/records.fixture.ts';
import { groupOf, World } from '../loop/agent.fixture.ts';
import { written } from '../../nft/policies.fixture.ts';
import { parseSelector } from '../host/driver-interface.ts';
import { printMetrics } from './metrics.ts';
import { askStatus, NoAnswer, openStatusSocket, socketPath } from './status-socket.ts';
import { statusDocument, type StatusDocument } from './status-document.ts';

const config = {
  servers: ['http://server.test'],
  organization,
  selector: parseSelector('wg0'),
  containers: 'guard',
} as const;
const documentOf = (world: World): StatusDocument =>
  statusDocument(world.agent.status, { config, device: 'd', version: '1.2.3', pid: 42, warnings: ['mind the gap'] });

/** Every sample by its name and labels. */
function samples(text: string): Record<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(
    lines.map((line) => {
      const [, name = '', value = ''] = /^(\S+(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
      return [name, Number(value)];
    }),
  );
}

describe('the status document', () => {
  test('before anything is known: closed, waiting, nothing wrong', async () => {
    const world = new World();
    await world.settle();
    expect(documentOf(world)).toMatchObject({
      running: true,
      pid: 42,
      warnings: ['mind the gap'],
      device: 'd',
      interface: { wanted: 'wg0', name: 'wg0', present: true },
      policy: { origin: 'first', groups: [], pending: false },
      troubles: [],
      drift: { repaired: 0 },
    });
    expect(documentOf(world)).not.toHaveProperty('held');
    const metrics = samples(printMetrics(documentOf(world), { residentBytes: 1 }));
    expect(metrics['ringfence_agent_policy_in_force']).toBe(0);
    expect(metrics).not.toHaveProperty('ringfence_agent_policy_revision');
    await world.stop();
  });

  test('of a policy in force: revision, groups, rules; of drift and of troubles: who and what', async () => {
    const world = new World();
    world.source.know(
      7,
      groupOf(1, [written('tcp', 22, 22), written('udp', 53, 53)]),
      groupOf(2, [], [written('tcp', 1, 9)]),
    );
    await world.settle();
    world.ownGeneration();
    world.foreignGeneration(['service-inbound'], 'insert rule inet service service-inbound accept');
    await world.settle();
    world.changeLinks(new Error('ip is gone'));
    await world.settle();
    const document = documentOf(world);
    expect(document).toMatchObject({
      policy: {
        origin: 'server',
        source: 'list',
        revision: 7,
        groups: [
          { name: 'group 1', inbound_rules: 2, outbound_rules: 0 },
          { name: 'group 2', inbound_rules: 0, outbound_rules: 1 },
        ],
      },
      drift: {
        repaired: 1,
        last: { by: 'stranger (4711)', what: ['insert rule inet service service-inbound accept'] },
      },
      troubles: [{ what: 'reading the interfaces', message: 'ip is gone' }],
      last_error: { what: 'reading the interfaces' },
    });
    expect(samples(printMetrics(document, { residentBytes: 50e6 }))).toMatchObject({
      [`ringfence_agent_info{version="1.2.3",organization="${organization}",device="d",interface="wg0"}`]: 1,
      ringfence_agent_resident_memory_bytes: 50e6,
      ringfence_agent_policy_revision: 7,
      ringfence_agent_policy_groups: 2,
      'ringfence_agent_policy_rules{direction="inbound"}': 2,
      'ringfence_agent_policy_rules{direction="outbound"}': 1,
      ringfence_agent_drift_repairs_total: 1,
      ringfence_agent_troubles: 1,
      ringfence_agent_stream_live: 1,
    });
    await world.stop();
  });

  test('of an isolated device: until when, why, and how much is allowed', async () => {
    const world = new World();
    const isolation = { own: { until: 1e15, reason: 'a stolen key', allow: [] }, refused: [] };
    world.source.give({ kind: 'known', revision: 7, policy: { source: 'list', groups: [groupOf(1, [])], isolation } });
    await world.settle();
    expect(documentOf(world).policy.isolated).toEqual({
      until: new Date(1e15).toISOString(),
      reason: 'a stolen key',
      allowed: 0,
    });
    world.source.know(8, groupOf(1, []));
    await world.settle();
    expect(documentOf(world).policy).not.toHaveProperty('isolated');
    await world.stop();
  });

  test('has the word that the server has for the device, as far as the agent can know it', async () => {
    const world = new World();
    const live = world.source.connection;
    const wordOf = async (): Promise<string> => {
      await world.settle();
      return documentOf(world).in_force;
    };
    expect(await wordOf()).toBe('behind');
    world.source.connection = { phase: 'waiting', since: 0, failures: 2, lastError: { message: 'no', at: 0 } };
    expect(await wordOf()).toBe('never_seen');
    world.source.connection = live;
    world.source.know(7, groupOf(1, [written('tcp', 22, 22)]));
    expect(await wordOf()).toBe('yes');
    expect(documentOf(world).policy.digest).toBe(world.agent.status.policyDigest);
    world.source.connection = { phase: 'waiting', since: 9_000, lastLiveAt: 5_000, failures: 2 };
    expect(await wordOf()).toBe('offline');
    expect(documentOf(world).stream).toEqual({
      phase: 'waiting',
      since: '1970-01-01T00:00:09.000Z',
      last_live_at: '1970-01-01T00:00:05.000Z',
      failures: 2,
    });
    // A failure is not hidden by being cut off.
    world.source.give({ kind: 'unknown', why: 'the default group is missing' });
    expect(await wordOf()).toBe('failed');
    world.source.give({ kind: 'unknown', why: 'the group x has a field', code: 'not_understood' });
    expect(await wordOf()).toBe('not_understood');
    await world.stop();
  });

  test('of packets: what each group admitted, and what became of the others; nothing where nothing is counted', async () => {
    const world = new World();
    const [web, dns] = [groupOf(1, [written('tcp', 80, 80)]), groupOf(2, [written('udp', 53, 53)])];
    world.source.know(1, web, dns);
    await world.settle();
    await world.nft.pass(`in-${web.id}`, 7);
    await world.nft.pass('in-established', 20);
    await world.nft.pass('in-refused', 3);
    await world.agent.count();
    const document = documentOf(world);
    expect(document.policy.groups).toMatchObject([
      { name: 'group 1', admitted_inbound: { packets: 7, bytes: 700 } },
      { name: 'group 2', admitted_inbound: { packets: 0, bytes: 0 } },
    ]);
    expect(document.policy.groups[0]).not.toHaveProperty('admitted_outbound');
    expect(document.packets).toEqual({
      inbound: {
        established: { packets: 20, bytes: 2_000 },
        discovery: { packets: 0, bytes: 0 },
        server: { packets: 0, bytes: 0 },
        refused: { packets: 3, bytes: 300 },
      },
    });
    const metrics = samples(printMetrics(document, { residentBytes: 1 }));
    expect(metrics).toMatchObject({
      [`ringfence_agent_group_packets_total{direction="inbound",group="${web.id}",name="group 1"}`]: 7,
      [`ringfence_agent_group_bytes_total{direction="inbound",group="${web.id}",name="group 1"}`]: 700,
      'ringfence_agent_packets_total{direction="inbound",fate="refused"}': 3,
      'ringfence_agent_bytes_total{direction="inbound",fate="established"}': 2_000,
    });
    expect(Object.keys(metrics).filter((name) => name.includes('direction="outbound",'))).toEqual([]);

    world.source.know(2, groupOf(3, [written('ipv4', 0, 0), written('ipv6', 0, 0)]));
    await world.settle();
    expect(documentOf(world).packets).toEqual({});
    await world.stop();
  });

  test('as metrics has help and type before each name, names each once, and keeps labels in their quotes', async () => {
    const world = new World();
    await world.settle();
    const text = printMetrics({ ...documentOf(world), version: 'a"b\\c\nd' }, { residentBytes: 1 });
    const names = [...text.matchAll(/^# TYPE (\S+) (gauge|counter)$/gm)].map(([, name]) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) expect(text).toMatch(new RegExp(`^# HELP ${name} \\S.*\n# TYPE ${name} `, 'm'));
    for (const name of names.filter((each) => each?.endsWith('_total')))
      expect(text).toContain(`# TYPE ${name} counter`);
    expect(text).toContain('version="a\\"b\\\\c\\nd"');
    expect(text.endsWith('\n')).toBe(true);
    await world.stop();
  });
});

describe('the socket', () => {
  let state: string;
  beforeEach(async () => {
    state = await mkdtemp(join(tmpdir(), 'ringfence-socket-'));
  });
  afterEach(() => rm(state, { recursive: true, force: true }));

  const get = (path: string): Promise<{ status: number | undefined; text: string }> =>
    new Promise((resolve, reject) => {
      request({ socketPath: socketPath(state), path }, (answer) => {
        let text = '';
        answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
        answer.on('end', () => resolve({ status: answer.statusCode, text }));
      })
        .on('error', reject)
        .end();
    });

  test('answers with the status and the metrics, and takes the place of one that was left behind', async () => {
    const world = new World();
    await world.settle();
    await writeFile(socketPath(state), '');
    const socket = await openStatusSocket(state, {
      status: async () => documentOf(world),
      metrics: async () => 'metrics\n',
    });
    expect(await askStatus(state)).toEqual(JSON.parse(JSON.stringify(documentOf(world))));
    expect(await get('/metrics')).toEqual({ status: 200, text: 'metrics\n' });
    expect(await get('/etc/passwd')).toMatchObject({ status: 404 });
    await socket.close();
    await expect(askStatus(state)).rejects.toMatchObject({ code: 'not_running' });
    await expect(stat(socketPath(state))).rejects.toThrow('ENOENT');
    await world.stop();
  });

  test('that is a leftover of an agent that was killed is taken for what it is', async () => {
    await writeFile(socketPath(state), '');
    await expect(askStatus(state)).rejects.toThrow(NoAnswer);
    await expect(askStatus(state)).rejects.toMatchObject({ code: 'not_running' });
    await expect(askStatus(join(state, 'nothing'))).rejects.toMatchObject({ code: 'not_running' });
  });
});
