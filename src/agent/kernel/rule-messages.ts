/**
 * Owns rules as the kernel takes them over netlink: the conditions that base chains and small policies are made of, in the very
 * expressions that `nft` makes of the same text. What makes a set, or is rare, has no such form here, and `nft` is asked.
 */
import { protocolNumber, type Match, type Rule, type Verdict } from '../../nft/ast.ts';
import type { Family } from '../../policy/rule.ts';
import { attribute, be16, be32, concat, le32, nested, text, u8 } from '../netlink/message.ts';

const listElement = 1;
const expressionAttribute = { name: 1, data: 2 } as const;
const dataAttribute = { value: 1, verdict: 2 } as const;

const expression = (name: string, ...data: readonly Uint8Array[]): Uint8Array =>
  nested(listElement, attribute(expressionAttribute.name, text(name)), nested(expressionAttribute.data, ...data));
const number = (type: number, value: number): Uint8Array => attribute(type, be32(value));
const value = (type: number, bytes: Uint8Array): Uint8Array => nested(type, attribute(dataAttribute.value, bytes));

/** Where what is looked at is put, and compared from. */
const register = 1;
const verdictRegister = 0;

const metaKey = { iif: 4, iifname: 6, oifname: 7, nfproto: 15, l4proto: 16 } as const;
const meta = (key: keyof typeof metaKey): Uint8Array =>
  expression('meta', number(2, metaKey[key]), number(1, register));
const ctKey = { state: 0, status: 2, destinationPort: 12 } as const;
const ct = (key: keyof typeof ctKey, ...more: readonly Uint8Array[]): Uint8Array =>
  expression('ct', number(2, ctKey[key]), number(1, register), ...more);
/** Of the way of a connection's first packet, before any translation. */
const originally = attribute(3, u8(0));

const header = { network: 1, transport: 2 } as const;
const payload = (base: keyof typeof header, offset: number, length: number): Uint8Array =>
  expression('payload', number(1, register), number(2, header[base]), number(3, offset), number(4, length));

const comparison = { eq: 0, neq: 1, lte: 3, gt: 4, gte: 5 } as const;
const compare = (how: keyof typeof comparison, bytes: Uint8Array): Uint8Array =>
  expression('cmp', number(1, register), number(2, comparison[how]), value(3, bytes));

/** Turns a number of the machine into one of the network, which is compared byte by byte. */
const toNetworkOrder = (length: number): Uint8Array =>
  expression('byteorder', number(1, register), number(2, register), number(3, 1), number(4, length), number(5, length));

/** Keeps these bits of what is looked at. */
const mask = (bits: Uint8Array): Uint8Array =>
  expression(
    'bitwise',
    number(1, register),
    number(2, register),
    number(3, bits.length),
    value(4, bits),
    value(5, new Uint8Array(bits.length)),
  );

/** The kernel compares whole names, with zeros to their end: a shorter comparison would match what begins so. */
const interfaceLength = 16;
const interfaceName = (name: string): Uint8Array => {
  const bytes = new Uint8Array(interfaceLength);
  bytes.set(text(name));
  return bytes;
};

const between = (from: Uint8Array, to: Uint8Array): readonly Uint8Array[] => [compare('gte', from), compare('lte', to)];
const establishedOrRelated = 0x2 | 0x4;
const translatedBy = { snat: 0x10, dnat: 0x20 } as const;
const syn = 0x2;
const noBits = 0;
const familyByte = { 4: 2, 6: 10 } as const;
const isFamily = (family: Family): readonly Uint8Array[] => [meta('nfproto'), compare('eq', u8(familyByte[family]))];
const isProtocol = (protocol: number): readonly Uint8Array[] => [meta('l4proto'), compare('eq', u8(protocol))];
const icmpType = payload('transport', 0, 1);
const destinationPort = payload('transport', 2, 2);
const hopLimit = payload('network', 7, 1);
const tcpFlags = payload('transport', 13, 1);
/** Where a condition before has told the protocol, `nft` does not ask for it again. */
const knowsProtocol = (before: readonly Match[]): boolean =>
  before.some(({ kind }) => kind === 'protocol' || kind === 'ports' || kind === 'icmpTypeRange');

/** A field that is not looked at would be a condition left out: what is not named before does not compile. */
const nothingElse = (_rest: Readonly<Record<string, never>>): void => {};

/** The expressions of each kind of condition that has a form here, or nothing. `before` are the conditions that stand before it. */
const encoders: {
  readonly [K in Match['kind']]?: (
    match: Extract<Match, { kind: K }>,
    before: readonly Match[],
  ) => readonly Uint8Array[] | undefined;
} = {
  interface(match) {
    const { kind: _, side, name, ...rest } = match;
    nothingElse(rest);
    return [meta(side), compare('eq', interfaceName(name))];
  },
  established(match) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    return [ct('state'), mask(le32(establishedOrRelated)), compare('neq', le32(noBits))];
  },
  family(match) {
    const { kind: _, family, ...rest } = match;
    nothingElse(rest);
    return isFamily(family);
  },
  icmpTypeRange(match) {
    const { kind: _, family, first, last, ...rest } = match;
    nothingElse(rest);
    if (family === 4) return undefined;
    return [...isFamily(6), ...isProtocol(protocolNumber.icmpv6), icmpType, ...between(u8(first), u8(last))];
  },
  hopLimit(match, before) {
    const { kind: _, value: limit, ...rest } = match;
    nothingElse(rest);
    // Only a packet of IPv6 has one there: where nothing has told so yet, that would have to be asked first.
    return before.some(({ kind }) => kind === 'icmpTypeRange') ? [hopLimit, compare('eq', u8(limit))] : undefined;
  },
  protocol(match) {
    const { kind: _, protocol, ...rest } = match;
    nothingElse(rest);
    return isProtocol(protocol);
  },
  ports(match, before) {
    const { kind: _, from, to, transport, original, ...rest } = match;
    nothingElse(rest);
    if (knowsProtocol(before) || (original === true && transport === undefined)) return undefined;
    return [
      ...(transport === undefined ? [] : isProtocol(protocolNumber[transport])),
      original === true ? ct('destinationPort', originally) : destinationPort,
      ...(from === to ? [compare('eq', be16(from))] : between(be16(from), be16(to))),
    ];
  },
  notSyn(match, before) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    if (knowsProtocol(before)) return undefined;
    return [...isProtocol(protocolNumber.tcp), tcpFlags, mask(u8(syn)), compare('eq', u8(noBits))];
  },
  translated(match) {
    const { kind: _, by, ...rest } = match;
    nothingElse(rest);
    return [ct('status'), mask(le32(translatedBy[by])), compare('neq', le32(noBits))];
  },
  forwarded(match) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    return [meta('iif'), toNetworkOrder(4), compare('gt', be32(0))];
  },
};

/** The compiler keeps the table above right; this look-up is the one step that it cannot follow. */
function expressionsOf(match: Match, before: readonly Match[]): readonly Uint8Array[] | undefined {
  const encode = encoders[match.kind] as
    ((match: Match, before: readonly Match[]) => readonly Uint8Array[] | undefined) | undefined;
  return encode?.(match, before);
}

const verdictCode = { drop: 0, accept: 1, continue: -1, jump: -3, goto: -4 } as const;

function verdictExpression(verdict: Verdict): Uint8Array {
  const target = 'chain' in verdict ? [attribute(2, text(verdict.chain))] : [];
  const code = number(1, verdictCode[verdict.kind]);
  return expression('immediate', number(1, verdictRegister), nested(2, nested(dataAttribute.verdict, code, ...target)));
}

const counterObject = 1;
const count = (counter: string): Uint8Array =>
  expression('objref', number(1, counterObject), attribute(2, text(counter)));

/** The rule's list of expressions; nothing where one of its parts has no form here. */
export function ruleExpressions({ matches, counter, counterMap, action, ...rest }: Rule): Uint8Array | undefined {
  nothingElse(rest);
  if (counterMap !== undefined || 'entries' in action) return undefined;
  const parts: Uint8Array[] = [];
  for (const [i, match] of matches.entries()) {
    const expressions = expressionsOf(match, matches.slice(0, i));
    if (expressions === undefined) return undefined;
    parts.push(...expressions);
  }
  if (counter !== undefined) parts.push(count(counter));
  parts.push(verdictExpression(action));
  return concat(parts);
}
