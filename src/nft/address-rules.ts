/** Owns the rules that part packets by their address: which accept whom, and who counts them. */
import type { Addresses, PortedRange, PortedShare } from '../policy/canonical.ts';
import type { GroupId } from '../policy/ids.ts';
import { isWholeFamily, type RangeSet } from '../policy/range.ts';
import type { Direction, Family } from '../policy/rule.ts';
import {
  accept,
  jump,
  node,
  rule,
  type AddressSide,
  type Match,
  type Rule,
  type TransportName,
  type Verdict,
} from './ast.ts';
import { familyMatch } from './base.ts';
import { groupCounter } from './counters.ts';
import type { ObjectName } from './names.ts';

export interface AddressRulesOptions {
  readonly direction: Direction;
  /** Lists of up to this many ranges become a rule for each range instead of a set. */
  readonly withoutSet: number;
}

const families: readonly Family[] = [4, 6];
const rangesOf = ({ v4, v6 }: Pick<Addresses, 'v4' | 'v6'>, family: Family): RangeSet => (family === 4 ? v4 : v6);

export const isEverybody = (addresses: Addresses): boolean =>
  families.every((family) => isWholeFamily(rangesOf(addresses, family), family));

const sideOf = (direction: Direction): AddressSide => (direction === 'inbound' ? 'saddr' : 'daddr');

/** The conditions, one of which holds for an address of the set: one condition unless the set is to be spared. */
function addressMatches(ranges: RangeSet, family: Family, { direction, withoutSet }: AddressRulesOptions): Match[] {
  if (isWholeFamily(ranges, family)) return [familyMatch[family]];
  const lists = ranges.length <= withoutSet ? ranges.map((range) => [range]) : [ranges];
  return lists.map((list) => node({ kind: 'address', family, side: sideOf(direction), ranges: list }));
}

/** By family: everybody, some ranges, or nobody. */
function rulesFor(addresses: Addresses, options: AddressRulesOptions, counter?: ObjectName): readonly Rule[] {
  if (isEverybody(addresses)) return [rule([], accept, counter)];
  return families.flatMap((family) => {
    const ranges = rangesOf(addresses, family);
    if (ranges.length === 0) return [];
    return addressMatches(ranges, family, options).map((match) => rule([match], accept, counter));
  });
}

/** Share by share, so that each group counts its own; the first share that holds an address has it. */
export function leafRules(addresses: Addresses, options: AddressRulesOptions): readonly Rule[] {
  if (addresses.shares === undefined) return rulesFor(addresses, options);
  return addresses.shares.flatMap((share) => rulesFor(share, options, groupCounter(options.direction, share.group)));
}

export interface NodeRulesOptions extends AddressRulesOptions {
  /** Ports are those that connections of this protocol were made to, before any translation. */
  readonly original: TransportName | undefined;
  /** Takes the chain that accepts packets by their port, and answers with its name. */
  readonly portsChain: (rules: readonly Rule[]) => ObjectName;
}

/** So few ranges are tried one after the other; of more, the address looks up its ports. */
const few = 4;

/**
 * The rules of a node: share by share, an address is admitted on ports of its own. What a rule does not admit goes on to
 * the next, so maps lead to chains that return.
 */
export const nodeRules = (shares: readonly PortedShare[], options: NodeRulesOptions): readonly Rule[] =>
  shares.flatMap(({ group, v4, v6 }) => [...portedRules(v4, 4, group, options), ...portedRules(v6, 6, group, options)]);

function portedRules(
  ranges: readonly PortedRange[],
  family: Family,
  group: GroupId | undefined,
  options: NodeRulesOptions,
): readonly Rule[] {
  const { direction, original, withoutSet, portsChain } = options;
  const [first] = ranges;
  if (first === undefined) return [];
  const counter = group && groupCounter(direction, group);
  const ports = ({ from, to }: PortedRange): Match => node({ kind: 'ports', from, to, ...(original && { original }) });
  const admitting = (some: readonly PortedRange[], where: Match): Rule[] =>
    addressMatches(withoutPorts(some), family, options).map((match) => rule([match, where], accept, counter));
  if (ranges.every(({ from, to }) => from === first.from && to === first.to)) return admitting(ranges, ports(first));
  if (ranges.length <= Math.max(few, withoutSet)) return ranges.flatMap((range) => admitting([range], ports(range)));
  const chains = new Map<number, Verdict>();
  const entries = ranges.map((range) => {
    const key = range.from * 65_536 + range.to;
    const verdict = chains.get(key) ?? jump(portsChain([rule([ports(range)], accept, counter)]));
    chains.set(key, verdict);
    return { first: range.first, last: range.last, verdict };
  });
  return [rule([], node({ kind: 'addressMap', family, side: sideOf(direction), entries }))];
}

const withoutPorts = (ranges: readonly PortedRange[]): RangeSet => ranges.map(({ first, last }) => ({ first, last }));
