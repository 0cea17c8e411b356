/** Proves on a real kernel that the rules are the policy: through changes by others, lost helpers and moving interfaces. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { attemptQuickly, runQuickly } from '../../../test/lib/batch-runner.ts';
import { eventually } from '../../../test/lib/eventually.ts';
import { signalIfRunning } from '../../../test/lib/processes.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { written } from '../../nft/policies.fixture.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, device6, driver, RealWorld } from './real-world.fixture.ts';

const web = groupOf(
  1,
  [written('tcp', 8_000, 8_010, '100.64.0.0/24', 'fd7f::/64', '10.0.0.7'), written('icmp', 0, 0)],
  [written('udp', 53, 53), written('tcp', 1, 65_535)],
);
const ssh = groupOf(2, [written('tcp', 2_200, 2_200)]);
const nothing = groupOf(3, []);
const meaning = (...groups: readonly PolicyGroup[]) => canonicalize({ source: 'list', groups });

/** Waits until the kernel holds exactly that policy, and nothing that is not ours. */
const inForce = (world: RealWorld, ...groups: readonly PolicyGroup[]): Promise<void> =>
  world.eventually(`the kernel enforces ${groups.map(({ name }) => name).join()} and nothing else`, async () => {
    const kernel = await world.kernel();
    const policy = kernel?.enforced?.policy;
    return policy !== undefined && kernel?.findings.length === 0 && samePolicy(policy, meaning(...groups));
  });

const foreign = `
table inet other {
  set friends { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 192.0.2.1 } }
  chain service-inbound { type filter hook input priority 5; policy accept; ip saddr @friends counter accept; }
}
table ip service {
  chain service-inbound { type filter hook input priority 6; policy accept; }
}
table ip6 nat {
  chain post { type nat hook postrouting priority srcnat; }
}
`;

const minute = 60_000;

const someHelper = async (world: RealWorld): Promise<string> => {
  const { stdout } = await runQuickly(world.device, ['nft', '-j', 'list', 'chains']);
  return /"name": "(from-[0-9a-f]+)"/.exec(stdout)?.[1] ?? 'no-helper';
};
const lastHandle = async (world: RealWorld): Promise<string> => {
  const { stdout } = await runQuickly(world.device, [
    'nft',
    '-a',
    'list',
    'chain',
    'inet',
    'service',
    'service-inbound',
  ]);
  return [...stdout.matchAll(/# handle (\d+)/g)].at(-1)?.[1] ?? '0';
};

const tamperings: readonly [string, (world: RealWorld) => Promise<string>][] = [
  ['a rule was inserted', async () => 'insert rule inet service service-inbound accept'],
  ['a rule was appended', async () => 'add rule inet service service-outbound counter drop'],
  ['a rule was deleted', async (world) => `delete rule inet service service-inbound handle ${await lastHandle(world)}`],
  ['a chain was flushed', async () => 'flush chain inet service service-inbound'],
  ['a chain was given another policy', async () => 'add chain inet service service-inbound { policy drop; }'],
  ['a chain below was flushed', async (world) => `flush chain inet service ${await someHelper(world)}`],
  ['a chain below was extended', async (world) => `insert rule inet service ${await someHelper(world)} accept`],
  ['the table was flushed', async () => 'flush table inet service'],
  ['the table was deleted', async () => 'delete table inet service'],
  ['the table was put to sleep', async () => 'add table inet service { flags dormant; }'],
  [
    'a set was put in and edited',
    async () =>
      'add set inet service strange { type ipv4_addr; }; add element inet service strange { 1.2.3.4 }; insert rule inet service service-inbound ip saddr @strange accept',
  ],
  [
    'a chain was hung beside ours',
    async () =>
      'add chain inet service strange { type filter hook input priority -10; policy accept; }; add rule inet service strange accept',
  ],
  ['a counter was put in', async () => 'add counter inet service strange'],
];

describe('changes by others to our table', () => {
  let world: RealWorld;
  let before: string;
  const dump = async (): Promise<string> =>
    (
      await runQuickly(world.device, [
        'sh',
        '-c',
        'for t in "inet other" "ip service" "ip6 nat"; do nft -a list table $t; done',
      ])
    ).stdout;
  beforeAll(async () => {
    world = await RealWorld.open();
    await runQuickly(world.device, ['nft', '-f', '-'], foreign);
    world.start();
    world.source.know(1, web);
    await inForce(world, web);
    before = await dump();
  });
  afterAll(() => world?.close());

  test.each(tamperings)('%s: it is undone, and reported', async (_, change) => {
    const repairs = world.agent.status.driftRepairs;
    await runQuickly(world.device, ['nft', '-f', '-'], await change(world));
    await inForce(world, web);
    await eventually('the repair is counted', () => world.agent.status.driftRepairs > repairs);
    expect(world.agent.status.lastDrift?.what).not.toEqual([]);
    expect(await dump()).toBe(before);
  });

  test('the author is named as far as the kernel tells', async () => {
    const from = world.logged.length;
    await runQuickly(world.device, ['nft', 'insert', 'rule', 'inet', 'service', 'service-inbound', 'accept']);
    await eventually('the author is logged', () =>
      world.logged
        .slice(from)
        .some((line) => line.includes('nft (') && line.includes('insert rule inet service service-inbound accept')),
    );
    await inForce(world, web);
    expect(world.agent.status.lastDrift?.by).toMatch(/^nft \(\d+\)$|^unknown$/);
  });

  test('changes of other tables are left alone', async () => {
    await inForce(world, web);
    const { applies, driftRepairs } = world.agent.status;
    await runQuickly(world.device, ['nft', '-f', '-'], 'add rule inet other service-inbound accept\n');
    const changed = await dump();
    await runQuickly(world.device, ['nft', 'insert', 'rule', 'inet', 'service', 'service-inbound', 'accept']);
    await eventually('only ours is repaired', () => world.agent.status.driftRepairs > driftRepairs);
    await inForce(world, web);
    expect(await dump()).toBe(changed);
    expect(world.agent.status.applies).toBe(applies);
  });

  test('a loop that changes everything without a rest is undone each time, and other tables stay to the byte', async () => {
    const kept = await dump();
    for (let round = 0; round < 6; round++) {
      for (const [, change] of tamperings) {
        // Some changes meet a table that is gone already, and fail: the next one is on its way.
        const text = await change(world).catch(() => 'delete table inet service');
        await attemptQuickly(world.device, ['nft', '-f', '-'], text);
      }
    }
    await inForce(world, web);
    expect(await dump()).toBe(kept);
  });

  test('the same changes again and again, and `nft flush ruleset` between them, are undone every time', async () => {
    let kept = await dump();
    const until = performance.now() + (process.env['RINGFENCE_HOSTILE'] === 'long' ? minute : 0);
    do {
      for (const [, change] of tamperings) {
        await runQuickly(world.device, ['nft', '-f', '-'], await change(world));
        await inForce(world, web);
        expect(await dump()).toBe(kept);
      }
      // A program that flushes the ruleset must restore the other tables itself.
      await runQuickly(world.device, ['nft', 'flush', 'ruleset']);
      await inForce(world, web);
      await runQuickly(world.device, ['nft', '-f', '-'], foreign);
      kept = await dump();
    } while (performance.now() < until);
  });

  test('nft killed under the agent: rules stay, and the next change is undone all the same', async () => {
    for (let i = 0; i < 3; i++) {
      for (const pid of await world.processes('nft')) signalIfRunning(pid, 'SIGKILL');
      expect((await world.kernel())?.enforced?.policy).toEqual(meaning(web));
      await runQuickly(world.device, ['nft', 'insert', 'rule', 'inet', 'service', 'service-inbound', 'accept']);
      await inForce(world, web);
    }
    world.source.know(2, ssh);
    await inForce(world, ssh);
    world.source.know(3, web);
    await inForce(world, web);
  });

  test('`nft flush ruleset` takes all tables, and ours is back at once', async () => {
    await runQuickly(world.device, ['nft', 'flush', 'ruleset']);
    await inForce(world, web);
    const { stdout } = await runQuickly(world.device, ['nft', 'list', 'tables']);
    expect(stdout.trim()).toBe('table inet service');
  });
});

describe('the driver interface', () => {
  let world: RealWorld;
  beforeEach(async () => {
    world = await RealWorld.open();
  });
  afterEach(() => world.close());
  const boundTo = (name: string): Promise<void> =>
    eventually(`the policy binds ${name}`, async () => (await world.kernel())?.enforced?.interface === name);

  test('is followed when it is renamed, goes and comes back', async () => {
    world.start();
    world.source.know(1, ssh);
    await boundTo(driver);
    await runQuickly(world.device, ['ip', 'link', 'set', driver, 'name', 'moved']);
    await boundTo('moved');
    await runQuickly(world.device, ['ip', 'link', 'delete', 'moved']);
    await boundTo(driver);
    await runQuickly(world.device, ['ip', 'tuntap', 'add', 'dev', driver, 'mode', 'tun']);
    await eventually(
      'the tunnel does without neighbour discovery',
      async () => (await world.kernel())?.enforced?.neighbourDiscovery === false,
    );
    await runQuickly(world.device, ['ip', 'link', 'delete', driver]);
    await runQuickly(world.device, ['ip', 'link', 'add', driver, 'type', 'veth', 'peer', 'name', 'far']);
    await eventually(
      'a cable does neighbour discovery',
      async () => (await world.kernel())?.enforced?.neighbourDiscovery === true,
    );
    await inForce(world, ssh);
    expect(world.logged.filter((line) => line.includes('renamed from rf0 to moved'))).toHaveLength(1);
  });
});

describe('packets', () => {
  let world: RealWorld;
  beforeEach(async () => {
    world = await RealWorld.open();
  });
  afterEach(() => world.close());

  test('pass and are stopped as the policy of the moment says', async () => {
    world.start();
    await inForce(world);
    await Talker.serve(world.device, 2_200, 8_000);
    await expect(Talker.call(world.peer, device4, 2_200, { within: 1_500 })).rejects.toThrow('never heard');
    world.source.know(1, ssh);
    await inForce(world, ssh);
    const calls = [await Talker.call(world.peer, device4, 2_200), await Talker.call(world.peer, device6, 2_200)];
    await expect(Talker.call(world.peer, device4, 8_000, { within: 1_500 })).rejects.toThrow('never heard');
    world.source.know(2, ssh, web);
    await inForce(world, ssh, web);
    calls.push(await Talker.call(world.peer, device4, 8_000));
    for (const call of calls) expect(await call.isHeard()).toBe(true);
    world.source.know(3, nothing);
    await inForce(world, nothing);
    await eventually('the connections are ended', () => world.agent.status.revokedConnections >= 3);
    expect(await Promise.all(calls.map((call) => call.isSilenced(1_500)))).toEqual([true, true, true]);
  });

  test('meet the last good policy after a restart, without any source', async () => {
    world.start();
    world.source.know(1, ssh);
    await inForce(world, ssh);
    await eventually('the policy is kept', () => world.agent.status.verifiedAt !== undefined);
    await world.stop();
    expect((await world.kernel())?.enforced?.policy).toEqual(meaning(ssh));
    await runQuickly(world.device, ['nft', 'flush', 'ruleset']);
    world.source.give({ kind: 'unknown', why: 'the server is away' });
    world.start();
    await inForce(world, ssh);
    await Talker.serve(world.device, 2_200);
    await Talker.call(world.peer, device4, 2_200);
  });
});
