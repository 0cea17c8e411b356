/** Proves with packets that an open device ends all that it has with an isolated one, its containers included, and that the isolated one cannot take it up again (reference 1.5 (3)). */
import { expect, test } from 'vitest';
import { forward, openContainer } from '../../../test/lib/container.ts';
import type { Namespace } from '../../../test/lib/netns.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { parseAddress, type Address } from '../../policy/address.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import { defaultInboundRules } from '../../policy/rule.ts';
import { readForwarding } from '../host/forwarding.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, peer4, peer6, RealWorld } from './real-world.fixture.ts';

/** Long enough for dozens of packets and several retransmissions. */
const aWhile = 1_500;
const udp = { protocol: 'udp' } as const;

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if ('fault' in address) throw new Error(text);
  return address;
}
const isolation: PolicyIsolation = {
  refused: [{ id: '00000000-0000-4000-8000-000000000002', addresses: [peer4, peer6].map(addressOf) }],
};

/** Puts the default group in force, next to what isolation refuses. */
async function put(world: RealWorld, revision: number, refusal: { readonly isolation?: PolicyIsolation }) {
  const groups = [groupOf(1, defaultInboundRules)];
  world.source.give({ kind: 'known', revision, policy: { source: 'default', groups, ...refusal } });
  await world.eventually('the policy is in force', () => {
    const { pending, inForce } = world.agent.status;
    return !pending && inForce?.revision === revision;
  });
}

test('an open device ends every connection with an isolated one, by TCP and UDP, both ways, also those of its containers; and none comes back', async () => {
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
    const { device, peer } = world;
    world.start();
    await put(world, 1, {});
    for (const namespace of [device, peer]) {
      await Talker.serve(namespace, 5_000);
      await Talker.serveDatagrams(namespace, 5_001);
    }
    await Talker.serve(container, 80);
    await Talker.serveDatagrams(container, 9_090);
    const held = await Promise.all([
      Talker.call(peer, device4, 5_000),
      Talker.call(peer, device6, 5_000),
      Talker.call(peer, device4, 5_001, udp),
      Talker.call(peer, device6, 5_001, udp),
      Talker.call(device, peer4, 5_000),
      Talker.call(device, peer6, 5_001, udp),
      Talker.call(peer, device4, 8_080),
      Talker.call(peer, device6, 9_090, udp),
      Talker.call(container, peer4, 5_000),
      Talker.call(container, peer6, 5_001, udp),
    ]);
    const silenced = (): Promise<readonly boolean[]> => Promise.all(held.map((one) => one.isSilenced(aWhile)));
    await put(world, 2, { isolation });
    expect(await silenced()).toEqual(held.map(() => true));

    // Root over there forgets what was there, so that each of its packets begins a connection.
    await peer.run(['conntrack', '-F']);
    expect(await silenced()).toEqual(held.map(() => true));
    const knock = (address: string, port: number, how: object = {}) =>
      expect(Talker.call(peer, address, port, { within: aWhile, ...how })).rejects.toThrow('never heard');
    await Promise.all([
      knock(device4, 5_000),
      knock(device6, 5_001, udp),
      knock(device4, 8_080),
      knock(device6, 9_090, udp),
    ]);

    // A start without the server, and without rules in the kernel.
    await world.stop();
    world.source.give({ kind: 'unknown', why: 'the server is away', early: true });
    await device.run(['nft', 'flush', 'ruleset']);
    world.start();
    await world.eventually('the kept policy is in force', () => world.agent.status.inForce?.origin === 'kept');
    await Promise.all([knock(device4, 5_000), knock(device6, 5_001, udp)]);

    await put(world, 3, {});
    await Talker.call(peer, device6, 5_000);
    expect(world.logged.filter((line) => line.includes('another program'))).toEqual([]);
  } finally {
    await world.close();
    await container?.close();
  }
});
