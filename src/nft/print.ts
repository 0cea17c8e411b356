/** Owns the printing of nft text, from commands to exact bytes. Nothing else in the project writes nft. */
import { printAddress, printRange } from '../policy/address.ts';
import type { RangeSet } from '../policy/range.ts';
import type { Family } from '../policy/rule.ts';
import { blocksOf, familyBits, maskOf } from './blocks.ts';
import { isEndedCommand, printEnded, type EndedCommand } from './ended-flows.ts';
import { generationSet, keptMinutes, mostRecorded } from './recording.ts';
import {
  hookPriority,
  protocolNumber,
  tableFamily,
  type Command,
  type Match,
  type PortKind,
  type RecordSetKind,
  type RecordTuple,
  type Reject,
  type Rule,
  type Verdict,
  type VerdictMap,
} from './ast.ts';

type Printers<Node extends { readonly kind: string }> = {
  readonly [K in Node['kind']]: (node: Extract<Node, { kind: K }>) => string;
};

/** The compiler keeps each table below complete; this look-up is the one step that it cannot follow. */
function dispatch<Node extends { readonly kind: string }>(printers: Printers<Node>, node: Node): string {
  const printer = printers[node.kind as Node['kind']] as (node: Node) => string;
  return printer(node);
}

const own = ({ table = 'service' }: Pick<Command, 'table'>): string => `${tableFamily} ${table}`;
const ip = (family: Family): string => (family === 4 ? 'ip' : 'ip6');
const icmp = (family: Family): string => (family === 4 ? 'icmp' : 'icmpv6');
/** A single element is written without braces, because that makes no set. The caller never passes an empty list. */
const braced = (elements: readonly string[]): string =>
  elements.length === 1 ? (elements[0] ?? '') : `{ ${elements.join(', ')} }`;

/** What follows the address: blocks of one size under their mask, or ranges as they are. */
function printRanges(ranges: RangeSet, family: Family): string {
  const blocks = blocksOf(ranges, family);
  if (blocks === undefined) return braced(ranges.map((range) => printRange(family, range)));
  const { length, firsts } = blocks;
  const mask = length === familyBits(family) ? '' : `& ${printAddress(family, maskOf(family, length))} == `;
  return `${mask}${braced(firsts.map((first) => printAddress(family, first)))}`;
}

/** The names that nft itself prints; any other type is a number. */
const icmpNames: { readonly [F in Family]: { readonly [type: number]: string } } = {
  4: { 0: 'echo-reply', 8: 'echo-request' },
  6: { 128: 'echo-request', 129: 'echo-reply' },
};

const printPorts = ({ from, to }: { from: number; to: number }): string => (from === to ? `${from}` : `${from}-${to}`);
/** nft knows what kind of port a connection has only where the rule itself names the protocol. */
const portKey = ({ transport, original }: PortKind): string =>
  original === true && transport !== 'th'
    ? `meta l4proto ${protocolNumber[transport]} ct original proto-dst`
    : `${transport} dport`;

const matchPrinters: Printers<Match> = {
  interface: ({ side, name }) => `${side} "${name}"`,
  established: () => 'ct state established,related',
  family: ({ family }) => `meta nfproto ipv${family}`,
  icmpTypes: ({ family, types }) =>
    `${icmp(family)} type ${braced(types.map((type) => icmpNames[family][type] ?? String(type)))}`,
  icmpTypeRange: ({ family, first, last }) => `${icmp(family)} type ${first}-${last}`,
  hopLimit: ({ value }) => `ip6 hoplimit ${value}`,
  protocol: ({ protocol }) => `meta l4proto ${protocol}`,
  ports: ({ transport, original, ...each }) =>
    `${portKey({ transport: transport ?? 'th', ...(original && { original }) })} ${printPorts(each)}`,
  notSyn: () => 'tcp flags ! syn',
  new: () => 'ct state new',
  protocols: ({ protocols, not }) => `meta l4proto ${not === true ? '!= ' : ''}${braced(protocols.map(String))}`,
  secondGeneration: () => `meta nfproto @${generationSet}`,
  rate: ({ perSecond, burst }) => `limit rate ${perSecond}/second burst ${burst} packets`,
  translated: ({ by }) => `ct status ${by}`,
  forwarded: () => 'iif > 0',
  address: ({ family, side, ranges }) => `${ip(family)} ${side} ${printRanges(ranges, family)}`,
};

/** What is kept of a packet: the far address, the protocol and, where it has one, the port. */
function printRecord({ set, family, side, port, uncounted }: RecordTuple): string {
  const key = [`${ip(family)} ${side}`, 'meta l4proto', ...(port === undefined ? [] : [recordedPort[port]])];
  return `update @${set} { ${key.join(' . ')}${uncounted === true ? '' : ' counter'} }`;
}
const recordedPort = { packet: 'th dport', original: 'ct original proto-dst' } as const;

/** The kernel refuses further elements beyond the size, and forgets elements that nobody reads. */
const recordsInto = (type: string): string =>
  `{ type ${type}; size ${mostRecorded}; flags dynamic,timeout; timeout ${keptMinutes}m; }`;
const setDefinitions: { readonly [K in RecordSetKind]: string } = {
  generation: '{ type nf_proto; }',
  port4: recordsInto('ipv4_addr . inet_proto . inet_service'),
  port6: recordsInto('ipv6_addr . inet_proto . inet_service'),
  plain4: recordsInto('ipv4_addr . inet_proto'),
  plain6: recordsInto('ipv6_addr . inet_proto'),
};

const actionPrinters: Printers<Verdict | VerdictMap | Reject> = {
  accept: () => 'accept',
  drop: () => 'drop',
  continue: () => 'continue',
  return: () => 'return',
  reject: (action) => `reject with ${action.with === 'tcp-reset' ? 'tcp reset' : 'icmpx admin-prohibited'}`,
  jump: ({ chain }) => `jump ${chain}`,
  goto: ({ chain }) => `goto ${chain}`,
  protocolMap: ({ entries }) =>
    `meta l4proto vmap { ${entries.map((e) => `${e.protocol} : ${dispatch(actionPrinters, e.verdict)}`).join(', ')} }`,
  portMap: ({ entries, ...kind }) =>
    `${portKey(kind)} vmap { ${entries
      .map((e) => `${printPorts(e)} : ${dispatch(actionPrinters, e.verdict)}`)
      .join(', ')} }`,
  addressMap: ({ family, side, entries }) =>
    `${ip(family)} ${side} vmap { ${entries
      .map((e) => `${printRange(family, e)} : ${dispatch(actionPrinters, e.verdict)}`)
      .join(', ')} }`,
};

export const printMatch = (match: Match): string => dispatch(matchPrinters, match);

/**
 * A rule is frozen, so a long text is made once: naming a chain by its content and printing it share the work. Short ones
 * are made anew, which takes less time than remembering very many.
 */
const printed = new WeakMap<Rule, string>();
const fewItems = 8;

const isLong = ({ matches, action }: Rule): boolean =>
  ('entries' in action && action.entries.length > fewItems) ||
  matches.some((match) => match.kind === 'address' && match.ranges.length > fewItems);

/** A rule without its chain. */
export function printRule(rule: Rule): string {
  let text = printed.get(rule);
  if (text === undefined) {
    const { counter, counterMap } = rule;
    const counting =
      counterMap === undefined
        ? counter && `counter name ${counter}`
        : `counter name ${ip(counterMap.family)} ${counterMap.side} map @${counterMap.map}`;
    // Joined, because text that is added up is kept in pieces, and very many rules may be kept.
    const parts = rule.matches.map(printMatch);
    if (rule.record !== undefined) parts.push(printRecord(rule.record));
    if (counting !== undefined) parts.push(counting);
    parts.push(dispatch(actionPrinters, rule.action));
    text = parts.join(' ');
    if (isLong(rule)) printed.set(rule, text);
  }
  return text;
}

/** A chain's rules, a line each: equal text means equal rules. */
export const printRules = (rules: readonly Rule[]): string => rules.map((rule) => `${printRule(rule)}\n`).join('');

const commandPrinters: Printers<Command> = {
  addTable: (command) => `add table ${own(command)}`,
  deleteTable: (command) => `delete table ${own(command)}`,
  addCounter: (command) => `add counter ${own(command)} ${command.name}`,
  addBaseChain: (command) =>
    `add chain ${own(command)} ${command.name} { type filter hook ${command.hook} priority ${
      hookPriority[command.hook] === 0 ? 'filter' : hookPriority[command.hook]
    }; policy accept; }`,
  addChain: (command) => `add chain ${own(command)} ${command.name}`,
  flushChain: (command) => `flush chain ${own(command)} ${command.name}`,
  deleteChain: (command) => `delete chain ${own(command)} ${command.name}`,
  addRule: (command) => `add rule ${own(command)} ${command.chain} ${printRule(command.rule)}`,
  addMap: (command) => `add map ${own(command)} ${command.name} { type ipv${command.family}_addr : counter; }`,
  addSet: (command) => `add set ${own(command)} ${command.name} ${setDefinitions[command.of]}`,
  flushSet: (command) => `flush set ${own(command)} ${command.name}`,
  // Not `add element`: for that nft reads all sets of the kernel first.
  startSecondGeneration: (command) =>
    `add set ${own(command)} ${command.set} { type nf_proto; elements = { ipv4, ipv6 }; }`,
  addElements: (command) =>
    `add element ${own(command)} ${command.map} { ${command.elements
      .map(([address, counter]) => `${printAddress(command.family, address)} : "${counter}"`)
      .join(', ')} }`,
  deleteElements: (command) =>
    `delete element ${own(command)} ${command.map} { ${command.addresses
      .map((address) => printAddress(command.family, address))
      .join(', ')} }`,
  deleteObject: (command) => `delete ${command.object} ${own(command)} ${command.name}`,
};

/** Letters after which a part of a batch ends: large batches are never one string. */
const longestPart = 65_536;

/** A batch as nft reads it, in parts: a line for each command, every line ended. */
export function* printParts(commands: Iterable<Command | EndedCommand>): Generator<string, void, undefined> {
  let part = '';
  for (const command of commands) {
    part += `${isEndedCommand(command) ? printEnded(command).join('\n') : dispatch(commandPrinters, command)}\n`;
    if (part.length < longestPart) continue;
    yield part;
    part = '';
  }
  if (part !== '') yield part;
}

/** A batch as nft reads it. */
export const printCommands = (commands: Iterable<Command | EndedCommand>): string => [...printParts(commands)].join('');
