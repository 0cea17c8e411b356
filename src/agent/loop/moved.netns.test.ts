/** Proves with packets that only the driver interface counts: what was withdrawn stays ended there whatever becomes of links, addresses and routes, and goes on elsewhere (reference 1.2 (26), (27)). */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { forward, openContainer } from '../../../test/lib/container.ts';
import { connect, type Namespace } from '../../../test/lib/netns.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { written } from '../../nft/policies.fixture.ts';
import type { PolicyIsolation } from '../../policy/isolation/policy-isolation.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { readForwarding } from '../host/forwarding.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, driver, peer4, peer6, RealWorld } from './real-world.fixture.ts';

/** Longer than TCP waits between two attempts after a flap. */
const aWhile = 5_000;
/** It stays away so long that an agent which asks for the routes of a moment has asked: at once after the change it may ask when all is back. */
const awayFor = 1_000;
const udp = { protocol: 'udp' } as const;

let revision = 0;

/** Puts it in force and waits until the agent says that it is. */
async function put(world: RealWorld, inbound: readonly StoredRule[], isolation?: PolicyIsolation): Promise<void> {
  revision += 1;
  const mine = revision;
  const policy = { source: 'list', groups: [groupOf(1, inbound)], ...(isolation && { isolation }) } as const;
  world.source.give({ kind: 'known', revision: mine, policy });
  await world.eventually('the rules are in force', () => {
    const { pending, inForce } = world.agent.status;
    return !pending && inForce?.revision === mine;
  });
}

const openWorld = async (): Promise<RealWorld> => {
  const world: RealWorld = await RealWorld.open({
    forwarding: () =>
      readForwarding({
        read: async (path) => (await world.device.run(['cat', `/proc/sys/net/${path}`])).stdout,
        list: async (path) => (await world.device.run(['ls', `/proc/sys/net/${path}`])).stdout.trim().split('\n'),
      }),
  });
  return world;
};

const ip = ({ device }: RealWorld, ...lines: readonly string[]): Promise<unknown> =>
  device.run(['ip', '-batch', '-'], `${lines.join('\n')}\n`);

const [elsewhere4, far4] = ['10.9.0.1', '10.9.0.2'] as const;
const [elsewhere6, far6] = ['fd09::1', 'fd09::2'] as const;

/** A second cable between the device and its peer. */
const openUplink = ({ device, peer }: RealWorld): Promise<void> =>
  connect(
    { namespace: device, name: 'eth1', addresses: [`${elsewhere4}/24`, `${elsewhere6}/64`] },
    { namespace: peer, name: 'eth1', addresses: [`${far4}/24`, `${far6}/64`] },
  );

interface Flap {
  readonly what: string;
  readonly away: (world: RealWorld) => Promise<unknown>;
  readonly back: (world: RealWorld) => Promise<unknown>;
}
const addresses = [`${device4}/24`, `${device6}/64`];
const give = (world: RealWorld): Promise<unknown> =>
  ip(
    world,
    ...addresses.map((address) => `address add ${address} dev ${driver}${address.includes(':') ? ' nodad' : ''}`),
  );
/** Down and up take an interface's addresses of IPv6 along. */
const keep = (world: RealWorld): Promise<unknown> =>
  world.device.sysctl({ [`net/ipv6/conf/${driver}/keep_addr_on_down`]: 1 });
const flaps: readonly Flap[] = [
  {
    what: 'its link is down',
    away: async (world) => {
      await keep(world);
      await ip(world, `link set ${driver} down`);
    },
    back: (world) => ip(world, `link set ${driver} up`),
  },
  {
    what: 'its addresses are away',
    away: (world) => ip(world, ...addresses.map((address) => `address delete ${address} dev ${driver}`)),
    back: give,
  },
  {
    what: 'its routes are away',
    away: (world) => ip(world, `route delete 100.64.0.0/24 dev ${driver}`, `route delete fd7f::/64 dev ${driver}`),
    back: (world) =>
      ip(world, `route add 100.64.0.0/24 dev ${driver} src ${device4}`, `route add fd7f::/64 dev ${driver}`),
  },
  {
    what: 'it is made anew and gets its addresses 2.5 s later',
    away: async (world) => {
      await ip(world, `link delete ${driver}`);
      await connect(
        { namespace: world.device, name: driver, addresses: [] },
        { namespace: world.peer, name: driver, addresses: [`${peer4}/24`, `${peer6}/64`] },
      );
    },
    back: async (world) => {
      await sleep(2_500 - awayFor);
      await give(world);
    },
  },
];

const admitted = [written('udp', 5_001, 5_001)];
const withdrawn = [
  written('tcp', 2_200, 2_200),
  written('udp', 5_000, 5_000),
  written('tcp', 8_080, 8_080),
  written('udp', 9_090, 9_090),
];
const own = { allow: [] };

describe.each(flaps)('while $what', ({ away, back }) => {
  test.concurrent.each([
    ['a rule that is withdrawn ends its connections', undefined],
    ['an isolation ends all connections', { own, refused: [] } satisfies PolicyIsolation],
  ])('%s, by TCP and UDP and to containers, and none comes back', async (_, isolation) => {
    const world = await openWorld();
    let container: Namespace | undefined;
    try {
      await openUplink(world);
      // As on most machines, all that has no route leads there: also the far ends of the connections, while their own is away.
      await ip(world, `route add default via ${far4} dev eth1`, `route add default via ${far6} dev eth1`);
      container = await openContainer(world.device, [8_080, 80], [9_090, 9_090]);
      await forward(world.device, true);
      await Talker.serve(world.device, 2_200);
      await Talker.serveDatagrams(world.device, 5_000, 5_001);
      await Talker.serve(container, 80);
      await Talker.serveDatagrams(container, 9_090);
      world.start();
      await put(world, [...admitted, ...withdrawn]);
      const { peer } = world;
      const ended = await Promise.all(
        [device4, device6].flatMap((device) => [
          Talker.call(peer, device, 2_200),
          Talker.call(peer, device, 5_000, udp),
          Talker.call(peer, device, 8_080),
          Talker.call(peer, device, 9_090, udp),
        ]),
      );
      const stays = await Talker.call(peer, device4, 5_001, udp);
      await away(world);
      await put(world, isolation === undefined ? admitted : [...admitted, ...withdrawn], isolation);
      await sleep(awayFor);
      await back(world);
      if (isolation === undefined) expect(await stays.isHeard()).toBe(true);
      const silenced = await Promise.all(ended.map((talker) => talker.isSilenced(aWhile)));
      expect(silenced).toEqual(ended.map(() => true));
      expect(world.logged.filter((line) => line.startsWith('error'))).toEqual([]);
    } finally {
      await world.close();
      await container?.close();
    }
  });
});

async function playWithTwo(prove: (world: RealWorld) => Promise<unknown>): Promise<void> {
  const world = await openWorld();
  try {
    await openUplink(world);
    for (const each of [world.device, world.peer])
      await each.sysctl({
        'net/ipv4/conf/all/rp_filter': 0,
        [`net/ipv4/conf/${driver}/rp_filter`]: 0,
        'net/ipv4/conf/eth1/rp_filter': 0,
      });
    await prove(world);
  } finally {
    await world.close();
  }
}

test.concurrent('a connection that comes in by the driver interface and is answered by another one ends when its rule is withdrawn', () =>
  playWithTwo(async (world) => {
    await Talker.serve(world.device, 2_200);
    await Talker.serveDatagrams(world.device, 5_000);
    world.start();
    await put(world, withdrawn);
    const ended = [await Talker.call(world.peer, device4, 2_200), await Talker.call(world.peer, device4, 5_000, udp)];
    await ip(world, `route add ${peer4}/32 via ${far4} dev eth1 src ${device4}`);
    for (const talker of ended) expect(await talker.isHeard()).toBe(true);
    await put(world, []);
    await world.eventually('connections are kept ended', async () => (await counted(world)).code === 0);
    // The device may go on sending by the other interface; but it hears nothing any more.
    const { stdout: before } = await counted(world);
    await world.eventually('more packets are refused', async () => (await counted(world)).stdout !== before);
    expect(await ended[0]?.isSilenced(aWhile)).toBe(true);
  }));

const counted = (world: RealWorld) =>
  world.device.attempt(['nft', 'list', 'counter', 'inet', 'service-ended', 'ended']);

describe('a connection of another interface goes on when rules are withdrawn, at repairs and at the first start', () => {
  test.concurrent.each([
    [
      'its own port',
      [
        'rule add sport 2200 lookup 7',
        'rule add sport 5000 lookup 7',
        `route add default via ${far4} dev eth1 table 7`,
      ],
    ],
    ['a mark', ['rule add fwmark 0x7 lookup 7', `route add default via ${far4} dev eth1 table 7`]],
    ['its address', [`rule add from ${elsewhere4} lookup 7`, `route add default via ${far4} dev eth1 table 7`]],
  ])('where %s selects its route, and all others lead over the driver interface', (by, routes) =>
    playWithTwo(async (world) => {
      const client = '198.51.100.7';
      await world.peer.run(['ip', 'address', 'add', `${client}/32`, 'dev', 'eth1']);
      await world.peer.run(['ip', 'route', 'replace', `${elsewhere4}/32`, 'dev', 'eth1', 'src', client]);
      await ip(world, ...routes, `route add default via ${peer4} dev ${driver}`);
      if (by === 'a mark')
        await world.device.run([
          'nft',
          'add table inet vpn; add chain inet vpn out { type route hook output priority mangle; }; add rule inet vpn out th sport { 2200, 5000 } meta mark set 7',
        ]);
      // Something else has the kernel track connections before the agent does.
      await world.device.run([
        'nft',
        'add table inet other; add chain inet other in { type filter hook input priority 10; }; add rule inet other in ct state established accept',
      ]);
      const server = await Talker.serve(world.device, 2_200);
      await Talker.serveDatagrams(world.device, 5_000);
      const from = { from: client };
      const goesOn = [
        await Talker.call(world.peer, elsewhere4, 2_200, from),
        await Talker.call(world.peer, elsewhere4, 5_000, udp),
      ];
      const ends = await Talker.call(world.peer, device4, 2_200);
      world.start();
      await put(world, withdrawn);
      await put(world, []);
      expect(await ends.isSilenced(1_500)).toBe(true);
      await world.device.run(['nft', 'delete table inet service; delete table inet service-ended']);
      await world.eventually(
        'the rules are repaired',
        () => world.agent.status.driftRepairs > 0 && !world.agent.status.pending,
      );
      await world.stop();
      await world.device.run(['nft', 'delete', 'table', 'inet', 'service']);
      world.start();
      await put(world, []);
      for (const talker of goesOn) {
        expect(await talker.isHeard()).toBe(true);
        expect(talker.lines.filter((line) => !/^(?:heard|connected)/.test(line))).toEqual([]);
      }
      expect(server.lines.filter((line) => line.startsWith('closed') && line.includes(client))).toEqual([]);
    }),
  );
});

test.concurrent('a forbidden connection that began over another interface does not move to the driver interface', () =>
  playWithTwo(async (world) => {
    const client = '198.51.100.7';
    await world.peer.run(['ip', 'address', 'add', `${client}/32`, 'dev', 'lo']);
    await ip(world, `route add ${client}/32 via ${far4} dev eth1`);
    await Talker.serve(world.device, 2_200);
    await Talker.serveDatagrams(world.device, 5_000, 5_001);
    world.start();
    await put(world, admitted);
    await world.peer.run(['ip', 'route', 'replace', `${elsewhere4}/32`, 'dev', 'eth1', 'src', client]);
    const moving = [
      await Talker.call(world.peer, elsewhere4, 2_200, { from: client }),
      await Talker.call(world.peer, elsewhere4, 5_000, udp),
    ];
    const stays = await Talker.call(world.peer, elsewhere4, 5_001, udp);
    await ip(world, `route replace ${client}/32 via ${peer4} dev ${driver} src ${elsewhere4}`);
    await world.peer.run(['ip', 'route', 'replace', `${elsewhere4}/32`, 'via', device4, 'dev', driver, 'src', client]);
    expect(await stays.isHeard()).toBe(true);
    expect(await Promise.all(moving.map((talker) => talker.isSilenced(aWhile)))).toEqual([true, true]);
  }));
