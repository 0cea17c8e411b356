/** Owns the reading of the chains below a base chain into what they match: the inverse of `compile`. */
import type {
  Addresses,
  MatchSet,
  PortedShare,
  PortInterval,
  PortMap,
  PortNode,
  TransportPolicy,
} from '../../policy/canonical.ts';
import type { GroupId } from '../../policy/ids.ts';
import { mergeRanges, wholeFamily, type Range, type RangeSet } from '../../policy/range.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import { besideEachOther, hasNoAddress, mergeAddresses, sharedBy } from '../../policy/address-sets.ts';
import {
  portKindOf,
  portLookUp,
  protocolEntries,
  protocolNumber,
  type AddressSide,
  type CounterMap,
  type Match,
  type PortEntry,
  type PortTransport,
  type Rule,
  type TransportName,
  type Verdict,
} from '../ast.ts';
import { baseName, echo, type HookPoint } from '../compile/base.ts';
import { readCounter } from '../counters.ts';
import type { InstalledMembers } from './listing.ts';
import { unexpectedLayout, type ChainReader, type Unexpected } from './read-chain.ts';
import { printMatch } from '../print.ts';
import { isBundle, isPorts, readNode } from './read-node.ts';

const nobody: Addresses = { v4: [], v6: [] };
export const everybody: Addresses = { v4: wholeFamily(4), v6: wholeFamily(6) };
const noPorts: PortMap = { kind: 'intervals', intervals: [] };

/** Whether the node matches any address now: the peers that a port names may have none. */
const isSomebody = (node: PortNode): boolean =>
  'addresses' in node ? !hasNoAddress(node.addresses) : node.shares.some(({ v4, v6 }) => v4.length + v6.length > 0);

const isCounting = ({ counter, counterMap }: Rule): boolean => counter !== undefined || counterMap !== undefined;

function once<T>(known: Map<string, T>, name: string, read: () => T): T {
  const before = known.get(name);
  if (before !== undefined) return before;
  const value = read();
  known.set(name, value);
  return value;
}

/** Reads what packets at one place are matched for one verdict, chain by chain. */
export class MatchReader {
  readonly #chains: ChainReader;
  readonly #place: HookPoint;
  readonly #direction: Direction;
  readonly #verdict: 'accept' | 'drop';
  /** What was read already: many ports may lead to few chains, and both protocols to the same. */
  readonly #transports = new Map<string, TransportPolicy>();
  readonly #leaves = new Map<string, Addresses>();
  readonly #bundles = new Map<string, readonly PortInterval[]>();
  readonly #trees = new Map<string, readonly PortedShare[]>();

  constructor(chains: ChainReader, place: HookPoint, verdict: 'accept' | 'drop') {
    this.#chains = chains;
    this.#place = place;
    this.#direction = place.direction;
    this.#verdict = verdict;
  }

  /** Reads what the dispatch chain matches; without a chain, nothing. A dispatch chain distinguishes protocols. */
  dispatch(name: string | undefined): MatchSet {
    const nothing: TransportPolicy = { anyPort: nobody, ports: noPorts };
    const matched = { any: nobody, echo: nobody, tcp: nothing, udp: nothing };
    if (name === undefined) return matched;
    const rules = [...this.#rules(name)];
    matched.any = this.#leadingAddresses(rules);
    const [first, ...rest] = rules;
    if (first === undefined) return matched;
    const entries = protocolEntries(first);
    if (entries === undefined) {
      // The one protocol that leads anywhere has its rules here.
      const { transport = 'th' } = portKindOf(first) ?? {};
      if (transport === 'th') throw this.#unexpected(name);
      return { ...matched, [transport]: { anyPort: nobody, ports: this.#ports(rules, transport, name, [transport]) } };
    }
    if (rest.length > 0) throw this.#unexpected(name);
    let [ping, ping6] = [nobody, nobody];
    for (const { protocol, verdict } of entries) {
      if (protocol === protocolNumber.tcp) matched.tcp = this.#transport(verdict, 'tcp');
      else if (protocol === protocolNumber.udp) matched.udp = this.#transport(verdict, 'udp');
      else if (protocol === protocolNumber.icmp) ping = this.#ping(verdict, 4);
      else if (protocol === protocolNumber.icmpv6) ping6 = this.#ping(verdict, 6);
      else throw this.#unexpected(name);
    }
    return { ...matched, echo: besideEachOther(ping, ping6) };
  }

  #ping(verdict: Verdict, family: Family): Addresses {
    if (verdict.kind !== 'goto') throw this.#unexpected(undefined);
    const [only, ...rest] = this.#uncounted(verdict.chain);
    if (only === undefined || rest.length > 0) throw this.#unexpected(verdict.chain);
    const { action, matches } = only;
    const [match, ...others] = matches;
    if (match === undefined || others.length > 0) throw this.#unexpected(verdict.chain);
    if ('entries' in action || action.kind !== 'goto' || printMatch(match) !== printMatch(echo[family])) {
      throw this.#unexpected(verdict.chain);
    }
    const addresses = this.#leaf(action.chain);
    if (addresses[family === 4 ? 'v6' : 'v4'].length > 0) throw this.#unexpected(action.chain);
    return addresses;
  }

  #transport(verdict: Verdict, transport: TransportName): TransportPolicy {
    if (verdict.kind === this.#verdict) return { anyPort: everybody, ports: noPorts };
    if (verdict.kind !== 'goto') throw this.#unexpected(undefined);
    const rules = [...this.#rules(verdict.chain)];
    const kinds = rules.flatMap((each) => portKindOf(each) ?? []);
    if (kinds.length === 0) return { anyPort: this.#leaf(verdict.chain), ports: noPorts };
    const { chain } = verdict;
    const inCommon = kinds.every((each) => each.transport === 'th');
    return once(this.#transports, inCommon ? chain : `${transport} ${chain}`, () => {
      const anyPort = this.#leadingAddresses(rules);
      // The ports of any protocol serve all that lead here.
      const known = this.#isRedirected ? [transport] : [transport, 'th' as const];
      return { anyPort, ports: this.#ports(rules, transport, chain, known) };
    });
  }

  /** What rules that part ports match; `known` are the words in which they may name the protocol. */
  #ports(rules: readonly Rule[], transport: TransportName, name: string, known: readonly PortTransport[]): PortMap {
    for (const each of rules) {
      const kind = portKindOf(each);
      const isOurs = kind !== undefined && known.includes(kind.transport);
      if (!isOurs || (kind.original === true) !== this.#isRedirected) throw this.#unexpected(name);
    }
    const interval = this.#onlyInterval(rules, name);
    if (interval !== undefined) return { kind: 'intervals', intervals: [interval].filter(isSomebody) };
    const layers = rules.map((each) => {
      const found = portLookUp(each);
      if (found === undefined) throw this.#unexpected(name);
      return found.entries;
    });
    // A goto ends the search, so intervals stand alone: one map, and no tree beside it.
    const [only, ...more] = layers;
    if (only !== undefined && more.length === 0 && only.every(({ verdict }) => verdict.kind !== 'jump')) {
      const intervals = only.flatMap((entry) => this.#intervals(entry, transport, name));
      return { kind: 'intervals', intervals: intervals.filter(isSomebody) };
    }
    const nodesOf = (entry: PortEntry): readonly PortNode[] => this.#nodes(entry, transport, name);
    const read = layers.map((layer) => layer.flatMap(nodesOf).filter(isSomebody)).filter((layer) => layer.length > 0);
    return read.length === 0 ? noPorts : { kind: 'tree', layers: read };
  }

  /** The ports of rules that tell addresses apart where they stand; nothing where they lead to other chains. */
  #onlyInterval(rules: readonly Rule[], name: string): PortInterval | undefined {
    const [first] = rules;
    const ports = first?.matches[0];
    if (ports?.kind !== 'ports' || first?.action.kind !== this.#verdict) return undefined;
    const about = rules.map((each) => {
      const [match, ...matches] = each.matches;
      if (match === undefined || printMatch(match) !== printMatch(ports)) throw this.#unexpected(name);
      return { ...each, matches };
    });
    return { from: ports.from, to: ports.to, addresses: this.#addressesOf(about, name) };
  }

  #intervals({ from, to, verdict }: PortEntry, transport: TransportName, name: string): readonly PortInterval[] {
    if (verdict.kind === this.#verdict) return [{ from, to, addresses: everybody }];
    if (verdict.kind !== 'goto') throw this.#unexpected(name);
    if (isBundle(verdict.chain)) return this.#bundle(verdict.chain, transport);
    return [{ from, to, addresses: this.#leaf(verdict.chain) }];
  }

  #nodes({ from, to, verdict }: PortEntry, transport: TransportName, name: string): readonly PortNode[] {
    if (verdict.kind !== 'jump') throw this.#unexpected(name);
    const { chain } = verdict;
    if (isBundle(chain)) return this.#bundle(chain, transport);
    const rules = this.#rules(chain);
    const isTree = rules.some(
      ({ matches, action, counterMap }) =>
        matches.length > 1 || 'entries' in action || (counterMap !== undefined && matches.length > 0),
    );
    if (!isTree) return [{ from, to, addresses: this.#leaf(chain) }];
    return [
      {
        from,
        to,
        shares: once(this.#trees, this.#keyOf(chain, transport), () => this.#shares(rules, transport, chain)),
      },
    ];
  }

  #shares(rules: readonly Rule[], transport: TransportName, chain: string): readonly PortedShare[] {
    const original = this.#isRedirected ? transport : undefined;
    const rulesOf = (each: string): readonly Rule[] => this.#rules(each);
    const membersOf = (map: string): InstalledMembers => this.#chains.members(map);
    const where = { direction: this.#direction, verdict: this.#verdict, original };
    const shares = readNode(rules, { ...where, rulesOf, membersOf });
    if (shares === undefined) throw this.#unexpected(chain);
    return shares;
  }

  /** The intervals of a chain that several of them share: runs of rules about the same ports. */
  #bundle(name: string, transport: TransportName): readonly PortInterval[] {
    return once(this.#bundles, this.#keyOf(name, transport), () => this.#readBundle(name, transport));
  }

  #readBundle(name: string, transport: TransportName): readonly PortInterval[] {
    const runs: { readonly from: number; readonly to: number; readonly rules: Rule[] }[] = [];
    for (const rule of this.#rules(name)) {
      const ports = rule.matches.at(-1);
      const original = this.#isRedirected ? transport : undefined;
      if (ports === undefined || !isPorts(ports, original)) throw this.#unexpected(name);
      const { from, to } = ports;
      const about = { ...rule, matches: rule.matches.slice(0, -1) };
      const run = runs.at(-1);
      if (run !== undefined && run.from === from && run.to === to) run.rules.push(about);
      else runs.push({ from, to, rules: [about] });
    }
    return runs.map(({ from, to, rules }) => ({ from, to, addresses: this.#addressesOf(rules, name) }));
  }

  /**
   * The cache key of a chain that distinguishes ports. Chains for redirected connections depend on the protocol too.
   */
  #keyOf(chain: string, transport: TransportName): string {
    return this.#isRedirected ? `${transport} ${chain}` : chain;
  }

  /** Whether ports are those that connections were made to. */
  get #isRedirected(): boolean {
    return this.#place.table === 'service-forward' && this.#direction === 'inbound';
  }

  /** Takes the rule about addresses alone off the front, if there is one. */
  #leadingAddresses(rules: Rule[]): Addresses {
    const [first] = rules;
    if (first === undefined || first.matches.length > 0 || isCounting(first)) return nobody;
    const { action } = first;
    if (action.kind === 'jump') {
      rules.shift();
      return this.#leaf(action.chain);
    }
    if (action.kind !== this.#verdict) return nobody;
    rules.shift();
    return everybody;
  }

  /** What a chain about addresses alone matches: a run of rules for each group that has a share. */
  #leaf(name: string): Addresses {
    return once(this.#leaves, name, () => this.#addressesOf(this.#rules(name), name));
  }

  #addressesOf(rules: readonly Rule[], name: string): Addresses {
    const runs: { readonly group: GroupId | undefined; readonly v4: Range[]; readonly v6: Range[] }[] = [];
    const named: Addresses[] = [];
    for (const { matches, action, counter, counterMap } of rules) {
      if (counterMap !== undefined && matches.length === 0 && action.kind === this.#verdict) {
        named.push(...this.#members(counterMap, name));
        continue;
      }
      if (counterMap !== undefined || matches.length > 1 || action.kind !== this.#verdict) throw this.#unexpected(name);
      const group = counter === undefined ? undefined : this.#groupOf(counter, name);
      let run = runs.at(-1);
      if (run === undefined || run.group !== group) {
        run = { group, v4: [], v6: [] };
        runs.push(run);
      }
      for (const [family, ranges] of this.#matched(matches[0], name)) {
        for (const range of ranges) run[family].push(range);
      }
    }
    const order = runs.flatMap(({ group }) => group ?? []);
    const mixed = order.length > 0 && order.length < runs.length;
    if (mixed || new Set(order).size < order.length) throw this.#unexpected(name);
    const ranges = runs.map(({ group, ...lists }) => {
      const addresses = { v4: mergeRanges(lists.v4), v6: mergeRanges(lists.v6) };
      return group === undefined ? addresses : sharedBy(addresses, group);
    });
    const groups = named.flatMap(({ shares = [] }) => shares.map(({ group }) => group));
    return mergeAddresses([...ranges, ...named], [...new Set([...order, ...groups])]);
  }

  /** Whom a map holds, group by group. */
  #members({ family, side, map }: CounterMap, name: string): readonly Addresses[] {
    const members = this.#chains.members(map);
    if (side !== this.#side || members.family !== family) throw this.#unexpected(name);
    const byGroup = new Map<GroupId, Range[]>();
    for (const [address, counter] of members.elements) {
      const group = this.#groupOf(counter, name);
      const ranges = byGroup.get(group) ?? [];
      ranges.push({ first: address, last: address });
      byGroup.set(group, ranges);
    }
    return [...byGroup].map(([group, ranges]) =>
      sharedBy({ v4: [], v6: [], [`v${family}`]: mergeRanges(ranges) }, group),
    );
  }

  get #side(): AddressSide {
    return this.#direction === 'inbound' ? 'saddr' : 'daddr';
  }

  /** By family, whom one rule of such a chain matches. */
  #matched(match: Match | undefined, name: string): readonly (readonly ['v4' | 'v6', RangeSet])[] {
    if (match === undefined) return [['v4', everybody.v4] as const, ['v6', everybody.v6] as const];
    if (match.kind === 'family') return [[`v${match.family}`, wholeFamily(match.family)]];
    if (match.kind !== 'address' || match.side !== this.#side) throw this.#unexpected(name);
    return [[`v${match.family}`, match.ranges]];
  }

  #groupOf(counter: string, name: string): GroupId {
    const counted = readCounter(counter);
    if (counted?.direction !== this.#direction || typeof counted.what === 'string') throw this.#unexpected(name);
    return counted.what.group;
  }

  /** The rules of a chain that only leads on. */
  #uncounted(name: string): readonly Rule[] {
    const rules = this.#rules(name);
    if (rules.some(isCounting)) throw this.#unexpected(name);
    return rules;
  }

  #rules(name: string): readonly Rule[] {
    return this.#chains.rules(name);
  }

  #unexpected(name: string | undefined): Unexpected {
    return unexpectedLayout(name ?? baseName(this.#place));
  }
}
