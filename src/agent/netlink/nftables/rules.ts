/**
 * Owns rules as the kernel takes them over netlink: every condition that the compiler makes, in the very expressions that `nft` makes of the
 * same text. What it does not make has no such form here, and `nft` is asked.
 */
import {
  makesSet,
  protocolNumber,
  tableNames,
  type AddressSide,
  type Match,
  type Rule,
  type TableName,
  type VerdictMap,
} from '../../../nft/ast.ts';
import { baseName } from '../../../nft/compile/base.ts';
import { familyBits } from '../../../nft/blocks.ts';
import { prefixLength } from '../../../policy/address.ts';
import type { Range } from '../../../policy/range.ts';
import type { Family } from '../../../policy/rule.ts';
import { flag, le32, text } from '../message.ts';
import type { FilterBatch } from './transaction.ts';
import { ExpressionWriter, noBits } from './expressions.ts';
import { writeAddressMap, writeAddressSet, writeIcmpSet, writePortMap, writeProtocolMap, type LookUp } from './sets.ts';

/** The number of what begins a rule of a table. */
const rulePart = 0x10_0000;
const ruleAttribute = { chain: 2, expressions: 4 } as const;

/** The kernel compares whole names, with zeros to their end: a shorter comparison would match what begins so. */
const interfaceLength = 16;
const interfaceName = (name: string): Uint8Array => {
  const bytes = new Uint8Array(interfaceLength);
  bytes.set(text(name));
  return bytes;
};

const establishedOrRelated = 0x2 | 0x4;
const newState = 0x8;
const translatedBy = { snat: 0x10, dnat: 0x20 } as const;
const syn = 0x2;
const icmpOf = { 4: protocolNumber.icmp, 6: protocolNumber.icmpv6 } as const;

/** A field that is not looked at would be a condition left out: what is not named before does not compile. */
const nothingElse = (_rest: Readonly<Record<string, never>>): void => {};

// Where an earlier condition has already fixed the protocol or the family, `nft` does not check it again. The compiler
// makes no such rules.
const knowsProtocol = (before: readonly Match[]): boolean =>
  before.some(
    ({ kind }) => kind === 'protocol' || kind === 'ports' || kind === 'icmpTypes' || kind === 'icmpTypeRange',
  );
const knowsFamily = (before: readonly Match[]): boolean =>
  before.some(
    ({ kind }) =>
      kind === 'family' ||
      kind === 'address' ||
      kind === 'icmpTypes' ||
      kind === 'icmpTypeRange' ||
      kind === 'hopLimit',
  );

function writeRange(out: ExpressionWriter, family: Family, side: AddressSide, range: Range): boolean {
  const { first, last } = range;
  const bits = familyBits(family);
  const length = first === last ? bits : prefixLength(family, range);
  if (length === undefined) {
    out.address(family, side);
    out.compareAddress('gte', family, first);
    out.compareAddress('lte', family, last);
    return true;
  }
  if (length === 0) return false;
  if (length < bits && length % 8 === 0) {
    // Whole bytes are compared as they are; the rest is not even read.
    out.address(family, side, length / 8);
    out.compare('eq', leadingBytes(family, first, length / 8));
    return true;
  }
  if (length === bits) out.address(family, side);
  else out.block(family, side, length);
  out.compareAddress('eq', family, first);
  return true;
}

function leadingBytes(family: Family, address: bigint, count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  let rest = address >> BigInt(familyBits(family) - 8 * count);
  for (let i = count - 1; i >= 0; i -= 1, rest >>= 8n) bytes[i] = Number(rest & 0xffn);
  return bytes;
}

/** The expressions of each kind of condition; false where it has no form here. `before` are the conditions that stand before it, `lookUp` the set that was made for it. */
const encoders: {
  readonly [K in Match['kind']]: (
    out: ExpressionWriter,
    match: Extract<Match, { kind: K }>,
    before: readonly Match[],
    lookUp: LookUp | undefined,
  ) => boolean;
} = {
  interface(out, match) {
    const { kind: _, side, name, ...rest } = match;
    nothingElse(rest);
    out.meta(side);
    out.compare('eq', interfaceName(name));
    return true;
  },
  established(out, match) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    out.ct('state');
    out.mask(le32(establishedOrRelated));
    out.compare('neq', le32(0));
    return true;
  },
  family(out, match) {
    const { kind: _, family, ...rest } = match;
    nothingElse(rest);
    out.isFamily(family);
    return true;
  },
  icmpTypes(out, match, before, lookUp) {
    const { kind: _, family, types, ...rest } = match;
    nothingElse(rest);
    const [only] = types;
    const isKnown = lookUp !== undefined || types.length === 1;
    if (only === undefined || !isKnown || knowsFamily(before) || knowsProtocol(before)) return false;
    out.isFamily(family);
    out.isProtocol(icmpOf[family]);
    out.payload('transport', 0, 1);
    if (lookUp !== undefined) out.isInSet(lookUp.set);
    else out.compareByte('eq', only);
    return true;
  },
  icmpTypeRange(out, match, before) {
    const { kind: _, family, first, last, ...rest } = match;
    nothingElse(rest);
    if (knowsFamily(before) || knowsProtocol(before)) return false;
    out.isFamily(family);
    out.isProtocol(icmpOf[family]);
    out.payload('transport', 0, 1);
    out.compareByte('gte', first);
    out.compareByte('lte', last);
    return true;
  },
  hopLimit(out, match, before) {
    const { kind: _, value: limit, ...rest } = match;
    nothingElse(rest);
    // Only an IPv6 packet has a hop limit at this offset. Where no earlier condition fixes the family, it would have to
    // be checked first.
    const isIcmp6 = (each: Match): boolean =>
      (each.kind === 'icmpTypeRange' || each.kind === 'icmpTypes') && each.family === 6;
    if (!before.some(isIcmp6)) return false;
    out.payload('network', 7, 1);
    out.compareByte('eq', limit);
    return true;
  },
  protocol(out, match) {
    const { kind: _, protocol, ...rest } = match;
    nothingElse(rest);
    out.isProtocol(protocol);
    return true;
  },
  ports(out, match, before) {
    const { kind: _, from, to, transport, original, ...rest } = match;
    nothingElse(rest);
    if (knowsProtocol(before) || (original === true && transport === undefined)) return false;
    out.ports(transport, original === true);
    if (from === to) {
      out.comparePort('eq', from);
      return true;
    }
    out.comparePort('gte', from);
    out.comparePort('lte', to);
    return true;
  },
  notSyn(out, match, before) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    if (knowsProtocol(before)) return false;
    out.isProtocol(protocolNumber.tcp);
    out.payload('transport', 13, 1);
    out.mask(Uint8Array.of(syn));
    out.compareByte('eq', 0);
    return true;
  },
  new(out, match) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    out.ct('state');
    out.mask(le32(newState));
    out.compare('neq', le32(0));
    return true;
  },
  // These stand in chains that are loaded once, which `nft` does.
  protocols: () => false,
  secondGeneration: () => false,
  rate: () => false,
  translated(out, match) {
    const { kind: _, by, ...rest } = match;
    nothingElse(rest);
    out.ct('status');
    out.mask(le32(translatedBy[by]));
    out.compare('neq', le32(0));
    return true;
  },
  forwarded(out, match) {
    const { kind: _, ...rest } = match;
    nothingElse(rest);
    out.meta('iif');
    out.toNetworkOrder(4);
    out.compare('gt', noBits.subarray(0, 4));
    return true;
  },
  address(out, match, before, lookUp) {
    const { kind: _, family, side, ranges, ...rest } = match;
    nothingElse(rest);
    const [only] = ranges;
    if (only === undefined || knowsFamily(before)) return false;
    if (lookUp === undefined) return ranges.length === 1 && writeRange(out, family, side, only);
    if (lookUp.bits === undefined) out.address(family, side);
    else out.block(family, side, lookUp.bits);
    out.isInSet(lookUp.set);
    return true;
  },
};

/** The compiler keeps the table above right; this look-up is the one step that it cannot follow. */
function writeMatch(
  out: ExpressionWriter,
  match: Match,
  before: readonly Match[],
  lookUp: LookUp | undefined,
): boolean {
  const encode = encoders[match.kind] as (
    out: ExpressionWriter,
    match: Match,
    before: readonly Match[],
    lookUp: LookUp | undefined,
  ) => boolean;
  return encode(out, match, before, lookUp);
}

/** Makes the set that a condition needs: nothing where it needs none, false where there is no form for it. */
function writeSetOf(batch: FilterBatch, table: TableName, match: Match): LookUp | undefined | false {
  if (match.kind === 'address' && match.ranges.length > 1) return writeAddressSet(batch, table, match) ?? false;
  if (match.kind === 'icmpTypes' && match.types.length > 1) return writeIcmpSet(batch, table, match) ?? false;
  return undefined;
}

function writeMapOf(batch: FilterBatch, table: TableName, action: VerdictMap): LookUp | undefined {
  switch (action.kind) {
    case 'protocolMap':
      return writeProtocolMap(batch, table, action.entries);
    case 'portMap':
      return writePortMap(batch, table, action.entries);
    case 'addressMap':
      return writeAddressMap(batch, table, action.family, action.entries);
    default:
      return action satisfies never;
  }
}

/** What a map is asked about; false where there is no form for it. */
function writeMapKey(out: ExpressionWriter, action: VerdictMap, before: readonly Match[]): boolean {
  switch (action.kind) {
    case 'protocolMap': {
      const { kind: _, entries: _entries, ...rest } = action;
      nothingElse(rest);
      out.meta('l4proto');
      return true;
    }
    case 'portMap': {
      const { kind: _, entries: _entries, transport, original, ...rest } = action;
      nothingElse(rest);
      if (knowsProtocol(before) || (original === true && transport === 'th')) return false;
      out.ports(transport === 'th' ? undefined : transport, original === true);
      return true;
    }
    case 'addressMap': {
      const { kind: _, entries: _entries, family, side, ...rest } = action;
      nothingElse(rest);
      if (knowsFamily(before)) return false;
      out.address(family, side);
      return true;
    }
    default:
      return action satisfies never;
  }
}

const nothing: readonly Match[] = [];

const bases: ReadonlySet<string> = new Set(
  tableNames.flatMap((table) => (['inbound', 'outbound'] as const).map((direction) => baseName({ table, direction }))),
);
/** Rules are frozen, and those of base chains stay from one policy to the next, and for a repair: what asks for them is written once. */
const written = new WeakMap<
  Rule,
  { readonly table: TableName; readonly chain: string; readonly message: Uint8Array }
>();

/** Asks for the rule, and before it for the sets that it needs; false where one of its parts has no form here, and then the batch is no good. */
export function writeRule(batch: FilterBatch, table: TableName, chain: string, rule: Rule): boolean {
  if (!bases.has(chain) || makesSet(rule)) return writeAnew(batch, table, chain, rule);
  const before = written.get(rule);
  if (before?.chain === chain && before.table === table) {
    batch.repeat(before.message);
    return true;
  }
  if (!writeAnew(batch, table, chain, rule)) return false;
  written.set(rule, { table, chain, message: batch.last });
  return true;
}

function writeAnew(batch: FilterBatch, table: TableName, chain: string, rule: Rule): boolean {
  const { matches, record, counter, counterMap, action, ...rest } = rule;
  nothingElse(rest);
  if (record !== undefined || action.kind === 'reject') return false;
  const lookUps: (LookUp | undefined)[] = [];
  for (const match of matches) {
    const lookUp = writeSetOf(batch, table, match);
    if (lookUp === false) return false;
    lookUps.push(lookUp);
  }
  const map = 'entries' in action ? writeMapOf(batch, table, action) : undefined;
  batch.beginAgain(rulePart + tableNames.indexOf(table), () => batch.ask('addRule', flag.create | flag.append, table));
  batch.name(ruleAttribute.chain, chain);
  const list = batch.open(ruleAttribute.expressions);
  const out = new ExpressionWriter(batch);
  for (const [i, match] of matches.entries()) {
    if (!writeMatch(out, match, i === 0 ? nothing : matches.slice(0, i), lookUps[i])) return false;
  }
  if (counterMap !== undefined) {
    const { family, side, map: peers, ...more } = counterMap;
    nothingElse(more);
    if (counter !== undefined || knowsFamily(matches)) return false;
    out.address(family, side);
    out.countBy(peers);
  } else if (counter !== undefined) out.count(counter);
  if (!('entries' in action)) out.verdict(action);
  else if (map === undefined || !writeMapKey(out, action, matches)) return false;
  else out.verdictOf(map.set);
  batch.close(list);
  batch.end();
  return true;
}
