/** Owns nft text: the one printer, from commands to exact bytes. Nothing else in the project writes nft. */
import { printAddress, printRange } from '../policy/address.ts';
import type { RangeSet } from '../policy/range.ts';
import type { Family } from '../policy/rule.ts';
import { blocksOf, familyBits, maskOf } from './blocks.ts';
import { table, type Command, type Match, type Rule, type Verdict, type VerdictMap } from './ast.ts';

type Printers<Node extends { readonly kind: string }> = {
  readonly [K in Node['kind']]: (node: Extract<Node, { kind: K }>) => string;
};

/** The compiler keeps each table below complete; this look-up is the one step that it cannot follow. */
function dispatch<Node extends { readonly kind: string }>(printers: Printers<Node>, node: Node): string {
  const printer = printers[node.kind as Node['kind']] as (node: Node) => string;
  return printer(node);
}

const own = `${table.family} ${table.name}`;
const ip = (family: Family): string => (family === 4 ? 'ip' : 'ip6');
const icmp = (family: Family): string => (family === 4 ? 'icmp' : 'icmpv6');
/** One element stands alone, because that makes no set; the caller never passes an empty list. */
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

const matchPrinters: Printers<Match> = {
  interface: ({ side, name }) => `${side} "${name}"`,
  established: () => 'ct state established,related',
  family: ({ family }) => `meta nfproto ipv${family}`,
  icmpTypes: ({ family, types }) =>
    `${icmp(family)} type ${braced(types.map((type) => icmpNames[family][type] ?? String(type)))}`,
  icmpTypeRange: ({ family, first, last }) => `${icmp(family)} type ${first}-${last}`,
  hopLimit: ({ value }) => `ip6 hoplimit ${value}`,
  address: ({ family, side, ranges }) => `${ip(family)} ${side} ${printRanges(ranges, family)}`,
};

const ports = ({ from, to }: { from: number; to: number }): string => (from === to ? `${from}` : `${from}-${to}`);

const actionPrinters: Printers<Verdict | VerdictMap> = {
  accept: () => 'accept',
  drop: () => 'drop',
  continue: () => 'continue',
  jump: ({ chain }) => `jump ${chain}`,
  goto: ({ chain }) => `goto ${chain}`,
  protocolMap: ({ entries }) =>
    `meta l4proto vmap { ${entries.map((e) => `${e.protocol} : ${dispatch(actionPrinters, e.verdict)}`).join(', ')} }`,
  portMap: ({ transport, mask, entries }) =>
    `${transport} dport ${mask === 0xffff ? '' : `& ${mask} `}vmap { ${entries
      .map((e) => `${ports(e)} : ${dispatch(actionPrinters, e.verdict)}`)
      .join(', ')} }`,
};

export const printMatch = (match: Match): string => dispatch(matchPrinters, match);

/** A rule is frozen, so its text is made once: naming a chain by its content and printing it share the work. */
const printed = new WeakMap<Rule, string>();

/** A rule without its chain. */
export function printRule(rule: Rule): string {
  let text = printed.get(rule);
  if (text === undefined) {
    const counter = rule.counter === undefined ? [] : [`counter name ${rule.counter}`];
    text = [...rule.matches.map(printMatch), ...counter, dispatch(actionPrinters, rule.action)].join(' ');
    printed.set(rule, text);
  }
  return text;
}

/** A chain's rules, a line each: equal text means equal rules. */
export const printRules = (rules: readonly Rule[]): string => rules.map((rule) => `${printRule(rule)}\n`).join('');

const commandPrinters: Printers<Command> = {
  addTable: () => `add table ${own}`,
  deleteTable: () => `delete table ${own}`,
  addCounter: ({ name }) => `add counter ${own} ${name}`,
  addBaseChain: ({ name, hook }) =>
    `add chain ${own} ${name} { type filter hook ${hook} priority filter; policy accept; }`,
  addChain: ({ name }) => `add chain ${own} ${name}`,
  flushChain: ({ name }) => `flush chain ${own} ${name}`,
  deleteChain: ({ name }) => `delete chain ${own} ${name}`,
  addRule: ({ chain, rule }) => `add rule ${own} ${chain} ${printRule(rule)}`,
  deleteObject: ({ object, name }) => `delete ${object} ${own} ${name}`,
};

/** A batch as nft reads it: a line each, every line ended. */
export const printCommands = (commands: readonly Command[]): string =>
  commands.map((command) => `${dispatch(commandPrinters, command)}\n`).join('');
