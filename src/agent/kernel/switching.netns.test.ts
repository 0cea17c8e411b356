/** Proves that policies are switched under load without losing a permitted packet or letting a forbidden one pass. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { FloodLab, floodInterface, peer4, peer6, permittedPort } from '../../../test/lib/flood.ts';
import { Random } from '../../../test/lib/random.ts';
import { rounds } from '../../../test/lib/thorough.ts';
import { systemClock } from '../../client/clock.ts';
import { compile } from '../../nft/compile/compile.ts';
import type { Command } from '../../nft/ast.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import { install } from '../../nft/plan/plan.ts';
import type { StoredRule } from '../../policy/rule.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { inetHead, messageTypeOf, netfilter } from '../netlink/nftables/transaction.ts';
import { Enforcer, type Target } from './enforcer.ts';
import { changeOverNetlink } from './netlink-batch.ts';
import type { Nft } from './nft.ts';
import { RealNft } from './real-nft.ts';

const random = new Random(7);
const strangers = (count: number): string[] =>
  random.many(count, () =>
    random.chance(0.5)
      ? `10.${random.int(0, 255)}.${random.int(0, 255)}.${random.int(0, 255)}/${random.int(20, 32)}`
      : `fd00:${random.int(0, 65_535).toString(16)}::${random.int(1, 65_535).toString(16)}`,
  );

/** Different ways to say that the flood's permitted packets are admitted, and its forbidden ones are not. */
const ways: readonly (() => StoredRule[])[] = [
  () => [written('udp', permittedPort, permittedPort)],
  () => [written('udp', permittedPort, permittedPort, peer4, peer6, ...strangers(8))],
  () => [written('udp', permittedPort - random.int(0, 50), permittedPort + random.int(0, 50), peer4, peer6)],
  () => [
    written('udp', permittedPort, permittedPort, `${peer4}-100.64.0.${random.int(3, 250)}`, ...strangers(3)),
    written('udp', 1, permittedPort + random.int(0, 90), `${peer6}/128`, ...strangers(20)),
  ],
  () => [
    written('ipv4', permittedPort, permittedPort, peer4, ...strangers(3).filter((each) => !each.includes(':'))),
    written('ipv6', 3_900, permittedPort, 'fd7f::/64'),
  ],
];
/** Says nothing about the flood, and makes every policy another; without it, most of what a packet is asked has one answer only. */
const noise = (): StoredRule[] => (random.chance(0.3) ? [] : manyRules());
const manyRules = (): StoredRule[] => [
  written('tcp', random.int(1, 30_000), random.int(30_000, 65_535), ...strangers(random.int(1, 10))),
  written('udp', random.int(6_000, 30_000), random.int(30_000, 65_535), ...strangers(random.int(1, 10))),
  written('ipv4', 0, 0, '10.0.0.0/8', '172.16.0.0/12'),
];
/** The agent's way to its server comes, moves and goes; the flood has no part in it. */
const drawAccess = (): ServerAccess => {
  const at = BigInt(0x0a63_0000 + random.int(0, 65_535));
  return { addresses: { v4: [{ first: at, last: at }], v6: [] }, port: 443, resolvers: { v4: [], v6: [] } };
};
const draw = (): Target => ({
  policy: policyOf([...random.pick(ways)(), ...noise()], [...random.pick(ways)(), ...noise()]),
  interface: parseInterfaceName(floodInterface),
  neighbourDiscovery: true,
  forwarding: 'on',
  serverAccess: random.chance(0.5) ? drawAccess() : undefined,
  // Of some, lists stand in parts, as long ones do.
  longestList: random.chance(0.5) ? 2 : undefined,
});

/** Admits the flood's permitted packets by plain conditions, in chains that no draw before it had. */
const drawSmall = (i: number): Target => {
  const ports = (): StoredRule[] => [written('udp', permittedPort - (i % 50), permittedPort + (i % 49))];
  return {
    policy: policyOf(ports(), ports()),
    interface: parseInterfaceName(floodInterface),
    neighbourDiscovery: true,
  };
};

const getTables = 1;
const longRun = process.env['RINGFENCE_SWITCHES'];
/** A mistake that shows in one switch of a hundred is missed by one run of eight, and by one thorough run of twenty thousand. */
const switches = longRun === undefined ? rounds(120, 1_000) : longRun === 'long' ? 100_000 : Number(longRun);
const fewSwitches = Math.ceil(switches / 4);

describe('while packets come without a pause', () => {
  let lab: FloodLab;
  let scratch: string;
  let nft: RealNft;
  let netlink: NetlinkChannel;
  beforeAll(async () => {
    lab = await FloodLab.open();
    scratch = await mkdtemp(join(tmpdir(), 'ringfence-switching-'));
    const prefix = lab.device.inside([]);
    netlink = new NetlinkChannel({ clock: systemClock, prefix });
    // Only a helper that runs is used.
    await netlink.dump(netfilter, { type: messageTypeOf(getTables), payload: inetHead }, () => {});
    nft = new RealNft({ clock: systemClock, scratch, prefix });
  });
  afterAll(async () => {
    await nft?.close();
    await netlink?.close();
    await lab?.close();
    await rm(scratch ?? '', { recursive: true, force: true });
  });
  afterEach(() => new Enforcer({ nft, random: Math.random }).remove());

  test(
    `none is lost and none passes in ${fewSwitches} switches over netlink that are one transaction each`,
    { timeout: 0 },
    async () => {
      let transactions = 0;
      const run: Nft['run'] = async (commands) => {
        transactions += 1;
        expect(await changeOverNetlink(netlink, commands)).toBe(true);
      };
      const filter: Nft = {
        run,
        list: (table, expected) => nft.list(table, expected),
        listEnded: () => nft.listEnded(),
        listSet: (table, set) => nft.listSet(table, set),
        counters: () => nft.counters(),
        owns: (process) => nft.owns(process),
        close: () => nft.close(),
      };
      const enforcer = new Enforcer({ nft: filter, random: Math.random });
      await new Enforcer({ nft, random: Math.random }).apply(drawSmall(0));
      await lab.start();
      for (let i = 1; i <= fewSwitches; i++) {
        transactions = 0;
        expect(await enforcer.apply(drawSmall(i))).toBe(true);
        expect(transactions).toBe(1);
      }
      const tally = await lab.stop();
      const { lost, leaked } = tally;
      expect(lab.fewest(tally)).toBeGreaterThan(0);
      expect({ lost, leaked }).toEqual({ lost: 0, leaked: 0 });
    },
  );

  test(`no permitted packet is lost and no forbidden one passes in ${switches} switches`, { timeout: 0 }, async () => {
    await lab.addContainer();
    const enforcer = new Enforcer({ nft, random: Math.random });
    await enforcer.apply(draw());
    await lab.start();
    for (let i = 1; i <= switches; i++) {
      await enforcer.apply(draw());
      // Old parts are collected after a while, several updates at a time, as the agent does; now and then it inspects.
      if (i % 5 === 0) await enforcer.collect();
      if (i % 100 === 0) expect((await enforcer.verify()).findings).toEqual([]);
    }
    const tally = await lab.stop();
    const { lost, leaked } = tally;
    expect(lab.fewest(tally)).toBeGreaterThan(switches);
    expect({ lost, leaked }).toEqual({ lost: 0, leaked: 0 });
  });

  test('repairs that change nothing harm no packet', async () => {
    const enforcer = new Enforcer({ nft, random: Math.random });
    await enforcer.apply(draw());
    await lab.start();
    for (let i = 0; i < rounds(60, 300); i++) {
      const chains = new Set(
        i % 2 === 0 ? [] : [...(await chainNames(nft))].filter((name) => !name.startsWith('service-')),
      );
      await enforcer.repair({ tables: new Set(), chains });
      if (i % 5 === 0) await enforcer.inspect();
      if (i % 5 === 0) await enforcer.collect();
    }
    const { lost, leaked } = await lab.stop();
    expect({ lost, leaked }).toEqual({ lost: 0, leaked: 0 });
  });

  test('clearing the chains and adding the rules one by one would be seen', async () => {
    const target = draw();
    const commands = install(compile(target.policy, target));
    await nft.run(commands);
    await lab.start();
    // Each turn lets some fifty forbidden packets pass.
    for (let i = 0; i < 20; i++) {
      for (const name of ['service-inbound', 'service-outbound'] as const) {
        const rules = commands.filter(
          (each): each is Command & { kind: 'addRule' } => each.kind === 'addRule' && each.chain === name,
        );
        await nft.run(rules.slice(0, 1).map(({ chain }) => ({ kind: 'flushChain', name: chain })));
        for (const rule of rules) await nft.run([rule]);
      }
    }
    expect((await lab.stop()).leaked).toBeGreaterThan(0);
  });
});

async function chainNames(nft: RealNft): Promise<readonly string[]> {
  return [...((await nft.list())?.chains.keys() ?? [])];
}
