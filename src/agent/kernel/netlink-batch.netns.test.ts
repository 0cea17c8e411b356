/** Proves that batches do the same over netlink and through nft, to the kernel's own bytes, also where the helper is not there or is lost. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import {
  accept,
  basesOf,
  goto,
  makesSet,
  mapRule,
  rule,
  tableNames,
  targets,
  type Command,
  type Match,
  type Rule,
  type TableRules,
  type VerdictMap,
} from '../../nft/ast.ts';
import { baseRules, echo, familyMatch, type BaseContent } from '../../nft/compile/base.ts';
import { compile } from '../../nft/compile/compile.ts';
import { parseInterfaceName, parseObjectName, type ObjectName } from '../../nft/names.ts';
import { canonicalPolicy } from '../../nft/policies.fixture.ts';
import { printRule } from '../../nft/print.ts';
import type { Direction } from '../../policy/rule.ts';
import { ChannelError, NetlinkChannel } from '../netlink/channel.ts';
import { eachAttribute } from '../netlink/message.ts';
import { batchOf } from '../netlink/nftables/commands.ts';
import { changeOverNetlink } from './netlink-batch.ts';
import { RealNft } from './real-nft.ts';

const [map, inA] = [parseObjectName('peers4'), parseObjectName('in-a')];
const members: readonly Command[] = [
  { kind: 'addTable' },
  { kind: 'addCounter', name: inA },
  { kind: 'addMap', name: map, family: 4 },
];
const joined = (address: bigint): Command => ({ kind: 'addElements', map, family: 4, elements: [[address, inA]] });

const [helper, viaNft, viaNetlink] = ['helper', 'via-nft', 'via-netlink'].map((name) => parseObjectName(name));
if (helper === undefined || viaNft === undefined || viaNetlink === undefined) throw new Error('no names');
const driver = parseInterfaceName('rf0');
const before = { discovery: helper, server: helper };
const contents: readonly BaseContent[] = [
  { kind: 'forbidding', ...before, forbid: helper },
  { kind: 'closed', ...before, forbid: helper, dispatch: helper },
  { kind: 'closed' },
  { kind: 'syn-only' },
];
const eachOnce = (rules: readonly Rule[]): readonly Rule[] => [
  ...new Map(rules.map((each) => [printRule(each), each])).values(),
];
/** Everything that a base chain of either table may hold, the two sets of the default group aside, and what small policies add. */
const small: readonly Rule[] = eachOnce([
  ...tableNames.flatMap((table) =>
    (['inbound', 'outbound'] as const).flatMap((direction: Direction) =>
      contents.flatMap((content) => baseRules({ table, direction }, driver, content)),
    ),
  ),
  rule([familyMatch[4]], accept),
  rule([familyMatch[6]], goto(helper)),
  rule([{ kind: 'ports', from: 22, to: 22 }], accept, inA),
  rule([{ kind: 'ports', from: 1_000, to: 65_535 }], goto(helper)),
  rule([{ kind: 'ports', from: 22, to: 22, transport: 'tcp' }], accept, inA),
  rule([{ kind: 'ports', from: 53, to: 54, transport: 'udp' }], accept, inA),
  rule([{ kind: 'ports', from: 22, to: 22, transport: 'tcp', original: true }], accept, inA),
  rule([{ kind: 'ports', from: 53, to: 54, transport: 'udp', original: true }], goto(helper)),
  rule([{ kind: 'protocol', protocol: 17 }], goto(helper), inA),
]);

/** Rules of drawn policies that make no set, each once: so many of each table. */
function drawnRules(count: number): readonly Rule[] {
  const policies = fc.sample(canonicalPolicy, { numRuns: 25, seed: 48 });
  const compiled = policies.map((policy) =>
    compile(policy, { interface: driver, neighbourDiscovery: true, forwarding: 'on' }),
  );
  const tables = [compiled, compiled.flatMap(({ forward }) => forward ?? [])];
  return tables.flatMap((rulesets: readonly TableRules[]) => {
    const chains = rulesets.flatMap((rules) => [...basesOf(rules), ...rules.helpers]);
    return eachOnce(chains.flatMap(({ rules }) => rules).filter((each) => !makesSet(each))).slice(0, count);
  });
}

describe('rules', () => {
  let namespace: Namespace;
  let folder: string;
  let channel: NetlinkChannel;
  let nft: RealNft;
  beforeEach(async () => {
    namespace = await Namespace.create();
    folder = await mkdtemp(join(tmpdir(), 'ringfence-rules-'));
    const prefix = namespace.inside([]);
    channel = new NetlinkChannel({ clock: systemClock, prefix });
    nft = new RealNft({ clock: systemClock, scratch: folder, prefix });
  });
  afterEach(async () => {
    await Promise.all([nft.close(), channel.close()]);
    await namespace.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** The expressions of each rule of a chain, as the kernel lists them. */
  const expressions = async (name: string): Promise<readonly string[]> => {
    const found: string[] = [];
    const listRules = { type: (10 << 8) | 7, payload: Uint8Array.of(1, 0, 0, 0) };
    await channel.dump(12, listRules, (part) => {
      for (const { payload } of part) {
        let [chain, list] = ['', ''];
        eachAttribute(payload.subarray(4), (type, bytes) => {
          if (type === 2) chain = Buffer.from(bytes).toString('latin1').replace(/\0$/, '');
          if (type === 4) list = Buffer.from(bytes).toString('hex');
        });
        if (chain === name) found.push(list);
      }
    });
    return found;
  };
  const load = (chain: ObjectName, rules: readonly Rule[]): readonly Command[] =>
    rules.map((each) => ({ kind: 'addRule', chain, rule: each }));
  const counters = [...new Set(small.flatMap(({ counter }) => counter ?? []))];

  test('are byte for byte what nft makes of them, and so are counters and chains', async () => {
    expect(await expressions(viaNft)).toEqual([]); // And the helper runs.
    const objects = counters.map((name): Command => ({ kind: 'addCounter', name }));
    const chains = [helper, viaNft, viaNetlink].map((name): Command => ({ kind: 'addChain', name }));
    const bases = (['input', 'output', 'forward', 'postrouting'] as const).map((hook): Command => ({
      kind: 'addBaseChain',
      name: parseObjectName(`at-${hook}`),
      hook,
    }));
    const all: readonly Command[] = [{ kind: 'addTable' }, ...objects, ...chains, ...bases];
    await nft.run(all);
    const made = (await namespace.run(['nft', '-s', 'list', 'ruleset'])).stdout;
    await nft.run([{ kind: 'deleteTable' }]);
    expect(await changeOverNetlink(channel, all)).toBe(true);
    expect((await namespace.run(['nft', '-s', 'list', 'ruleset'])).stdout).toBe(made);
    await nft.run(load(viaNft, small));
    expect(await changeOverNetlink(channel, [{ kind: 'addTable' }, ...load(viaNetlink, small)])).toBe(true);
    const [theirs, ours] = [await expressions(viaNft), await expressions(viaNetlink)];
    expect(theirs).toHaveLength(small.length);
    expect(ours).toEqual(theirs);
    // A foreign chain policy and a dormant flag give way to ours.
    await namespace.run(['nft', 'chain inet service at-input { policy drop; }']);
    await namespace.run(['nft', 'table inet service { flags dormant; }']);
    expect(await changeOverNetlink(channel, [{ kind: 'addTable' }, ...bases])).toBe(true);
    expect((await namespace.run(['nft', '-s', 'list', 'chain', 'inet', 'service', 'at-input'])).stdout).toContain(
      'policy accept',
    );
    expect((await namespace.run(['nft', 'list', 'ruleset'])).stdout).not.toContain('dormant');
    // Emptied and filled again at one instant, as a switch does it.
    const again: readonly Command[] = [{ kind: 'flushChain', name: viaNetlink }, ...load(viaNetlink, small.slice(1))];
    expect(await changeOverNetlink(channel, again)).toBe(true);
    expect(await expressions(viaNetlink)).toEqual(theirs.slice(1));
  });

  test('of drawn policies are what nft makes of them too', async () => {
    expect(await expressions(viaNft)).toEqual([]); // And the helper runs.
    const rules = drawnRules(30);
    const names = new Set(rules.flatMap((each) => targets(each)));
    const used = new Set(rules.flatMap(({ counter }) => counter ?? []));
    await nft.run([
      { kind: 'addTable' },
      ...[...used].map((name): Command => ({ kind: 'addCounter', name })),
      ...[...names, viaNft, viaNetlink].map((name): Command => ({ kind: 'addChain', name })),
      ...load(viaNft, rules),
    ]);
    expect(await changeOverNetlink(channel, load(viaNetlink, rules))).toBe(true);
    const theirs = await expressions(viaNft);
    expect(theirs.length).toBeGreaterThan(20);
    expect(await expressions(viaNetlink)).toEqual(theirs);
  });

  test('and members are left to nft where the helper cannot start, is killed or has no right', async () => {
    const prefix = namespace.inside([]);
    const powerless = ['setpriv', '--bounding-set', '-net_admin', '--inh-caps', '-net_admin'];
    const channels = [
      new NetlinkChannel({ clock: systemClock, prefix, argv: ['no-such-helper'] }),
      new NetlinkChannel({ clock: systemClock, prefix: namespace.inside(powerless) }),
      channel,
    ];
    await nft.run(members);
    expect(await changeOverNetlink(channel, [joined(1n)])).toBe(true);
    for (const [i, netlink] of channels.entries()) {
      if (netlink === channel) process.kill(channel.pid ?? 0, 'SIGKILL');
      else expect(await changeOverNetlink(netlink, [joined(2n)])).toBe(false);
      const port = new RealNft({ clock: systemClock, scratch: folder, prefix, netlink });
      await port.run([joined(BigInt(i) + 3n)]);
      await port.close();
    }
    const elements = (await nft.list())?.objects.find(({ name }) => name === map)?.members?.elements;
    expect(new Set(elements?.keys())).toEqual(new Set([1n, 3n, 4n, 5n]));
    await Promise.all(channels.map((each) => each.close()));
  });

  test('are left to nft where no helper runs yet', async () => {
    expect(await changeOverNetlink(channel, [{ kind: 'addTable' }])).toBe(false);
    expect(channel.running).toBe(false);
  });

  test('that no policy makes are left to nft', async () => {
    const family: Match = { kind: 'family', family: 4 };
    const tcp: Match = { kind: 'protocol', protocol: 6 };
    const hop: Match = { kind: 'hopLimit', value: 255 };
    const port: Match = { kind: 'ports', from: 1, to: 1, transport: 'tcp' };
    const address: Match = { kind: 'address', family: 4, side: 'saddr', ranges: [{ first: 1n, last: 1n }] };
    const entries = [{ from: 1, to: 9, verdict: accept }];
    const byPort: VerdictMap = { kind: 'portMap', transport: 'tcp', entries };
    const byAddress: VerdictMap = {
      kind: 'addressMap',
      family: 4,
      side: 'saddr',
      entries: [{ first: 1n, last: 9n, verdict: accept }],
    };
    const lost: readonly Rule[] = [
      ...[address, echo[4]].map((match) => rule([family, match], accept)),
      ...[port, echo[4], { kind: 'notSyn' } as const].map((match) => rule([tcp, match], accept)),
      rule([hop], accept),
      rule([{ kind: 'ports', from: 1, to: 1, original: true }], accept),
      rule([tcp], byPort),
      rule([family], byAddress),
      rule([], { ...byPort, transport: 'th', original: true }),
      mapRule([family], { family: 4, side: 'saddr', map: helper }, accept),
    ];
    expect(await expressions(helper)).toEqual([]); // And the helper runs.
    for (const each of lost) expect(await changeOverNetlink(channel, load(helper, [each]))).toBe(false);
  });

  test('are refused whole where the kernel refuses one, however many it complains about', async () => {
    expect(await expressions(helper)).toEqual([]); // And the helper runs.
    await nft.run([{ kind: 'addTable' }]);
    const many = Array.from({ length: 30_000 }, () => rule([], accept));
    const asked = batchOf([{ kind: 'addChain', name: viaNft }, ...load(helper, many)])?.run(channel);
    await expect(asked).rejects.toMatchObject({ code: 'refused', errno: 2 });
    const pid = channel.pid;
    expect(await changeOverNetlink(channel, [{ kind: 'addChain', name: helper }, ...load(helper, many)])).toBe(true);
    expect(channel.pid).toBe(pid);
    const { stdout } = await namespace.run(['nft', 'list', 'chains']);
    expect(stdout).toContain('helper');
    expect(stdout).not.toContain('via-nft');
    expect(await expressions(helper)).toHaveLength(many.length);
  });

  test('are added again by nobody where it is not clear whether they were added', async () => {
    const lost = new ChannelError('interrupted', 'the helper ended');
    const broken = { running: true, transact: () => Promise.reject(lost) } as unknown as NetlinkChannel;
    const added = changeOverNetlink(broken, load(helper, [rule([], accept)]));
    await expect(added).rejects.toMatchObject({ code: 'interrupted' });
    const replaced = changeOverNetlink(broken, [{ kind: 'flushChain', name: helper }, ...load(helper, small)]);
    expect(await replaced).toBe(false);
    const rebuilt = [{ kind: 'addTable' }, { kind: 'deleteTable' }, { kind: 'addTable' }] as const;
    expect(await changeOverNetlink(broken, [...rebuilt, ...load(helper, small)])).toBe(false);
    const elsewhere = rebuilt.map((command) => ({ ...command, table: 'service-forward' as const }));
    await expect(changeOverNetlink(broken, [...elsewhere, ...load(helper, small)])).rejects.toMatchObject({
      code: 'interrupted',
    });
  });
});
