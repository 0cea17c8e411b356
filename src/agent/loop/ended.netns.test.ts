/** Proves with packets that an ended connection stays ended, and that the agent judges what there is when it takes control (reference 1.2 (26), (27)). */
import { describe, expect, test } from 'vitest';
import { Talker } from '../../../test/lib/talker.ts';
import { systemClock } from '../../client/clock.ts';
import { written } from '../../nft/policies.fixture.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { FilterMonitor } from '../kernel/filter-monitor.ts';
import type { MonitorEvent } from '../kernel/monitor-events.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, driver, peer4, peer6, RealWorld } from './real-world.fixture.ts';

/** Long enough for dozens of datagrams. */
const aWhile = 1_500;

const families = [
  { family: 'IPv4', device: device4, peer: peer4 },
  { family: 'IPv6', device: device6, peer: peer6 },
] as const;

let revision = 0;

/** Puts the rules in force and waits until the agent says that they are. */
async function put(world: RealWorld, inbound: readonly StoredRule[], forbid: readonly PolicyGroup[] = []) {
  revision += 1;
  const mine = revision;
  const groups = [groupOf(1, inbound)];
  const guardrails = { forbid, require: [] };
  world.source.give({ kind: 'known', revision: mine, policy: { source: 'list', groups, guardrails } });
  await world.eventually('the rules are in force', () => {
    const { pending, inForce } = world.agent.status;
    return !pending && inForce?.revision === mine;
  });
}

async function play(prove: (world: RealWorld) => Promise<unknown>): Promise<void> {
  const world = await RealWorld.open();
  try {
    await prove(world);
  } finally {
    await world.close();
  }
}

const udp = { protocol: 'udp' } as const;
const open = [written('udp', 5_000, 5_001), written('tcp', 2_200, 2_200)];
const narrow = [written('udp', 5_001, 5_001)];

/** Neither side hears the other. */
const isOver = async (client: Talker, server: Talker, port: number): Promise<boolean> => {
  const heardBy = (talker: Talker) => talker.next((line) => line.startsWith(`heard ${port} `), undefined, aWhile);
  await client.isSilenced(aWhile);
  return (await Promise.all([heardBy(client), heardBy(server)])).every((line) => line === undefined);
};

const endedTable = async (world: RealWorld): Promise<string> =>
  (await world.device.attempt(['nft', 'list', 'table', 'inet', 'service-ended'])).stdout;

describe.each(families)('over $family', ({ device, peer }) => {
  test.concurrent('a session by UDP stays ended though the device goes on sending, until it is admitted again', () =>
    play(async (world) => {
      const server = await Talker.serveDatagrams(world.device, 5_000, 5_001);
      world.start();
      await put(world, open);
      const [ended, stays] = await Promise.all(
        [5_000, 5_001].map((port) => Talker.call(world.peer, device, port, udp)),
      );
      if (ended === undefined || stays === undefined) throw new Error('two talkers were asked for');
      expect(await endedTable(world)).toBe('');
      await put(world, narrow);
      await world.eventually('it is ended', () => world.agent.status.revokedConnections > 0);
      expect(await isOver(ended, server, 5_000)).toBe(true);
      expect(await stays.isHeard()).toBe(true);
      expect(await endedTable(world)).toContain(`${peer} . ${device} . udp`);
      expect(world.agent.status.endedConnections).toBe(1);

      await put(world, open);
      expect(await ended.isHeard()).toBe(true);
      expect(world.logged.filter((line) => line.includes('another program'))).toEqual([]);
    }));

  test.concurrent('a session by UDP under a new `forbid` stays ended, also after a restart and a flushed ruleset', () =>
    play(async (world) => {
      const server = await Talker.serveDatagrams(world.device, 5_000);
      world.start();
      await put(world, open);
      const ended = await Talker.call(world.peer, device, 5_000, udp);
      await put(world, open, [groupOf(9, [written('udp', 5_000, 5_000)])]);
      await world.eventually('it is ended', () => world.agent.status.revokedConnections > 0);
      expect(await isOver(ended, server, 5_000)).toBe(true);
      await world.stop();
      world.start();
      await world.eventually('it is taken up again', () => world.agent.status.endedConnections === 1);
      await world.device.run(['nft', 'flush', 'ruleset']);
      await world.eventually('it is repaired', async () => (await endedTable(world)).includes(`${peer} . ${device}`));
      await world.eventually('all is in force', () => !world.agent.status.pending);
      expect(await isOver(ended, server, 5_000)).toBe(true);
    }));

  test.concurrent('connections that there are at the first start are judged as if they were new', () =>
    play(async (world) => {
      // Something else has the kernel track connections before the agent does.
      await world.device.run([
        'nft',
        'add table inet other; add chain inet other in { type filter hook input priority 10; }; add rule inet other in ct state established accept',
      ]);
      const [tcp, datagrams] = [
        await Talker.serve(world.device, 2_200, 2_201),
        await Talker.serveDatagrams(world.device, 5_000, 5_001),
      ];
      const called = await Promise.all([
        Talker.call(world.peer, device, 2_200),
        Talker.call(world.peer, device, 2_201),
        Talker.call(world.peer, device, 5_000, udp),
        Talker.call(world.peer, device, 5_001, udp),
      ]);
      const outward = await (async () => {
        await Talker.serve(world.peer, 7_000);
        return Talker.call(world.device, peer, 7_000);
      })();
      world.start();
      await put(world, [written('tcp', 2_201, 2_201), ...narrow]);
      const [refused, admitted, refusedUdp, admittedUdp] = called;
      expect(await Promise.all([isOver(refused, tcp, 2_200), isOver(refusedUdp, datagrams, 5_000)])).toEqual([
        true,
        true,
      ]);
      for (const talker of [admitted, admittedUdp, outward]) expect(await talker.isHeard()).toBe(true);
    }));

  test.concurrent('a TCP connection that no rule had the kernel track ends at the first start, if it is not admitted', () =>
    play(async (world) => {
      const server = await Talker.serve(world.device, 2_200, 2_201);
      const refused = await Talker.call(world.peer, device, 2_200);
      const admitted = await Talker.call(world.peer, device, 2_201);
      world.start();
      await put(world, [written('tcp', 2_201, 2_201)]);
      expect(await isOver(refused, server, 2_200)).toBe(true);
      expect(await admitted.isHeard()).toBe(true);
    }));
});

test.concurrent('a connection that slips in while the ruleset is flushed ends with the repair', async () => {
  // The kernel's news reach the agent only when the test lets them.
  let held: MonitorEvent[] | undefined;
  let tell: (event: MonitorEvent) => void = () => {};
  const world: RealWorld = await RealWorld.open({
    monitor: (onEvent) => {
      tell = onEvent;
      const hear = (event: MonitorEvent): void => {
        if (held !== undefined) held.push(event);
        else if (event.kind === 'generation') onEvent(event);
      };
      return new FilterMonitor({ clock: systemClock, prefix: world.device.inside([]), onEvent: hear });
    },
  });
  try {
    const server = await Talker.serve(world.device, 2_200);
    world.start();
    await put(world, []);
    let slipped: Talker | undefined;
    await world.eventually('somebody comes in', async () => {
      held = [];
      await world.device.run(['nft', 'flush', 'ruleset']);
      // An inspection, once a minute, may be quicker.
      slipped = await Talker.call(world.peer, device4, 2_200, { within: 10_000 }).catch(() => undefined);
      return slipped !== undefined;
    });
    await world.eventually('the flush was seen', () => (held ?? []).length > 0);
    const news = held ?? [];
    held = undefined;
    for (const event of news) tell(event);
    await world.eventually('it is repaired', () => world.agent.status.driftRepairs > 0);
    await world.eventually('all is in force', () => !world.agent.status.pending);
    expect(slipped && (await isOver(slipped, server, 2_200))).toBe(true);
  } finally {
    await world.close();
  }
});

test.concurrent('connections over an interface that becomes the driver interface are judged as if they were new', () =>
  play(async (world) => {
    const server = await Talker.serve(world.device, 2_200);
    await world.device.run(['ip', 'link', 'set', driver, 'name', 'before0']);
    world.start();
    await put(world, []);
    const refused = await Talker.call(world.peer, device4, 2_200);
    await world.device.run(['ip', 'link', 'set', 'before0', 'name', driver]);
    await world.eventually('it is noticed', () => world.agent.status.driver?.index !== undefined);
    await world.eventually('all is in force', () => !world.agent.status.pending);
    expect(await isOver(refused, server, 2_200)).toBe(true);
  }));
