/** Owns address text: strict parsing of addresses, prefixes and ranges into numbers, and printing. */
import type { ProblemCode } from './problem.ts';
import { type Range } from './range.ts';
import type { Family } from './rule.ts';

export interface Address {
  readonly family: Family;
  readonly value: bigint;
}

export interface FamilyRange extends Range {
  readonly family: Family;
}

/** Why a text is no address: a stable code, and a reason that ends a sentence beginning with the text. */
export interface AddressFault {
  readonly fault: Extract<
    ProblemCode,
    `address_${string}` | 'prefix_invalid' | 'range_reversed' | 'range_mixed_families'
  >;
  readonly reason: string;
}

const invalid = (reason: string): AddressFault => ({ fault: 'address_invalid', reason });
const neither = invalid('is not an address, a CIDR prefix or a first-last range');

/** Longer than any address range that can be written, so that a megabyte of text costs nothing. */
const longestEntry = 256;

/** The number of a well-formed IPv4 text, or -1: the common case without the cost of saying what is wrong. */
function quickIPv4(text: string): number {
  let value = 0;
  let part = -1;
  let dots = 0;
  for (let index = 0; index < text.length; index += 1) {
    const digit = text.charCodeAt(index) - 48;
    if (digit >= 0 && digit <= 9) {
      // A second digit after a leading zero is octal to some: left to the slow road.
      if (part === 0) return -1;
      part = part < 0 ? digit : part * 10 + digit;
      if (part > 255) return -1;
    } else {
      if (digit !== -2 || part < 0 || dots === 3) return -1;
      value = value * 256 + part;
      part = -1;
      dots += 1;
    }
  }
  return dots === 3 && part >= 0 ? value * 256 + part : -1;
}

function parseIPv4(text: string): Address | AddressFault {
  const quick = quickIPv4(text);
  if (quick >= 0) return { family: 4, value: BigInt(quick) };
  const parts = text.split('.');
  if (!parts.every((part) => /^[0-9]+$/.test(part))) return neither;
  if (parts.length < 4) return { fault: 'address_short', reason: 'does not have four numbers separated by dots' };
  if (parts.length > 4) return invalid('has more than four numbers');
  for (const part of parts) {
    if (part.length > 1 && part.startsWith('0')) {
      return {
        fault: 'address_octal',
        reason: `has a leading zero in "${part.slice(0, 8)}", which some programs read as octal`,
      };
    }
    const number = Number(part);
    if (number > 255) return invalid('has a number above 255');
  }
  return neither;
}

/** Parses up to eight groups of hexadecimal digits into numbers. A dotted IPv4 tail counts as the last two groups. */
function parseGroups(text: string): number[] | AddressFault {
  if (text === '') return [];
  const words = text.split(':');
  const groups: number[] = [];
  for (const [index, word] of words.entries()) {
    if (index === words.length - 1 && word.includes('.')) {
      const tail = parseIPv4(word);
      if ('fault' in tail) return tail;
      groups.push(Number(tail.value >> 16n), Number(tail.value & 0xffffn));
    } else if (/^[0-9a-fA-F]{1,4}$/.test(word)) {
      groups.push(Number.parseInt(word, 16));
    } else {
      return invalid('is not an IPv6 address');
    }
  }
  return groups;
}

/** The value of a digit, below 16, by its character code; others are -1. */
function hexDigit(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const letter = (code | 32) - 97;
  return letter >= 0 && letter < 6 ? letter + 10 : -1;
}

/** Eight groups of 16 bits as one number, with few steps on big integers. */
function joinGroups(groups: readonly number[]): bigint {
  const word = (index: number): bigint => BigInt((groups[index] ?? 0) * 65_536 + (groups[index + 1] ?? 0));
  return (((((word(0) << 32n) | word(2)) << 32n) | word(4)) << 32n) | word(6);
}

/** The number of a well-formed IPv6 text without a dotted tail, or nothing: the common case, as above. */
function quickIPv6(text: string): bigint | undefined {
  const groups: number[] = [];
  let gap = -1;
  let group = 0;
  let digits = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    const digit = hexDigit(code);
    if (digit >= 0) {
      digits += 1;
      if (digits > 4) return undefined;
      group = group * 16 + digit;
      continue;
    }
    const double = text.charCodeAt(index + 1) === 58;
    // Only ':' may stand here; it follows digits or opens the text as '::', and only '::' may end it.
    if (code !== 58 || (digits === 0 && !(index === 0 && double)) || index === text.length - 1) return undefined;
    if (digits > 0) groups.push(group);
    group = 0;
    digits = 0;
    if (double) {
      if (gap >= 0) return undefined;
      gap = groups.length;
      index += 1;
    }
  }
  if (digits > 0) groups.push(group);
  if (gap < 0 ? groups.length !== 8 : groups.length > 7) return undefined;
  if (gap >= 0) groups.splice(gap, 0, ...Array<number>(8 - groups.length).fill(0));
  return joinGroups(groups);
}

function parseIPv6(text: string): Address | AddressFault {
  const quick = quickIPv6(text);
  if (quick !== undefined) return { family: 6, value: quick };
  const halves = text.split('::');
  if (halves.length > 2) return invalid('has more than one "::"');
  const head = parseGroups(halves[0] ?? '');
  if (!Array.isArray(head)) return head;
  let groups = head;
  if (halves.length === 2) {
    if (halves[0]?.includes('.')) return invalid('is not an IPv6 address');
    const tail = parseGroups(halves[1] ?? '');
    if (!Array.isArray(tail)) return tail;
    const zeros = 8 - head.length - tail.length;
    if (zeros < 1) return invalid('has too many groups');
    groups = [...head, ...Array<number>(zeros).fill(0), ...tail];
  }
  if (groups.length !== 8) return invalid('does not have eight groups');
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = groups;
  const word = (high: number, low: number): bigint => BigInt(high * 65_536 + low);
  return { family: 6, value: (word(a, b) << 96n) | (word(c, d) << 64n) | (word(e, f) << 32n) | word(g, h) };
}

/** One address, strictly: four decimal numbers, or RFC 4291 text; no zone, no octal, no short form, no spaces. */
export function parseAddress(text: string): Address | AddressFault {
  if (text.length > longestEntry) return invalid('is too long to be an address');
  if (text.includes('%')) return { fault: 'address_zone', reason: 'has a zone, which rules cannot match' };
  return text.includes(':') ? parseIPv6(text) : parseIPv4(text);
}

function parsePrefix(text: string, slash: number): FamilyRange | AddressFault {
  const address = parseAddress(text.slice(0, slash));
  if ('fault' in address) return address;
  const bits = address.family === 4 ? 32 : 128;
  const length = text.slice(slash + 1);
  if (!/^(0|[1-9][0-9]{0,2})$/.test(length) || Number(length) > bits) {
    return { fault: 'prefix_invalid', reason: `needs a prefix length from 0 to ${bits} after the "/"` };
  }
  const host = (1n << BigInt(bits - Number(length))) - 1n;
  const first = address.value & ~host;
  return { family: address.family, first, last: first | host };
}

/** One entry of `ip_ranges` (reference 2.2): an address, a CIDR prefix (host bits are ignored) or `first-last`. */
export function parseRange(written: string): FamilyRange | AddressFault {
  if (written.length > longestEntry * 4) return invalid('is too long to be an address range');
  const text = written.trim();
  const slash = text.indexOf('/');
  const dash = text.indexOf('-');
  if (dash < 0) {
    if (slash >= 0) return parsePrefix(text, slash);
    const single = parseAddress(text);
    return 'fault' in single ? single : { family: single.family, first: single.value, last: single.value };
  }
  if (slash >= 0) return invalid('mixes a CIDR prefix with a first-last range');
  const ends = /^([^-\s]+)[ \t]*-[ \t]*([^-\s]+)$/.exec(text);
  if (ends === null) return invalid('is not a range of the form first-last');
  const first = parseAddress(ends[1] ?? '');
  if ('fault' in first) return first;
  const last = parseAddress(ends[2] ?? '');
  if ('fault' in last) return last;
  if (first.family !== last.family) {
    return { fault: 'range_mixed_families', reason: 'starts in one address family and ends in the other' };
  }
  if (first.value > last.value) return { fault: 'range_reversed', reason: 'has its first address above its last' };
  return { family: first.family, first: first.value, last: last.value };
}

/** The eight groups of the address that is being printed: a policy may hold a hundred thousand, and each would leave an array behind. */
const groups = new DataView(new ArrayBuffer(16));

function printIPv6(value: bigint): string {
  groups.setBigUint64(0, value >> 64n);
  // Of this, the lower half is taken.
  groups.setBigUint64(8, value);
  let start = -1;
  let end = -1;
  for (let from = 0; from < 8; from += 1) {
    let to = from;
    while (to < 8 && groups.getUint16(2 * to) === 0) to += 1;
    // A lone zero is written out; of equally long runs the first is shortened.
    if (to - from <= Math.max(1, end - start)) continue;
    start = from;
    end = to;
  }
  let text = '';
  for (let index = 0; index < 8; index += 1) {
    if (index === start) {
      text += '::';
      index = end - 1;
    } else {
      if (index !== 0 && index !== end) text += ':';
      text += groups.getUint16(2 * index).toString(16);
    }
  }
  return text;
}

/** The one text of an address: dotted decimal, or RFC 5952. */
export function printAddress(family: Family, value: bigint): string {
  if (family === 6) return printIPv6(value);
  const number = Number(value);
  return `${number >>> 24}.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`;
}

/** The prefix length if the range is exactly one CIDR prefix. */
export function prefixLength(family: Family, { first, last }: Range): number | undefined {
  if (family === 4) {
    const low = Number(first);
    const host = (low ^ Number(last)) >>> 0;
    return (host & (host + 1)) === 0 && (low & host) === 0 ? Math.clz32(host) : undefined;
  }
  const host = first ^ last;
  if ((host & (host + 1n)) !== 0n || (first & host) !== 0n) return undefined;
  return host === 0n ? 128 : 128 - host.toString(2).length;
}

/** The shortest text of a range: an address, else a prefix, else `first-last`. */
export function printRange(family: Family, range: Range): string {
  if (range.first === range.last) return printAddress(family, range.first);
  const length = prefixLength(family, range);
  if (length !== undefined) return `${printAddress(family, range.first)}/${length}`;
  return `${printAddress(family, range.first)}-${printAddress(family, range.last)}`;
}

/** The prefix that a text means whose address has bits behind it: `10.0.0.0/8` for `10.1.2.3/8`; undefined where it has none. */
export function maskedPrefix(written: string): string | undefined {
  const text = written.trim();
  const slash = text.indexOf('/');
  const range = slash < 0 ? undefined : parseRange(text);
  if (range === undefined || 'fault' in range) return undefined;
  const address = parseAddress(text.slice(0, slash));
  return 'fault' in address || address.value === range.first ? undefined : printRange(range.family, range);
}
