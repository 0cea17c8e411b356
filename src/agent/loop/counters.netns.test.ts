/** Proves with real packets that counts are exact, and that updates, restarts and repairs do not lose them. */
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, peer4, RealWorld } from './real-world.fixture.ts';

/** Sends one datagram from each of so many ports, from this port on: each opens a flow of its own. */
const sender = `
const [to, port, from, count] = process.argv.slice(1);
const { createSocket } = require('node:dgram');
(async () => {
  for (let i = 0; i < Number(count); i++) {
    const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4');
    await new Promise((resolve) => socket.bind(Number(from) + i, resolve));
    await new Promise((resolve) => socket.send('x', Number(port), to, resolve));
    socket.close();
  }
})();`;

const web = groupOf(1, [written('udp', 7_001, 7_001, '100.64.0.0/24'), written('icmp', 0, 0)]);
const dns = groupOf(2, [written('udp', 7_001, 7_002)], [written('udp', 7_100, 7_100)]);

/** Interfaces talk by themselves too, of multicast groups for example, and nothing admits it. */
const atLeast = (least: number): unknown => expect.toSatisfy((count: number) => count >= least);

let world: RealWorld;
let from: number;
beforeEach(async () => {
  world = await RealWorld.open();
  from = 20_000;
});
afterEach(() => world?.close());

const send = async (to: string, port: number, count: number, out = false): Promise<void> => {
  const argv = [process.execPath, '-e', sender, to, port, from, count].map(String);
  from += count;
  await (out ? world.device : world.peer).run(argv);
};

/** What was counted, in packets: by group and by reason. */
async function counts(): Promise<Record<string, number>> {
  await world.agent.count();
  const found: Record<string, number> = {};
  for (const [direction, each] of Object.entries(world.agent.status.counts)) {
    const way = direction === 'inbound' ? 'in' : 'out';
    for (const [id, { packets }] of each.matched) found[`${way} ${id === web.id ? 'web' : 'dns'}`] = packets;
    for (const reason of ['established', 'refused'] as const) found[`${way} ${reason}`] = each.reasons[reason].packets;
  }
  return found;
}

/** The kernel may hand over the last packets a moment after they were sent; one too many never becomes right. */
const expectCounts = (...expected: readonly object[]): Promise<void> =>
  vi.waitFor(
    async () => {
      const found = await counts();
      for (const each of expected) expect(found).toMatchObject(each);
    },
    { timeout: 60_000, interval: 50 },
  );

const inForce = (revision: number): Promise<void> =>
  world.eventually(`revision ${revision} is in force and read back`, () => {
    const { inForce: policy, pending, verifiedAt = 0, appliedAt = 0 } = world.agent.status;
    return policy?.revision === revision && !pending && verifiedAt >= appliedAt;
  });

describe('packets are counted', () => {
  test('for the group that admits them, apart from established and refused ones, in both directions', async () => {
    world.start();
    world.source.know(1, web, dns);
    await inForce(1);
    await send(device4, 7_001, 3); // Both admit it: the first one counts.
    await send(device6, 7_001, 4);
    await send(device4, 7_002, 5);
    await send(device4, 7_009, 6);
    await send(peer4, 7_100, 2, true);
    await world.device.attempt(['ping', '-c', '1', '-W', '1', peer4]);
    await expectCounts(
      { 'in web': 3, 'in dns': 9, 'out web': 0, 'out dns': 2 },
      { 'in refused': atLeast(6), 'out refused': atLeast(1) },
    );
    const before = await counts();
    // The first echo request opens the flow; its reply, and all that follows, belongs to it.
    await world.peer.run(['ping', '-c', '3', '-i', '0.2', device4]);
    await expectCounts({
      'in web': 4,
      'in dns': 9,
      'in established': (before['in established'] ?? 0) + 2,
      'out established': (before['out established'] ?? 0) + 3,
    });
  });

  test('and go on being so when the other group changes, when their own does, and when it only moves in the list', async () => {
    world.start();
    world.source.know(1, web, dns);
    await inForce(1);
    await send(device4, 7_001, 3);
    await send(device4, 7_002, 2);
    world.source.know(2, web, groupOf(2, [written('udp', 7_002, 7_003)]));
    await inForce(2);
    await send(device4, 7_003, 1);
    world.source.know(
      3,
      groupOf(1, [written('udp', 7_001, 7_001), written('udp', 7_004, 7_009, '100.64.0.0/16')]),
      dns,
    );
    await inForce(3);
    await send(device4, 7_005, 1);
    world.source.know(4, dns, web);
    await inForce(4);
    await world.eventually('old parts are collected', async () => (await world.kernel())?.findings.length === 0);
    await send(device4, 7_001, 10);
    await expectCounts({ 'in web': 4, 'in dns': 13 });
  });

  test('while no agent runs, and one that starts, after a stop or a kill, shows them all', async () => {
    world.start();
    world.source.know(1, web);
    await inForce(1);
    await send(device4, 7_001, 3);
    await world.stop();
    await send(device4, 7_001, 2);
    await send(device4, 7_002, 1);
    world.start();
    await inForce(1);
    await expectCounts({ 'in web': 5, 'in refused': atLeast(1) });
  });

  test('through changes by others; traffic by itself is no drift, and not even a deleted table loses what was read', async () => {
    world.start();
    world.source.know(1, web);
    await inForce(1);
    await send(device4, 7_001, 3);
    await send(device4, 7_009, 2);
    await expectCounts({ 'in web': 3, 'in refused': atLeast(2) });
    expect(world.agent.status.driftRepairs).toBe(0);
    const undone = async (...command: string[]): Promise<void> => {
      const { driftRepairs } = world.agent.status;
      await world.device.run(['nft', ...command]);
      await world.eventually('it is undone', async () => {
        const kernel = await world.kernel();
        const { enforced, findings = [] } = kernel ?? {};
        return world.agent.status.driftRepairs > driftRepairs && enforced !== undefined && findings.length === 0;
      });
    };
    await undone('insert', 'rule', 'inet', 'service', 'service-inbound', 'udp', 'dport', '9', 'accept');
    await send(device4, 7_001, 1);
    await expectCounts({ 'in web': 4, 'in refused': atLeast(2) });
    await undone('delete', 'table', 'inet', 'service');
    await send(device4, 7_001, 9);
    await expectCounts({ 'in web': 13, 'in refused': atLeast(2) });
  });
});
