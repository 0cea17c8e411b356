/**
 * Owns sets and maps as the kernel takes them over netlink: the anonymous ones of rules and the named ones of peers, in the very messages that
 * `nft` makes of the same text, so that the kernel chooses the same way to keep them and a listing reads the same.
 */
import { blocksOf, familyBits } from '../../../nft/blocks.ts';
import {
  tableNames,
  type AddressEntry,
  type AddressSide,
  type Command,
  type Match,
  type PortEntry,
  type ProtocolEntry,
  type TableName,
  type Verdict,
} from '../../../nft/ast.ts';
import { lastAddress, type RangeSet } from '../../../policy/range.ts';
import type { Family } from '../../../policy/rule.ts';
import { flag } from '../message.ts';
import { dataAttribute, elementAttribute, fullMessage, listAttribute, listElement } from './elements.ts';
import { counterObject, type FilterBatch } from './transaction.ts';

const setAttribute = {
  name: 2,
  flags: 3,
  keyType: 4,
  keyLength: 5,
  dataType: 6,
  dataLength: 7,
  description: 9,
  id: 10,
  userdata: 13,
  objectType: 15,
} as const;
const descriptionSize = 1;
const setFlag = { anonymous: 0x1, constant: 0x2, interval: 0x4, map: 0x8, object: 0x40 } as const;
const verdictType = 0xffff_ff00;

const intervalEnd = 1;
/** What `nft` notes about an interval that reaches to the last of all values: it has no end. */
const openInterval = Uint8Array.of(1, 4, 1, 0, 0, 0);

/** The key of an element in the numbers of `nft`. `field` is the packet field that `nft` records for the set. */
interface Key {
  readonly type: number;
  readonly length: number;
  readonly last: bigint | number;
  readonly order: 'host' | 'network';
  readonly field?: readonly [header: number, place: number];
}

const addressType = { 4: 7, 6: 8 } as const;
const addressField = {
  4: { saddr: [0x0c, 0x0b], daddr: [0x0c, 0x0c] },
  6: { saddr: [0x0d, 0x08], daddr: [0x0d, 0x09] },
} as const;
const addressKey = (family: Family, side?: AddressSide): Key => ({
  type: addressType[family],
  length: familyBits(family) / 8,
  last: lastAddress(family),
  order: 'network',
  ...(side && { field: addressField[family][side] }),
});
const icmpKey: { readonly [F in Family]: Key } = {
  4: { type: 0x0e, length: 1, last: 0xff, order: 'network', field: [0x04, 1] },
  6: { type: 0x1d, length: 1, last: 0xff, order: 'network', field: [0x0e, 1] },
};
const protocolKey: Key = { type: 0x0c, length: 1, last: 0xff, order: 'host' };
const portKey: Key = { type: 0x0d, length: 2, last: 0xffff, order: 'network' };

// What `nft` notes about a set are fields of a number, a length and as many bytes.
const note = (kind: number, value: number): readonly number[] => [kind, 4, value, 0, 0, 0];
const notesOf = (kind: number, ...inner: readonly (readonly number[])[]): readonly number[] => {
  const bytes = inner.flat();
  return [kind, bytes.length, ...bytes];
};
const noteKind = { keyOrder: 0, dataOrder: 1, merges: 2, keyField: 3, dataField: 4, dataInterval: 6 } as const;
const orderNumber = { host: 1, network: 2 } as const;
const payloadExpression = 7;
const verdictExpression = 1;
const keyOrder = ({ order }: Key): readonly number[] => note(noteKind.keyOrder, orderNumber[order]);
const fieldNote = ([header, place]: readonly [number, number]): readonly number[] =>
  notesOf(noteKind.keyField, note(0, payloadExpression), notesOf(1, note(0, header), note(1, place)));

const setNotes = (key: Key, interval: boolean): Uint8Array =>
  Uint8Array.from([
    ...keyOrder(key),
    ...(interval ? note(noteKind.merges, 1) : []),
    ...(key.field ? fieldNote(key.field) : []),
  ]);
const mapNotes = (key: Key): Uint8Array =>
  Uint8Array.from([
    ...keyOrder(key),
    ...note(noteKind.dataOrder, 0),
    ...notesOf(noteKind.dataField, note(0, verdictExpression), [1, 0]),
    ...note(noteKind.dataInterval, 0),
  ]);
const objectMapNotes = (key: Key): Uint8Array => Uint8Array.from([...keyOrder(key), ...note(noteKind.dataInterval, 0)]);

/** Elements by their place in ascending order: from a value to a value, and in a map what they lead to. */
interface Entries {
  readonly key: Key;
  readonly count: number;
  readonly first: (at: number) => bigint | number;
  readonly last: (at: number) => bigint | number;
  readonly verdict?: (at: number) => Verdict;
  /** Where it is known already. */
  readonly form?: Form;
}

type Form = 'intervals' | 'values';

export const verdictCode = { drop: 0, accept: 1, continue: -1, jump: -3, goto: -4, return: -5 } as const;

/** A verdict as data, of an element or of what sets the register of verdicts. */
export function writeVerdict(batch: FilterBatch, type: number, verdict: Verdict): void {
  const data = batch.open(type);
  const inner = batch.open(dataAttribute.verdict);
  batch.be32(1, verdictCode[verdict.kind]);
  if ('chain' in verdict) batch.name(2, verdict.chain);
  batch.close(inner);
  batch.close(data);
}

function writeKey(batch: FilterBatch, { length }: Key, value: bigint | number): void {
  const key = batch.open(elementAttribute.key);
  if (typeof value === 'bigint') batch.address(dataAttribute.value, length === 4 ? 4 : 6, value);
  else if (length === 1) batch.u8(dataAttribute.value, value);
  else batch.be16(dataAttribute.value, value);
  batch.close(key);
}

/** Numbers of what begins a set, and a list of elements. */
const setPart = 0x20_0000;
const elementsPart = 0x30_0000;
function partOf(part: number, table: TableName, { key, verdict }: Entries, form: Form = 'values'): number {
  const [header, place] = key.field ?? noField;
  const kind = (form === 'values' ? 0 : 1) + (verdict === undefined ? 0 : 2) + 4 * tableNames.indexOf(table);
  return part + kind + 8 * key.type + 256 * (16 * header + place);
}
const noField = [0, 0] as const;

const nameOf = ({ verdict }: Entries): string => (verdict === undefined ? '__set%d' : '__map%d');
const after = (value: bigint | number): bigint | number => (typeof value === 'bigint' ? value + 1n : value + 1);

/**
 * Whether these are intervals or single values; nothing where they do not stand in order and apart, or where two intervals of a set touch: `nft`
 * would refuse them, or make one of them.
 */
function formOf({ count, first, last, verdict }: Entries): Form | undefined {
  let [intervals, touching] = [false, false];
  let before = last(0);
  for (let at = 0; at < count; at += 1) {
    const from = first(at);
    const to = last(at);
    if (to < from || (at > 0 && from <= before)) return undefined;
    touching ||= at > 0 && from === after(before);
    intervals ||= from !== to;
    before = to;
  }
  if (count === 0 || (intervals && touching && verdict === undefined)) return undefined;
  return intervals ? 'intervals' : 'values';
}

/** The messages of one set's elements: the next one is begun where the last is full. */
class ElementWriter {
  readonly #batch: FilterBatch;
  readonly #table: TableName;
  readonly #entries: Entries;
  readonly #id: number;
  #list = 0;

  constructor(batch: FilterBatch, table: TableName, entries: Entries, id: number) {
    this.#batch = batch;
    this.#table = table;
    this.#entries = entries;
    this.#id = id;
    this.#begin();
  }

  add(value: bigint | number, verdict?: Verdict, userdata?: Uint8Array): void {
    const batch = this.#next();
    if (verdict === undefined && userdata === undefined && typeof value === 'bigint') {
      batch.addressElement(this.#entries.key.length === 4 ? 4 : 6, value);
      return;
    }
    const element = batch.open(listElement);
    writeKey(batch, this.#entries.key, value);
    if (verdict !== undefined) writeVerdict(batch, elementAttribute.data, verdict);
    if (userdata !== undefined) batch.bytes(elementAttribute.userdata, userdata);
    batch.close(element);
  }

  /** Everything from here on, up to the next element, is not in the set. */
  addEnd(value: bigint | number): void {
    const batch = this.#next();
    const element = batch.open(listElement);
    batch.be32(elementAttribute.flags, intervalEnd);
    writeKey(batch, this.#entries.key, value);
    batch.close(element);
  }

  end(): void {
    this.#batch.close(this.#list);
    this.#batch.end();
  }

  #begin(): void {
    const batch = this.#batch;
    const name = nameOf(this.#entries);
    batch.beginAgain(partOf(elementsPart, this.#table, this.#entries), () => {
      batch.ask('addElements', flag.create, this.#table);
      batch.name(listAttribute.set, name);
    });
    batch.be32(listAttribute.id, this.#id);
    this.#list = batch.open(listAttribute.elements);
  }

  #next(): FilterBatch {
    if (this.#batch.length >= fullMessage) {
      this.end();
      this.#begin();
    }
    return this.#batch;
  }
}

function writeIntervals(out: ElementWriter, { key, count, first, last, verdict }: Entries): void {
  if (Number(first(0)) !== 0) out.addEnd(key.length > 2 ? 0n : 0);
  for (let at = 0; at < count; at += 1) {
    const to = last(at);
    const reachesEnd = to === key.last;
    out.add(first(at), verdict?.(at), reachesEnd ? openInterval : undefined);
    // Where the next one follows at once, its beginning is the end of this one.
    if (!reachesEnd && !(at + 1 < count && first(at + 1) === after(to))) out.addEnd(after(to));
  }
}

/** Where a rule looks something up: in which set of the batch, and under how many leading bits, where not all of them count. */
export interface LookUp {
  readonly set: number;
  readonly bits?: number;
}

/** Makes an anonymous set or map with its elements; nothing where its entries are not as `nft` would have them. */
function writeSet(batch: FilterBatch, table: TableName, entries: Entries): LookUp | undefined {
  const { key, count, first, verdict } = entries;
  const form = entries.form ?? formOf(entries);
  if (form === undefined) return undefined;
  const interval = form === 'intervals';
  const id = batch.nextSet();
  batch.beginAgain(partOf(setPart, table, entries, form), () => {
    batch.ask('addSet', flag.create, table);
    batch.name(setAttribute.name, nameOf(entries));
    const kind = (interval ? setFlag.interval : 0) | (verdict === undefined ? 0 : setFlag.map);
    batch.be32(setAttribute.flags, setFlag.anonymous | setFlag.constant | kind);
    batch.be32(setAttribute.keyType, key.type);
    batch.be32(setAttribute.keyLength, key.length);
    if (verdict !== undefined) {
      batch.be32(setAttribute.dataType, verdictType);
      batch.be32(setAttribute.dataLength, 0);
    }
    batch.bytes(setAttribute.userdata, verdict === undefined ? setNotes(key, interval) : mapNotes(key));
  });
  batch.be32(setAttribute.id, id);
  const description = batch.open(setAttribute.description);
  // By this the kernel chooses how it keeps the set: `nft` counts an end for every interval, and one before the first.
  batch.be32(descriptionSize, interval ? 2 * count + (Number(first(0)) === 0 ? 0 : 1) : count);
  batch.close(description);
  batch.end();
  const out = new ElementWriter(batch, table, entries, id);
  if (interval) writeIntervals(out, entries);
  else for (let at = 0; at < count; at += 1) out.add(first(at), verdict?.(at));
  out.end();
  return { set: id };
}

type AddressMatch = Extract<Match, { kind: 'address' }>;

export function writeAddressSet(
  batch: FilterBatch,
  table: TableName,
  { family, side, ranges }: AddressMatch,
): LookUp | undefined {
  const blocks = blocksOf(ranges, family);
  if (blocks === undefined) {
    return writeSet(batch, table, { key: addressKey(family, side), ...rangeEntries(ranges) });
  }
  const { length, firsts } = blocks;
  const whole = length === familyBits(family);
  const first = (at: number): bigint => firsts[at] ?? 0n;
  // What is compared under a mask is no field of the packet any more.
  const key = whole ? addressKey(family, side) : addressKey(family);
  const lookUp = writeSet(batch, table, { key, count: firsts.length, first, last: first, form: 'values' });
  return lookUp === undefined || whole ? lookUp : { ...lookUp, bits: length };
}

const rangeEntries = (ranges: RangeSet | readonly AddressEntry[]): Pick<Entries, 'count' | 'first' | 'last'> => ({
  count: ranges.length,
  first: (at) => ranges[at]?.first ?? 0n,
  last: (at) => ranges[at]?.last ?? 0n,
});

export function writeIcmpSet(
  batch: FilterBatch,
  table: TableName,
  { family, types }: Extract<Match, { kind: 'icmpTypes' }>,
): LookUp | undefined {
  const first = (at: number): number => types[at] ?? 0;
  return writeSet(batch, table, { key: icmpKey[family], count: types.length, first, last: first });
}

const verdictAt =
  (entries: readonly { readonly verdict: Verdict }[]) =>
  (at: number): Verdict =>
    entries[at]?.verdict ?? { kind: 'drop' };

export function writeProtocolMap(
  batch: FilterBatch,
  table: TableName,
  entries: readonly ProtocolEntry[],
): LookUp | undefined {
  const first = (at: number): number => entries[at]?.protocol ?? 0;
  const verdict = verdictAt(entries);
  return writeSet(batch, table, { key: protocolKey, count: entries.length, first, last: first, verdict });
}

export function writePortMap(batch: FilterBatch, table: TableName, entries: readonly PortEntry[]): LookUp | undefined {
  const first = (at: number): number => entries[at]?.from ?? 0;
  const last = (at: number): number => entries[at]?.to ?? 0;
  return writeSet(batch, table, { key: portKey, count: entries.length, first, last, verdict: verdictAt(entries) });
}

export function writeAddressMap(
  batch: FilterBatch,
  table: TableName,
  family: Family,
  entries: readonly AddressEntry[],
): LookUp | undefined {
  const key = addressKey(family);
  return writeSet(batch, table, { key, ...rangeEntries(entries), verdict: verdictAt(entries) });
}

/** A named map from addresses to counters, without members. */
export function writePeerMap(
  batch: FilterBatch,
  table: TableName,
  { name, family }: Extract<Command, { kind: 'addMap' }>,
): void {
  const key = addressKey(family);
  batch.ask('addSet', flag.create, table);
  batch.name(setAttribute.name, name);
  batch.be32(setAttribute.flags, setFlag.object);
  batch.be32(setAttribute.keyType, key.type);
  batch.be32(setAttribute.keyLength, key.length);
  batch.be32(setAttribute.objectType, counterObject);
  batch.be32(setAttribute.id, batch.nextSet());
  batch.bytes(setAttribute.userdata, objectMapNotes(key));
  batch.end();
}
