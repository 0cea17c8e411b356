/** Proves that whole rulesets, with every kind of set and map, are to the kernel's own bytes the same over netlink and through nft. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import {
  accept,
  drop,
  goOn,
  goto,
  jump,
  mapRule,
  rule,
  tableNames,
  type AddressEntry,
  type Command,
  type PortEntry,
  type Rule,
  type Verdict,
} from '../../nft/ast.ts';
import { echo } from '../../nft/compile/base.ts';
import { compile } from '../../nft/compile/compile.ts';
import { parseInterfaceName, parseObjectName } from '../../nft/names.ts';
import { install, rebuild } from '../../nft/plan/plan.ts';
import { canonicalPolicy, rangesOf, serverAccess } from '../../nft/policies.fixture.ts';
import type { Range } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import { NetlinkChannel } from '../netlink/channel.ts';
import { attribute, concat, eachAttribute, text, walkAttributes } from '../netlink/message.ts';
import { inetHead, messageTypeOf, netfilter } from '../netlink/nftables/transaction.ts';
import { changeOverNetlink } from './netlink-batch.ts';
import { RealNft } from './real-nft.ts';

const asked = { chains: 4, rules: 7, sets: 10, elements: 13, objects: 19 } as const;
const nameOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1').replace(/\0$/, '');
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** One namespace, filled one way. */
class Side {
  readonly namespace: Namespace;
  readonly channel: NetlinkChannel;
  readonly nft: RealNft;

  constructor(namespace: Namespace, scratch: string) {
    this.namespace = namespace;
    const prefix = namespace.inside([]);
    this.channel = new NetlinkChannel({ clock: systemClock, prefix });
    this.nft = new RealNft({ clock: systemClock, scratch, prefix });
  }

  /** Everything the kernel lists of our tables, and what nft prints of it, in both forms. */
  async told(): Promise<readonly string[]> {
    const lines: string[] = [];
    const all: [keyof typeof asked, Uint8Array[]][] = [];
    for (const what of ['chains', 'rules', 'sets', 'objects'] as const) all.push([what, await this.#list(what)]);
    for (const [what, payloads] of all) lines.push(...payloads.map((payload) => `${what} ${hex(payload)}`));
    for (const set of all.flatMap(([what, payloads]) => (what === 'sets' ? payloads : []))) {
      let [table, name] = ['', ''];
      eachAttribute(set, (type, bytes) => {
        if (type === 1) table = nameOf(bytes);
        if (type === 2) name = nameOf(bytes);
      });
      const elements: string[] = [];
      for (const part of await this.#list('elements', attribute(1, text(table)), attribute(2, text(name)))) {
        eachAttribute(part, (type, bytes) => {
          if (type !== 3) return;
          walkAttributes(bytes, 0, bytes.length, (_, from, to) => elements.push(hex(bytes.subarray(from, to))));
        });
      }
      // A hash has them in an order of its own.
      lines.push(...elements.toSorted().map((element) => `${table} ${name} ${element}`));
    }
    for (const form of ['-s', '-sj'])
      lines.push(...(await this.namespace.run(['nft', form, 'list', 'ruleset'])).stdout.split('\n'));
    return lines;
  }

  async #list(what: keyof typeof asked, ...attributes: readonly Uint8Array[]): Promise<Uint8Array[]> {
    const found: Uint8Array[] = [];
    const payload = concat([inetHead, ...attributes]);
    await this.channel.dump(netfilter, { type: messageTypeOf(asked[what]), payload }, (part) => {
      for (const message of part) found.push(Uint8Array.from(message.payload.subarray(inetHead.length)));
    });
    return found;
  }

  async close(): Promise<void> {
    await Promise.all([this.nft.close(), this.channel.close()]);
    await this.namespace.close();
  }
}

let folder: string;
let viaNft: Side;
let viaNetlink: Side;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-sets-'));
  const [one, other] = await Promise.all([Namespace.create(), Namespace.create()]);
  [viaNft, viaNetlink] = [new Side(one, folder), new Side(other, folder)];
});
afterEach(async () => {
  await Promise.all([viaNft.close(), viaNetlink.close()]);
  await rm(folder, { recursive: true, force: true });
});

/** The same batch both ways, into nothing. */
async function compared(batch: readonly Command[]): Promise<readonly string[]> {
  const away = tableNames.flatMap((table): Command[] => [
    { kind: 'addTable', table },
    { kind: 'deleteTable', table },
  ]);
  for (const side of [viaNft, viaNetlink]) await side.nft.run(away);
  await viaNetlink.told(); // And the helper runs.
  await viaNft.nft.run(batch);
  expect(await changeOverNetlink(viaNetlink.channel, batch)).toBe(true);
  const [theirs, ours] = [await viaNft.told(), await viaNetlink.told()];
  const differing = theirs.flatMap((line, i) => (line === ours[i] ? [] : [{ theirs: line, ours: ours[i] }]));
  expect(differing.slice(0, 3)).toEqual([]);
  expect(ours).toHaveLength(theirs.length);
  return theirs;
}

const [chain, target, counter, map4, map6] = ['here', 'there', 'in-a', 'peers4', 'peers6'].map(parseObjectName);
if (!chain || !target || !counter || !map4 || !map6) throw new Error('no names');
const objects: readonly Command[] = [
  { kind: 'addTable' },
  { kind: 'addCounter', name: counter },
  { kind: 'addMap', name: map4, family: 4 },
  { kind: 'addMap', name: map6, family: 6 },
  { kind: 'addElements', map: map4, family: 4, elements: [[0x0a00_0001n, counter]] },
  { kind: 'addElements', map: map6, family: 6, elements: [[0xfd00n << 112n, counter]] },
  { kind: 'addChain', name: target },
  { kind: 'addChain', name: chain },
];
const withRules = (rules: readonly Rule[]): readonly Command[] => [
  ...objects,
  ...rules.map((each): Command => ({ kind: 'addRule', chain, rule: each })),
];

const address = (family: Family, side: 'saddr' | 'daddr', ...ranges: Range[]): Rule =>
  rule([{ kind: 'address', family, side, ranges }], accept, counter);
const verdicts: readonly Verdict[] = [accept, drop, goOn, jump(target), goto(target)];
const verdictOf = (i: number): Verdict => verdicts[i % verdicts.length] ?? drop;
const portMap = (...ranges: (readonly [number, number])[]): readonly PortEntry[] =>
  ranges.map(([from, to], i) => ({ from, to, verdict: verdictOf(i) }));
const addressMap = (...ranges: readonly Range[]): readonly AddressEntry[] =>
  ranges.map((range, i) => ({ ...range, verdict: verdictOf(i) }));

const families = [4, 6] as const;
const sides = ['saddr', 'daddr'] as const;
const bitsOf = { 4: 32, 6: 128 } as const;
const lastOf = { 4: 0xffff_ffffn, 6: (1n << 128n) - 1n } as const;
const middleOf = { 4: 0x0a14_1e28n, 6: 0xfd00_0102_0304_0506_0708_090a_0b0c_0d0en } as const;

/** Sets at both ends of a family, of single addresses, of ranges and of blocks. */
function setsOf(family: Family): readonly (readonly Range[])[] {
  const last = lastOf[family];
  const one = (first: bigint): Range => ({ first, last: first });
  const spread = (count: number, step: bigint, size: bigint): Range[] =>
    Array.from({ length: count }, (_, i) => ({ first: BigInt(i) * step, last: BigInt(i) * step + size - 1n }));
  return [
    [one(0n), one(last)],
    [one(1n), one(last - 1n)],
    [one(0n), { first: 2n, last: 3n }, one(last)],
    [{ first: 0n, last: middleOf[family] }, one(last)],
    [
      { first: 1n, last: 1n },
      { first: middleOf[family], last: last - 1n },
    ],
    [
      { first: 0n, last: 255n },
      { first: last - 255n, last },
    ],
    spread(9, 4n, 1n),
    spread(9, 64n, 32n),
    spread(9, 64n, 33n),
    spread(9, 2n, 1n).map(({ first }) => one(first + middleOf[family])),
  ];
}

/** So many that one message does not hold them. */
const manyOf = (size: bigint): readonly Range[] =>
  Array.from({ length: 4_500 }, (_, i) => ({ first: BigInt(i) * 64n, last: BigInt(i) * 64n + size - 1n }));

const portMaps: readonly (readonly PortEntry[])[] = [
  portMap([22, 22], [80, 80], [443, 443]),
  portMap([0, 0], [65_535, 65_535]),
  portMap([0, 10], [11, 20], [22, 22], [30, 65_535]),
  portMap([1, 1], [2, 2], [3, 9]),
  portMap([0, 65_535]),
  portMap([1, 65_534]),
  Array.from({ length: 2_500 }, (_, i) => ({ from: 1 + i * 4, to: 1 + i * 4 + (i % 3), verdict: verdictOf(i) })),
];

const everyKind: readonly Rule[] = [
  rule([echo[4]], accept),
  rule([echo[6]], drop, counter),
  rule([{ kind: 'icmpTypes', family: 4, types: [8] }], accept),
  rule([{ kind: 'icmpTypes', family: 6, types: [0, 128, 255] }], accept),
  rule([{ kind: 'icmpTypeRange', family: 4, first: 3, last: 11 }], accept),
  ...families.flatMap((family) =>
    sides.flatMap((side) => [
      ...setsOf(family).map((ranges) => address(family, side, ...ranges)),
      rule(
        [
          { kind: 'address', family, side, ranges: [{ first: 1n, last: 1n }] },
          { kind: 'ports', from: 5, to: 9 },
        ],
        drop,
      ),
      rule(
        [
          { kind: 'ports', from: 5, to: 5 },
          { kind: 'address', family, side, ranges: setsOf(family)[1] ?? [] },
        ],
        accept,
      ),
      mapRule([], { family, side, map: family === 4 ? map4 : map6 }, accept),
      mapRule([{ kind: 'ports', from: 5, to: 9 }], { family, side, map: family === 4 ? map4 : map6 }, drop),
      ...setsOf(family).map((ranges) => rule([], { kind: 'addressMap', family, side, entries: addressMap(...ranges) })),
      rule([], { kind: 'addressMap', family, side, entries: addressMap({ first: 0n, last: lastOf[family] }) }),
      rule([], {
        kind: 'addressMap',
        family,
        side,
        entries: addressMap({ first: 4n, last: 7n }, { first: 8n, last: 8n }, { first: 9n, last: lastOf[family] }),
      }),
    ]),
  ),
  address(4, 'saddr', ...manyOf(33n)),
  address(6, 'saddr', ...manyOf(32n)),
  rule([], { kind: 'addressMap', family: 6, side: 'daddr', entries: addressMap(...manyOf(33n)) }),
  rule([], {
    kind: 'protocolMap',
    entries: [0, 1, 6, 17, 58, 255].map((protocol, i) => ({ protocol, verdict: verdictOf(i) })),
  }),
  rule([], { kind: 'protocolMap', entries: [{ protocol: 6, verdict: accept }] }),
  ...portMaps.flatMap((entries) => [
    ...(['th', 'tcp', 'udp'] as const).map((transport) => rule([], { kind: 'portMap', transport, entries })),
    ...(['tcp', 'udp'] as const).map((transport) => rule([], { kind: 'portMap', transport, original: true, entries })),
  ]),
];

describe('a ruleset with sets', () => {
  test('holds every kind of set and map that there is a word for, byte for byte', async () => {
    expect((await compared(withRules(everyKind))).length).toBeGreaterThan(20_000);
  });

  test('holds single addresses, prefixes of every length, and ranges without a set, byte for byte', async () => {
    const rules = families.flatMap((family) => {
      const prefixes = Array.from({ length: bitsOf[family] }, (_, i): Range => {
        const host = (1n << BigInt(i)) - 1n;
        return { first: middleOf[family] & ~host, last: middleOf[family] | host };
      });
      const others = [
        ...rangesOf(family === 4 ? '10.0.0.1-10.0.0.9' : 'fd00::1-fd00::9'),
        { first: 0n, last: 5n },
        { first: 5n, last: lastOf[family] },
      ];
      return [...prefixes, ...others].flatMap((range) => sides.map((side) => address(family, side, range)));
    });
    expect((await compared(withRules(rules))).length).toBeGreaterThan(2 * rules.length);
  });

  test('of drawn policies is the same too, in both tables, and so is what replaces one that is there', async () => {
    const policies = fc.sample(fc.tuple(canonicalPolicy, fc.option(serverAccess)), { numRuns: 24, seed: 51 });
    for (const [i, [policy, access]] of policies.entries()) {
      const ruleset = compile(policy, {
        interface: parseInterfaceName('rf0'),
        neighbourDiscovery: i % 2 === 0,
        forwarding: i % 3 === 0 ? 'off' : 'on',
        ...(i % 4 === 0 && { mostAlone: 2, fewestInCommon: 2, mostSets: 3 }),
        ...(access && { serverAccess: access }),
      });
      expect((await compared(i % 5 === 0 ? rebuild(ruleset) : install(ruleset))).length).toBeGreaterThan(10);
    }
  });

  test('whose entries are out of order or touch is left to nft', async () => {
    await viaNetlink.told(); // And the helper runs.
    const touching = address(4, 'saddr', { first: 1n, last: 2n }, { first: 3n, last: 9n });
    const disorder = address(4, 'saddr', { first: 7n, last: 8n }, { first: 1n, last: 2n });
    const doubled = rule([], { kind: 'portMap', transport: 'tcp', entries: portMap([5, 9], [9, 12]) });
    const known = rule(
      [{ kind: 'family', family: 4 }, ...address(4, 'saddr', { first: 1n, last: 2n }).matches],
      accept,
    );
    const everybody = address(4, 'saddr', { first: 0n, last: lastOf[4] });
    for (const each of [touching, disorder, doubled, known, everybody])
      expect(await changeOverNetlink(viaNetlink.channel, withRules([each]))).toBe(false);
    expect((await viaNetlink.namespace.run(['nft', 'list', 'ruleset'])).stdout).toBe('');
  });
});
