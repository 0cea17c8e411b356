/** Owns a fake of `nft -j list table`: the caller chooses among the forms in which nft may print a ruleset. */
import { prefixLength, printAddress } from '../../policy/address.ts';
import type { Range } from '../../policy/range.ts';
import type { Family } from '../../policy/rule.ts';
import { blocksOf, maskOf } from '../blocks.ts';
import {
  basesOf,
  hookPriority,
  type CounterMap,
  type Match,
  type RecordTuple,
  type Reject,
  type Rule,
  type Ruleset,
  type TableName,
  type TableRules,
  type TransportName,
  type Verdict,
  type VerdictMap,
} from '../ast.ts';

/** Answers each question of taste: whether to take the other way of telling the same. */
export type Taste = () => boolean;

type Json = Readonly<Record<string, unknown>>;

const icmpNames: Readonly<Record<Family, Readonly<Record<number, string>>>> = {
  4: { 0: 'echo-reply', 8: 'echo-request' },
  6: {
    128: 'echo-request',
    129: 'echo-reply',
    130: 'mld-listener-query',
    132: 'mld-listener-done',
    133: 'nd-router-solicit',
    134: 'nd-router-advert',
    135: 'nd-neighbor-solicit',
    136: 'nd-neighbor-advert',
    143: 'mld2-listener-report',
  },
};
const protocolNames: Readonly<Record<number, string>> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'ipv6-icmp' };

/** A range whole, as a prefix (with or without host bits), or cut in two parts that touch. */
function rangeJson(range: Range, family: Family, taste: Taste): unknown[] {
  const { first, last } = range;
  if (first === last) return [printAddress(family, first)];
  const length = prefixLength(family, range);
  if (length !== undefined && taste()) {
    const addr = printAddress(family, taste() ? last : first);
    return [{ prefix: { addr, len: length } }];
  }
  if (taste() && taste()) {
    const middle = (first + last) / 2n;
    return [
      ...rangeJson({ first, last: middle }, family, taste),
      ...rangeJson({ first: middle + 1n, last }, family, taste),
    ];
  }
  return [{ range: [printAddress(family, first), printAddress(family, last)] }];
}

const shuffled = <T>(items: readonly T[], taste: Taste): T[] => {
  const mixed: T[] = [];
  for (const item of items) mixed.splice(taste() ? 0 : mixed.length, 0, item);
  return mixed;
};

function setJson(items: readonly unknown[], taste: Taste): unknown {
  return items.length === 1 && taste() ? items[0] : { set: shuffled(items, taste) };
}

const originalPort: Json = { ct: { key: 'proto-dst', dir: 'original' } };
const equal = (left: unknown, right: unknown): Json => ({ match: { op: '==', left, right } });
const payload = (protocol: string, name: string): Json => ({ payload: { protocol, field: name } });

function matchJson(match: Match, taste: Taste): Json {
  switch (match.kind) {
    case 'interface':
      return equal({ meta: { key: match.side } }, match.name);
    case 'established':
      return {
        match: { op: 'in', left: { ct: { key: 'state' } }, right: shuffled(['established', 'related'], taste) },
      };
    case 'family':
      return equal({ meta: { key: 'nfproto' } }, taste() ? `ipv${match.family}` : match.family === 4 ? 2 : 10);
    case 'icmpTypes': {
      const types = match.types.map((type) => (taste() ? type : (icmpNames[match.family][type] ?? type)));
      return equal(payload(match.family === 4 ? 'icmp' : 'icmpv6', 'type'), setJson(types, taste));
    }
    case 'icmpTypeRange': {
      const ends = [match.first, match.last].map((type) => (taste() ? type : (icmpNames[match.family][type] ?? type)));
      return equal(payload(match.family === 4 ? 'icmp' : 'icmpv6', 'type'), { range: ends });
    }
    case 'ports': {
      const { from, to, transport = 'th', original } = match;
      const ports = from === to && taste() ? from : { range: [from, to] };
      return equal(original === true ? originalPort : payload(transport, 'dport'), ports);
    }
    case 'protocol':
      return equal(
        { meta: { key: 'l4proto' } },
        taste() ? match.protocol : (protocolNames[match.protocol] ?? match.protocol),
      );
    case 'notSyn': {
      const flags = payload('tcp', 'flags');
      return taste() ? { match: { op: '!', left: flags, right: 'syn' } } : equal({ '&': [flags, 'syn'] }, 0);
    }
    case 'new':
      return { match: { op: 'in', left: { ct: { key: 'state' } }, right: 'new' } };
    case 'protocols': {
      const { protocols, not } = match;
      const names = protocols.map((each) => (taste() ? each : (protocolNames[each] ?? each)));
      return {
        match: { op: not === true ? '!=' : '==', left: { meta: { key: 'l4proto' } }, right: setJson(names, taste) },
      };
    }
    case 'secondGeneration':
      return equal({ meta: { key: 'nfproto' } }, '@observed-second');
    case 'rate':
      return { limit: { rate: match.perSecond, burst: match.burst, per: 'second' } };
    case 'translated':
      return { match: { op: 'in', left: { ct: { key: 'status' } }, right: match.by } };
    case 'forwarded':
      return { match: { op: '>', left: { meta: { key: 'iif' } }, right: taste() ? 0 : '0' } };
    case 'hopLimit':
      return equal(payload('ip6', 'hoplimit'), match.value);
    case 'address': {
      const { family, side, ranges } = match;
      const address = payload(family === 4 ? 'ip' : 'ip6', side);
      const blocks = blocksOf(ranges, family);
      if (blocks !== undefined && taste()) {
        const items = blocks.firsts.map((first) => printAddress(family, first));
        const mask = printAddress(family, maskOf(family, blocks.length));
        return equal({ '&': [address, mask] }, setJson(items, taste));
      }
      const items = ranges.flatMap((range) => rangeJson(range, family, taste));
      return equal(address, setJson(items, taste));
    }
    default:
      return match satisfies never;
  }
}

const verdictJson = (verdict: Verdict): Json =>
  'chain' in verdict ? { [verdict.kind]: { target: verdict.chain } } : { [verdict.kind]: null };

function mapJson(map: VerdictMap, taste: Taste): Json {
  if (map.kind === 'protocolMap') {
    const pairs = map.entries.map(({ protocol, verdict }) => [
      taste() ? protocol : (protocolNames[protocol] ?? protocol),
      verdictJson(verdict),
    ]);
    return { vmap: { key: { meta: { key: 'l4proto' } }, data: { set: shuffled(pairs, taste) } } };
  }
  if (map.kind === 'addressMap') {
    const { family, side, entries } = map;
    const pairs = entries.flatMap((entry) =>
      rangeJson(entry, family, taste).map((part) => [part, verdictJson(entry.verdict)]),
    );
    const key = payload(family === 4 ? 'ip' : 'ip6', side);
    return { vmap: { key, data: { set: shuffled(pairs, taste) } } };
  }
  const port = map.original === true ? originalPort : payload(map.transport, 'dport');
  const pairs = map.entries.map(({ from, to, verdict }) => [
    from === to && taste() ? from : { range: [from, to] },
    verdictJson(verdict),
  ]);
  return { vmap: { key: port, data: { set: shuffled(pairs, taste) } } };
}

const lookUpJson = ({ family, side, map }: CounterMap): Json => ({
  counter: { map: { key: payload(family === 4 ? 'ip' : 'ip6', side), data: `@${map}` } },
});

const recordJson = ({ set, family, side, port, uncounted }: RecordTuple): Json => {
  const key = [payload(family === 4 ? 'ip' : 'ip6', side), { meta: { key: 'l4proto' } }];
  const ports = port === undefined ? [] : [port === 'packet' ? payload('th', 'dport') : originalPort];
  const counting = uncounted === true ? {} : { stmt: [{ counter: null }] };
  return { set: { op: 'update', elem: { concat: [...key, ...ports] }, set: `@${set}`, ...counting } };
};

const rejectJson = (action: Reject): Json =>
  action.with === 'tcp-reset'
    ? { reject: { type: 'tcp reset' } }
    : { reject: { type: 'icmpx', expr: 'admin-prohibited' } };

function ruleJson({ matches, record, counter, counterMap, action }: Rule, taste: Taste): Json[] {
  const counted = counter === undefined ? (counterMap === undefined ? [] : [lookUpJson(counterMap)]) : [{ counter }];
  const protocol = (transport: TransportName): Json =>
    equal({ meta: { key: 'l4proto' } }, taste() ? transport : transport === 'tcp' ? 6 : 17);
  const conditions = [
    ...matches.flatMap((match) => [
      ...(match.kind === 'ports' && match.transport !== undefined && (match.original === true || taste())
        ? [protocol(match.transport)]
        : []),
      matchJson(match, taste),
    ]),
    ...(record === undefined ? [] : [recordJson(record)]),
    ...counted,
  ];
  if (action.kind === 'reject') return [...conditions, rejectJson(action)];
  if (!('entries' in action)) return [...conditions, verdictJson(action)];
  const implied =
    action.kind === 'portMap' && action.transport !== 'th' && (action.original === true || taste())
      ? [protocol(action.transport)]
      : [];
  return [...conditions, ...implied, mapJson(action, taste)];
}

/** One table of the listing, with handles as a kernel would give them. */
function tableJson(table: TableName, rules: TableRules, taste: Taste): Json[] {
  const { counters, helpers } = rules;
  const own = { family: 'inet', table };
  let handle = 0;
  const counting = counters.map((name) => ({
    counter: { ...own, name, handle: (handle += 1), packets: taste() ? handle : 0, bytes: 0 },
  }));
  const maps = (rules.maps ?? []).map(({ name, family: of, elements }) => ({
    map: {
      ...own,
      name,
      type: `ipv${of}_addr`,
      handle: (handle += 1),
      map: 'counter',
      ...(elements.size > 0 && {
        elem: shuffled(
          [...elements].map(([address, counter]) => [printAddress(of, address), counter]),
          taste,
        ),
      }),
    },
  }));
  // Packets put elements there at any time.
  const sets = (rules.sets ?? []).map(({ name, kind }) => ({
    set: {
      ...own,
      name,
      type: kind === 'generation' ? 'nf_proto' : ['ipv4_addr', 'inet_proto'],
      handle: (handle += 1),
      ...(taste() && { elem: ['ipv4', { elem: { val: { concat: ['1.2.3.4', 'tcp'] }, expires: 599 } }] }),
    },
  }));
  const chains: Json[] = [];
  const listed: Json[] = [];
  for (const chain of [...helpers, ...basesOf(rules)]) {
    const attached =
      chain.kind === 'base'
        ? { type: 'filter', hook: chain.hook, prio: hookPriority[chain.hook], policy: 'accept' }
        : {};
    chains.push({ chain: { ...own, name: chain.name, handle: (handle += 1), ...attached } });
    for (const each of chain.rules) {
      listed.push({ rule: { ...own, chain: chain.name, handle: (handle += 1), expr: ruleJson(each, taste) } });
    }
  }
  return [{ table: { family: 'inet', name: table, handle: 1 } }, ...counting, ...maps, ...sets, ...chains, ...listed];
}

/** The listing of the ruleset. */
export const listingOf = (ruleset: Ruleset, taste: Taste = () => false): { nftables: Json[] } => ({
  nftables: [
    { metainfo: { version: '1.0.6', release_name: 'Lester Gooch #5', json_schema_version: 1 } },
    ...tableJson('service', ruleset, taste),
    ...(ruleset.forward === undefined ? [] : tableJson('service-forward', ruleset.forward, taste)),
  ],
});
