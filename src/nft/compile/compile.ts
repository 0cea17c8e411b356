/** Owns the compilation of a canonical policy into the ruleset that enforces it on one interface. */
import type {
  Addresses,
  CanonicalPolicy,
  DirectionPolicy,
  MatchSet,
  PortInterval,
  PortMap,
  PortNode,
  TransportPolicy,
} from '../../policy/canonical.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import { isNoAccess, type ServerAccess } from '../../policy/server-access.ts';
import { hasNoAddress, onlyTransport, withoutFamilies } from '../../policy/address-sets.ts';
import {
  addressRulesOptions,
  isEverybody,
  leafRules,
  nodeRules,
  portRules,
  type AddressRulesOptions,
} from './address-rules.ts';
import {
  goto,
  jump,
  makesSet,
  node,
  portRule,
  portsMatch,
  protocolNumber,
  protocolRule,
  rule,
  ruleAfter,
  type HelperChain,
  type PortEntry,
  type PortKind,
  type PortTransport,
  type ProtocolEntry,
  type Rule,
  type Ruleset,
  type TableName,
  type Verdict,
} from '../ast.ts';
import {
  baseChain,
  discoveryRules,
  echo,
  forwardRules,
  refusing,
  translated,
  withRecorders,
  type Forwarding,
  type Part,
  type HookPoint,
} from './base.ts';
import { bundle } from './bundles.ts';
import { allHelpers, Helpers, type MadeChain } from './helpers.ts';
import type { InterfaceName, ObjectName } from '../names.ts';
import { longestListByDefault } from './parts.ts';
import { PeerMaps } from './peer-maps.ts';
import { recordersOf, type Recorder, type RecorderOptions } from './recorder.ts';
import { serverAccessRules } from './server-access.ts';
import { longestWithoutSet } from './set-budget.ts';

export interface CompileOptions extends RecorderOptions {
  /** The one interface that the policy binds (reference 1.2 (1)). */
  readonly interface: InterfaceName;
  /** Whether the interface does neighbour discovery: neither point-to-point nor NOARP. */
  readonly neighbourDiscovery: boolean;
  /** Where the agent finds its server; absent, that way is judged like any other. */
  readonly serverAccess?: ServerAccess | undefined;
  /**
   * Whether connections that the device translates for others are judged too: with the same rules, or, on a device that
   * forwards nothing, with none, so that all of them are refused. Absent: they are left alone.
   */
  readonly forwarding?: Forwarding | undefined;
  /** How many anonymous sets there may be before short lists become rules; see `set-budget`. */
  readonly mostSets?: number | undefined;
  /** How many small parts have chains of their own before they are bundled; see `bundles`. */
  readonly mostAlone?: number | undefined;
  /** How many ports must lead somewhere before both protocols look up one map instead of one each that say the same. */
  readonly fewestInCommon?: number | undefined;
  /** How many ranges of a list stand in one chain; see `parts`. */
  readonly longestList?: number | undefined;
  /** Gives every helper chain another name; see `plan`. */
  readonly salt?: string;
}

const nobody: Addresses = { v4: [], v6: [] };
const noPorts: TransportPolicy = { anyPort: nobody, ports: { kind: 'intervals', intervals: [] } };
const nothing: DirectionPolicy = { kind: 'closed', any: nobody, echo: nobody, tcp: noPorts, udp: noPorts };

/**
 * Whether the chain is the one that reference 1.2 (10) prescribes. That chain is used verbatim, and so it counts
 * nothing.
 */
const isDefault = (direction: Direction, policy: DirectionPolicy): boolean =>
  policy.kind === 'closed' && policy.forbid === undefined && direction === 'inbound' && isEverybody(policy.any);

/** Whether packets of this direction are counted: everywhere but where everything passes. */
export const isCounted = (direction: Direction, policy: DirectionPolicy): boolean =>
  policy.forbid !== undefined || (policy.kind === 'closed' && !isDefault(direction, policy));

/** A rule for each family: so few are as quickly gone through as they are looked up. */
const fewRules = 2;

/** What all places at which one direction is judged have in common. */
interface Leaves {
  /** The chains of addresses that were made already: equal sets have equal names anyway, this only spares printing one twice. */
  readonly chains: Map<Addresses, MadeChain>;
  /** Lists of up to this many ranges become a rule for each range instead of a set. */
  readonly withoutSet: number;
  /** How many small parts have chains of their own. */
  readonly mostAlone: number | undefined;
  readonly fewestInCommon: number;
  /** What becomes of the packets that are matched. */
  readonly verdict: Verdict;
  readonly matches: 'admitted' | 'forbidden';
  /** Where the named devices go. */
  readonly maps: PeerMaps;
}

/** Compiles what is admitted or what is forbidden in one direction, for packets at one place. */
class DirectionCompiler {
  readonly #place: HookPoint;
  readonly #direction: Direction;
  readonly #helpers: Helpers;
  readonly #leaves: Leaves;
  readonly #addressOptions: AddressRulesOptions;
  /** What was made already: rules about both protocols have it in common. */
  readonly #known = new Map<readonly PortNode[], readonly PortEntry[]>();

  constructor(place: HookPoint, leaves: Leaves, { salt = '', longestList = longestListByDefault }: CompileOptions) {
    this.#place = place;
    this.#direction = place.direction;
    this.#helpers = new Helpers({ salt, longestList });
    this.#leaves = leaves;
    this.#addressOptions = addressRulesOptions(this.#direction, leaves);
  }

  get helpers(): readonly HelperChain[] {
    return this.#helpers.chains;
  }

  /** The chain that admits discovery, where the interface needs it. */
  discovery({ neighbourDiscovery }: CompileOptions): { readonly discovery?: ObjectName } {
    return neighbourDiscovery ? { discovery: this.#helpers.add('discovery', discoveryRules(this.#direction)) } : {};
  }

  /** The chain that keeps the agent's way to its server open, where there is one. */
  server({ serverAccess }: CompileOptions): { readonly server?: ObjectName } {
    if (this.#direction === 'inbound' || serverAccess === undefined || isNoAccess(serverAccess)) return {};
    return { server: this.#helpers.add('server', serverAccessRules(serverAccess)) };
  }

  /** The chain that gives matched packets their verdict and returns for all others; none where nothing is matched. */
  dispatch(matched: MatchSet): ObjectName | undefined {
    const rules = this.#dispatchRules(matched);
    const purpose = this.#leaves.matches === 'admitted' ? this.#direction : 'forbid';
    return rules.length === 0 ? undefined : this.#helpers.add(purpose, rules);
  }

  #dispatchRules(policy: MatchSet): readonly Rule[] {
    const rules: Rule[] = [];
    const everyProtocol = this.#addresses(policy.any, jump);
    if (everyProtocol !== undefined) rules.push(rule([], everyProtocol));
    const only = onlyTransport(policy);
    // The rules of the one protocol stand here: a packet meets no further chain for it.
    if (only !== undefined) return [...rules, ...this.#portRules(policy[only].ports, only, only)];
    const both = this.#isInCommon(policy) ? this.#transport(policy.tcp, 'th') : undefined;
    const verdicts: readonly [number, Verdict | undefined][] = [
      [protocolNumber.icmp, this.#ping(policy.echo, 4)],
      [protocolNumber.tcp, both ?? this.#transport(policy.tcp, 'tcp')],
      [protocolNumber.udp, both ?? this.#transport(policy.udp, 'udp')],
      [protocolNumber.icmpv6, this.#ping(policy.echo, 6)],
    ];
    const entries = verdicts.flatMap(([protocol, verdict]): ProtocolEntry[] =>
      verdict === undefined ? [] : [{ protocol, verdict }],
    );
    if (entries.length > 0) rules.push(protocolRule(entries));
    return rules;
  }

  /** Whether one map of ports serves both protocols: it says the same of them, and is so large that it should not be there twice. */
  #isInCommon({ tcp, udp }: MatchSet): boolean {
    if (tcp !== udp || this.#isRedirected) return false;
    const { ports } = tcp;
    return (ports.kind === 'intervals' ? ports.intervals : ports.layers.flat()).length >= this.#leaves.fewestInCommon;
  }

  #ping(addresses: Addresses, family: Family): Verdict | undefined {
    const verdict = this.#addresses(withoutFamilies(addresses, { v4: family === 6, v6: family === 4 }), goto);
    if (verdict === undefined) return undefined;
    return goto(this.#helpers.add(family === 4 ? 'ping' : 'ping6', [rule([echo[family]], verdict)]));
  }

  #transport({ anyPort, ports }: TransportPolicy, transport: PortTransport): Verdict | undefined {
    const byPort = this.#portRules(ports, transport);
    if (byPort.length === 0) return this.#addresses(anyPort, goto);
    const everyPort = this.#addresses(anyPort, jump);
    const rules = everyPort === undefined ? byPort : [rule([], everyPort), ...byPort];
    return goto(this.#helpers.add(transport === 'th' ? 'transport' : transport, rules));
  }

  /** Where ports lead, of packets whose protocol is known by a rule before, or must be named `by` these. */
  #portRules(ports: PortMap, transport: PortTransport, by: PortTransport = 'th'): readonly Rule[] {
    // A redirected connection is judged by the port that it was made to, not by the one behind the redirection.
    const kind: PortKind = this.#isRedirected ? { transport, original: true } : { transport: by };
    if (ports.kind === 'intervals') {
      const leading = ports.intervals.filter(({ addresses }) => !hasNoAddress(addresses));
      const only = leading.length === 1 ? leading[0] : undefined;
      const few = only && this.#fewRules(only.addresses);
      if (only !== undefined && few !== undefined) return few.map((each) => ruleAfter(portsMatch(only, kind), each));
      const entries = this.#entries(ports.intervals, transport, goto);
      return entries.length === 0 ? [] : [portRule({ ...kind, entries })];
    }
    // A look-up for each layer: what one does not admit returns here and tries the next, so each is a jump.
    return ports.layers.map((layer) => portRule({ ...kind, entries: this.#entries(layer, transport, jump) }));
  }

  /** The rules of so small a chain of addresses that they stand where it would be named; nothing of one with sets, which are loaded once. */
  #fewRules(addresses: Addresses): readonly Rule[] | undefined {
    const rules = leafRules(addresses, this.#addressOptions);
    return rules.length > fewRules || rules.some(makesSet) ? undefined : rules;
  }

  /** Where the ports of ascending nodes lead. */
  #entries(nodes: readonly PortNode[], transport: PortTransport, enter: typeof jump): readonly PortEntry[] {
    const known = this.#isRedirected ? undefined : this.#known.get(nodes);
    if (known !== undefined) return known;
    // Many ports may lead to few chains: each verdict is made once.
    const verdicts = new Map<Addresses, Verdict | undefined>();
    const verdictOf = (each: PortNode): Verdict | undefined => {
      if (!('addresses' in each)) return enter(this.#node(each, transport));
      const { addresses } = each;
      if (!verdicts.has(addresses)) verdicts.set(addresses, this.#nodeVerdict(addresses, enter));
      return verdicts.get(addresses);
    };
    const entries = bundle(nodes, this.#leaves.mostAlone).flatMap((run): PortEntry[] => {
      const [first, last] = [run[0], run.at(-1)];
      if (first === undefined || last === undefined) return [];
      const verdict = run.length === 1 ? verdictOf(first) : enter(this.#bundle(run, transport));
      return verdict === undefined ? [] : [{ from: first.from, to: last.to, verdict }];
    });
    this.#known.set(nodes, entries);
    return entries;
  }

  /** In a tree, the next layer must be reached, so even everybody has a chain; beside it, a plain verdict will do. */
  #nodeVerdict(addresses: Addresses, enter: typeof jump): Verdict | undefined {
    return enter === jump ? jump(this.#leaf(addresses)) : this.#addresses(addresses, enter);
  }

  /** One chain for the addresses of several port intervals. */
  #bundle(run: readonly PortNode[], transport: PortTransport): ObjectName {
    const original = this.#isRedirected && transport !== 'th' ? transport : undefined;
    const rules = run.flatMap((each) =>
      'addresses' in each ? portRules(each.addresses, each, { ...this.#addressOptions, original }) : [],
    );
    return this.#helpers.add('bundle', rules);
  }

  /** The chain that accepts what one node of a tree admits and returns for all else. */
  #node(each: Exclude<PortNode, PortInterval>, transport: PortTransport): ObjectName {
    const original = this.#isRedirected && transport !== 'th' ? transport : undefined;
    const chain = (purpose: 'ports' | 'bundle', rules: readonly Rule[]): ObjectName =>
      this.#helpers.add(purpose, rules);
    return this.#helpers.add(
      'tree',
      nodeRules(each.shares, each.names ?? [], { ...this.#addressOptions, original, chain }),
    );
  }

  get #isRedirected(): boolean {
    return this.#place.table === 'service-forward' && this.#direction === 'inbound';
  }

  /**
   * The verdict on packets that only addresses still distinguish: undefined if no address matches, and a plain verdict
   * if all addresses match uncounted.
   */
  #addresses(addresses: Addresses, enter: typeof jump): Verdict | undefined {
    if (hasNoAddress(addresses)) return undefined;
    const everybody = addresses.shares === undefined && isEverybody(addresses);
    return everybody ? this.#leaves.verdict : enter(this.#leaf(addresses));
  }

  /** The chain that gives these addresses their verdict and returns for all others. */
  #leaf(addresses: Addresses): ObjectName {
    const known = this.#leaves.chains.get(addresses);
    const purpose = this.#direction === 'inbound' ? 'from' : 'to';
    const made = known ?? this.#helpers.make(purpose, leafRules(addresses, this.#addressOptions));
    if (known === undefined) this.#leaves.chains.set(addresses, made);
    return this.#helpers.put(made);
  }
}

/**
 * What the table for forwarded connections says of the policy: all of it, or that nothing passes a closed direction where
 * the device forwards nothing. A direction in which everything passes is open there; where both are, there is no table.
 * Of a policy by names, `resolved` is what it says by addresses.
 */
export function forwardPolicy(
  policy: CanonicalPolicy,
  forwarding: Forwarding,
  resolved: CanonicalPolicy = policy,
): CanonicalPolicy | undefined {
  const side = (direction: Direction): DirectionPolicy => {
    if (!isCounted(direction, policy[direction])) return { kind: 'open' };
    return forwarding === 'on' || policy[direction].kind === 'open' ? resolved[direction] : nothing;
  };
  const [inbound, outbound] = [side('inbound'), side('outbound')];
  const isJudged = (direction: Direction): boolean => isCounted(direction, policy[direction]);
  return isJudged('inbound') || isJudged('outbound') ? { inbound, outbound } : undefined;
}

/** The leaves of what is admitted, and of what is forbidden. */
interface BothLeaves {
  readonly admitted: Leaves;
  readonly forbidden: Leaves;
}

function partOf(place: HookPoint, policy: DirectionPolicy, leaves: BothLeaves, options: CompileOptions): Part {
  if (!isCounted(place.direction, policy)) {
    return { content: policy.kind === 'open' ? { kind: 'open' } : { kind: 'default' }, helpers: [] };
  }
  const admitted = new DirectionCompiler(place, leaves.admitted, options);
  const forbidden = new DirectionCompiler(place, leaves.forbidden, options);
  const before = place.table === 'service' ? { ...admitted.discovery(options), ...admitted.server(options) } : {};
  const forbid = policy.forbid && forbidden.dispatch(policy.forbid);
  const dispatch = policy.kind === 'closed' ? admitted.dispatch(policy) : undefined;
  const helpers = allHelpers([forbidden, admitted]);
  if (policy.kind === 'closed') {
    return {
      content: { kind: 'closed', ...before, ...(forbid && { forbid }), ...(dispatch && { dispatch }) },
      helpers,
    };
  }
  return { content: forbid === undefined ? { kind: 'open' } : { kind: 'forbidding', ...before, forbid }, helpers };
}

/** Everything for redirected connections, which share the chains of addresses with the device's own. */
function redirected(policy: DirectionPolicy, leaves: BothLeaves, options: CompileOptions): Part | undefined {
  if (!isCounted('inbound', policy)) return undefined;
  if (options.forwarding !== 'on' && policy.kind !== 'open') return refusing;
  return partOf({ table: 'service-forward', direction: 'inbound' }, policy, leaves, options);
}

/**
 * The ruleset that enforces the policy. Only the base chains receive packets from the kernel. Everything large is in
 * helper chains, which can be loaded and checked before a base chain refers to them.
 */
export function compile(policy: CanonicalPolicy, options: CompileOptions): Ruleset {
  const { interface: name, forwarding, mostAlone, fewestInCommon = 1_024 } = options;
  const withoutSet = longestWithoutSet(policy, options.mostSets);
  const bounds = { withoutSet, mostAlone, fewestInCommon };
  const maps = new PeerMaps(options.salt);
  const recorders = {
    inbound: recordersOf('inbound', options, options.salt),
    outbound: recordersOf('outbound', options, options.salt),
  };
  const leavesOf = (direction: Direction): BothLeaves => {
    const { admit, refuse } = recorders[direction].service;
    return {
      admitted: { chains: new Map(), ...bounds, verdict: admit, matches: 'admitted', maps },
      forbidden: { chains: new Map(), ...bounds, verdict: refuse, matches: 'forbidden', maps },
    };
  };
  const leaves: { readonly [D in Direction]: BothLeaves } = {
    inbound: leavesOf('inbound'),
    outbound: leavesOf('outbound'),
  };
  const part = (direction: Direction): Part =>
    partOf({ table: 'service', direction }, policy[direction], leaves[direction], options);
  const [into, out] = [part('inbound'), part('outbound')];
  const recordersIn = (table: TableName): { readonly [D in Direction]: Recorder } => ({
    inbound: recorders.inbound[table],
    outbound: recorders.outbound[table],
  });
  const own = recordersIn('service');
  const inbound = baseChain({ table: 'service', direction: 'inbound' }, name, into.content, own.inbound);
  const outbound = baseChain({ table: 'service', direction: 'outbound' }, name, out.content, own.outbound);
  const helpers = withRecorders(own, [inbound, outbound], allHelpers([into, out]));
  const judged = forwarding === undefined ? undefined : redirected(policy.inbound, leaves.inbound, options);
  const forward =
    forwarding === undefined
      ? undefined
      : forwardRules(
          { into: judged, out: translated(out, judged, forwarding), name, recorders: recordersIn('service-forward') },
          maps,
        );
  return node({
    ...maps.objectsOf([inbound, outbound, ...helpers]),
    inbound,
    outbound,
    helpers,
    ...(forward && { forward }),
  });
}
