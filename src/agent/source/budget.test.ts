/** Proves that the agent takes no more from a server than it has room for, says so, and follows again once there is room. */
import { afterEach, describe, expect, test } from 'vitest';
import { deviceId, groupId, organization } from '../../client/records.fixture.ts';
import { budgetOf, type Budget } from './budget.ts';
import { InformerSource } from './informer-policy-source.ts';
import { StreamServer, type Fields } from './stream-server.fixture.ts';

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function follow(budget: Partial<Budget>, mostRanges?: number) {
  const server = new StreamServer();
  await server.group(1, { is_default: true });
  await server.device(1);
  const source = new InformerSource({
    client: server.network.client,
    organization,
    device: deviceId(1),
    budget: { ...budgetOf(256), ...budget },
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
  await server.settle();
  expect(source.read()).toMatchObject({ kind: 'known' });
  return { server, source };
}

const tcp = { ip_protocol: 'tcp', from_port: 1, to_port: 1 } as const;
const rules = (count: number): Fields => ({ inbound_rules: Array.from({ length: count }, () => tcp) });
const ranges = (count: number): Fields => ({
  inbound_rules: [{ ...tcp, ip_ranges: Array.from({ length: count }, (_, i) => `10.0.0.${i}`) }],
});
const isolated = { since: '2026-01-01T00:00:00.000Z', by: 'x', reason: 'x' };
const addresses = (count: number, number: number): string[] =>
  Array.from({ length: count }, (_, i) => `10.${number}.0.${i}`);

describe('what is too large', () => {
  test.each<[what: string, budget: Partial<Budget>, group: (count: number) => Fields, why: string]>([
    ['address ranges in one group', { ranges: 10 }, ranges, 'more than 10 address ranges'],
    ['rules', { rules: 10 }, rules, 'more than 10 rules'],
    [
      'ranges of a group that is tried, and of the one before',
      { ranges: 10 },
      (count) => ({
        ...ranges(6),
        trial: {
          id: groupId(1),
          started_at: '2026-01-01T00:00:00.000Z',
          ends_at: '2126-01-01T00:00:00.000Z',
          by: 'x',
          before: { group_name: '', group_description: '', outbound_rules: [], ...ranges(count - 6) },
        },
      }),
      'more than 10 address ranges',
    ],
  ])('%s: the policy is not taken, and followed again once it fits', async (_, budget, group, why) => {
    const { server, source } = await follow(budget);
    await server.group(1, group(10));
    expect(source.read()).toMatchObject({ kind: 'known', revision: server.revision });
    await server.group(1, group(11));
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'too_large', revision: server.revision });
    expect(source.read()).toHaveProperty('why', expect.stringContaining(why));
    await server.group(1, group(9));
    expect(source.read()).toMatchObject({ kind: 'known', revision: server.revision });
  });

  test('the groups of the device together, by list and by label, also those that are fetched', async () => {
    const { server, source } = await follow({ ranges: 10 }, 0);
    await server.group(2, ranges(5));
    await server.group(3, { ...ranges(6), applies_to: [{ labels: ['db'] }] });
    await server.device(1, { security_groups: [groupId(2)] });
    expect(source.read()).toMatchObject({ kind: 'known' });
    expect(server.reads).toEqual([groupId(2)]);
    await server.device(1, { labels: ['db'] });
    await server.settle();
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'too_large' });
    await server.device(1, { security_groups: [] });
    await server.settle();
    expect(source.read()).toMatchObject({ kind: 'known' });
  });

  test('addresses of devices that rules name, once for each name', async () => {
    const { server, source } = await follow({ addresses: 10 });
    const peers = [{ labels: ['a'] }, { labels: ['b'] }];
    await server.group(1, { inbound_rules: [{ ...tcp, peers }] });
    await server.settle();
    await server.device(2, { labels: ['a', 'b'], addresses: addresses(5, 2) });
    expect(source.read()).toMatchObject({ kind: 'known', revision: server.revision });
    await server.device(3, { labels: ['b'], addresses: addresses(1, 3) });
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'too_large' });
    await server.remove(deviceId(3));
    expect(source.read()).toMatchObject({ kind: 'known', revision: server.revision });
  });

  test('addresses of isolated devices', async () => {
    const { server, source } = await follow({ ranges: 10 });
    await server.device(2, { isolated, addresses: addresses(10, 2) });
    expect(source.read()).toMatchObject({ kind: 'known', revision: server.revision });
    await server.device(3, { isolated, addresses: addresses(1, 3) });
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'too_large' });
    await server.remove(deviceId(2));
    expect(source.read()).toMatchObject({ kind: 'known', revision: server.revision });
  });

  test.each<[what: string, budget: Partial<Budget>, fields: Fields]>([
    ['addresses of one device', {}, { isolated, addresses: addresses(1_025, 2) }],
    ['addresses of all devices', { addresses: 10 }, { isolated, addresses: addresses(11, 2) }],
    ['a host name', { records: 100_000 }, { isolated, hostname: 'x'.repeat(100_000) }],
    ['values of a device', {}, { x: Array.from({ length: 1_000_001 }, () => 1) }],
  ])('%s: the stream is ended, and listed anew later', async (_, budget, fields) => {
    const { server, source } = await follow(budget);
    await server.device(2, fields);
    await server.settle();
    expect(source.connection).toMatchObject({ phase: 'waiting', lastError: { kind: 'document_too_large' } });
    expect(source.read()).toMatchObject({ kind: 'unknown', code: 'too_large' });
    await server.remove(deviceId(2));
    await server.network.clock.advance(20_000);
    await server.settle();
    expect(source.read()).toMatchObject({ kind: 'known', revision: 2 });
  });

  test('groups that have no room are known without their rules, and fetched one after the other', async () => {
    const { server, source } = await follow({}, 0);
    for (let number = 2; number < 6; number += 1) await server.group(number, ranges(3));
    await server.device(1, { security_groups: [2, 3, 4, 5].map(groupId) });
    await server.settle();
    expect(source.read()).toMatchObject({ kind: 'known' });
    expect(server.reads).toEqual([2, 3, 4, 5].map(groupId));
  });
});
