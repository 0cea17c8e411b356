/** Owns the netlink wire format: writes and reads messages and their attributes (little-endian machines). */

/** Flags of a request. */
export const flag = { request: 0x1, ack: 0x4, create: 0x400, append: 0x800, dump: 0x300 } as const;
/** Types of messages that every protocol of netlink has. */
export const controlType = { error: 2, done: 3 } as const;

export const headerSize = 16;
export const attributeHeaderSize = 4;
export const nestedFlag = 0x8000;
const typeMask = 0x3fff;

/** Thrown where the kernel's bytes are no netlink messages. */
export class Malformed extends Error {
  readonly code = 'malformed';
}

export const aligned = (length: number): number => (length + 3) & ~3;

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export const u8 = (value: number): Uint8Array => Uint8Array.of(value);
export const be16 = (value: number): Uint8Array => Uint8Array.of(value >>> 8, value & 0xff);
export const be32 = (value: number): Uint8Array =>
  Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
export const le32 = (value: number): Uint8Array => be32(value).toReversed();
const encoder = new TextEncoder();
/** A name as the kernel reads it: with a zero at its end. Nearly all are plain letters, and an encoder would be most of the work for these. */
export function text(value: string): Uint8Array {
  const bytes = new Uint8Array(value.length + 1);
  for (let i = 0; i < value.length; i += 1) {
    const letter = value.charCodeAt(i);
    if (letter > 0x7f) return encoder.encode(`${value}\0`);
    bytes[i] = letter;
  }
  return bytes;
}

/** A family of addresses as the kernel numbers it. */
export const familyNumber = (family: 4 | 6): number => (family === 4 ? 2 : 10);

/** The bytes of an address in the order of the network. */
export function addressBytes(family: 4 | 6, value: bigint): Uint8Array {
  if (family === 4) return be32(Number(value));
  const bytes = new Uint8Array(16);
  for (let [i, rest] = [bytes.length - 1, value]; i >= 0; i -= 1, rest >>= 8n) bytes[i] = Number(rest & 0xffn);
  return bytes;
}

export function addressValue(bytes: Uint8Array): bigint {
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  return value;
}

// Numbers are put byte by byte: a view of a small array would cost more than all else that is done with it, because
// the array then gets memory of its own outside of the heap.
function put16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
}

function put32(bytes: Uint8Array, at: number, value: number): void {
  put16(bytes, at, value);
  put16(bytes, at + 2, value >>> 16);
}

/** One attribute, padded. */
export function attribute(type: number, payload: Uint8Array): Uint8Array {
  const length = attributeHeaderSize + payload.length;
  const bytes = new Uint8Array(aligned(length));
  put16(bytes, 0, length);
  put16(bytes, 2, type);
  bytes.set(payload, attributeHeaderSize);
  return bytes;
}

/** Sets down a copy of the attribute between these places, as one that holds attributes. */
export function putNested(into: Uint8Array, place: number, bytes: Uint8Array, at: number, end: number): void {
  for (let from = at, to = place; from < end; from += 1, to += 1) into[to] = bytes[from] ?? 0;
  into[place + 3] = (into[place + 3] ?? 0) | (nestedFlag >>> 8);
}

/** An attribute that holds attributes. */
export const nested = (type: number, ...inner: readonly Uint8Array[]): Uint8Array =>
  attribute(type | nestedFlag, concat(inner));

export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  readonly payload: Uint8Array;
}

/** Behind so many bytes that are left to the caller. */
export function writeMessages(messages: readonly Message[], before = 0): Uint8Array {
  let size = before;
  for (const { payload } of messages) size += aligned(headerSize + payload.length);
  // One of many small pieces of the same memory, all of whose bytes are written below.
  const bytes = Buffer.allocUnsafe(size);
  let at = before;
  for (const { type, flags, sequence, payload } of messages) {
    const length = headerSize + payload.length;
    put32(bytes, at, length);
    put16(bytes, at + 4, type);
    put16(bytes, at + 6, flags);
    put32(bytes, at + 8, sequence);
    put32(bytes, at + 12, 0);
    bytes.set(payload, at + headerSize);
    const end = at + aligned(length);
    for (let padding = at + length; padding < end; padding += 1) bytes[padding] = 0;
    at = end;
  }
  return bytes;
}

const read16 = (bytes: Uint8Array, at: number): number => (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
/** The number at this place, as the machine writes it. */
export const readLe32 = (bytes: Uint8Array, at: number): number =>
  bytes.length < at + 4 ? 0 : (read16(bytes, at) | (read16(bytes, at + 2) << 16)) >>> 0;

/**
 * The messages in what one read from the kernel gave. Their payloads are windows on it. A list, and no call for each: what V8 makes of a loop that
 * calls back is thrown away, with all that it took in, whenever the one who was called is gone.
 */
export function readMessages(bytes: Uint8Array): Message[] {
  const messages: Message[] = [];
  for (let at = 0; at + headerSize <= bytes.length;) {
    const length = readLe32(bytes, at);
    if (length < headerSize || at + length > bytes.length)
      throw new Malformed('a message is longer than the received data');
    messages.push({
      type: read16(bytes, at + 4),
      flags: read16(bytes, at + 6),
      sequence: readLe32(bytes, at + 8),
      payload: bytes.subarray(at + headerSize, at + length),
    });
    at += aligned(length);
  }
  return messages;
}

// By bytes: a listing has a million attributes, and a view of each, or a call for each, would be most of the work.

/** Whether an attribute begins here, among those up to `to`. */
export const hasAttribute = (at: number, to: number): boolean => at + attributeHeaderSize <= to;

/** Where the attribute that begins here ends; the next one begins where that is `aligned`. */
export function attributeEnd(bytes: Uint8Array, at: number, to: number): number {
  const length = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
  if (length < attributeHeaderSize || at + length > to) throw new Malformed('an attribute is longer than its message');
  return at + length;
}

export const attributeType = (bytes: Uint8Array, at: number): number =>
  ((bytes[at + 2] ?? 0) | ((bytes[at + 3] ?? 0) << 8)) & typeMask;

/** Where the payload of an attribute that begins here does. */
export const payloadAt = (at: number): number => at + attributeHeaderSize;

/** Calls with the type of each attribute between these places, and with where its payload begins and ends. */
export function walkAttributes(
  bytes: Uint8Array,
  from: number,
  to: number,
  visit: (type: number, from: number, to: number) => void,
): void {
  let end = from;
  for (let at = from; hasAttribute(at, to); at = aligned(end)) {
    end = attributeEnd(bytes, at, to);
    visit(attributeType(bytes, at), payloadAt(at), end);
  }
}

/** Calls with the type and payload of each attribute, nested ones whole. */
export const eachAttribute = (bytes: Uint8Array, visit: (type: number, payload: Uint8Array) => void): void =>
  walkAttributes(bytes, 0, bytes.length, (type, from, to) => visit(type, bytes.subarray(from, to)));

/** What the kernel says of a request: 0 where it was done, else the number of the error. */
export function errorNumber({ payload }: Message): number {
  if (payload.length < 4) throw new Malformed('an answer without a number');
  return Math.abs((payload[0] ?? 0) | ((payload[1] ?? 0) << 8) | ((payload[2] ?? 0) << 16) | ((payload[3] ?? 0) << 24));
}
