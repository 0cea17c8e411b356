/** Proves that a device's policy holds the devices that its rules name, the groups that apply by label and the guardrails, at every moment. */
import { afterEach, describe, expect, test } from 'vitest';
import { deviceId, groupId, organization } from '../../client/records.fixture.ts';
import { turn } from '../../client/fake.fixture.ts';
import { printRange } from '../../policy/address.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { InformerSource } from './informer-policy-source.ts';
import { StreamServer } from './stream-server.fixture.ts';

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

const db = (...peers: object[]) => ({ ip_protocol: 'tcp', from_port: 5_432, to_port: 5_432, peers });
const label = (...labels: string[]) => ({ labels });

const members = ({ inbound }: PolicyGroup): string =>
  inbound
    .map(({ members: who }) =>
      who === undefined
        ? 'any'
        : `[${[...who.v4.map((range) => printRange(4, range)), ...who.v6.map((range) => printRange(6, range))].join(' ')}]`,
    )
    .join();

/** Device 1, whose policy is asked for, in an organization with a default group; others as each test wants them. */
async function follow({ mostRanges, old = false }: { readonly mostRanges?: number; readonly old?: boolean } = {}) {
  const server = new StreamServer();
  server.old = old;
  await server.group(1, { is_default: true });
  await server.device(1, { tunnel_ip: '100.64.0.1', security_groups: [groupId(2)] });
  await server.group(2, { inbound_rules: [db(label('app'))] });
  const source = new InformerSource({
    client: server.network.client,
    organization,
    device: deviceId(1),
    ...(mostRanges !== undefined && { mostRanges }),
    onFault: (fault) => {
      throw fault;
    },
  });
  const abort = new AbortController();
  const ended = source.run({ signal: abort.signal });
  ends.push(async () => {
    abort.abort();
    await ended;
  });
  await turn(20);
  /** What is known, in short: the groups with the addresses of their peers, and the guardrails. */
  const known = (): string => {
    const knowledge = source.read();
    if (knowledge.kind === 'unknown') return `unknown: ${knowledge.why}`;
    const { groups, guardrails } = knowledge.policy;
    const above = [...(guardrails?.forbid ?? []), ...(guardrails?.require ?? [])];
    const show = (group: PolicyGroup): string => `${group.guardrail ?? ''}${group.name} ${members(group)}`.trim();
    return [...above, ...groups].map(show).join('; ');
  };
  return { server, source, known };
}

describe('a rule that names devices', () => {
  test('admits those that carry all labels, from when they do until they do not, by all of their own addresses', async () => {
    const { server, known } = await follow();
    expect(known()).toBe('group-2 []');
    await server.device(2, { tunnel_ip: '100.64.0.2/32', addresses: ['fd7f::2', '10.0.0.2'], labels: ['app', 'prod'] });
    expect(known()).toBe('group-2 [10.0.0.2 100.64.0.2 fd7f::2]');
    await server.group(2, { inbound_rules: [db(label('app', 'prod'))] });
    await server.device(3, { tunnel_ip: '100.64.0.3', labels: ['app'] });
    expect(known()).toBe('group-2 [10.0.0.2 100.64.0.2 fd7f::2]');
    await server.device(2, { labels: ['app'] });
    expect(known()).toBe('group-2 []');
  });

  test('follows moves of addresses, and an address that two share leaves with the last of them', async () => {
    const { server, known } = await follow();
    await server.device(2, { tunnel_ip: '100.64.0.2', labels: ['app'] });
    await server.device(3, { tunnel_ip: '100.64.0.3', addresses: ['100.64.0.2'], labels: ['app'] });
    expect(known()).toBe('group-2 [100.64.0.2/31]');
    await server.device(2, { tunnel_ip: '100.64.0.9' });
    expect(known()).toBe('group-2 [100.64.0.2/31 100.64.0.9]');
    await server.remove(deviceId(3));
    expect(known()).toBe('group-2 [100.64.0.9]');
  });

  test('may name one device, all of them, or the device itself', async () => {
    const { server, known } = await follow();
    await server.device(2, { tunnel_ip: '100.64.0.7' });
    await server.group(2, { inbound_rules: [db({ device_id: deviceId(2) }), db({ all_devices: true })] });
    expect(known()).toBe('group-2 [100.64.0.7],[100.64.0.1 100.64.0.7]');
    await server.remove(deviceId(2));
    expect(known()).toBe('group-2 [],[100.64.0.1]');
    await server.device(1, { tunnel_ip: '100.64.0.8' });
    expect(known()).toBe('group-2 [],[100.64.0.8]');
  });

  test('is looked up from a new listing when it is the first of its kind, and the old policy stays until that is whole', async () => {
    const { server, known, source } = await follow();
    await server.device(2, { tunnel_ip: '100.64.0.2', labels: ['app'] });
    expect(server.asked).toHaveLength(2);
    await server.group(2, { inbound_rules: [] });
    expect(known()).toBe('group-2');
    await server.group(2, { inbound_rules: [db(label('app'))] });
    expect(known()).toBe('group-2 [100.64.0.2]');
    expect(server.asked).toHaveLength(2);
    expect(source.read()).toMatchObject({ revision: server.revision });
  });

  test('asks for who devices are, and for whole records where a server knows no view', async () => {
    const { server, known } = await follow();
    expect(server.asked[0]).toEqual([{ kind: 'device', view: 'identity' }, { kind: 'security-groups' }]);
    const before = await follow({ old: true });
    await before.server.device(2, { tunnel_ip: '100.64.0.2', labels: ['app'] });
    expect(before.known()).toBe('group-2 [100.64.0.2]');
    expect(before.server.asked[0]).toEqual([{ kind: 'device' }, { kind: 'security-groups' }]);
    expect(known()).toBe('group-2 []');
  });

  test('is given as the same object while nothing about its devices changes', async () => {
    const { server, source } = await follow();
    await server.device(2, { tunnel_ip: '100.64.0.2', labels: ['app'] });
    const policyNow = () => {
      const knowledge = source.read();
      return knowledge.kind === 'known' ? knowledge.policy : undefined;
    };
    const before = policyNow();
    await server.device(3, { tunnel_ip: '100.64.0.3', labels: ['web'] });
    await server.device(2, { hostname: 'renamed' });
    expect(policyNow()).toBe(before);
    expect(source.read()).toMatchObject({ revision: server.revision });
  });

  test('is not read without a peer that is not understood', async () => {
    const { server, source, known } = await follow();
    await server.group(2, { inbound_rules: [db({ users: ['ada'] })] });
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
    await server.group(2, { inbound_rules: [db(label('app'))] });
    expect(known()).toBe('group-2 []');
  });
});

describe('a group that applies by label', () => {
  test.each([undefined, 0])(
    'comes after those of the list, replaces the default group, and leaves with the label (room for %s ranges of others)',
    async (mostRanges) => {
      const { server, known } = await follow(mostRanges === undefined ? {} : { mostRanges });
      await server.group(5, { applies_to: [label('db')], inbound_rules: [db(label('web'))] });
      await server.group(4, { applies_to: [label('db'), label('cache')] });
      expect(known()).toBe('group-2 []');
      await server.device(1, { labels: ['db'] });
      await turn(10);
      expect(known()).toBe('group-2 []; group-4; group-5 []');
      await server.device(1, { security_groups: [] });
      await turn(10);
      expect(known()).toBe('group-4; group-5 []');
      await server.device(1, { labels: ['cache'] });
      await turn(10);
      expect(known()).toBe('group-4');
      await server.device(1, { labels: [] });
      expect(known()).toBe('group-1');
    },
  );

  test('that was dropped and deleted since is not waited for', async () => {
    const { server, known } = await follow({ mostRanges: 0 });
    await server.group(5, { applies_to: [label('db')] });
    await server.remove(groupId(5));
    await server.device(1, { labels: ['db'] });
    await turn(10);
    expect(known()).toBe('group-2 []');
    expect(server.reads).toEqual([]);
  });

  test('is not understood where its selectors are not, whoever it may mean', async () => {
    const { server, source, known } = await follow();
    await server.group(5, { applies_to: [{ users: ['ada'] }] });
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
    await server.group(5, { applies_to: [] });
    expect(known()).toBe('group-2 []');
  });
});

describe('a guardrail', () => {
  test('stands above the groups of the devices it applies to, and replaces no default group', async () => {
    const { server, known } = await follow();
    await server.group(7, {
      guardrail: 'forbid',
      applies_to: [{ all_devices: true }],
      inbound_rules: [db(label('bad'))],
    });
    await server.group(8, { guardrail: 'require', applies_to: [label('db')] });
    expect(known()).toBe('forbidgroup-7 []; group-2 []');
    await server.device(1, { labels: ['db'], security_groups: [] });
    expect(known()).toBe('forbidgroup-7 []; requiregroup-8; group-1');
    await server.device(6, { tunnel_ip: '100.64.0.6', labels: ['bad'] });
    expect(known()).toBe('forbidgroup-7 [100.64.0.6]; requiregroup-8; group-1');
    await server.remove(groupId(7));
    expect(known()).toBe('requiregroup-8; group-1');
  });

  test('of a kind that is not understood holds the policy', async () => {
    const { server, source } = await follow();
    await server.group(7, { guardrail: 'observe', applies_to: [label('nobody')] });
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'not_understood' });
  });
});
