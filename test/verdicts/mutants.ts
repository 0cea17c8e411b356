/** Owns the deliberately wrong compilers: each makes one mistake that somebody has made, or easily could. */
import {
  isVerdict,
  protocolEntries,
  protocolNumber,
  protocolRule,
  type Match,
  type PeerMap,
  type PortEntry,
  type Rule,
  type Ruleset,
  type Verdict,
  type VerdictMap,
} from '../../src/nft/ast.ts';
import { compile } from '../../src/nft/compile/compile.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import type { CanonicalPolicy, DirectionPolicy, PortMap, TransportPolicy } from '../../src/policy/canonical.ts';
import type { EffectivePolicy } from '../../src/policy/effective.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import { defaultInboundRules, type PolicyGroup, type StoredRule } from '../../src/policy/rule.ts';
import { productCompiler, rebuildText, rulesetOf, type Compiler, type InstallOptions } from './install.ts';

/** The mistake is in how policies are read. */
const byPolicy =
  (mistake: (policy: EffectivePolicy) => EffectivePolicy): Compiler =>
  (policy, options) =>
    productCompiler(mistake(policy), { ...options, named: false });

const byRule = (mistake: (rule: StoredRule) => StoredRule): Compiler =>
  byPolicy(({ groups, ...rest }) => ({
    ...rest,
    groups: groups.map(({ id, name, inbound, outbound }) => ({
      id,
      name,
      inbound: inbound.map(mistake),
      outbound: outbound.map(mistake),
    })),
  }));

/** The mistake is in the canonical form. */
const byCanonical =
  (mistake: (policy: CanonicalPolicy) => CanonicalPolicy): Compiler =>
  (policy, options) =>
    rebuildText(compile(mistake(canonicalize(policy)), options));

/** The mistake is in the options. */
const byOptions =
  (mistake: (options: InstallOptions) => InstallOptions): Compiler =>
  (policy, options) =>
    productCompiler(policy, mistake(options));

/** The mistake is in the ruleset, which is not renamed after it: names do not matter to packets. */
const byRuleset =
  (mistake: (ruleset: Ruleset) => Ruleset): Compiler =>
  (policy, options) =>
    rebuildText(mistake(rulesetOf(policy, options)));

const eachRule = (mistake: (rule: Rule) => readonly Rule[]): Compiler =>
  byRuleset(({ inbound, outbound, helpers, ...rest }) => ({
    ...rest,
    inbound: { ...inbound, rules: inbound.rules.flatMap(mistake) },
    outbound: { ...outbound, rules: outbound.rules.flatMap(mistake) },
    helpers: helpers.map(({ kind, name, rules }) => ({ kind, name, rules: rules.flatMap(mistake) })),
  }));

/** The mistake is in the order of the base chains. */
const eachBase = (mistake: (rules: readonly Rule[]) => readonly Rule[]): Compiler =>
  byRuleset((ruleset) => ({
    ...ruleset,
    inbound: { ...ruleset.inbound, rules: mistake(ruleset.inbound.rules) },
    outbound: { ...ruleset.outbound, rules: mistake(ruleset.outbound.rules) },
  }));

const isForbid = ({ action }: Rule): boolean => action.kind === 'jump' && action.chain.startsWith('forbid-');

const eachMatch = (mistake: (match: Match) => readonly Match[]): Compiler =>
  eachRule(({ matches, ...rest }) => [{ ...rest, matches: matches.flatMap(mistake) }]);

const eachAction = (mistake: (action: Verdict | VerdictMap) => Verdict | VerdictMap): Compiler =>
  eachRule((rule) => [{ ...rule, action: rule.action.kind === 'reject' ? rule.action : mistake(rule.action) }]);

/** The mistake is in where ports lead: by a map, or by the condition that a rule begins with. */
const eachPort = (mistake: (entry: PortEntry) => PortEntry): Compiler =>
  eachRule((rule) => {
    const { matches, action } = rule;
    if (action.kind === 'portMap') return [{ ...rule, action: { ...action, entries: action.entries.map(mistake) } }];
    const [ports, ...others] = matches;
    if (ports?.kind !== 'ports' || !isVerdict(action)) return [rule];
    const { verdict, ...changed } = mistake({ from: ports.from, to: ports.to, verdict: action });
    return [{ ...rule, matches: [{ ...ports, ...changed }, ...others], action: verdict }];
  });

/** The mistake is in the text. */
const byText =
  (mistake: (text: string) => string): Compiler =>
  (policy, options) =>
    mistake(productCompiler(policy, options));

const defaultGroup: PolicyGroup = {
  id: parseGroupId('00000000-0000-4000-8000-00000000d0d0'),
  name: 'default',
  inbound: defaultInboundRules,
  outbound: [],
};

/** The mistake is in who is in a map. */
const eachMap = (mistake: (map: PeerMap) => PeerMap): Compiler =>
  byRuleset(({ maps = [], ...rest }) => ({ ...rest, maps: maps.map(mistake) }));

export const mutants: Readonly<Record<string, Compiler>> = {
  'reads the wrong end of the packet': eachMatch((match) =>
    match.kind === 'address' ? [{ ...match, side: match.side === 'saddr' ? 'daddr' : 'saddr' }] : [match],
  ),
  'matches the source port': byText((text) => text.replaceAll(' dport ', ' sport ')),
  'forgets the first port of a range': eachPort((entry) =>
    entry.from < entry.to ? { ...entry, from: entry.from + 1 } : entry,
  ),
  'forgets the last port of a range': eachPort((entry) =>
    entry.from < entry.to ? { ...entry, to: entry.to - 1 } : entry,
  ),
  'forgets the last address of a range': eachMatch((match) =>
    match.kind === 'address'
      ? [
          {
            ...match,
            ranges: match.ranges.map(({ first, last }) => ({ first, last: first < last ? last - 1n : last })),
          },
        ]
      : [match],
  ),
  'forgets the first address of a range': eachMatch((match) =>
    match.kind === 'address'
      ? [
          {
            ...match,
            ranges: match.ranges.map(({ first, last }) => ({ first: first < last ? first + 1n : first, last })),
          },
        ]
      : [match],
  ),
  'reads a block of addresses as its first': byText((text) => text.replaceAll(/ & [0-9a-f:.]+ == /g, ' ')),
  'admits one address too many': byRule((rule) =>
    rule.ip_ranges === undefined
      ? rule
      : {
          ...rule,
          ip_ranges: rule.ip_ranges.map((text) =>
            text
              .replace(/(\d)\/32$/, '$1/31')
              .replace(/\/128$/, '/127')
              .replace(/^([\d.]+\d)$/, '$1/31'),
          ),
        },
  ),
  'sends udp packets to the tcp rules': eachRule((rule) => {
    const entries = protocolEntries(rule);
    const tcp = entries?.find(({ protocol }) => protocol === 6);
    if (entries === undefined || tcp === undefined) return [rule];
    const others = entries.filter(({ protocol }) => protocol !== 17);
    return [protocolRule([...others, { protocol: 17, verdict: tcp.verdict }])];
  }),
  'takes the one protocol that leads anywhere for all': eachMatch((match) => {
    if (match.kind === 'protocol') return [];
    return match.kind === 'ports' ? [{ kind: 'ports', from: match.from, to: match.to }] : [match];
  }),
  'takes the one port that leads anywhere for all': eachRule((rule) => {
    const [ports, ...others] = rule.matches;
    if (ports?.kind !== 'ports') return [rule];
    const protocol: Match[] =
      ports.transport === undefined ? [] : [{ kind: 'protocol', protocol: protocolNumber[ports.transport] }];
    return [{ ...rule, matches: [...protocol, ...others] }];
  }),
  'drops on the one port what its first rule does not admit': eachRule((rule) =>
    rule.matches[0]?.kind === 'ports' && rule.matches.length + (rule.counterMap === undefined ? 0 : 1) > 1
      ? [rule, { matches: [rule.matches[0]], action: { kind: 'drop' } }]
      : [rule],
  ),
  'reads a udp rule as a tcp rule': byRule((rule) =>
    rule.ip_protocol === 'udp' ? { ...rule, ip_protocol: 'tcp' } : rule,
  ),
  'never drops': eachRule((rule) => (rule.action.kind === 'drop' ? [] : [rule])),
  'drops outbound though no rule closes it': byCanonical(({ inbound, outbound }) => ({
    inbound,
    outbound: outbound.kind === 'closed' || outbound.forbid !== undefined ? outbound : nothing,
  })),
  'closes a direction because something is forbidden there': byCanonical(({ inbound, outbound }) => ({
    inbound,
    outbound: outbound.kind === 'open' && outbound.forbid !== undefined ? nothing : outbound,
  })),
  'leaves outbound open though a rule closes it': byCanonical(({ inbound, outbound: { forbid } }) => ({
    inbound,
    outbound: { kind: 'open', ...(forbid && { forbid }) },
  })),
  'forgets what is forbidden': byCanonical(({ inbound, outbound }) => ({
    inbound: withoutForbid(inbound),
    outbound: withoutForbid(outbound),
  })),
  'asks the groups before what is forbidden': eachBase((rules) => {
    const forbid = rules.filter(isForbid);
    const last = rules.findLastIndex(({ action }) => action.kind === 'jump');
    return rules.flatMap((rule, i) => (i === last ? [rule, ...forbid] : isForbid(rule) ? [] : [rule]));
  }),
  'forbids before it admits discovery': eachBase((rules) => [
    ...rules.filter(isForbid),
    ...rules.filter((rule) => !isForbid(rule)),
  ]),
  'lets what is required close outbound': byPolicy(({ groups, guardrails, ...rest }) => ({
    ...rest,
    ...(guardrails && { guardrails }),
    groups: [...groups, ...(guardrails?.require ?? [])],
  })),
  'forgets what is required': byPolicy(({ guardrails, ...rest }) => ({
    ...rest,
    ...(guardrails && { guardrails: { ...guardrails, require: [] } }),
  })),
  'takes a rule whose devices are nobody for any address': byRule(({ peers, members, ...rule }) => {
    const hasNoAddress = members !== undefined && members.v4.length + members.v6.length === 0;
    if (hasNoAddress && (rule.ip_ranges ?? []).length === 0) return rule;
    return { ...rule, ...(peers && { peers }), ...(members && { members }) };
  }),
  'leaves out the last member of a map': eachMap((map) => ({
    ...map,
    elements: new Map([...map.elements].slice(0, -1)),
  })),
  'looks members up at the wrong end of the packet': eachRule((rule) => {
    const { counterMap } = rule;
    if (counterMap === undefined) return [rule];
    return [{ ...rule, counterMap: { ...counterMap, side: counterMap.side === 'saddr' ? 'daddr' : 'saddr' } }];
  }),
  'drops the members of every map': eachRule((rule) =>
    rule.counterMap === undefined ? [rule] : [{ ...rule, action: { kind: 'drop' } }],
  ),
  'leaves out the devices that a rule names': byRule((rule) =>
    rule.members === undefined ? rule : { ...rule, members: { v4: [], v6: [] } },
  ),
  'leaves out the IPv6 addresses of devices': byRule((rule) =>
    rule.members === undefined ? rule : { ...rule, members: { v4: rule.members.v4, v6: [] } },
  ),
  'takes an empty inbound list for open': byPolicy((policy) =>
    policy.groups.every(({ inbound }) => inbound.length === 0)
      ? { ...policy, groups: [...policy.groups, { ...defaultGroup, outbound: [] }] }
      : policy,
  ),
  'ignores the family': eachMatch((match) => (match.kind === 'family' ? [] : [match])),
  'ignores addresses': eachMatch((match) => (match.kind === 'address' ? [] : [match])),
  'compares IPv4 only': eachRule((rule) =>
    rule.matches.some((match) => match.kind === 'address' && match.family === 6) ? [] : [rule],
  ),
  'hooks outbound on input': byText((text) =>
    text.replace('hook output', 'hook input').replaceAll('oifname', 'iifname'),
  ),
  'swaps the directions': byPolicy(({ groups, ...rest }) => ({
    ...rest,
    groups: groups.map(({ id, name, inbound, outbound }) => ({ id, name, inbound: outbound, outbound: inbound })),
  })),
  'applies the first group only': byPolicy(({ groups, ...rest }) => ({ ...rest, groups: groups.slice(0, 1) })),
  'adds the default group to the list': byPolicy(({ groups, ...rest }) => ({
    ...rest,
    groups: [...groups, defaultGroup],
  })),
  'forgets the last rule of a group': byPolicy(({ groups, ...rest }) => ({
    ...rest,
    groups: groups.map(({ id, name, inbound, outbound }) => ({
      id,
      name,
      inbound: inbound.slice(0, -1),
      outbound: outbound.length > 1 ? outbound.slice(0, -1) : outbound,
    })),
  })),
  'forgets echo replies': byText((text) =>
    text
      .replaceAll('{ echo-reply, echo-request }', 'echo-request')
      .replaceAll('{ echo-request, echo-reply }', 'echo-request'),
  ),
  'admits every ICMP type': eachMatch((match) => (match.kind === 'icmpTypes' ? [] : [match])),
  'reads an icmp rule as both families': byPolicy(({ groups, ...rest }) => ({
    ...rest,
    groups: groups.map(({ id, name, inbound, outbound }) => ({
      id,
      name,
      inbound: inbound.flatMap(bothPings),
      outbound: outbound.flatMap(bothPings),
    })),
  })),
  'reads any port as the ports from 1': byRule((rule) =>
    (rule.ip_protocol === 'tcp' || rule.ip_protocol === 'udp') && rule.to_port === 0
      ? { ...rule, from_port: 1, to_port: 65_535 }
      : rule,
  ),
  'reads a range of ports as its first port': byRule((rule) => ({ ...rule, to_port: rule.from_port })),
  'admits discovery that a router has passed on': eachMatch((match) => (match.kind === 'hopLimit' ? [] : [match])),
  'forgets multicast listeners': eachRule((rule) =>
    rule.matches.some((match) => match.kind === 'hopLimit' && match.value === 1) ? [] : [rule],
  ),
  'forgets discovery': byOptions((options) => ({ ...options, neighbourDiscovery: false })),
  'admits discovery where nobody needs it': byOptions((options) => ({ ...options, neighbourDiscovery: true })),
  'loses the second layer of the port tree': byCanonical((policy) => ({
    inbound: eachTree(policy.inbound, withoutSecond),
    outbound: eachTree(policy.outbound, withoutSecond),
  })),
  'admits all ports of a node to everybody there': eachRule((rule) => [
    { ...rule, matches: rule.matches.filter(({ kind }, i) => i === 0 || kind !== 'ports') },
  ]),
  'gives every address the ports of the one before': eachAction((action) =>
    action.kind === 'addressMap'
      ? {
          ...action,
          entries: action.entries.map((entry, i) => ({
            ...entry,
            verdict: action.entries[Math.max(0, i - 1)]?.verdict ?? entry.verdict,
          })),
        }
      : action,
  ),
  'leaves the port tree at its first layer': eachPort(({ from, to, verdict }) => ({
    from,
    to,
    verdict: verdict.kind === 'jump' ? { kind: 'goto', chain: verdict.chain } : verdict,
  })),
};

type Layers = Extract<PortMap, { kind: 'tree' }>['layers'];
const withoutSecond = (layers: Layers): Layers => layers.filter((_, i) => i !== 1);

function eachTree(direction: DirectionPolicy, mistake: (layers: Layers) => Layers): DirectionPolicy {
  if (direction.kind === 'open') return direction;
  const change = (transport: TransportPolicy): TransportPolicy =>
    transport.ports.kind === 'tree'
      ? { ...transport, ports: { kind: 'tree', layers: mistake(transport.ports.layers) } }
      : transport;
  return { ...direction, tcp: change(direction.tcp), udp: change(direction.udp) };
}

const none = { v4: [], v6: [] } as const;
const noPorts = { anyPort: none, ports: { kind: 'intervals', intervals: [] } } as const;
const nothing: DirectionPolicy = { kind: 'closed', any: none, echo: none, tcp: noPorts, udp: noPorts };

function withoutForbid(policy: DirectionPolicy): DirectionPolicy {
  const { forbid: _, ...direction } = policy;
  return direction;
}

const bothPings = (rule: StoredRule): StoredRule[] =>
  rule.ip_protocol === 'icmp' && rule.ip_ranges === undefined && rule.peers === undefined
    ? [rule, { ...rule, ip_protocol: 'icmpv6' }]
    : [rule];
