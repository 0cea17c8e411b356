/** Owns the ruleset as data: our tables, their chains and rules, and the commands that change them. Nodes are frozen. */
import type { Family } from '../policy/rule.ts';
import type { Range, RangeSet } from '../policy/range.ts';
import { parseObjectName, type InterfaceName, type ObjectName } from './names.ts';

export const tableFamily = 'inet';
/**
 * Every object we own lives in one of these. The first is the specified one (reference 1.2 (2)) and stays to the letter;
 * the second judges connections that the device forwards with an address translated (reference 1.2 (25)).
 */
export const tableNames = ['service', 'service-forward'] as const;
export type TableName = (typeof tableNames)[number];

/** Where a base chain hangs, with its priority: after all address translation in `postrouting`, priority filter elsewhere. */
export const hookPriority = Object.freeze({ input: 0, output: 0, forward: 0, postrouting: 150 });
export type Hook = keyof typeof hookPriority;
export type AddressSide = 'saddr' | 'daddr';
export type TransportName = 'tcp' | 'udp';
/** Whose ports: of one protocol, or of any that has ports, in nft's word for its header. */
export type PortTransport = TransportName | 'th';

/** IP protocol numbers; numbers rather than names, because names need /etc/protocols on the device. */
export const protocolNumber = Object.freeze({ icmp: 1, tcp: 6, udp: 17, icmpv6: 58 });
export const icmpType = Object.freeze({ echoReply: 0, echoRequest: 8 });
export const icmpv6Type = Object.freeze({
  echoRequest: 128,
  echoReply: 129,
  listenerQuery: 130,
  listenerDone: 132,
  routerSolicitation: 133,
  neighbourAdvertisement: 136,
  listenerReport2: 143,
});

/** One condition of a rule. All conditions of a rule must hold. */
export type Match =
  | { readonly kind: 'interface'; readonly side: 'iifname' | 'oifname'; readonly name: InterfaceName }
  /** `ct state established,related`: a bit mask to the kernel, not a set. */
  | { readonly kind: 'established' }
  | { readonly kind: 'family'; readonly family: Family }
  /** Ascending. More than one type makes an anonymous set. */
  | { readonly kind: 'icmpTypes'; readonly family: Family; readonly types: readonly number[] }
  /** Inclusive; makes no set. */
  | { readonly kind: 'icmpTypeRange'; readonly family: Family; readonly first: number; readonly last: number }
  | { readonly kind: 'hopLimit'; readonly value: number }
  /** What follows the IP header, by its number. */
  | { readonly kind: 'protocol'; readonly protocol: number }
  /**
   * Destination ports, of this protocol, or of a packet that is known to have some, whatever its protocol; with `original`, those that a
   * connection of this protocol was made to, before any translation.
   */
  | {
      readonly kind: 'ports';
      readonly from: number;
      readonly to: number;
      readonly transport?: TransportName;
      readonly original?: true;
    }
  /** A TCP packet that begins no connection. */
  | { readonly kind: 'notSyn' }
  /** The packet begins a connection, as far as connection tracking can tell. */
  | { readonly kind: 'new' }
  /** The packet has one of these protocols, ascending, or with `not` none of them. More than one makes an anonymous set. */
  | { readonly kind: 'protocols'; readonly protocols: readonly number[]; readonly not?: true }
  /** The second of the two generations of sets records at the moment; see `recording.ts`. */
  | { readonly kind: 'secondGeneration' }
  /** No more packets than the kernel answers in a second; see `compile/recorder`. */
  | { readonly kind: 'rate'; readonly perSecond: number; readonly burst: number }
  /** The connection's destination or source address was translated. */
  | { readonly kind: 'translated'; readonly by: 'dnat' | 'snat' }
  /**
   * The packet came in by an interface: in `postrouting` this distinguishes forwarded packets from the device's own.
   */
  | { readonly kind: 'forwarded' }
  /** More than one range makes an anonymous set. Never empty. */
  | { readonly kind: 'address'; readonly family: Family; readonly side: AddressSide; readonly ranges: RangeSet };

/** What ends a rule, or one entry of a verdict map. */
export type Verdict =
  | { readonly kind: 'accept' }
  | { readonly kind: 'drop' }
  /** The next rule decides. */
  | { readonly kind: 'continue' }
  /** The rule after the jump to this chain decides. */
  | { readonly kind: 'return' }
  | { readonly kind: 'jump'; readonly chain: ObjectName }
  | { readonly kind: 'goto'; readonly chain: ObjectName };

/** The packet is dropped and its sender gets a TCP reset or an ICMP message. The kernel takes it in input, forward and output only. */
export interface Reject {
  readonly kind: 'reject';
  readonly with: 'tcp-reset' | 'admin-prohibited';
}

export interface ProtocolEntry {
  readonly protocol: number;
  readonly verdict: Verdict;
}

export interface PortEntry {
  readonly from: number;
  readonly to: number;
  readonly verdict: Verdict;
}

export interface AddressEntry extends Range {
  readonly verdict: Verdict;
}

/** A rule that ends in an anonymous verdict map. Entries ascend; of a single one, `protocolRule` and `portRule` make a condition. */
export type VerdictMap =
  | { readonly kind: 'protocolMap'; readonly entries: readonly ProtocolEntry[] }
  /** By destination port; with `original`, by the port that the connection was made to, before any translation, of one protocol. */
  | {
      readonly kind: 'portMap';
      readonly transport: PortTransport;
      readonly original?: true;
      readonly entries: readonly PortEntry[];
    }
  /** Entries are disjoint. */
  | {
      readonly kind: 'addressMap';
      readonly family: Family;
      readonly side: AddressSide;
      readonly entries: readonly AddressEntry[];
    };

/** The address of a packet looks up the counter that counts it; one that is not in the map meets no further condition. */
export interface CounterMap {
  readonly family: Family;
  readonly side: AddressSide;
  readonly map: ObjectName;
}

/**
 * Puts the far end of a packet into a set, with a counter unless `uncounted`. Where the set is full, or the kernel has no memory at hand for the
 * counter, the rule ends there: a rule that records never carries a verdict about the packet.
 */
export interface RecordTuple {
  readonly set: ObjectName;
  readonly family: Family;
  readonly side: AddressSide;
  /** With the destination port: of the packet, or the one that the connection was made to. */
  readonly port?: 'packet' | 'original';
  readonly uncounted?: true;
}

/** A packet that meets all conditions is counted, where a counter is named, and acted upon. */
export interface Rule {
  readonly matches: readonly Match[];
  /** After all conditions. */
  readonly record?: RecordTuple;
  /** Instead of a counter: the last condition, and whose counter. */
  readonly counterMap?: CounterMap;
  /** A counter of the table: it outlives the rule, and keeps a listing stable under traffic, which inline ones do not. */
  readonly counter?: ObjectName;
  readonly action: Verdict | VerdictMap | Reject;
}

export interface BaseChain {
  readonly kind: 'base';
  readonly name: ObjectName;
  /** Always type filter, policy accept, and the priority of the hook (reference 1.2 (2)). */
  readonly hook: Hook;
  readonly rules: readonly Rule[];
}

/** A chain that packets reach only from another chain; `name` is made of the content, so it is never edited. */
export interface HelperChain {
  readonly kind: 'helper';
  readonly name: ObjectName;
  readonly rules: readonly Rule[];
}

/**
 * A named map from addresses to counters. Its name identifies the peers, not their current addresses: members are added
 * and removed in place.
 */
export interface PeerMap {
  readonly name: ObjectName;
  readonly family: Family;
  /** What becomes of the packets of members. */
  readonly verdict: 'accept' | 'drop';
  /** Those that members may need, now or later. */
  readonly counters: readonly ObjectName[];
  /** Whom it is about, and who counts them: the first that an address belongs to does. */
  readonly names: readonly { readonly key: string; readonly counter: ObjectName }[];
  /** The counter of each address that is in it. There may be very many, so they are worked out when somebody looks. */
  readonly elements: ReadonlyMap<bigint, ObjectName>;
}

/** What the sets of the recorder hold; `generation` holds both families while the second generation records. */
export type RecordSetKind = 'generation' | 'port4' | 'port6' | 'plain4' | 'plain6';

/** A named set that rules record into, or that says which sets those are. Its elements are no part of the rules. */
export interface RecordSet {
  readonly name: ObjectName;
  readonly kind: RecordSetKind;
}

/** One table. `helpers` come in an order in which each one's targets stand before it; `counters` are those that rules name. */
export interface TableRules {
  readonly counters: readonly ObjectName[];
  readonly inbound?: BaseChain;
  readonly outbound?: BaseChain;
  readonly helpers: readonly HelperChain[];
  /** Those that rules look up; absent where none do. */
  readonly maps?: readonly PeerMap[];
  /** Those that rules record into; absent where none do. */
  readonly sets?: readonly RecordSet[];
}

/** Everything that enforces a policy: the specified table, and beside it the one for forwarded connections where it is needed. */
export interface Ruleset extends TableRules {
  readonly inbound: BaseChain;
  readonly outbound: BaseChain;
  readonly forward?: TableRules;
}

/** What the ruleset says of one table. */
export const rulesOfTable = (ruleset: Ruleset, table: TableName): TableRules | undefined =>
  table === 'service' ? ruleset : ruleset.forward;

export const basesOf = ({ inbound, outbound }: TableRules): readonly BaseChain[] => [
  ...(inbound === undefined ? [] : [inbound]),
  ...(outbound === undefined ? [] : [outbound]),
];

/** Objects besides chains that may stand in our table, in nft's own words. Of ours there are counters, maps and sets. */
export const objectKinds = [
  'set',
  'map',
  'flowtable',
  'counter',
  'quota',
  'limit',
  'synproxy',
  'secmark',
  'ct helper',
  'ct timeout',
  'ct expectation',
] as const;
export type ObjectKind = (typeof objectKinds)[number];

/** One line of an nft batch, about the table `service` unless it says otherwise. A batch is one transaction. */
export type Command = { readonly table?: TableName } & Change;

type Change =
  | { readonly kind: 'addTable' }
  | { readonly kind: 'deleteTable' }
  | { readonly kind: 'addCounter'; readonly name: ObjectName }
  | { readonly kind: 'addBaseChain'; readonly name: ObjectName; readonly hook: Hook }
  | { readonly kind: 'addChain'; readonly name: ObjectName }
  | { readonly kind: 'flushChain'; readonly name: ObjectName }
  | { readonly kind: 'deleteChain'; readonly name: ObjectName }
  | { readonly kind: 'addRule'; readonly chain: ObjectName; readonly rule: Rule }
  | { readonly kind: 'addMap'; readonly name: ObjectName; readonly family: Family }
  | { readonly kind: 'addSet'; readonly name: ObjectName; readonly of: RecordSetKind }
  /** Empties a set that rules record into. */
  | { readonly kind: 'flushSet'; readonly name: ObjectName }
  /** Turns to the second generation of sets; `flushSet` of the same set turns back. */
  | { readonly kind: 'startSecondGeneration'; readonly set: ObjectName }
  /** Never empty. */
  | {
      readonly kind: 'addElements';
      readonly map: ObjectName;
      readonly family: Family;
      readonly elements: readonly (readonly [bigint, ObjectName])[];
    }
  /** Never empty; each must be there. */
  | {
      readonly kind: 'deleteElements';
      readonly map: ObjectName;
      readonly family: Family;
      readonly addresses: readonly bigint[];
    }
  | { readonly kind: 'deleteObject'; readonly object: ObjectKind; readonly name: ObjectName };

/** The two base chains (reference 1.2 (2)). */
export const inboundName = parseObjectName('service-inbound');
export const outboundName = parseObjectName('service-outbound');

/** Freezes a node and the list fields it holds. Ranges stay as the policy gave them: there may be very many. */
export function node<const T extends object>(fields: T): T {
  for (const key in fields) {
    const value: unknown = fields[key];
    if (Array.isArray(value)) Object.freeze(value);
  }
  return Object.freeze(fields);
}

/** A rule about whom a map holds. */
export const mapRule = (matches: readonly Match[], counterMap: CounterMap, action: Verdict): Rule =>
  node({ matches, counterMap: node(counterMap), action });
export const rule = (matches: readonly Match[], action: Rule['action'], counter?: ObjectName): Rule =>
  node(counter === undefined ? { matches, action } : { matches, counter, action });
/** The same rule, for packets that meet this condition first. */
export const ruleAfter = (match: Match, each: Rule): Rule => node({ ...each, matches: [match, ...each.matches] });
export const accept: Verdict = node({ kind: 'accept' });
export const drop: Verdict = node({ kind: 'drop' });
export const goOn: Verdict = node({ kind: 'continue' });
export const goBack: Verdict = node({ kind: 'return' });
export const jump = (chain: ObjectName): Verdict => node({ kind: 'jump', chain });
export const goto = (chain: ObjectName): Verdict => node({ kind: 'goto', chain });

/** Whose ports, and which: those of a packet, or those that its connection was made to. */
export type PortKind = Pick<Extract<VerdictMap, { kind: 'portMap' }>, 'transport' | 'original'>;
export interface PortLookUp extends PortKind {
  readonly entries: readonly PortEntry[];
}
type PortsMatch = Extract<Match, { kind: 'ports' }>;

export const portsMatch = (
  { from, to }: { readonly from: number; readonly to: number },
  { transport, original }: PortKind = { transport: 'th' },
): PortsMatch =>
  node({ kind: 'ports', from, to, ...(transport !== 'th' && { transport, ...(original && { original }) }) });

/** Parts packets by their protocol. One entry is a plain condition, which costs a packet less than a look-up. */
export function protocolRule(entries: readonly ProtocolEntry[]): Rule {
  const [only] = entries;
  if (only === undefined || entries.length > 1) return rule([], node({ kind: 'protocolMap', entries }));
  return rule([node({ kind: 'protocol', protocol: only.protocol })], only.verdict);
}

/** Parts packets by their port. One entry is a plain condition here too. */
export function portRule({ transport, original, entries }: PortLookUp): Rule {
  const [only] = entries;
  const kind: PortKind = { transport, ...(original && { original }) };
  if (only === undefined || entries.length > 1) return rule([], node({ kind: 'portMap', ...kind, entries }));
  return rule([portsMatch(only, kind)], only.verdict);
}

const isCounting = ({ counter, counterMap, record }: Rule): boolean =>
  counter !== undefined || counterMap !== undefined || record !== undefined;

export const isVerdict = (action: Rule['action']): action is Verdict =>
  !('entries' in action) && action.kind !== 'reject';

/** Where protocols lead by a rule of `protocolRule`, in either form. */
export function protocolEntries(each: Rule): readonly ProtocolEntry[] | undefined {
  if (isCounting(each)) return undefined;
  const { matches, action } = each;
  const [match, ...more] = matches;
  if (action.kind === 'protocolMap' && match === undefined) return action.entries;
  if (!isVerdict(action) || match?.kind !== 'protocol' || more.length > 0) return undefined;
  return [{ protocol: match.protocol, verdict: action }];
}

/** Where ports lead by a rule of `portRule`, in either form. */
export function portLookUp(each: Rule): PortLookUp | undefined {
  if (isCounting(each)) return undefined;
  const { matches, action } = each;
  const [match, ...more] = matches;
  if (action.kind === 'portMap' && match === undefined) return action;
  if (!isVerdict(action) || match?.kind !== 'ports' || more.length > 0) return undefined;
  const { from, to } = match;
  return { ...portKind(match), entries: [{ from, to, verdict: action }] };
}

const portKind = ({ transport, original }: PortsMatch): PortKind => ({
  transport: transport ?? 'th',
  ...(original && { original }),
});

/** Whose ports a rule parts, in whatever form, with whatever conditions behind them; nothing where it parts none. */
export function portKindOf({ matches, action }: Rule): PortKind | undefined {
  const [match] = matches;
  if (match?.kind === 'ports') return portKind(match);
  return match === undefined && action.kind === 'portMap' ? action : undefined;
}

/** Whether loading the rule makes an anonymous set or map, whose contents become visible a moment after the rule does. */
export function makesSet({ matches, action }: Rule): boolean {
  return (
    'entries' in action ||
    matches.some(
      (m) =>
        (m.kind === 'address' && m.ranges.length > 1) ||
        (m.kind === 'icmpTypes' && m.types.length > 1) ||
        (m.kind === 'protocols' && m.protocols.length > 1),
    )
  );
}

/** The chains that a rule sends packets to. */
export function targets({ action }: Rule): readonly ObjectName[] {
  if (!('entries' in action)) return 'chain' in action ? [action.chain] : [];
  const chains: ObjectName[] = [];
  for (const { verdict } of action.entries) if ('chain' in verdict) chains.push(verdict.chain);
  return chains;
}
