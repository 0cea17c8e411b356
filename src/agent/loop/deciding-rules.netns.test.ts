/** Proves with real packets that the rules which the agent names for recorded traffic are those that the kernel counted it for. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { ruleIdOf } from '../../policy/rule-identity/rule-id.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { judgeTraffic } from '../report/deciding-rules.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, peer4, RealWorld } from './real-world.fixture.ts';

/** Sends one datagram from each of so many ports: each opens a flow of its own. */
const sender = `
const [to, port, count] = process.argv.slice(1);
const { createSocket } = require('node:dgram');
(async () => {
  for (let i = 0; i < Number(count); i++) {
    const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4');
    await new Promise((resolve) => socket.send('x', Number(port), to, resolve));
    socket.close();
  }
})();`;

const web = groupOf(1, [written('udp', 7_001, 7_001), written('udp', 7_002, 7_003, '100.64.0.0/24')]);
const dns = groupOf(2, [written('udp', 7_004, 7_005)], [written('udp', 7_100, 7_100)]);

let world: RealWorld;
beforeEach(async () => {
  world = await RealWorld.open();
  world.start();
  await know(1, web, dns);
  world.agent.follow({ observe: 'all', refuse_with: 'drop' });
  await world.eventually('it is recorded', async () => (await world.agent.takeRecorded()) !== undefined);
});
afterEach(() => world?.close());

async function know(revision: number, ...groups: readonly PolicyGroup[]): Promise<void> {
  world.source.know(revision, ...groups);
  await world.eventually('the policy is in force', () => {
    const { inForce, pending } = world.agent.status;
    return inForce?.revision === revision && !pending;
  });
}

const send = async (to: string, port: number, count: number, out = false): Promise<void> => {
  const argv = [process.execPath, '-e', sender, to, port, count].map(String);
  await (out ? world.device : world.peer).run(argv);
};

/** Packets by group: as the kernel has counted them since the start, and as the rules say that the agent names. */
async function bothWays(groups: readonly PolicyGroup[]) {
  const recorded = await world.agent.takeRecorded();
  if (recorded === undefined) throw new Error('nothing is recorded');
  const { report, decisionOf } = await judgeTraffic(recorded.tuples, recorded.policies);
  const byGroup: Record<string, number> = {};
  const byRule: Record<string, number> = {};
  const ports = new Map(
    groups.flatMap(({ inbound, outbound }) => [
      ...inbound.map((rule) => [ruleIdOf('inbound', rule), rule.from_port] as const),
      ...outbound.map((rule) => [ruleIdOf('outbound', rule), rule.from_port] as const),
    ]),
  );
  for (const tuple of recorded.tuples) {
    for (const place of report.decisions?.[decisionOf.get(tuple) ?? -1] ?? []) {
      const { group_id = '', rule_id = '' } = report.rules?.[place] ?? {};
      byGroup[group_id] = (byGroup[group_id] ?? 0) + tuple.packets;
      byRule[String(ports.get(rule_id))] = (byRule[String(ports.get(rule_id))] ?? 0) + tuple.packets;
    }
  }
  await world.agent.count();
  const counted: Record<string, number> = {};
  for (const { matched } of Object.values(world.agent.status.counts))
    for (const [id, { packets }] of matched) if (packets > 0) counted[id] = (counted[id] ?? 0) + packets;
  return { byGroup, byRule, counted, groups: report.groups };
}

test('each packet that the kernel counted for a group has a rule of that group', async () => {
  await send(device4, 7_001, 3);
  await send(device6, 7_001, 1);
  await send(device4, 7_003, 2);
  await send(device4, 7_004, 5);
  await send(device4, 7_009, 4);
  await send(peer4, 7_100, 2, true);
  const { byGroup, byRule, counted, groups } = await bothWays([web, dns]);
  expect(byGroup).toEqual({ [web.id]: 6, [dns.id]: 7 });
  expect(byGroup).toEqual(counted);
  expect(byRule).toEqual({ 7001: 4, 7002: 2, 7004: 5, 7100: 2 });
  expect(groups).toEqual([web.id, dns.id]);
});

test('traffic of before a change has the rule that admitted it then, in the same minute', async () => {
  const other = { ...web, inbound: [written('udp', 7_009, 7_009)] };
  await send(device4, 7_001, 3);
  await know(2, other);
  await send(device4, 7_009, 4);
  await send(device4, 7_001, 2);
  const { byRule, groups } = await bothWays([web, dns, other]);
  expect(byRule).toEqual({ 7001: 3, 7009: 4 });
  expect(groups).toEqual([web.id]);
  // The next minute knows nothing of the rules of before.
  await send(device4, 7_001, 2);
  await send(device4, 7_009, 1);
  expect((await bothWays([web, dns, other])).byRule).toEqual({ 7009: 1 });
});
