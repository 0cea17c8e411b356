/** Owns the random policies that the tests of this room share: written rules as people write them, and canonical forms at large. */
import * as fc from 'fast-check';
import { printAddress, parseRange } from '../policy/address.ts';
import type {
  Addresses,
  CanonicalPolicy,
  DirectionPolicy,
  MatchSet,
  PortMap,
  TransportPolicy,
} from '../policy/canonical.ts';
import { canonicalize } from '../policy/canonicalize.ts';
import { parseGroupId } from '../policy/ids.ts';
import { toTree } from '../policy/port-tree.ts';
import { isWholeFamily, lastAddress, mergeRanges, wholeFamily, type Range, type RangeSet } from '../policy/range.ts';
import { defaultInboundRules, type Family, type PolicyGroup, type StoredRule } from '../policy/rule.ts';
import type { ServerAccess } from '../policy/server-access.ts';
import type { RecorderOptions } from './compile/recorder.ts';
import { byFamily, hasNoAddress, mergeAddresses, sameAddresses, sharedBy } from '../policy/address-sets.ts';

const id = parseGroupId('00000000-0000-4000-8000-000000000001');

/** A group of these rules. */
export const group = (inbound: readonly StoredRule[], outbound: readonly StoredRule[] = []): PolicyGroup => ({
  id,
  name: 'test',
  inbound,
  outbound,
});

/** The canonical form of rules as written. */
export const policyOf = (inbound: readonly StoredRule[], outbound: readonly StoredRule[] = []): CanonicalPolicy =>
  canonicalize({ source: 'list', groups: [group(inbound, outbound)] });

export const defaultPolicy = policyOf(defaultInboundRules);

/** A rule in one line: `written('tcp', 22, 22, '10.0.0.0/8')`. */
export const written = (
  ip_protocol: StoredRule['ip_protocol'],
  from: number,
  to: number,
  ...ranges: string[]
): StoredRule => ({
  ip_protocol,
  from_port: from,
  to_port: to,
  ...(ranges.length > 0 ? { ip_ranges: ranges } : {}),
});

/** Ranges of one family from text. */
export const rangesOf = (...texts: readonly string[]): RangeSet =>
  mergeRanges(
    texts.map((text): Range => {
      const range = parseRange(text);
      if ('fault' in range) throw new Error(`${text} ${range.reason}`);
      return { first: range.first, last: range.last };
    }),
  );

/** Addresses that sit close together and at both ends of the family, so that ranges meet, overlap and touch the borders. */
const address = (family: Family): fc.Arbitrary<bigint> => {
  const last = lastAddress(family);
  const middle = family === 4 ? 0x0a00_0000n : 0xfd00n << 112n;
  return fc.oneof(
    fc.bigInt({ min: 0n, max: 70n }),
    fc.bigInt({ min: last - 70n, max: last }),
    fc.bigInt({ min: middle, max: middle + 600n }),
    fc.bigInt({ min: 0n, max: last }),
  );
};

const range = (family: Family): fc.Arbitrary<Range> =>
  fc.oneof(
    address(family).map((first) => ({ first, last: first })),
    fc.tuple(address(family), fc.nat({ max: family === 4 ? 32 : 128 })).map(([value, length]) => {
      const host = (1n << BigInt((family === 4 ? 32 : 128) - length)) - 1n;
      return { first: value & ~host, last: value | host };
    }),
    fc.tuple(address(family), address(family)).map(([a, b]) => (a < b ? { first: a, last: b } : { first: b, last: a })),
  );

/** Many blocks of one size, some of them side by side, and perhaps a range that does not fit in. */
const blocks = (family: Family): fc.Arbitrary<RangeSet> =>
  fc
    .tuple(
      fc.nat({ max: 9 }),
      fc.uniqueArray(fc.bigInt({ min: 0n, max: 300n }), { minLength: 8, maxLength: 14 }),
      fc.option(range(family), { freq: 3 }),
    )
    .map(([bits, starts, other]) =>
      mergeRanges([
        ...starts.map((start) => ({ first: start << BigInt(bits), last: ((start + 1n) << BigInt(bits)) - 1n })),
        ...(other === null ? [] : [other]),
      ]),
    );

const rangeSet = (family: Family): fc.Arbitrary<RangeSet> =>
  fc.oneof(
    { weight: 1, arbitrary: blocks(family) },
    { weight: 4, arbitrary: fc.array(range(family), { maxLength: 6 }).map(mergeRanges) },
    { weight: 1, arbitrary: fc.constant(wholeFamily(family)) },
    { weight: 1, arbitrary: fc.constant([]) },
  );

const plain: fc.Arbitrary<Addresses> = fc.record({ v4: rangeSet(4), v6: rangeSet(6) });
const groups = [1, 2, 3].map((n) => parseGroupId(`00000000-0000-4000-8000-00000000000${n}`));

/** Addresses without a group, of one group, or of several groups. */
const addresses: fc.Arbitrary<Addresses> = fc.oneof(
  plain,
  fc
    .tuple(fc.array(plain, { minLength: 1, maxLength: 3 }), fc.shuffledSubarray(groups, { minLength: 3, maxLength: 3 }))
    .map(([sets, order]) =>
      mergeAddresses(
        sets.flatMap((set, i) => {
          const owner = order[i];
          return owner === undefined ? [] : sharedBy(set, owner);
        }),
        order,
      ),
    ),
);
const somebody = addresses.filter(({ v4, v6 }) => v4.length > 0 || v6.length > 0);

const somePort = fc.oneof(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 1, max: 65_535 }));

/** Disjoint ascending intervals out of sorted borders; neighbours that touch and agree are no canonical form. */
const intervals: fc.Arbitrary<PortMap> = fc
  .tuple(fc.uniqueArray(somePort, { maxLength: 12 }), fc.array(somebody, { minLength: 6, maxLength: 6 }))
  .map(([ports, everyone]) => {
    const borders = ports.toSorted((a, b) => a - b);
    const list: { from: number; to: number; addresses: Addresses }[] = [];
    for (let i = 0; i + 1 < borders.length; i += 2) {
      const [from = 1, to = 1, whom] = [borders[i], borders[i + 1], everyone[i / 2]];
      const before = list.at(-1);
      if (whom === undefined || (before?.to === from - 1 && sameAddresses(before.addresses, whom))) continue;
      list.push({ from, to: i % 4 === 0 ? to : from, addresses: whom });
    }
    return { kind: 'intervals', intervals: list };
  });

/** Port ranges that overlap anyhow, as a tree. */
const tree: fc.Arbitrary<PortMap> = fc
  .uniqueArray(
    fc.record({ ends: fc.tuple(somePort, somePort), addresses: somebody }).map(({ ends, addresses: whom }) => ({
      from: Math.min(...ends),
      to: Math.max(...ends),
      addresses: whom,
    })),
    { minLength: 1, maxLength: 14, selector: ({ from, to }) => from * 65_536 + to },
  )
  .map((rules) => ({ kind: 'tree', layers: toTree(rules, groups) }));

const transport: fc.Arbitrary<TransportPolicy> = fc.record({
  anyPort: addresses,
  ports: fc.oneof({ weight: 3, arbitrary: intervals }, { weight: 1, arbitrary: tree }),
});

const matched: fc.Arbitrary<MatchSet> = fc.record({
  any: addresses,
  echo: addresses.map(byFamily),
  tcp: transport,
  udp: transport,
});

const matchesNothing = ({ any, echo, tcp, udp }: MatchSet): boolean =>
  [any, echo, tcp.anyPort, udp.anyPort].every(hasNoAddress) &&
  [tcp.ports, udp.ports].every((ports) => ports.kind === 'intervals' && ports.intervals.length === 0);

/** Mostly nothing is forbidden. */
const forbidding: fc.Arbitrary<{ readonly forbid?: MatchSet }> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({}) },
  { weight: 1, arbitrary: matched.filter((forbid) => !matchesNothing(forbid)).map((forbid) => ({ forbid })) },
);

const closed: fc.Arbitrary<DirectionPolicy> = fc
  .tuple(matched, forbidding)
  .map(([admitted, forbid]) => ({ kind: 'closed' as const, ...admitted, ...forbid }))
  .filter(({ any, forbid }) => forbid !== undefined || !isWholeFamily(any.v4, 4) || !isWholeFamily(any.v6, 6));
const open: fc.Arbitrary<DirectionPolicy> = forbidding.map((forbid) => ({ kind: 'open' as const, ...forbid }));

/** Canonical forms at large, also such as no written rules give. */
export const canonicalPolicy: fc.Arbitrary<CanonicalPolicy> = fc.record({
  inbound: fc.oneof(
    { weight: 8, arbitrary: closed },
    { weight: 1, arbitrary: fc.constant(defaultPolicy.inbound) },
    { weight: 1, arbitrary: open },
  ),
  outbound: fc.oneof(
    { weight: 3, arbitrary: closed },
    { weight: 1, arbitrary: open },
    { weight: 1, arbitrary: fc.constant(defaultPolicy.inbound) },
  ),
});

const singles = (family: Family): fc.Arbitrary<RangeSet> =>
  fc.array(address(family), { maxLength: 3 }).map((all) => mergeRanges(all.map((first) => ({ first, last: first }))));
const hosts = fc.record({ v4: singles(4), v6: singles(6) });

/** Ways to a server, also such as lead nowhere yet: then there is no port either. */
export const serverAccess: fc.Arbitrary<ServerAccess> = fc
  .record({ addresses: hosts, port: fc.constantFrom(53, 443, 8_080), resolvers: hosts })
  .map(({ addresses: at, port, resolvers }) => ({
    addresses: at,
    port: at.v4.length + at.v6.length === 0 ? 0 : port,
    resolvers,
  }));

/** Port ranges one inside the other, each for addresses of its own: the case that blows up disjoint intervals. */
export const nested = (count: number, each: number): StoredRule[] =>
  Array.from({ length: count }, (_, i) =>
    written(
      'tcp',
      1 + i * 3,
      65_000 - i * 7,
      ...Array.from({ length: each }, (_unused, k) => printAddress(4, 0x0a00_0000n + BigInt((i * each + k) * 2))),
    ),
  );

/** What is recorded, and what refused packets get. */
export const recorderOptions: fc.Arbitrary<RecorderOptions> = fc.record({
  observe: fc.constantFrom('off', 'counters', 'refused', 'all'),
  refuseWith: fc.constantFrom('drop', 'reject'),
});
