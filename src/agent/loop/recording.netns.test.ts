/** Proves with real packets what the agent records and how it answers: exact sums, no leak, no drift, the same digest. */
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { printAddress } from '../../policy/address.ts';
import { written } from '../../nft/policies.fixture.ts';
import { mostRecorded } from '../../nft/recording.ts';
import type { ObservedTraffic, Recorded } from '../kernel/flow-recorder.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, peer4, RealWorld } from './real-world.fixture.ts';

/** Sends datagrams to each of these ports, one after the other, so many at a time that no queue overflows. */
const sender = `
const [to, first, last, times] = process.argv.slice(1);
const { createSocket } = require('node:dgram');
(async () => {
  const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4');
  socket.on('error', () => {});
  for (let port = Number(first), n = 1; port <= Number(last); port++)
    for (let i = 0; i < Number(times); i++, n++) {
      await new Promise((resolve) => socket.send('x', port, to, resolve));
      if (n % 200 === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    }
  socket.close();
})();`;

const burst = { first: 10_000, last: 13_999 };
/**
 * Uses up what the kernel has at hand for counters, then sends what is recorded, and comes before all else: the kernel's own worker, which makes
 * more memory for counters, has to wait. Where the machine grants no priority, the burst comes without.
 */
const sendBurst = async (): Promise<void> => {
  const script = 'if chrt -f 50 true 2> /dev/null; then exec chrt -f 50 "$@"; else exec "$@"; fi';
  const program = fileURLToPath(new URL('../../../test/lib/burst-sender.mjs', import.meta.url));
  const ranges = [`${burst.last + 1}-65535`, `${burst.first}-${burst.last}`];
  await world.peer.run(['taskset', '-c', '0', 'sh', '-c', script, 'sh', process.execPath, program, device4, ...ranges]);
};

/** Answers with why no connection can be made. */
const connector = `
const [to, port] = process.argv.slice(1);
require('node:net').connect(Number(port), to)
  .on('connect', () => { console.log('connected'); process.exit(); })
  .on('error', (error) => { console.log(error.code); process.exit(); });
setTimeout(() => { console.log('silence'); process.exit(); }, 3_000);`;

const web = groupOf(1, [written('udp', 7_001, 7_001), written('icmp', 0, 0)], [written('udp', 7_100, 7_100)]);

let world: RealWorld;
beforeEach(async () => {
  world = await RealWorld.open();
  world.start();
  world.source.know(1, web);
  await inForce();
});
afterEach(() => world?.close());

const inForce = (revision = 1): Promise<void> =>
  world.eventually('the policy is in force and read back', () => {
    const { inForce: policy, pending, verifiedAt = 0, appliedAt = 0, policyDigest } = world.agent.status;
    return policy?.revision === revision && !pending && verifiedAt >= appliedAt && policyDigest !== undefined;
  });

async function follow(observe: 'refused' | 'all' | 'counters', refuse_with: 'drop' | 'reject' = 'drop'): Promise<void> {
  world.agent.follow({ observe, refuse_with });
  await world.eventually('the setting is in force', async () => {
    const isRecording = (await world.agent.takeRecorded()) !== undefined;
    return isRecording === (observe !== 'counters') && !world.agent.status.pending;
  });
  await inForce();
}

const send = async (to: string, [first, last]: readonly [number, number], times = 1, out = false): Promise<void> => {
  await (out ? world.device : world.peer).run([process.execPath, '-e', sender, to, first, last, times].map(String));
};

const shown = ({ tuples }: Recorded): readonly string[] =>
  tuples
    .map(
      ({ direction, verdict, family, far, protocol, port, packets }) =>
        `${direction} ${verdict} ${printAddress(family, far)} ${protocol}/${port} ${packets}`,
    )
    // The link's own multicast is refused too.
    .filter((text) => text.includes(' 17/7') || text.includes(' 1/') || text.includes(' 6/'))
    .toSorted();

async function take(): Promise<ObservedTraffic> {
  const recorded = await world.agent.takeRecorded();
  if (recorded === undefined) throw new Error('nothing is recorded');
  return recorded;
}

/** Counts what arrives at ports, before every filter: a busy machine may lose packets before that. */
async function countArriving(first: number, last: number): Promise<() => Promise<number>> {
  const name = `arriving-${first}`;
  const chain = `chain c { type filter hook prerouting priority -450; iifname "rf0" udp dport ${first}-${last} counter; };`;
  await world.device.run(['nft', '-f', '-'], `table inet ${name} { ${chain} }`);
  return async () => {
    const { stdout } = await world.device.run(['nft', 'list', 'table', 'inet', name]);
    return Number(/packets (\d+)/.exec(stdout)?.[1] ?? Number.NaN);
  };
}

const packetsOf = ({ tuples }: Recorded): number => tuples.reduce((sum, { packets }) => sum + packets, 0);

/** What passes our filter beside what the policy admits. */
async function watchLeaks(): Promise<() => Promise<number>> {
  const table = `table inet after { chain passed { type filter hook input priority 100; iifname "rf0" udp dport != 7001 counter; }; }`;
  await world.device.run(['nft', '-f', '-'], table);
  return async () => {
    const { stdout } = await world.device.run(['nft', 'list', 'table', 'inet', 'after']);
    return Number(/packets (\d+)/.exec(stdout)?.[1] ?? Number.NaN);
  };
}

describe('with `refused` and `all`', () => {
  test('each first packet is recorded once, in both directions, and neither digest nor drift changes', async () => {
    const digest = world.agent.status.policyDigest;
    await follow('refused');
    await send(device4, [7_001, 7_003], 2);
    await send(device6, [7_009, 7_009], 3);
    await send(peer4, [7_100, 7_101], 2, true).catch(() => {});
    const refused = await take();
    expect(shown(refused)).toEqual([
      'inbound refused 100.64.0.2 17/7002 2',
      'inbound refused 100.64.0.2 17/7003 2',
      'inbound refused fd7f::2 17/7009 3',
      'outbound refused 100.64.0.2 17/7101 2',
    ]);
    expect(refused.unrecorded).toBe(0);
    await follow('all');
    await send(device4, [7_001, 7_002], 2);
    await send(peer4, [7_100, 7_100], 1, true);
    await world.peer.run(['ping', '-c', '2', '-i', '0.2', device4]);
    // Every packet counts until the far end has answered.
    expect(shown(await take())).toEqual([
      'inbound admitted 100.64.0.2 1/undefined 1',
      'inbound admitted 100.64.0.2 17/7001 2',
      'inbound refused 100.64.0.2 17/7002 2',
      'outbound admitted 100.64.0.2 17/7100 1',
    ]);
    expect(shown(await take())).toEqual([]);
    expect(world.agent.status.policyDigest).toBe(digest);
    expect(world.agent.status.driftRepairs).toBe(0);
    // A start goes on with what the kernel does.
    await world.stop();
    await send(device4, [7_005, 7_005], 4);
    world.start();
    await inForce();
    expect(shown(await take())).toEqual(['inbound refused 100.64.0.2 17/7005 4']);
    await follow('counters');
    await world.eventually('old parts are collected', async () => (await world.kernel())?.findings.length === 0);
  });

  test('a foreign hand in a chain that records is drift, and is undone', async () => {
    await follow('all');
    const { stdout } = await world.device.run(['nft', 'list', 'chains', 'inet']);
    const [chain] = /refuse-\w+|admit-\w+/.exec(stdout) ?? [];
    await world.device.run(['nft', 'insert', 'rule', 'inet', 'service', chain ?? '', 'accept']);
    await world.eventually('it is undone', async () => {
      const { enforced, findings = [] } = (await world.kernel()) ?? {};
      return world.agent.status.driftRepairs > 0 && enforced !== undefined && findings.length === 0;
    });
    expect((await world.kernel())?.findings).toEqual([]);
  });

  test('connections that were open before are told too, as far as the policy admits them', async () => {
    for (const port of [7_001, 7_002]) {
      const ends = ['-s', peer4, '-d', device4, '--sport', '40000', '--dport', String(port)];
      const kept = ['-u', 'SEEN_REPLY,ASSURED', '-t', '600'];
      await world.device.run(['conntrack', '-I', '-p', 'udp', ...ends, ...kept]);
    }
    await follow('all');
    expect(shown(await take())).toEqual([]);
    const { tuples } = await world.agent.openFlows();
    expect(
      tuples.map(({ direction, far, protocol, port }) => `${direction} ${printAddress(4, far)} ${protocol}/${port}`),
    ).toEqual(['inbound 100.64.0.2 17/7001']);
  });

  test('what is read says for how long rules have recorded it: from when they were in force, and anew from a repair on', async () => {
    const began = performance.now();
    await follow('all');
    expect((await take()).recordedFor).toBeLessThan(performance.now() - began);
    const flushed = performance.now();
    await world.device.run(['nft', 'flush', 'ruleset']);
    await world.eventually('it is repaired', () => world.agent.status.driftRepairs > 0);
    await inForce();
    expect((await take()).recordedFor).toBeLessThan(performance.now() - flushed);
  });

  test('what is read tells other rules from those of before, and not other devices that they name', async () => {
    const peers = [{ labels: ['web'] }];
    const naming = (last: bigint) => {
      const members = { v4: [{ first: 0x6440_0002n, last }], v6: [] };
      return groupOf(1, [{ ip_protocol: 'udp', from_port: 7_001, to_port: 7_001, peers, members }]);
    };
    await follow('all');
    const seen = [(await take()).rules];
    for (const [i, group] of [web, naming(0x6440_0002n), naming(0x6440_0003n), { ...web }].entries()) {
      world.source.know(i + 2, group);
      await inForce(i + 2);
      seen.push((await take()).rules);
    }
    expect(seen.map((rules) => seen.indexOf(rules))).toEqual([0, 0, 2, 2, 4]);
  });

  test('4,000 tuples are recorded in one reading and 4,000 others in the next, none lost; of 60,000 all beyond the limit are counted, and none leaks', async () => {
    await follow('all');
    const leaked = await watchLeaks();
    for (const first of [10_000, 20_000]) {
      const arrived = await countArriving(first, first + 3_999);
      await send(device4, [first, first + 3_999]);
      const recorded = await take();
      expect(recorded.unrecorded).toBe(0);
      const found = recorded.tuples.filter(({ port = 0 }) => port >= first && port < first + 4_000);
      expect(found).toHaveLength(await arrived());
    }
    const arrived = await countArriving(7_002, 65_535);
    await send(device4, [7_002, 65_535]);
    const once = await arrived();
    await send(device4, [7_002, 9_000]);
    const flood = await take();
    expect(flood.tuples.filter(({ direction, family }) => direction === 'inbound' && family === 4)).toHaveLength(
      mostRecorded,
    );
    // A tuple that got no counter counts once, so what was sent again may not show.
    expect(packetsOf(flood) + flood.unrecorded).toBeGreaterThanOrEqual(once);
    expect(await leaked()).toBe(0);
    // The next minute has all its places again.
    await send(device4, [7_002, 7_003]);
    const next = await take();
    expect(next.unrecorded).toBe(0);
    expect(shown(next)).toEqual(['inbound refused 100.64.0.2 17/7002 1', 'inbound refused 100.64.0.2 17/7003 1']);
  });
});

test('a burst that uses up the memory which the kernel has at hand for counters loses no tuple', async () => {
  await follow('all');
  const used = `table inet used {
  set counters { typeof udp sport . udp dport; size 200000; flags dynamic; }
  chain c { type filter hook prerouting priority -450; iifname "rf0" udp dport ${burst.last + 1}-65535 update @counters { udp sport . udp dport counter } drop
    iifname "rf0" udp dport ${burst.last + 1}-65535 drop; }
}`;
  await world.device.run(['nft', '-f', '-'], used);
  const arrived = await countArriving(burst.first, burst.last);
  await sendBurst();
  const recorded = await take();
  const found = recorded.tuples.filter(({ port = 0 }) => port >= burst.first && port <= burst.last);
  expect(found).toHaveLength(await arrived());
  expect(recorded.unrecorded).toBe(0);
});

describe('with `reject`', () => {
  test('senders get an answer at once in both directions, also where outbound is closed, and no more answers than the rate allows', async () => {
    const connect = async (to: string, port: number, out = false): Promise<string> => {
      const argv = [process.execPath, '-e', connector, to, String(port)];
      return (await (out ? world.device : world.peer).run(argv)).stdout.trim();
    };
    expect(await connect(device4, 7_001)).toBe('silence');
    await follow('refused', 'reject');
    expect(await connect(device4, 7_001)).toBe('ECONNREFUSED');
    expect(await connect(device6, 7_001)).toBe('ECONNREFUSED');
    expect(await connect(peer4, 80, true)).toBe('ECONNREFUSED');
    expect(shown(await take())).toEqual([
      'inbound refused 100.64.0.2 6/7001 1',
      'inbound refused fd7f::2 6/7001 1',
      'outbound refused 100.64.0.2 6/80 1',
    ]);
    const counting = `table inet answers { chain c { type filter hook prerouting priority -300; icmp type destination-unreachable icmp code admin-prohibited counter; }; }`;
    await world.peer.run(['nft', '-f', '-'], counting);
    await send(device4, [7_002, 7_501]);
    const { stdout } = await world.peer.run(['nft', 'list', 'table', 'inet', 'answers']);
    const answers = Number(/packets (\d+)/.exec(stdout)?.[1] ?? Number.NaN);
    expect(answers).toBeGreaterThan(0);
    expect(answers).toBeLessThan(500);
    await follow('refused', 'drop');
    expect(await connect(device4, 7_001)).toBe('silence');
  });
});
