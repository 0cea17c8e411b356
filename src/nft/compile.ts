/** Owns the way from a canonical policy to the ruleset that enforces it on one interface. */
import type { Addresses, CanonicalPolicy, DirectionPolicy, PortMap, TransportPolicy } from '../policy/canonical.ts';
import { isWholeFamily, type RangeSet } from '../policy/range.ts';
import type { Direction, Family } from '../policy/rule.ts';
import { isNobody, withoutFamilies } from '../policy/shares.ts';
import {
  accept,
  goto,
  jump,
  node,
  protocolNumber,
  rule,
  type AddressSide,
  type BaseChain,
  type Match,
  type PortEntry,
  type ProtocolEntry,
  type Rule,
  type Ruleset,
  type TransportName,
  type Verdict,
} from './ast.ts';
import { baseChain, echo, familyMatch, type BaseContent } from './base.ts';
import { countersOf, groupCounter } from './counters.ts';
import { Helpers } from './helpers.ts';
import type { InterfaceName, ObjectName } from './names.ts';

export interface CompileOptions {
  /** The one interface that the policy binds (reference 1.2 (1)). */
  readonly interface: InterfaceName;
  /** Whether the interface does neighbour discovery: neither point-to-point nor NOARP. */
  readonly neighbourDiscovery: boolean;
  /** Gives every helper chain another name; see `plan`. */
  readonly salt?: string;
}

type Closed = Extract<DirectionPolicy, { kind: 'closed' }>;

const families: readonly Family[] = [4, 6];
const rangesOf = ({ v4, v6 }: Addresses, family: Family): RangeSet => (family === 4 ? v4 : v6);
const isEverybody = (addresses: Addresses): boolean =>
  families.every((family) => isWholeFamily(rangesOf(addresses, family), family));

/** By family: everybody, some ranges, or nobody. */
function rulesFor(addresses: Addresses, side: AddressSide, counter?: ObjectName): readonly Rule[] {
  if (isEverybody(addresses)) return [rule([], accept, counter)];
  return families.flatMap((family) => {
    const ranges = rangesOf(addresses, family);
    if (ranges.length === 0) return [];
    const match: Match = isWholeFamily(ranges, family)
      ? familyMatch[family]
      : node({ kind: 'address', family, side, ranges });
    return [rule([match], accept, counter)];
  });
}

/** Share by share, so that each group counts its own; the first share that holds an address has it. */
function leafRules(addresses: Addresses, direction: Direction): readonly Rule[] {
  const side = direction === 'inbound' ? 'saddr' : 'daddr';
  if (addresses.shares === undefined) return rulesFor(addresses, side);
  return addresses.shares.flatMap((share) => rulesFor(share, side, groupCounter(direction, share.group)));
}

/** Whether the chain of reference 1.2 (10) says it: it stands to the letter, and so counts nothing. */
const isDefault = (direction: Direction, policy: DirectionPolicy): boolean =>
  policy.kind === 'closed' && direction === 'inbound' && isEverybody(policy.any);

/** Whether packets of this direction are counted: everywhere but where everything passes. */
export const isCounted = (direction: Direction, policy: DirectionPolicy): boolean =>
  policy.kind === 'closed' && !isDefault(direction, policy);

/** Compiles one direction; `helpers` is shared by both. */
class DirectionCompiler {
  readonly #direction: Direction;
  readonly #helpers: Helpers;
  readonly #options: CompileOptions;
  /** Equal address sets have equal names anyway; this only spares printing one object twice. */
  readonly #known = new Map<Addresses, ObjectName>();

  constructor(direction: Direction, helpers: Helpers, options: CompileOptions) {
    this.#direction = direction;
    this.#helpers = helpers;
    this.#options = options;
  }

  base(policy: DirectionPolicy): BaseChain {
    return baseChain(this.#direction, this.#options.interface, this.#content(policy));
  }

  #content(policy: DirectionPolicy): BaseContent {
    if (policy.kind === 'open') return policy;
    if (isDefault(this.#direction, policy)) return { kind: 'default' };
    const { neighbourDiscovery } = this.#options;
    const rules = this.#dispatchRules(policy);
    if (rules.length === 0) return { kind: 'closed', neighbourDiscovery };
    return { kind: 'closed', neighbourDiscovery, dispatch: this.#helpers.add(this.#direction, rules) };
  }

  #dispatchRules(policy: Closed): readonly Rule[] {
    const rules: Rule[] = [];
    const everyProtocol = this.#addresses(policy.any, jump);
    if (everyProtocol !== undefined) rules.push(rule([], everyProtocol));
    const verdicts: readonly [number, Verdict | undefined][] = [
      [protocolNumber.icmp, this.#ping(policy.echo, 4)],
      [protocolNumber.tcp, this.#transport(policy.tcp, 'tcp')],
      [protocolNumber.udp, this.#transport(policy.udp, 'udp')],
      [protocolNumber.icmpv6, this.#ping(policy.echo, 6)],
    ];
    const entries = verdicts.flatMap(([protocol, verdict]): ProtocolEntry[] =>
      verdict === undefined ? [] : [{ protocol, verdict }],
    );
    if (entries.length > 0) rules.push(rule([], node({ kind: 'protocolMap', entries })));
    return rules;
  }

  #ping(addresses: Addresses, family: Family): Verdict | undefined {
    const verdict = this.#addresses(withoutFamilies(addresses, { v4: family === 6, v6: family === 4 }), goto);
    if (verdict === undefined) return undefined;
    return goto(this.#helpers.add(family === 4 ? 'ping' : 'ping6', [rule([echo[family]], verdict)]));
  }

  #transport({ anyPort, ports }: TransportPolicy, transport: TransportName): Verdict | undefined {
    const byPort = this.#portRules(ports, transport);
    if (byPort.length === 0) return this.#addresses(anyPort, goto);
    const everyPort = this.#addresses(anyPort, jump);
    const rules = everyPort === undefined ? byPort : [rule([], everyPort), ...byPort];
    return goto(this.#helpers.add(transport, rules));
  }

  #portRules(ports: PortMap, transport: TransportName): readonly Rule[] {
    if (ports.kind === 'intervals') {
      const entries = ports.intervals.flatMap(({ from, to, addresses }): PortEntry[] => {
        const verdict = this.#addresses(addresses, goto);
        return verdict === undefined ? [] : [{ from, to, verdict }];
      });
      return entries.length === 0 ? [] : [rule([], node({ kind: 'portMap', transport, mask: 0xffff, entries }))];
    }
    // A look-up for each length: what one level does not admit returns here and tries the next, so each is a jump.
    const levels = new Map<number, PortEntry[]>();
    for (const { length, value, addresses } of ports.nodes) {
      if (isNobody(addresses)) continue;
      const port = value << (16 - length);
      const entry = { from: port, to: port, verdict: jump(this.#leaf(addresses)) };
      const level = levels.get(length);
      if (level === undefined) levels.set(length, [entry]);
      else level.push(entry);
    }
    return [...levels].map(([length, entries]) =>
      rule([], node({ kind: 'portMap', transport, mask: (0xffff << (16 - length)) & 0xffff, entries })),
    );
  }

  /** The verdict on packets that only addresses can still part: none for nobody, plain accept for everybody uncounted. */
  #addresses(addresses: Addresses, enter: typeof jump): Verdict | undefined {
    if (isNobody(addresses)) return undefined;
    return addresses.shares === undefined && isEverybody(addresses) ? accept : enter(this.#leaf(addresses));
  }

  /** The chain that accepts these addresses and returns for all others. */
  #leaf(addresses: Addresses): ObjectName {
    let name = this.#known.get(addresses);
    if (name === undefined) {
      const purpose = this.#direction === 'inbound' ? 'from' : 'to';
      name = this.#helpers.add(purpose, leafRules(addresses, this.#direction));
      this.#known.set(addresses, name);
    }
    return name;
  }
}

/**
 * The ruleset that enforces the policy. Only the two base chains see packets by themselves; everything large stands in
 * helper chains, which can be loaded and looked at before a base chain names them.
 */
export function compile(policy: CanonicalPolicy, options: CompileOptions): Ruleset {
  const helpers = new Helpers(options.salt);
  const inbound = new DirectionCompiler('inbound', helpers, options).base(policy.inbound);
  const outbound = new DirectionCompiler('outbound', helpers, options).base(policy.outbound);
  const { chains } = helpers;
  return node({ counters: countersOf([inbound, outbound, ...chains]), inbound, outbound, helpers: chains });
}
