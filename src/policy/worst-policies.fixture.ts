/** Owns hostile policies within all limits, drawn by parameters: what blows up ports, addresses, groups or chains. */
import { printAddress, printRange } from './address.ts';
import type { EffectivePolicy } from './effective.ts';
import { parseGroupId } from './ids.ts';
import { defaultLimits, deviceLimits } from './limits.ts';
import { lastAddress } from './range.ts';
import type { Family, PolicyGroup, StoredProtocol, StoredRule } from './rule.ts';

export const addressKinds = [
  'hosts',
  'blocks',
  'ranges',
  'interleaved',
  'windows',
  'nested',
  'random',
  'everybody',
] as const;
export const portKinds = ['one', 'own', 'nested', 'windows', 'stairs', 'random', 'short', 'own-and-wide'] as const;
export const protocolKinds = ['tcp', 'both', 'both-and-one-more', 'mixed', 'any'] as const;
export const familyKinds = ['v4', 'v6', 'mixed'] as const;

/** One hostile policy. Equal shapes draw equal policies. */
export interface Shape {
  readonly groups: number;
  /** In each group and direction. */
  readonly rules: number;
  /** In each rule. */
  readonly ranges: number;
  readonly addresses: (typeof addressKinds)[number];
  readonly ports: (typeof portKinds)[number];
  readonly protocols: (typeof protocolKinds)[number];
  readonly families: (typeof familyKinds)[number];
  readonly directions: 1 | 2;
  readonly seed: number;
}

/** The same numbers in every run. */
export function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** The shape cut down to what the limits admit. */
export function withinLimits(shape: Shape): Shape {
  const directions = shape.directions;
  const groups = Math.max(1, Math.min(shape.groups, deviceLimits.groups));
  const rules = Math.max(1, Math.min(shape.rules, defaultLimits.rulesPerDirection));
  const inGroup = Math.min(defaultLimits.rangesPerGroup, Math.floor(deviceLimits.ranges / groups));
  const ranges = Math.min(shape.ranges, Math.floor(inGroup / (rules * directions)));
  if (shape.addresses === 'everybody') return { ...shape, groups, rules, ranges: 0 };
  if (ranges > 0) return { ...shape, groups, rules, ranges };
  return { ...shape, groups, rules: Math.max(1, Math.floor(inGroup / directions)), ranges: 1 };
}

const spacing = 64;

/** Range `n` of `count`, as written. */
function rangeText(family: Family, shape: Shape, n: number, count: number, below: (n: number) => number): string {
  const base = family === 4 ? 0x0a00_0000n : 0xfd00n << 112n;
  const at = base + BigInt(n * spacing);
  const most = base + BigInt(2 * count * spacing);
  const range = (first: bigint, size: number): string =>
    printRange(family, {
      first,
      last: first + BigInt(size) > lastAddress(family) ? lastAddress(family) : first + BigInt(size),
    });
  switch (shape.addresses) {
    case 'hosts':
      return printAddress(family, at);
    case 'blocks':
      return range(at, 31);
    case 'ranges':
      return range(at + BigInt(below(8)), 20 + below(20));
    case 'interleaved':
      // Neighbours belong to different rules and groups, and overlap by half.
      return range(at, spacing + spacing / 2);
    case 'windows':
      return range(at, spacing * 200 + below(spacing));
    case 'nested':
      return printRange(family, { first: at, last: most - BigInt(n * spacing) });
    case 'random':
      return range(base + BigInt(below(count) * spacing), below(spacing * count));
    case 'everybody':
      return '';
    default:
      return shape.addresses satisfies never;
  }
}

/** Ports of rule `n` of `count`. */
function portsOf(shape: Shape, n: number, count: number, below: (n: number) => number): readonly [number, number] {
  const spread = (place: number, most: number): number => 1 + Math.floor((place / Math.max(1, count)) * (most - 1));
  switch (shape.ports) {
    case 'one':
      return [443, 443];
    case 'own':
      return [spread(n, 65_535), spread(n, 65_535)];
    case 'own-and-wide':
      return n % 50 === 0 ? [1 + n, 65_535 - n] : [spread(n, 65_535), spread(n, 65_535)];
    case 'nested':
      return [spread(n, 32_000), 65_535 - spread(n, 32_000)];
    case 'windows':
      return [spread(n, 32_000), spread(n, 32_000) + 32_000];
    case 'stairs':
      return [spread(n, 60_000), Math.min(65_535, spread(n, 60_000) + 290)];
    case 'random': {
      const [a, b] = [1 + below(65_535), 1 + below(65_535)];
      return [Math.min(a, b), Math.max(a, b)];
    }
    case 'short': {
      const from = 1 + below(65_000);
      return [from, from + below(300)];
    }
    default:
      return shape.ports satisfies never;
  }
}

function protocolsOf(shape: Shape, n: number, family: Family): readonly StoredProtocol[] {
  switch (shape.protocols) {
    case 'tcp':
      return ['tcp'];
    case 'both':
      return [`ipv${family}`];
    case 'both-and-one-more':
      return [n % 50 === 0 ? 'tcp' : `ipv${family}`];
    case 'mixed':
      return [(['tcp', 'udp', `ipv${family}`] as const)[n % 3] ?? 'tcp'];
    case 'any':
      return [`ipv${family}`];
    default:
      return shape.protocols satisfies never;
  }
}

/** Draws the policy. Rule `k` of group `g` takes every so-and-so-many-th range, so that groups interleave. */
export function worstPolicy(given: Shape): EffectivePolicy {
  const shape = withinLimits(given);
  const below = numbers(shape.seed);
  const rules = shape.groups * shape.rules;
  const count = Math.max(1, rules * shape.ranges);
  const drawn = (g: number): StoredRule[] =>
    Array.from({ length: shape.rules }, (_, k) => {
      const n = k * shape.groups + g;
      const family: Family = shape.families === 'v4' ? 4 : shape.families === 'v6' ? 6 : n % 2 === 0 ? 4 : 6;
      const [from_port, to_port] = shape.protocols === 'any' ? [0, 0] : portsOf(shape, n, rules, below);
      const ip_ranges = Array.from({ length: shape.ranges }, (_unused, i) =>
        rangeText(family, shape, i * rules + n, count, below),
      );
      return protocolsOf(shape, n, family).map((ip_protocol) => ({ ip_protocol, from_port, to_port, ip_ranges }));
    }).flat();
  const groups = Array.from({ length: shape.groups }, (_, g): PolicyGroup => ({
    id: parseGroupId(`00000000-0000-4000-8000-${(g + 1).toString(16).padStart(12, '0')}`),
    name: `group ${g}`,
    inbound: drawn(g),
    outbound: shape.directions === 2 ? drawn(g) : [],
  }));
  return { source: 'list', groups };
}

const plain = { directions: 1, families: 'v4', protocols: 'tcp', seed: 1 } as const;

/** The worst that were found: two that were seen in use, some thought out, the rest by `npm run bench -- agent:search`. */
export const worstShapes: Readonly<Record<string, Shape>> = {
  'three groups of 10,000 interleaved ranges, overlapping ports': {
    ...plain,
    groups: 3,
    rules: 100,
    ranges: 100,
    addresses: 'interleaved',
    ports: 'windows',
  },
  'ten groups of 4,000 hosts, nested ports': {
    ...plain,
    groups: 10,
    rules: 400,
    ranges: 10,
    addresses: 'hosts',
    ports: 'nested',
  },
  '50,000 hosts, each on a port of its own': {
    ...plain,
    groups: 64,
    rules: 780,
    ranges: 1,
    addresses: 'hosts',
    ports: 'own',
    protocols: 'both',
  },
  'everybody on 64,000 ports, group by group, both ways': {
    ...plain,
    groups: 64,
    rules: 1_000,
    ranges: 0,
    addresses: 'everybody',
    ports: 'own',
    protocols: 'both',
    directions: 2,
  },
  '50,000 overlapping IPv6 ranges, nested ports of their own': {
    ...plain,
    groups: 64,
    rules: 780,
    ranges: 1,
    addresses: 'windows',
    ports: 'nested',
    protocols: 'both-and-one-more',
    families: 'v6',
  },
  '48,000 overlapping ranges, three a rule, on short port ranges, both ways': {
    groups: 8,
    rules: 1_000,
    ranges: 3,
    addresses: 'windows',
    ports: 'short',
    protocols: 'both-and-one-more',
    families: 'mixed',
    directions: 2,
    seed: 619,
  },
};
