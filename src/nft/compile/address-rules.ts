/** Owns the rules that match packets by address: which addresses they accept, and which counter counts them. */
import type { Addresses, NamedPeers, PortedName, PortedRange, PortedShare } from '../../policy/canonical.ts';
import type { GroupId } from '../../policy/ids.ts';
import { isWholeFamily, type RangeSet } from '../../policy/range.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import {
  accept,
  jump,
  mapRule,
  node,
  portsMatch,
  rule,
  type AddressEntry,
  type AddressSide,
  type Match,
  type Rule,
  type TransportName,
  type Verdict,
} from '../ast.ts';
import { familyMatch } from './base.ts';
import { groupCounter } from '../counters.ts';
import type { ObjectName } from '../names.ts';
import type { PeerMaps } from './peer-maps.ts';

export interface AddressRulesOptions {
  readonly direction: Direction;
  /** Lists of up to this many ranges become a rule for each range instead of a set. */
  readonly withoutSet: number;
  /** The verdict on the packets. Default: `accept`. */
  readonly verdict?: Verdict;
  /** Who counts what a group admits. */
  readonly counterOf: (group: GroupId) => ObjectName;
  /** Takes the definition of a map of those named, and answers with its name. Needed where anybody is named. */
  readonly mapOf?: (names: readonly NamedPeers[], family: Family) => ObjectName;
}

/** How rules about addresses are made in one direction. A name is one string, however many rules have it. */
export function addressRulesOptions(
  direction: Direction,
  {
    withoutSet,
    verdict,
    matches,
    maps,
  }: {
    readonly withoutSet: number;
    readonly verdict: Verdict;
    readonly matches: 'admitted' | 'forbidden';
    readonly maps: PeerMaps;
  },
): AddressRulesOptions {
  const counters = new Map<GroupId, ObjectName>();
  const counterOf = (group: GroupId): ObjectName => {
    const counter = counters.get(group) ?? groupCounter(direction, group);
    counters.set(group, counter);
    return counter;
  };
  const kind = matches === 'admitted' ? 'accept' : 'drop';
  const mapOf = (names: readonly NamedPeers[], family: Family): ObjectName =>
    maps.add({ direction, verdict: kind, family, names });
  return { direction, withoutSet, verdict, counterOf, mapOf };
}

const families: readonly Family[] = [4, 6];
const rangesOf = ({ v4, v6 }: Pick<Addresses, 'v4' | 'v6'>, family: Family): RangeSet => (family === 4 ? v4 : v6);

export const isEverybody = (addresses: Addresses): boolean =>
  families.every((family) => isWholeFamily(rangesOf(addresses, family), family));

/** The header field that holds the packet's far end. */
const sideOf = (direction: Direction): AddressSide => (direction === 'inbound' ? 'saddr' : 'daddr');

/** The conditions, one of which holds for an address of the set: one condition unless the set is to be spared. */
function addressMatches(ranges: RangeSet, family: Family, { direction, withoutSet }: AddressRulesOptions): Match[] {
  if (isWholeFamily(ranges, family)) return [familyMatch[family]];
  const lists = ranges.length <= withoutSet ? ranges.map((range) => [range]) : [ranges];
  return lists.map((list) => node({ kind: 'address', family, side: sideOf(direction), ranges: list }));
}

/** The rules per family: for all addresses, for some ranges, or none. */
function rulesFor(
  addresses: Addresses,
  options: AddressRulesOptions,
  further: readonly Match[],
  counter?: ObjectName,
): readonly Rule[] {
  const { verdict = accept } = options;
  if (isEverybody(addresses)) return [rule(further, verdict, counter)];
  const rules: Rule[] = [];
  for (const family of families) {
    const ranges = rangesOf(addresses, family);
    if (ranges.length === 0) continue;
    for (const match of addressMatches(ranges, family, options))
      rules.push(rule([match, ...further], verdict, counter));
  }
  return rules;
}

/** One look-up for all that are named, of one family. */
function namedRules(
  names: readonly NamedPeers[],
  family: Family,
  { direction, verdict = accept, mapOf }: AddressRulesOptions,
  matches: readonly Match[] = [],
): readonly Rule[] {
  if (names.length === 0) return [];
  if (mapOf === undefined) throw new TypeError('there is no place for the devices that are named');
  return [mapRule(matches, { family, side: sideOf(direction), map: mapOf(names, family) }, verdict)];
}

/**
 * Share by share, so that each group counts its own; the first share that holds an address has it. Then those named.
 * Packets must meet the `further` conditions too.
 */
export function leafRules(
  addresses: Addresses,
  options: AddressRulesOptions,
  further: readonly Match[] = [],
): readonly Rule[] {
  const { shares, names } = addresses;
  const [only, ...more] = shares ?? [];
  const ranges =
    only === undefined
      ? rulesFor(addresses, options, further)
      : more.length === 0
        ? rulesFor(only, options, further, options.counterOf(only.group))
        : (shares ?? []).flatMap((share) => rulesFor(share, options, further, options.counterOf(share.group)));
  if (names === undefined) return ranges;
  return [...ranges, ...namedRules(names.v4, 4, options, further), ...namedRules(names.v6, 6, options, further)];
}

export interface PortRulesOptions extends AddressRulesOptions {
  /** Ports are those that connections of this protocol were made to, before any translation. */
  readonly original: TransportName | undefined;
}

interface Ports {
  readonly from: number;
  readonly to: number;
}

const portsOf = (ports: Ports, { original }: PortRulesOptions): Match =>
  portsMatch(ports, original && { transport: original, original: true });

/** The same as `leafRules`, on some ports only. */
export const portRules = (addresses: Addresses, ports: Ports, options: PortRulesOptions): readonly Rule[] =>
  leafRules(addresses, options, [portsOf(ports, options)]);

export interface NodeRulesOptions extends PortRulesOptions {
  /** Takes the rules of a further chain, and answers with its name. */
  readonly chain: (purpose: 'ports' | 'bundle', rules: readonly Rule[]) => ObjectName;
}

/** So few ranges are tried one after the other; of more, the address looks up its ports. */
const few = 4;
/** So many rules stand in one chain where there would be a chain for each otherwise. */
const inBundle = 16;

/**
 * The rules of a node: share by share, an address is admitted on ports of its own. What a rule does not admit goes on to
 * the next, so maps lead to chains that return.
 */
export const nodeRules = (
  shares: readonly PortedShare[],
  names: readonly PortedName[],
  options: NodeRulesOptions,
): readonly Rule[] => [
  ...shares.flatMap(({ group, v4, v6 }) => [
    ...portedRules(v4, 4, group, options),
    ...portedRules(v6, 6, group, options),
  ]),
  ...portedNames(names, options),
];

/** Those named on the same ports, which stand together, share a look-up. */
function portedNames(names: readonly PortedName[], options: NodeRulesOptions): readonly Rule[] {
  const runs = new Map<string, PortedName[]>();
  for (const named of names) {
    const key = `${keyOf(named)} ${named.family}`;
    const run = runs.get(key);
    if (run === undefined) runs.set(key, [named]);
    else run.push(named);
  }
  return [...runs.values()].flatMap((run) => {
    const [first] = run;
    return first === undefined ? [] : namedRules(run, first.family, options, [portsOf(first, options)]);
  });
}

function portedRules(
  ranges: readonly PortedRange[],
  family: Family,
  group: GroupId | undefined,
  options: NodeRulesOptions,
): readonly Rule[] {
  const { direction, withoutSet, verdict = accept } = options;
  const [first] = ranges;
  if (first === undefined) return [];
  const counter = group && options.counterOf(group);
  const admitting = (some: readonly PortedRange[], ports: Ports): Rule[] =>
    addressMatches(withoutPorts(some), family, options).map((match) =>
      rule([match, portsOf(ports, options)], verdict, counter),
    );
  const oneByOne = (some: readonly PortedRange[]): Rule[] => some.flatMap((range) => admitting([range], range));
  const intervals = new Set(ranges.map(keyOf)).size;
  if (intervals === 1) return admitting(ranges, first);
  if (ranges.length <= Math.max(few, withoutSet)) return oneByOne(ranges);
  // A chain for each interval is worth its price where several ranges share it.
  const entries =
    2 * intervals > ranges.length
      ? bundleEntries(ranges, (some) => options.chain('bundle', oneByOne(some)))
      : intervalEntries(ranges, (ports) => options.chain('ports', [rule([portsOf(ports, options)], verdict, counter)]));
  return [rule([], node({ kind: 'addressMap', family, side: sideOf(direction), entries }))];
}

const keyOf = ({ from, to }: Ports): number => from * 65_536 + to;

/** Every range looks up the chain of its ports. */
function intervalEntries(ranges: readonly PortedRange[], chainOf: (ports: Ports) => ObjectName): AddressEntry[] {
  const verdicts = new Map<number, Verdict>();
  return ranges.map((range) => {
    const verdict = verdicts.get(keyOf(range)) ?? jump(chainOf(range));
    verdicts.set(keyOf(range), verdict);
    return { first: range.first, last: range.last, verdict };
  });
}

/** Adjacent ranges share one map entry, which leads to a chain that distinguishes them. */
function bundleEntries(
  ranges: readonly PortedRange[],
  chainOf: (some: readonly PortedRange[]) => ObjectName,
): AddressEntry[] {
  const entries: AddressEntry[] = [];
  for (let at = 0; at < ranges.length; at += inBundle) {
    const some = ranges.slice(at, at + inBundle);
    const [first, last] = [some[0], some.at(-1)];
    if (first === undefined || last === undefined) break;
    entries.push({ first: first.first, last: last.last, verdict: jump(chainOf(some)) });
  }
  return entries;
}

const withoutPorts = (ranges: readonly PortedRange[]): RangeSet => ranges.map(({ first, last }) => ({ first, last }));
