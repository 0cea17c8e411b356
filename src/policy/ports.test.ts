/** Proves port maps against the rules they are made of: the same packets, counted to a group that admits them, and never much larger. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PortMap, PortNode } from './canonical.ts';
import { parseGroupId } from './ids.ts';
import { admittedPort } from './port-lookup.ts';
import type { PortRule } from './port-rule.ts';
import { disjoint, toTree } from './port-tree.ts';
import { toPortMap, toPortMaps } from './ports.ts';
import { hasAddress, mergeRanges } from './range.ts';
import { sharedBy } from './address-sets.ts';

const groups = [1, 2, 3].map((n) => parseGroupId(`00000000-0000-4000-8000-00000000000${n}`));

const ranges = fc
  .array(
    fc.tuple(fc.bigInt(0n, 60n), fc.bigInt(0n, 9n)).map(([first, more]) => ({ first, last: first + more })),
    { minLength: 1, maxLength: 4 },
  )
  .map(mergeRanges);

const port = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 65_535 }));

/** Rules of three groups, with ports that overlap anyhow. */
const rules: fc.Arbitrary<PortRule[]> = fc.array(
  fc.tuple(port, port, ranges, ranges, fc.constantFrom(...groups)).map(([a, b, v4, v6, group]) => ({
    from: Math.min(a, b),
    to: Math.max(a, b),
    addresses: sharedBy({ v4, v6 }, group),
  })),
  { minLength: 1, maxLength: 12 },
);

/** What a port map is made of: no two rules with equal ports. */
const distinct = (all: readonly PortRule[]): PortRule[] => [
  ...new Map(all.map((rule) => [rule.from * 65_536 + rule.to, rule])).values(),
];

/** Every border, and one step beyond. */
const portsToTry = (all: readonly PortRule[]): number[] => [
  ...new Set(all.flatMap(({ from, to }) => [from - 1, from, to, to + 1]).filter((each) => each >= 0 && each <= 65_535)),
];

/** Collected and expected once: an expectation for each of some hundred thousand packets would cost more than all that it looks at. */
function expectSame(map: PortMap, all: readonly PortRule[]): void {
  const wrong: string[] = [];
  for (const dport of portsToTry(all)) {
    const here = all.filter(({ from, to }) => from <= dport && dport <= to);
    for (let address = 0n; address < 72n; address += 1n) {
      const admitting = here.filter(({ addresses }) => hasAddress(addresses.v4, address));
      const admitted = admittedPort(map, dport, 4, address);
      const isAdmitted = admitted !== undefined;
      if (isAdmitted !== admitting.length > 0) wrong.push(`${address} on port ${dport} is admitted: ${isAdmitted}`);
      if (admitted === undefined) continue;
      const isOwner = admitting.some(({ addresses }) =>
        (addresses.shares ?? []).some(({ group }) => group === admitted.group),
      );
      if (!isOwner) wrong.push(`${address} on port ${dport} is counted to ${admitted.group}`);
    }
  }
  expect(wrong).toEqual([]);
}

const sizeOf = (node: PortNode): number =>
  ('addresses' in node ? (node.addresses.shares ?? [node.addresses]) : node.shares).reduce(
    (sum, { v4, v6 }) => sum + v4.length + v6.length,
    0,
  );

describe('a port map', () => {
  it('admits what its rules admit, and counts it to a group that does', () => {
    fc.assert(
      fc.property(rules, (all) => expectSame(toPortMap(all, groups), all)),
      { numRuns: 100 },
    );
  });

  it('turns to a tree where disjoint intervals explode, and then holds no more ranges than the rules name', () => {
    const nested = Array.from({ length: 1_000 }, (_, i) => ({
      from: 1 + i,
      to: 65_535 - i,
      addresses: {
        v4: mergeRanges(
          Array.from({ length: 10 }, (__, k) => ({
            first: BigInt(i * 1_000 + k * 2),
            last: BigInt(i * 1_000 + k * 2),
          })),
        ),
        v6: [],
      },
    }));
    const map = toPortMap(nested);
    if (map.kind !== 'tree') throw new Error('these intervals explode');
    // All rules have the middle port in common, so one node holds them.
    expect(map.layers).toHaveLength(1);
    expect(map.layers.flat().reduce((sum, node) => sum + sizeOf(node), 0)).toBe(10_000);
    for (const [dport, owner] of [
      [1, 0],
      [500, 499],
      [65_036, 499],
      [65_535, 0],
    ] as const) {
      expect(admittedPort(map, dport, 4, BigInt(owner * 1_000 + 18))).toBeDefined();
      expect(admittedPort(map, dport, 4, BigInt((owner + 1) * 1_000 + 18))).toBeUndefined();
    }
  });
});

describe('the port maps of two protocols', () => {
  it('admit what the rules of each admit, whichever rules they have in common', () => {
    fc.assert(
      fc.property(rules, rules, rules, (common, ofTcp, ofUdp) => {
        const [tcp, udp] = [
          [...common, ...ofTcp],
          [...ofUdp, ...common],
        ];
        const maps = toPortMaps(tcp, udp, groups);
        expectSame(maps.tcp, tcp);
        expectSame(maps.udp, udp);
      }),
      { numRuns: 50 },
    );
  });

  it('that are trees share the layers of the rules that both have, so one rule more does not double all others', () => {
    const rule = (i: number): PortRule => ({
      from: 1 + i,
      to: 65_535 - i,
      addresses: { v4: [{ first: BigInt(i * 10), last: BigInt(i * 10 + 4) }], v6: [] },
    });
    const common = Array.from({ length: 1_000 }, (_, i) => rule(i));
    const more = rule(2_000);
    const { tcp, udp } = toPortMaps([...common, more], common);
    if (tcp.kind !== 'tree' || udp.kind !== 'tree') throw new Error('these intervals explode');
    expect(udp.layers.every((layer, i) => layer === tcp.layers[i])).toBe(true);
    expect(tcp.layers.slice(udp.layers.length)).toEqual([[more]]);
    for (const [map, is] of [
      [tcp, true],
      [udp, false],
    ] as const) {
      expect(admittedPort(map, 3_000, 4, 20_000n) !== undefined).toBe(is);
      expect(admittedPort(map, 3_000, 4, 9_990n)).toBeDefined();
    }
  });
});

describe('a tree of ports', () => {
  it('admits what its rules admit, and counts it to a group that does', () => {
    fc.assert(
      fc.property(rules, (all) => {
        const some = distinct(all);
        expectSame({ kind: 'tree', layers: toTree(some, groups) }, some);
      }),
      { numRuns: 200 },
    );
  });

  it('has every rule in one node, at most twice the ranges, and layers whose nodes are apart', () => {
    fc.assert(
      fc.property(rules, (all) => {
        const some = distinct(all);
        const layers = toTree(some, groups);
        const named = some.reduce((sum, { addresses }) => sum + addresses.v4.length + addresses.v6.length, 0);
        expect(layers.flat().reduce((sum, node) => sum + sizeOf(node), 0)).toBeLessThan(2 * named + 1);
        expect(layers.flat().length).toBeLessThanOrEqual(some.length);
        for (const layer of layers) {
          expect(layer.length).toBeGreaterThan(0);
          for (const [i, { from, to }] of layer.entries()) {
            expect(from).toBeLessThanOrEqual(to);
            expect(from).toBeGreaterThan(layer[i - 1]?.to ?? 0);
          }
        }
      }),
    );
  });

  it('is the same for the same rules in any order', () => {
    fc.assert(
      fc.property(rules, (all) => {
        const some = distinct(all);
        expect(toTree(some.toReversed(), groups)).toEqual(toTree(some, groups));
      }),
    );
  });

  it('has few layers, however many port ranges overlap', () => {
    const addresses = { v4: [{ first: 1n, last: 1n }], v6: [] };
    const stairs = Array.from({ length: 20_000 }, (_, i) => ({ from: 1 + i * 3, to: 300 + i * 3, addresses }));
    expect(toTree(stairs, []).length).toBeLessThanOrEqual(16);
  });
});

describe('ranges on ports of their own', () => {
  it('become disjoint, with the lowest and the highest port of all that covered each address', () => {
    const ported = fc.array(
      fc
        .tuple(fc.bigInt(0n, 50n), fc.bigInt(0n, 20n), fc.integer({ min: 1, max: 9 }), fc.integer({ min: 10, max: 19 }))
        .map(([first, more, from, to]) => ({ first, last: first + more, from, to })),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(ported, (all) => {
        const pieces = disjoint(all);
        expect(pieces.length).toBeLessThan(2 * all.length + 1);
        for (let address = 0n; address < 72n; address += 1n) {
          const covering = all.filter(({ first, last }) => first <= address && address <= last);
          const here = pieces.filter(({ first, last }) => first <= address && address <= last);
          expect(here.length).toBe(covering.length > 0 ? 1 : 0);
          expect(here[0]?.from).toBe(covering.length > 0 ? Math.min(...covering.map(({ from }) => from)) : undefined);
          expect(here[0]?.to).toBe(covering.length > 0 ? Math.max(...covering.map(({ to }) => to)) : undefined);
        }
      }),
    );
  });
});
