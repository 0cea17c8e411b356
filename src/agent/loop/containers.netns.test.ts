/** Proves that containers count as the device (reference 1.2 (25)): published ports and masqueraded ways out, real connections in both families. */
import { describe, expect, test } from 'vitest';
import { container4, container6, forward, openContainer } from '../../../test/lib/container.ts';
import type { Namespace } from '../../../test/lib/netns.ts';
import { ask, serve } from '../../../test/lib/talk.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { decompile, type Decompiled } from '../../nft/read/decompile.ts';
import { parseListing } from '../../nft/read/parse-listing.fixture.ts';
import { written } from '../../nft/policies.fixture.ts';
import { defaultInboundRules, type StoredRule } from '../../policy/rule.ts';
import { readForwarding } from '../host/forwarding.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, driver, peer4, peer6, RealWorld } from './real-world.fixture.ts';

const families = [
  { family: 'IPv4', device: device4, peer: peer4, container: container4 },
  { family: 'IPv6', device: device6, peer: peer6, container: container6 },
] as const;

/** Long enough for dozens of packets and several retransmissions. */
const aWhile = 1_500;
/** What is refused has time for two attempts more. */
const silence = { within: 4_000 };

/** A device with an agent, its peer and its container, for one test: the tests wait more than they work, so they run side by side. */
class Scene {
  readonly world: RealWorld;
  readonly container: Namespace;
  #revision = 0;

  private constructor(world: RealWorld, container: Namespace) {
    this.world = world;
    this.container = container;
  }

  static async play(prove: (scene: Scene) => Promise<unknown>): Promise<void> {
    const world: RealWorld = await RealWorld.open({
      forwarding: () =>
        readForwarding({
          read: async (path) => (await world.device.run(['cat', `/proc/sys/net/${path}`])).stdout,
          list: async (path) => (await world.device.run(['ls', `/proc/sys/net/${path}`])).stdout.trim().split('\n'),
        }),
    });
    let container: Namespace | undefined;
    try {
      container = await openContainer(world.device, [8_080, 80], [9_090, 9_090]);
      await forward(world.device, true);
      await prove(new Scene(world, container));
    } finally {
      await world.close();
      await container?.close();
    }
  }

  /** Puts the rules in force and waits until they are. */
  async put(inbound: readonly StoredRule[], outbound: readonly StoredRule[] = []): Promise<void> {
    this.#revision += 1;
    const mine = this.#revision;
    this.world.source.know(mine, groupOf(1, inbound, outbound));
    await this.world.eventually('the rules are in force', () => {
      const { pending, inForce } = this.world.agent.status;
      return !pending && inForce?.revision === mine;
    });
  }

  async refused(): Promise<number> {
    await this.world.agent.count();
    const { inbound, outbound } = this.world.agent.status.counts;
    return (inbound?.reasons.refused.packets ?? 0) + (outbound?.reasons.refused.packets ?? 0);
  }
}

describe.each(families)('over $family', ({ device, peer, container: inside }) => {
  test.concurrent('a published port is open to whom the group admits, by the port that is published', () =>
    Scene.play(async (scene) => {
      const { world, container } = scene;
      await Promise.all(
        [80, 9_090].map((port) => serve({ namespace: container, protocol: 'tcp', address: '::', port })),
      );
      await serve({ namespace: container, protocol: 'udp', address: inside, port: 80 });
      world.start();
      const knock = (port: number, protocol: 'tcp' | 'udp' = 'tcp', bound = {}) =>
        ask({ namespace: world.peer, protocol, address: device, port, ...bound });
      await scene.put(defaultInboundRules);
      expect(await Promise.all([knock(8_080), knock(8_080, 'udp'), knock(9_090)])).toEqual(Array(3).fill('answered'));
      expect(await world.device.attempt(['nft', 'list', 'table', 'inet', 'service-forward'])).toMatchObject({
        code: 1,
      });

      await scene.put([written('tcp', 8_080, 8_080, peer)]);
      expect(await Promise.all([knock(8_080), knock(8_080, 'udp', silence), knock(9_090, 'tcp', silence)])).toEqual([
        'answered',
        'silent',
        'silent',
      ]);
      expect(await scene.refused()).toBeGreaterThan(0);

      // Rules about the container's own port, or about another source, do not apply.
      const elsewhere = inside.includes(':') ? 'fd00::1' : '10.1.1.1';
      await scene.put([written('tcp', 80, 80), written('tcp', 8_080, 8_080, elsewhere)]);
      expect(await knock(8_080, 'tcp', silence)).toBe('silent');
      expect(world.logged.filter((line) => line.includes('another program'))).toEqual([]);
    }));

  test.concurrent("a container's way out leads where the group's outbound rules let the device go", () =>
    Scene.play(async (scene) => {
      const { world, container } = scene;
      await Promise.all(
        [443, 7_000].map((port) => serve({ namespace: world.peer, protocol: 'tcp', address: '::', port })),
      );
      world.start();
      const call = (port: number, bound = {}) =>
        ask({ namespace: container, protocol: 'tcp', address: peer, port, ...bound });
      await scene.put([]);
      expect(await Promise.all([call(443), call(7_000)])).toEqual(['answered', 'answered']);
      await scene.put([], [written('tcp', 443, 443)]);
      expect(await Promise.all([call(443), call(7_000, silence)])).toEqual(['answered', 'silent']);
      expect((await world.device.run(['nft', 'list', 'table', 'inet', 'service'])).stdout).not.toContain('ct status');
    }));

  test.concurrent('what is only routed passes as before, in both ways', () =>
    Scene.play(async (scene) => {
      const { world, container } = scene;
      await serve({ namespace: container, protocol: 'tcp', address: '::', port: 80 });
      await serve({ namespace: world.peer, protocol: 'tcp', address: '::', port: 7_000 });
      // Straight to the container's own address, and back without translation.
      await world.peer.run(['ip', 'route', 'add', inside, 'via', device]);
      await world.device.run(['nft', 'flush', 'chain', inside.includes(':') ? 'ip6' : 'ip', 'nat', 'POSTROUTING']);
      world.start();
      await scene.put([], [written('tcp', 443, 443)]);
      expect(
        await Promise.all([
          ask({ namespace: world.peer, protocol: 'tcp', address: inside, port: 80 }),
          ask({ namespace: container, protocol: 'tcp', address: peer, port: 7_000 }),
          ask({ namespace: world.peer, protocol: 'tcp', address: device, port: 8_080, ...silence }),
        ]),
      ).toEqual(['answered', 'answered', 'silent']);
    }));

  test.concurrent('a withdrawn rule ends connections of containers too, and they do not come back though the container goes on', () =>
    Scene.play(async (scene) => {
      const { world, container } = scene;
      await Talker.serve(container, 80, 9_090);
      await Talker.serve(world.peer, 443);
      world.start();
      await scene.put([written('tcp', 8_080, 8_080), written('tcp', 9_090, 9_090)]);
      const ended = await Talker.call(world.peer, device, 9_090);
      const stays = await Talker.call(world.peer, device, 8_080);
      const out = await Talker.call(container, peer, 443);
      await scene.put([written('tcp', 8_080, 8_080)]);
      await world.eventually('the connection is ended', () => world.agent.status.revokedConnections === 1);
      expect(await ended.isSilenced(aWhile)).toBe(true);
      for (const talker of [stays, out]) expect(await talker.isHeard()).toBe(true);

      await scene.put([written('tcp', 8_080, 8_080)], [written('udp', 53, 53)]);
      await world.eventually('the way out is ended', () => world.agent.status.revokedConnections === 2);
      expect(await out.isSilenced(aWhile)).toBe(true);
      expect(await stays.isHeard()).toBe(true);
    }));
});

test.concurrent('a session of a container by UDP stays ended though the container goes on sending', () =>
  Scene.play(async (scene) => {
    const { world, container } = scene;
    // One is published under its own port, one under another.
    await Talker.serveDatagrams(container, 80, 9_090);
    world.start();
    const open = [written('udp', 8_080, 8_080), written('udp', 9_090, 9_090)];
    await scene.put(open);
    const talkers = await Promise.all(
      [device4, device6].flatMap((device) =>
        [8_080, 9_090].map((port) => Talker.call(world.peer, device, port, { protocol: 'udp' })),
      ),
    );
    await scene.put([written('tcp', 8_080, 8_080)]);
    await world.eventually('they are ended', () => world.agent.status.revokedConnections >= talkers.length);
    expect(await Promise.all(talkers.map((talker) => talker.isSilenced(aWhile)))).toEqual(talkers.map(() => true));
    await scene.put(open);
    for (const talker of talkers) expect(await talker.isHeard()).toBe(true);
  }));

test.concurrent('a device that forwards nothing refuses what could come, and judges as soon as it forwards', () =>
  Scene.play(async (scene) => {
    const { world, container } = scene;
    await serve({ namespace: container, protocol: 'tcp', address: '::', port: 80 });
    await forward(world.device, false);
    world.start();
    await scene.put([written('tcp', 8_080, 8_080)]);
    const rules = async (): Promise<string> =>
      (await world.device.run(['nft', 'list', 'table', 'inet', 'service-forward'])).stdout;
    expect(world.agent.status.forwarding).toBe('off');
    expect(await rules()).not.toContain('proto-dst');
    await forward(world.device, true);
    await world.eventually('the agent has noticed', async () => (await rules()).includes('proto-dst'));
    expect(await ask({ namespace: world.peer, protocol: 'tcp', address: device4, port: 8_080 })).toBe('answered');
  }));

test.concurrent('somebody else’s changes to the table for containers are undone', () =>
  Scene.play(async (scene) => {
    const { world } = scene;
    world.start();
    await scene.put([written('tcp', 8_080, 8_080)]);
    await world.eventually('the agent knows its own', () => world.agent.status.verifiedAt !== undefined);
    const enforced = async (): Promise<Decompiled | undefined> => {
      const { code, stdout } = await world.device.attempt(['nft', '-j', 'list', 'table', 'inet', 'service-forward']);
      const installed = code === 0 ? parseListing(JSON.parse(stdout), 'service-forward') : undefined;
      return installed && decompile(installed, 'service-forward');
    };
    const before = await enforced();
    expect(before?.findings).toEqual([]);
    for (const change of [
      'flush chain inet service-forward service-forward-inbound',
      'delete table inet service-forward',
      `insert rule inet service-forward service-forward-inbound iifname "${driver}" accept`,
      'flush ruleset',
    ]) {
      const repairs = world.agent.status.driftRepairs;
      await world.device.run(['nft', '-f', '-'], `${change}\n`);
      await world.eventually(`${change} is undone`, async () => {
        const now = await enforced();
        const isWhole = now?.enforced !== undefined && now.findings.every(({ code }) => code === 'unused_chain');
        return isWhole && world.agent.status.driftRepairs > repairs;
      });
    }
    expect(before?.enforced).toBeDefined();
    expect((await enforced())?.enforced).toEqual(before?.enforced);
  }));
