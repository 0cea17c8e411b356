/** Owns the parsing of nft's JSON into rules: one AST for all forms in which nft may print the same rule. */
import { parseAddress } from '../../policy/address.ts';
import { lastAddress, mergeRanges, type Range, type RangeSet } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import {
  accept,
  drop,
  goBack,
  goOn,
  goto,
  isVerdict,
  jump,
  mapRule,
  node,
  portsMatch,
  protocolNumber,
  rule,
  type Match,
  type AddressEntry,
  type AddressSide,
  type CounterMap,
  type PortEntry,
  type PortTransport,
  type ProtocolEntry,
  type Rule,
  type TransportName,
  type Verdict,
  type VerdictMap,
} from '../ast.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';
import { isNumberBetween, tagged } from './json.ts';
import { isObjectName, parseInterfaceName } from '../names.ts';
import { generationSet } from '../recording.ts';
import { parseRate, parseRecord, parseReject, parseState } from './parse-recording.ts';

/** Symbols that nft may print instead of numbers, by what they are a value of. */
const symbols = {
  protocol: { icmp: 1, tcp: 6, udp: 17, 'ipv6-icmp': 58, icmpv6: 58 },
  nfproto: { ipv4: 2, ipv6: 10 },
  icmp: { 'echo-reply': 0, 'echo-request': 8 },
  icmpv6: {
    'echo-request': 128,
    'echo-reply': 129,
    'mld-listener-query': 130,
    'mld-listener-report': 131,
    'mld-listener-done': 132,
    'mld-listener-reduction': 132,
    'nd-router-solicit': 133,
    'nd-router-advert': 134,
    'nd-neighbor-solicit': 135,
    'nd-neighbor-advert': 136,
    'mld2-listener-report': 143,
  },
} as const;
type Symbols = Readonly<Record<string, number>>;

/** A number below 256, also written as one of the symbols. */
function byteOf(value: unknown, names: Symbols): number | undefined {
  const number = typeof value === 'string' && Object.hasOwn(names, value) ? names[value] : value;
  return isNumberBetween(number, 0, 255) ? number : undefined;
}

/** The items of a set, or a single item that nft prints without a set around it. */
function itemsOf(value: unknown): readonly unknown[] {
  const set = tagged(value, 'set');
  return Array.isArray(set) ? (set as readonly unknown[]) : [value];
}

/** All results, or nothing as soon as one is missing. */
function every<In, Out>(items: readonly In[], read: (item: In) => Out | undefined): Out[] | undefined {
  const all: Out[] = [];
  for (const item of items) {
    const result = read(item);
    if (result === undefined) return undefined;
    all.push(result);
  }
  return all;
}

/** The two ends of nft's `range`, each read alike. */
function ends<T>(value: unknown, read: (end: unknown) => T | undefined): readonly [T, T] | undefined {
  const range = tagged(value, 'range');
  if (!Array.isArray(range) || range.length !== 2) return undefined;
  const [first, last] = [read(range[0]), read(range[1])];
  return first === undefined || last === undefined ? undefined : [first, last];
}

function addressOf(value: unknown, family: Family): bigint | undefined {
  if (typeof value !== 'string') return undefined;
  const address = parseAddress(value);
  return 'fault' in address || address.family !== family ? undefined : address.value;
}

/** A lone address, a prefix (host bits do not count) or a range. */
function rangeOf(value: unknown, family: Family): Range | undefined {
  const single = addressOf(value, family);
  if (single !== undefined) return { first: single, last: single };
  const prefix = tagged(value, 'prefix');
  if (isObject(prefix)) {
    const bits = family === 4 ? 32 : 128;
    const address = addressOf(field(prefix, 'addr'), family);
    const length = field(prefix, 'len');
    if (address === undefined || !isNumberBetween(length, 0, bits)) return undefined;
    const host = (1n << BigInt(bits - length)) - 1n;
    return { first: address & ~host, last: address | host };
  }
  const range = ends(value, (end) => addressOf(end, family));
  return range === undefined || range[0] > range[1] ? undefined : { first: range[0], last: range[1] };
}

function rangesOf(value: unknown, family: Family): RangeSet | undefined {
  const ranges = every(itemsOf(value), (item) => rangeOf(item, family));
  return ranges === undefined || ranges.length === 0 ? undefined : mergeRanges(ranges);
}

/** Addresses under a mask: each one represents a block of that size. */
function blockMatch(payload: unknown, mask: unknown, right: unknown): Match | undefined {
  const key = addressKey(payload);
  if (key === undefined) return undefined;
  const { family, side } = key;
  const bits = addressOf(mask, family);
  const host = bits === undefined ? 0n : lastAddress(family) - bits;
  // The bits of a mask stand together at its front.
  if (bits === undefined || (host & (host + 1n)) !== 0n) return undefined;
  const blocks = every(itemsOf(right), (item): Range | undefined => {
    const first = addressOf(item, family);
    return first === undefined || (first & host) !== 0n ? undefined : { first, last: first | host };
  });
  if (blocks === undefined || blocks.length === 0) return undefined;
  return node({ kind: 'address', family, side, ranges: mergeRanges(blocks) });
}

function icmpMatch(right: unknown, family: Family): Match | undefined {
  const names: Symbols = family === 4 ? symbols.icmp : symbols.icmpv6;
  const range = ends(right, (end) => byteOf(end, names));
  if (range !== undefined) return node({ kind: 'icmpTypeRange', family, first: range[0], last: range[1] });
  const types = every(itemsOf(right), (item) => byteOf(item, names));
  return types === undefined || types.length === 0
    ? undefined
    : node({ kind: 'icmpTypes', family, types: [...new Set(types)].toSorted((a, b) => a - b) });
}

function payloadMatch(protocol: unknown, name: unknown, right: unknown): Match | undefined {
  if ((protocol === 'ip' || protocol === 'ip6') && (name === 'saddr' || name === 'daddr')) {
    const family = protocol === 'ip' ? 4 : 6;
    const ranges = rangesOf(right, family);
    return ranges === undefined ? undefined : node({ kind: 'address', family, side: name, ranges });
  }
  if (protocol === 'icmp' && name === 'type') return icmpMatch(right, 4);
  if (protocol === 'icmpv6' && name === 'type') return icmpMatch(right, 6);
  if ((protocol === 'tcp' || protocol === 'udp' || protocol === 'th') && name === 'dport') {
    const ports = portsOf(right);
    return ports && portsMatch(ports, { transport: protocol });
  }
  if (protocol === 'ip6' && name === 'hoplimit' && isNumberBetween(right, 0, 255)) {
    return node({ kind: 'hopLimit', value: right });
  }
  return undefined;
}

/** The port of a connection as it was made. */
const isOriginalPort = (value: unknown): boolean => {
  const ct = tagged(value, 'ct');
  return isObject(ct) && field(ct, 'key') === 'proto-dst' && field(ct, 'dir') === 'original';
};

function ctMatch(ct: JsonObject, op: unknown, right: unknown): Match | undefined {
  const key = tagged(ct, 'key');
  if (op !== 'in') return undefined;
  if (key === 'state') return parseState(right);
  if (key !== 'status') return undefined;
  return right === 'dnat' || right === 'snat' ? node({ kind: 'translated', by: right }) : undefined;
}

/** Ascending, each once. */
const protocolsOf = (right: unknown): number[] | undefined =>
  every(itemsOf(right), (item) => byteOf(item, symbols.protocol))?.toSorted((a, b) => a - b);

function metaMatch(key: unknown, right: unknown): Match | undefined {
  if (key === 'nfproto' && right === `@${generationSet}`) return node({ kind: 'secondGeneration' });
  if (key === 'nfproto') {
    const number = byteOf(right, symbols.nfproto);
    if (number === symbols.nfproto.ipv4) return node({ kind: 'family', family: 4 });
    return number === symbols.nfproto.ipv6 ? node({ kind: 'family', family: 6 }) : undefined;
  }
  if (key === 'l4proto') {
    const protocols = protocolsOf(right);
    const [protocol] = protocols ?? [];
    if (protocols === undefined || protocol === undefined) return undefined;
    return protocols.length > 1 ? node({ kind: 'protocols', protocols }) : node({ kind: 'protocol', protocol });
  }
  if (key !== 'iifname' && key !== 'oifname') return undefined;
  try {
    return node({ kind: 'interface', side: key, name: parseInterfaceName(right) });
  } catch {
    return undefined;
  }
}

const isTcpFlags = (value: unknown): boolean => {
  const payload = tagged(value, 'payload');
  return isObject(payload) && field(payload, 'protocol') === 'tcp' && field(payload, 'field') === 'flags';
};

function parseMatch(expression: unknown): Match | undefined {
  const match = tagged(expression, 'match');
  if (!isObject(match)) return parseRate(expression);
  const [op, left, right] = [field(match, 'op'), field(match, 'left'), field(match, 'right')];
  const ct = tagged(left, 'ct');
  if (isObject(ct)) return ctMatch(ct, op, right);
  const meta = tagged(tagged(left, 'meta'), 'key');
  if (op === '>' && meta === 'iif') return Number(right) === 0 ? node({ kind: 'forwarded' }) : undefined;
  if (op === '!=' && meta === 'l4proto') {
    const protocols = protocolsOf(right);
    return protocols && node({ kind: 'protocols', protocols, not: true });
  }
  if (op === '!' && isTcpFlags(left)) return right === 'syn' ? node({ kind: 'notSyn' }) : undefined;
  if (op !== '==') return undefined;
  const masked = tagged(left, '&');
  // Older versions of nft do not know the short way to say that a flag is not set.
  if (Array.isArray(masked) && isTcpFlags(masked[0])) {
    return masked[1] === 'syn' && right === 0 ? node({ kind: 'notSyn' }) : undefined;
  }
  if (Array.isArray(masked) && masked.length === 2) return blockMatch(tagged(masked[0], 'payload'), masked[1], right);
  const payload = tagged(left, 'payload');
  if (isObject(payload)) return payloadMatch(field(payload, 'protocol'), field(payload, 'field'), right);
  return metaMatch(meta, right);
}

function parseVerdict(expression: unknown): Verdict | undefined {
  if (tagged(expression, 'accept') === null) return accept;
  if (tagged(expression, 'drop') === null) return drop;
  if (tagged(expression, 'continue') === null) return goOn;
  if (tagged(expression, 'return') === null) return goBack;
  for (const [tag, make] of [
    ['jump', jump],
    ['goto', goto],
  ] as const) {
    const target = tagged(tagged(expression, tag), 'target');
    if (typeof target === 'string' && isObjectName(target)) return make(target);
  }
  return undefined;
}

function portsOf(value: unknown): { from: number; to: number } | undefined {
  const portOf = (end: unknown): number | undefined => (isNumberBetween(end, 0, 65_535) ? end : undefined);
  const single = portOf(value);
  if (single !== undefined) return { from: single, to: single };
  const range = ends(value, portOf);
  return range === undefined || range[0] > range[1] ? undefined : { from: range[0], to: range[1] };
}

/** Pairs of a key and its verdict. */
function entriesOf<Key extends object>(
  data: unknown,
  read: (key: unknown) => Key | undefined,
): (Key & { verdict: Verdict })[] | undefined {
  const set = tagged(data, 'set');
  if (!Array.isArray(set) || set.length === 0) return undefined;
  return every(set as readonly unknown[], (item) => {
    if (!Array.isArray(item) || item.length !== 2) return undefined;
    const [key, verdict] = [read(item[0]), parseVerdict(item[1])];
    return key === undefined || verdict === undefined ? undefined : { ...key, verdict };
  });
}

/** The protocol whose destination port the key is: of the packet, or `given` where it is that of the connection. */
function portTransport(key: unknown, given: TransportName | undefined): PortTransport | undefined {
  if (isOriginalPort(key)) return given;
  const payload = tagged(key, 'payload');
  if (!isObject(payload) || field(payload, 'field') !== 'dport') return undefined;
  const transport = field(payload, 'protocol');
  return transport === 'tcp' || transport === 'udp' || transport === 'th' ? transport : undefined;
}

function portMap(key: unknown, data: unknown, given: TransportName | undefined): VerdictMap | undefined {
  const transport = portTransport(key, given);
  const entries: PortEntry[] | undefined = transport && entriesOf(data, portsOf);
  if (transport === undefined || entries === undefined) return undefined;
  const original = isOriginalPort(key);
  const ascending = entries.toSorted((a, b) => a.from - b.from);
  return node({ kind: 'portMap', transport, ...(original && { original }), entries: ascending });
}

/** The family and side of an address of the packet. */
function addressKey(payload: unknown): { readonly family: Family; readonly side: AddressSide } | undefined {
  const [protocol, side] = isObject(payload) ? [field(payload, 'protocol'), field(payload, 'field')] : [];
  if ((protocol !== 'ip' && protocol !== 'ip6') || (side !== 'saddr' && side !== 'daddr')) return undefined;
  return { family: protocol === 'ip' ? 4 : 6, side };
}

/** Entries that touch and say the same are one. */
function joinTouching(entries: readonly AddressEntry[]): AddressEntry[] {
  const joined: { first: bigint; last: bigint; verdict: Verdict }[] = [];
  for (const { first, last, verdict } of entries) {
    const before = joined.at(-1);
    if (before !== undefined && before.last + 1n === first && sameVerdict(before.verdict, verdict)) before.last = last;
    else joined.push({ first, last, verdict });
  }
  return joined;
}

const sameVerdict = (a: Verdict, b: Verdict): boolean =>
  a.kind === b.kind && ('chain' in a ? a.chain : '') === ('chain' in b ? b.chain : '');

function addressMap(key: unknown, data: unknown): VerdictMap | undefined {
  const address = addressKey(tagged(key, 'payload'));
  const entries: AddressEntry[] | undefined = address && entriesOf(data, (item) => rangeOf(item, address.family));
  if (address === undefined || entries === undefined) return undefined;
  const ascending = entries.toSorted((a, b) => (a.first < b.first ? -1 : 1));
  return node({ kind: 'addressMap', ...address, entries: joinTouching(ascending) });
}

/** `given` is the protocol that the rule names before the map. */
function parseMap(expression: unknown, given?: TransportName): VerdictMap | undefined {
  const vmap = tagged(expression, 'vmap');
  if (!isObject(vmap)) return undefined;
  const [key, data] = [field(vmap, 'key'), field(vmap, 'data')];
  if (tagged(tagged(key, 'meta'), 'key') === 'l4proto') {
    const entries: ProtocolEntry[] | undefined = entriesOf(data, (name) => {
      const protocol = byteOf(name, symbols.protocol);
      return protocol === undefined ? undefined : { protocol };
    });
    if (entries === undefined) return undefined;
    return node({ kind: 'protocolMap', entries: entries.toSorted((a, b) => a.protocol - b.protocol) });
  }
  return addressMap(key, data) ?? portMap(key, data, given);
}

/** The transport protocol that a condition names, as `meta l4proto tcp` does. */
function namedTransport(expression: unknown): TransportName | undefined {
  const match = tagged(expression, 'match');
  if (!isObject(match) || field(match, 'op') !== '==') return undefined;
  if (tagged(tagged(field(match, 'left'), 'meta'), 'key') !== 'l4proto') return undefined;
  const protocol = byteOf(field(match, 'right'), symbols.protocol);
  return protocol === protocolNumber.tcp ? 'tcp' : protocol === protocolNumber.udp ? 'udp' : undefined;
}

/** Ports that a connection was made to: nft names the protocol in a condition of its own before. */
function originalPorts(expression: unknown, next: unknown): Match | undefined {
  const transport = namedTransport(expression);
  const match = tagged(next, 'match');
  if (transport === undefined || !isObject(match) || field(match, 'op') !== '==') return undefined;
  const ports = isOriginalPort(field(match, 'left')) ? portsOf(field(match, 'right')) : undefined;
  return ports && portsMatch(ports, { transport, original: true });
}

/** `meta l4proto tcp` before `tcp dport`: some versions of nft print what the one already implies. */
function impliedBefore(expression: unknown, next: unknown): Match | undefined {
  const transport = namedTransport(expression);
  const match = transport && parseMatch(next);
  return match?.kind === 'ports' && match.transport === transport ? match : undefined;
}

function parseMatches(conditions: readonly unknown[]): Match[] | undefined {
  const matches: Match[] = [];
  for (let at = 0; at < conditions.length; at += 1) {
    const both = originalPorts(conditions[at], conditions[at + 1]) ?? impliedBefore(conditions[at], conditions[at + 1]);
    const match = both ?? parseMatch(conditions[at]);
    if (match === undefined) return undefined;
    matches.push(match);
    if (both !== undefined) at += 1;
  }
  return matches;
}

/** A counter that the address looks up. */
function parseCounterMap(counter: unknown): CounterMap | undefined {
  const map = tagged(counter, 'map');
  if (!isObject(map)) return undefined;
  const [key, data] = [addressKey(tagged(field(map, 'key'), 'payload')), field(map, 'data')];
  const name = typeof data === 'string' && data.startsWith('@') ? data.slice(1) : '';
  return key === undefined || !isObjectName(name) ? undefined : { ...key, map: name };
}

/** Parses nft's list of expressions into a rule in canonical form. Undefined for a rule that we would not write. */
export function parseRule(expressions: unknown): Rule | undefined {
  if (!Array.isArray(expressions) || expressions.length === 0) return undefined;
  const last: unknown = expressions.at(-1);
  let conditions = expressions.slice(0, -1) as readonly unknown[];
  // An inline counter is an object here; we write none.
  const counter = tagged(conditions.at(-1), 'counter');
  const counterMap = parseCounterMap(counter);
  const counted = typeof counter === 'string' && isObjectName(counter) ? counter : undefined;
  if (counted !== undefined || counterMap !== undefined) conditions = conditions.slice(0, -1);
  const record = parseRecord(conditions.at(-1), addressKey);
  if (record !== undefined) conditions = conditions.slice(0, -1);
  const named = namedTransport(conditions.at(-1));
  const action = parseVerdict(last) ?? parseReject(last) ?? parseMap(last, named);
  if (action === undefined) return undefined;
  // `meta l4proto tcp` before a map of ports: some versions of nft print what `tcp dport` already implies.
  if (action.kind === 'portMap' && named === action.transport) conditions = conditions.slice(0, -1);
  const matches = parseMatches(conditions);
  if (matches === undefined) return undefined;
  if (record !== undefined) {
    return counted === undefined && counterMap === undefined ? node({ matches, record, action }) : undefined;
  }
  if (counterMap === undefined) return rule(matches, action, counted);
  return isVerdict(action) ? mapRule(matches, counterMap, action) : undefined;
}
