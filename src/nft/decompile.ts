/** Owns the way back from what is installed to the policy that it enforces, and the list of what does not belong there. */
import type {
  Addresses,
  CanonicalPolicy,
  DirectionPolicy,
  PortInterval,
  PortMap,
  PortNode,
  TransportPolicy,
} from '../policy/canonical.ts';
import type { GroupId } from '../policy/ids.ts';
import { mergeRanges, wholeFamily, type Range, type RangeSet } from '../policy/range.ts';
import type { Direction, Family } from '../policy/rule.ts';
import type { ServerAccess } from '../policy/server-access.ts';
import { besideEachOther, mergeAddresses, sharedBy } from '../policy/shares.ts';
import {
  protocolNumber,
  targets,
  type Match,
  type PortEntry,
  type Rule,
  type TableName,
  type TransportName,
  type Verdict,
} from './ast.ts';
import { baseHook, baseName, baseRules, echo, type BaseContent, type Place } from './base.ts';
import { readCounter } from './counters.ts';
import { isProperlyAttached, type Installed, type InstalledObject } from './listing.ts';
import type { InterfaceName } from './names.ts';
import { printMatch, printRules } from './print.ts';
import { isBundle, readNode } from './read-node.ts';
import { readServerAccess } from './server-access.ts';

/** Something in our table that we did not put there, or something of ours that is gone. */
export interface Finding {
  readonly code:
    | 'table_flags'
    | 'foreign_object'
    | 'foreign_chain'
    | 'foreign_rule'
    | 'missing_chain'
    | 'wrong_attachment'
    | 'wrong_layout'
    | 'unused_chain';
  /** The chain or object concerned; empty for the table itself. */
  readonly name: string;
  readonly detail: string;
}

export interface Enforced {
  readonly policy: CanonicalPolicy;
  /** Unknown where both directions are open: then no rule names one. */
  readonly interface: InterfaceName | undefined;
  /** Unknown where no direction needs to say. */
  readonly neighbourDiscovery: boolean | undefined;
  /** The agent's way to its server; absent where none is kept open. */
  readonly serverAccess?: ServerAccess;
}

export interface Decompiled {
  /** What the table does to packets; absent as soon as anything that can touch a packet is not of our making. */
  readonly enforced: Enforced | undefined;
  /** Unused chains are harmless leftovers of an update; everything else calls for a repair. */
  readonly findings: readonly Finding[];
}

class Unexpected extends Error {
  readonly finding: Finding;
  constructor(code: Finding['code'], name: string, detail: string) {
    super(detail);
    this.finding = { code, name, detail };
  }
}

const directions = ['inbound', 'outbound'] as const;
const nobody: Addresses = { v4: [], v6: [] };
const everybody: Addresses = { v4: wholeFamily(4), v6: wholeFamily(6) };
const noPorts: PortMap = { kind: 'intervals', intervals: [] };

interface BaseReading {
  readonly policy: DirectionPolicy;
  readonly interface?: InterfaceName;
  readonly neighbourDiscovery?: boolean;
  readonly serverAccess?: ServerAccess;
}

/** Reads one direction, chain by chain, and remembers which chains it came through. */
class Reader {
  readonly #installed: Installed;
  readonly #place: Place;
  readonly #direction: Direction;
  readonly used: Set<string>;

  constructor(installed: Installed, place: Place, used: Set<string>) {
    this.#installed = installed;
    this.#place = place;
    this.#direction = place.direction;
    this.used = used;
  }

  base(): BaseReading {
    const name = baseName(this.#place);
    const chain = this.#installed.chains.get(name);
    if (chain === undefined) throw new Unexpected('missing_chain', name, 'the chain is not there');
    if (!isProperlyAttached(chain, baseHook(this.#place))) {
      throw new Unexpected('wrong_attachment', name, 'the chain hangs on another hook, priority or policy than ours');
    }
    const rules = this.#rules(name);
    const [first] = rules;
    if (first === undefined) return { policy: { kind: 'open' } };
    const here = first.matches.find((match) => match.kind === 'interface');
    if (here === undefined) throw new Unexpected('wrong_layout', name, 'a rule does not name the interface');
    const content = this.#content(rules, here.name);
    if (content === undefined) throw new Unexpected('wrong_layout', name, 'the rules are not in an order of ours');
    if (content.kind !== 'closed') {
      const policy: DirectionPolicy =
        content.kind === 'default' ? { ...this.#dispatch(undefined), any: everybody } : { kind: 'open' };
      return { policy, interface: here.name };
    }
    const { neighbourDiscovery, server, dispatch } = content;
    const serverAccess = server === undefined ? undefined : readServerAccess(this.#rules(server));
    if (server !== undefined && serverAccess === undefined) throw this.#unexpected(server);
    const access = serverAccess === undefined ? {} : { serverAccess };
    return { policy: this.#dispatch(dispatch), interface: here.name, neighbourDiscovery, ...access };
  }

  /** Which of our base chains these rules are: made anew from each candidate, and compared. */
  #content(rules: readonly Rule[], name: InterfaceName): BaseContent | undefined {
    const chains = rules.flatMap(targets);
    const server = chains.find((chain) => chain.startsWith('server-'));
    const dispatch = chains.find((chain) => chain !== server);
    const closed = { kind: 'closed' as const, ...(server && { server }), ...(dispatch && { dispatch }) };
    const candidates: readonly BaseContent[] = [
      { ...closed, neighbourDiscovery: false },
      { ...closed, neighbourDiscovery: true },
      ...(this.#direction === 'inbound' ? [{ kind: 'default' as const }] : [{ kind: 'syn-only' as const }]),
    ];
    const text = printRules(rules);
    return candidates.find((content) => printRules(baseRules(this.#place, name, content)) === text);
  }

  #dispatch(name: string | undefined): Extract<DirectionPolicy, { kind: 'closed' }> {
    const rules = name === undefined ? [] : [...this.#uncounted(name)];
    const any = this.#leadingAddresses(rules);
    const [map, ...rest] = rules;
    const nothing: TransportPolicy = { anyPort: nobody, ports: noPorts };
    const policy = { kind: 'closed' as const, any, echo: nobody, tcp: nothing, udp: nothing };
    if (map === undefined) return policy;
    const { action, matches } = map;
    if (rest.length > 0 || matches.length > 0 || action.kind !== 'protocolMap') throw this.#unexpected(name);
    let [ping, ping6] = [nobody, nobody];
    for (const { protocol, verdict } of action.entries) {
      if (protocol === protocolNumber.tcp) policy.tcp = this.#transport(verdict, 'tcp');
      else if (protocol === protocolNumber.udp) policy.udp = this.#transport(verdict, 'udp');
      else if (protocol === protocolNumber.icmp) ping = this.#ping(verdict, 4);
      else if (protocol === protocolNumber.icmpv6) ping6 = this.#ping(verdict, 6);
      else throw this.#unexpected(name);
    }
    return { ...policy, echo: besideEachOther(ping, ping6) };
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
    if (verdict.kind === 'accept') return { anyPort: everybody, ports: noPorts };
    if (verdict.kind !== 'goto') throw this.#unexpected(undefined);
    const rules = [...this.#rules(verdict.chain)];
    if (!rules.some(({ action }) => action.kind === 'portMap')) {
      return { anyPort: this.#leaf(verdict.chain), ports: noPorts };
    }
    if (rules.some(({ counter }) => counter !== undefined)) throw this.#unexpected(verdict.chain);
    const anyPort = this.#leadingAddresses(rules);
    return { anyPort, ports: this.#ports(rules, transport, verdict.chain) };
  }

  #ports(rules: readonly Rule[], transport: TransportName, name: string): PortMap {
    const layers = rules.map(({ matches, action }) => {
      if (matches.length > 0 || action.kind !== 'portMap' || action.transport !== transport)
        throw this.#unexpected(name);
      if ((action.original === true) !== this.#isRedirected) throw this.#unexpected(name);
      return action.entries;
    });
    // A goto ends the search, so intervals stand alone: one map, and no tree beside it.
    const [only, ...more] = layers;
    if (only !== undefined && more.length === 0 && only.every(({ verdict }) => verdict.kind !== 'jump')) {
      return { kind: 'intervals', intervals: only.flatMap((entry) => this.#intervals(entry, transport, name)) };
    }
    const nodesOf = (entry: PortEntry): readonly PortNode[] => this.#nodes(entry, transport, name);
    return { kind: 'tree', layers: layers.map((layer) => layer.flatMap(nodesOf)) };
  }

  #intervals({ from, to, verdict }: PortEntry, transport: TransportName, name: string): readonly PortInterval[] {
    if (verdict.kind === 'accept') return [{ from, to, addresses: everybody }];
    if (verdict.kind !== 'goto') throw this.#unexpected(name);
    if (isBundle(verdict.chain)) return this.#bundle(verdict.chain, transport);
    return [{ from, to, addresses: this.#leaf(verdict.chain) }];
  }

  #nodes({ from, to, verdict }: PortEntry, transport: TransportName, name: string): readonly PortNode[] {
    if (verdict.kind !== 'jump') throw this.#unexpected(name);
    const { chain } = verdict;
    if (isBundle(chain)) return this.#bundle(chain, transport);
    const rules = this.#rules(chain);
    const isTree = rules.some(({ matches, action }) => matches.length > 1 || 'entries' in action);
    if (!isTree) return [{ from, to, addresses: this.#leaf(chain) }];
    const original = this.#isRedirected ? transport : undefined;
    const shares = readNode(rules, { direction: this.#direction, original, rulesOf: (each) => this.#rules(each) });
    if (shares === undefined) throw this.#unexpected(chain);
    return [{ from, to, shares }];
  }

  /** The intervals of a chain that several of them share: runs of rules about the same ports. */
  #bundle(name: string, transport: TransportName): readonly PortInterval[] {
    const runs: { readonly from: number; readonly to: number; readonly rules: Rule[] }[] = [];
    for (const rule of this.#rules(name)) {
      const ports = rule.matches.at(-1);
      const original = this.#isRedirected ? transport : undefined;
      if (ports?.kind !== 'ports' || ports.original !== original) throw this.#unexpected(name);
      const { from, to } = ports;
      const about = { ...rule, matches: rule.matches.slice(0, -1) };
      const run = runs.at(-1);
      if (run !== undefined && run.from === from && run.to === to) run.rules.push(about);
      else runs.push({ from, to, rules: [about] });
    }
    return runs.map(({ from, to, rules }) => ({ from, to, addresses: this.#addressesOf(rules, name) }));
  }

  /** Whether ports are those that connections were made to. */
  get #isRedirected(): boolean {
    return this.#place.table === 'service-forward' && this.#direction === 'inbound';
  }

  /** Takes the rule about addresses alone off the front, if there is one. */
  #leadingAddresses(rules: Rule[]): Addresses {
    const [first] = rules;
    if (first === undefined || first.matches.length > 0) return nobody;
    const { action } = first;
    if (action.kind !== 'accept' && action.kind !== 'jump') return nobody;
    rules.shift();
    return action.kind === 'accept' ? everybody : this.#leaf(action.chain);
  }

  /** What a chain about addresses alone admits: a run of rules for each group that has a share. */
  #leaf(name: string): Addresses {
    return this.#addressesOf(this.#rules(name), name);
  }

  #addressesOf(rules: readonly Rule[], name: string): Addresses {
    const runs: { readonly group: GroupId | undefined; readonly v4: Range[]; readonly v6: Range[] }[] = [];
    for (const { matches, action, counter } of rules) {
      if (matches.length > 1 || action.kind !== 'accept') throw this.#unexpected(name);
      const group = counter === undefined ? undefined : this.#groupOf(counter, name);
      let run = runs.at(-1);
      if (run === undefined || run.group !== group) {
        run = { group, v4: [], v6: [] };
        runs.push(run);
      }
      for (const [family, ranges] of this.#admitted(matches[0], name)) {
        for (const range of ranges) run[family].push(range);
      }
    }
    const order = runs.flatMap(({ group }) => group ?? []);
    const mixed = order.length > 0 && order.length < runs.length;
    if (mixed || new Set(order).size < order.length) throw this.#unexpected(name);
    return mergeAddresses(
      runs.map(({ group, ...lists }) => {
        const addresses = { v4: mergeRanges(lists.v4), v6: mergeRanges(lists.v6) };
        return group === undefined ? addresses : sharedBy(addresses, group);
      }),
      order,
    );
  }

  /** By family, whom one rule of such a chain admits. */
  #admitted(match: Match | undefined, name: string): readonly (readonly ['v4' | 'v6', RangeSet])[] {
    if (match === undefined) return [['v4', everybody.v4] as const, ['v6', everybody.v6] as const];
    if (match.kind === 'family') return [[`v${match.family}`, wholeFamily(match.family)]];
    const side = this.#direction === 'inbound' ? 'saddr' : 'daddr';
    if (match.kind !== 'address' || match.side !== side) throw this.#unexpected(name);
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
    if (rules.some(({ counter }) => counter !== undefined)) throw this.#unexpected(name);
    return rules;
  }

  #rules(name: string): readonly Rule[] {
    const chain = this.#installed.chains.get(name);
    if (chain === undefined) throw new Unexpected('missing_chain', name, 'the chain is not there');
    this.used.add(name);
    return chain.rules.map((each) => {
      if (each.kind === 'known') return each.rule;
      throw new Unexpected('foreign_rule', name, `the chain holds a rule that is not ours: ${each.json}`);
    });
  }

  #unexpected(name: string | undefined): Unexpected {
    return new Unexpected('wrong_layout', name ?? baseName(this.#place), 'the rules are not laid out as ours are');
  }
}

/** Whether the object is a counter of ours: one that a rule names, or one that is left of an earlier policy. */
export const isOurCounter = ({ object, name }: InstalledObject): boolean =>
  object === 'counter' && readCounter(name) !== undefined;

function strangers({ flagged, chains, objects }: Installed, table: TableName): Finding[] {
  const own = new Set<string>(directions.map((direction) => baseName({ table, direction })));
  const found: Finding[] = [];
  if (flagged)
    found.push({ code: 'table_flags', name: '', detail: 'the table carries flags, which may switch it off' });
  for (const { object, name } of objects.filter((each) => !isOurCounter(each))) {
    found.push({ code: 'foreign_object', name, detail: `the table holds a ${object} that is not ours` });
  }
  for (const { name, attachment } of chains.values()) {
    if (attachment === undefined || own.has(name)) continue;
    found.push({ code: 'foreign_chain', name, detail: `a chain that is not ours hangs on hook ${attachment.hook}` });
  }
  return found;
}

/** Foreign sets and counters touch packets only through rules, which are found where they stand. */
const isHarmless = ({ code }: Finding): boolean => code === 'foreign_object';

/** One direction of one table. For forwarded connections, a direction in which everything passes has no chain. */
function readDirection(installed: Installed, place: Place, used: Set<string>): BaseReading {
  if (place.table === 'service-forward' && !installed.chains.has(baseName(place))) return { policy: { kind: 'open' } };
  return new Reader(installed, place, used).base();
}

/** One answer of two readings: what either says, as long as they do not contradict. */
function agreed<T>(a: T | undefined, b: T | undefined, what: string): T | undefined {
  if (a !== undefined && b !== undefined && a !== b) {
    throw new Unexpected('wrong_layout', '', `the two base chains differ in ${what}`);
  }
  return a ?? b;
}

function unused(installed: Installed, used: ReadonlySet<string>): Finding[] {
  return [...installed.chains.values()]
    .filter(({ name, attachment }) => attachment === undefined && !used.has(name))
    .map(({ name }) => ({ code: 'unused_chain', name, detail: 'nothing refers to the chain' }));
}

/** The policy that a table of ours enforces, and what in it is not of our making. */
export function decompile(installed: Installed, table: TableName = 'service'): Decompiled {
  const findings = strangers(installed, table);
  const used = new Set<string>();
  const readings: BaseReading[] = [];
  for (const direction of directions) {
    try {
      readings.push(readDirection(installed, { table, direction }, used));
    } catch (error) {
      if (!(error instanceof Unexpected)) throw error;
      findings.push(error.finding);
    }
  }
  const [inbound, outbound] = readings;
  if (inbound === undefined || outbound === undefined) return { enforced: undefined, findings };
  try {
    const enforced = {
      policy: { inbound: inbound.policy, outbound: outbound.policy },
      interface: agreed(inbound.interface, outbound.interface, 'their interface'),
      neighbourDiscovery: agreed(inbound.neighbourDiscovery, outbound.neighbourDiscovery, 'neighbour discovery'),
      ...(outbound.serverAccess && { serverAccess: outbound.serverAccess }),
    };
    return {
      enforced: findings.every(isHarmless) ? enforced : undefined,
      findings: [...findings, ...unused(installed, used)],
    };
  } catch (error) {
    if (!(error instanceof Unexpected)) throw error;
    return { enforced: undefined, findings: [...findings, error.finding] };
  }
}
