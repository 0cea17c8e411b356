/** Owns the reading of a tree node's rules into what it admits: the inverse of `nodeRules`. */
import type { PortedRange, PortedShare } from '../../policy/canonical.ts';
import type { GroupId } from '../../policy/ids.ts';
import { wholeFamily, type Range } from '../../policy/range.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import { disjoint } from '../../policy/port-tree.ts';
import type { CounterMap, Match, Rule, TransportName } from '../ast.ts';
import { readCounter } from '../counters.ts';
import type { InstalledMembers } from './listing.ts';
import { isObjectName } from '../names.ts';

export interface ReadNodeOptions {
  readonly direction: Direction;
  /** What becomes of the packets that the node matches. */
  readonly verdict: 'accept' | 'drop';
  readonly original: TransportName | undefined;
  readonly rulesOf: (chain: string) => readonly Rule[];
  readonly membersOf: (map: string) => InstalledMembers;
}

interface Admitted {
  readonly group: GroupId | undefined;
  readonly family: Family;
  readonly ranges: readonly PortedRange[];
}

interface Ports {
  readonly group: GroupId | undefined;
  readonly from: number;
  readonly to: number;
}

class NotOurs extends Error {}
const notOurs = (): never => {
  throw new NotOurs();
};

/** Whom a rule counts packets to. */
function groupOf({ counter }: Pick<Rule, 'counter'>, { direction }: ReadNodeOptions): GroupId | undefined {
  if (counter === undefined) return undefined;
  const counted = readCounter(counter);
  if (counted?.direction !== direction || typeof counted.what === 'string') return notOurs();
  return counted.what.group;
}

/** Whether these are ports as chains below a protocol have them: of any packet there, or as connections of one protocol were made. */
export const isPorts = (
  match: Match,
  original: TransportName | undefined,
): match is Extract<Match, { kind: 'ports' }> =>
  match.kind === 'ports' && match.transport === original && (match.original === true) === (original !== undefined);

function readPorts(rule: Rule, match: Rule['matches'][number] | undefined, options: ReadNodeOptions): Ports {
  if (rule.action.kind !== options.verdict || match === undefined || !isPorts(match, options.original))
    return notOurs();
  return { group: groupOf(rule, options), from: match.from, to: match.to };
}

/** A rule about whom a map holds, on some ports: group by group. */
function readMembers(rule: Rule, { family, side, map }: CounterMap, options: ReadNodeOptions): readonly Admitted[] {
  const [where, ...more] = rule.matches;
  const members = options.membersOf(map);
  if (more.length > 0 || side !== sideOf(options) || members.family !== family) return notOurs();
  const { from, to } = readPorts(rule, where, options);
  const byGroup = new Map<GroupId | undefined, PortedRange[]>();
  for (const [address, counter] of members.elements) {
    const group = isObjectName(counter) ? groupOf({ counter }, options) : notOurs();
    const ranges = byGroup.get(group) ?? [];
    ranges.push({ first: address, last: address, from, to });
    byGroup.set(group, ranges);
  }
  return [...byGroup].map(([group, ranges]) => ({ group, family, ranges }));
}

/** A rule about some addresses and some ports. */
function readPlain(rule: Rule, options: ReadNodeOptions): Admitted {
  const [who, where, ...more] = rule.matches;
  if (more.length > 0) return notOurs();
  const { group, from, to } = readPorts(rule, where, options);
  if (who?.kind === 'family') {
    const [whole = notOurs()] = wholeFamily(who.family);
    return { group, family: who.family, ranges: [{ ...whole, from, to }] };
  }
  if (who?.kind !== 'address' || who.side !== sideOf(options)) return notOurs();
  return { group, family: who.family, ranges: who.ranges.map(({ first, last }) => ({ first, last, from, to })) };
}

const sideOf = ({ direction }: ReadNodeOptions): 'saddr' | 'daddr' => (direction === 'inbound' ? 'saddr' : 'daddr');

/** A chain that admits everybody who comes there on its ports: as the ports of a range that the map gives. */
function readPortsChain(chain: string, family: Family, options: ReadNodeOptions): Admitted {
  const [only, ...more] = options.rulesOf(chain);
  if (only === undefined || more.length > 0 || only.matches.length > 1) return notOurs();
  const { group, from, to } = readPorts(only, only.matches[0], options);
  return { group, family, ranges: [{ first: 0n, last: 0n, from, to }] };
}

/** Reads a chain that distinguishes adjacent ranges. The map leads to it from the first to the last address of them. */
function readBundle(
  chain: string,
  { first, last, family }: Range & { readonly family: Family },
  groups: Set<GroupId | undefined>,
  options: ReadNodeOptions,
): readonly PortedRange[] {
  const parts = options.rulesOf(chain).map((rule) => readPlain(rule, options));
  const ranges = parts.flatMap((part) => (part.family === family ? part.ranges : notOurs()));
  for (const { group } of parts) groups.add(group);
  return ranges[0]?.first === first && ranges.at(-1)?.last === last ? ranges : notOurs();
}

/** Bundles tell ranges apart, or ports: by their name, since their rules look like those of a node. */
export const isBundle = (chain: string): boolean => chain.startsWith('bundle-');

/** A rule by which an address looks up its ports. */
function readMap({ matches, counter, action }: Rule, options: ReadNodeOptions): Admitted {
  if (action.kind !== 'addressMap' || action.side !== sideOf(options)) return notOurs();
  if (matches.length > 0 || counter !== undefined) return notOurs();
  const chains = new Map<string, Admitted>();
  const groups = new Set<GroupId | undefined>();
  const ranges = action.entries.flatMap(({ first, last, verdict }): readonly PortedRange[] => {
    if (verdict.kind !== 'jump') return notOurs();
    const { chain } = verdict;
    if (isBundle(chain)) return readBundle(chain, { first, last, family: action.family }, groups, options);
    const ports = chains.get(chain) ?? readPortsChain(chain, action.family, options);
    chains.set(chain, ports);
    groups.add(ports.group);
    return ports.ranges.map(({ from, to }) => ({ first, last, from, to }));
  });
  const [group, ...others] = groups;
  return others.length > 0 ? notOurs() : { group, family: action.family, ranges };
}

function inOrder(ranges: readonly PortedRange[]): readonly PortedRange[] {
  const ascending = ranges.toSorted((a, b) => (a.first < b.first ? -1 : 1));
  return ascending.some(({ first }, i) => i > 0 && first <= (ascending[i - 1]?.last ?? -1n)) ? notOurs() : ascending;
}

interface GroupShare {
  readonly group: GroupId | undefined;
  readonly v4: readonly PortedRange[];
  readonly v6: readonly PortedRange[];
}

/** Members may be in the ranges of their group too: since all have a port in common, what overlaps is one interval of ports. */
function withMembers(shares: readonly GroupShare[], named: readonly Admitted[]): readonly GroupShare[] {
  if (named.length === 0) return shares;
  const groups = new Set([...shares, ...named].map(({ group }) => group));
  return [...groups].map((group) => {
    const of = (family: Family): readonly PortedRange[] =>
      disjoint([
        ...shares.filter((share) => share.group === group).flatMap(({ v4, v6 }) => (family === 4 ? v4 : v6)),
        ...named.filter((each) => each.group === group && each.family === family).flatMap(({ ranges }) => ranges),
      ]);
    return { group, v4: of(4), v6: of(6) };
  });
}

/** What the node admits, share by share; nothing where its rules are none that we would write. */
export function readNode(rules: readonly Rule[], options: ReadNodeOptions): readonly PortedShare[] | undefined {
  const shares: { readonly group: GroupId | undefined; readonly v4: PortedRange[]; readonly v6: PortedRange[] }[] = [];
  try {
    const named: Admitted[] = [];
    for (const rule of rules) {
      if (rule.counterMap !== undefined) {
        named.push(...readMembers(rule, rule.counterMap, options));
        continue;
      }
      const { group, family, ranges } = 'entries' in rule.action ? readMap(rule, options) : readPlain(rule, options);
      const last = shares.at(-1);
      const share = last !== undefined && last.group === group ? last : { group, v4: [], v6: [] };
      if (share !== last) shares.push(share);
      for (const range of ranges) (family === 4 ? share.v4 : share.v6).push(range);
    }
    if (new Set(shares.map(({ group }) => group)).size < shares.length) return undefined;
    const read = shares.map(({ group, v4, v6 }) => ({ group, v4: inOrder(v4), v6: inOrder(v6) }));
    return withMembers(read, named).map(({ group, ...lists }) => ({ ...(group && { group }), ...lists }));
  } catch (error) {
    if (error instanceof NotOurs) return undefined;
    throw error;
  }
}
