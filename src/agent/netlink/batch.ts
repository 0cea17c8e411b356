/** Owns the messages of one transaction, written one after the other into a few buffers. */
import type { Family } from '../../policy/rule.ts';
import { headSize, putFrameHead } from './frames.ts';
import { aligned, attribute, attributeHeaderSize, flag, headerSize, nested, nestedFlag } from './message.ts';

/** Bytes of the first piece, which a small batch needs alone, and of those that follow at most. */
const firstPiece = 2_048;
const largestPiece = 1 << 18;
/** A piece is so many times as large as the one before. */
const growth = 8;
const noName = /[^ -~]/;
const typeAt = 4;
const flagsAt = 6;
const sequenceAt = 8;

const elementOf = (length: number): Uint8Array => nested(1, nested(1, attribute(1, new Uint8Array(length))));
const element4 = elementOf(4);
const element6 = elementOf(16);

/**
 * Messages are begun, filled with attributes, and ended; an attribute that holds others is opened and closed. None of them is an object:
 * a batch of fifty thousand rules has millions.
 */
export class Batch {
  #bytes: Buffer = Buffer.allocUnsafe(firstPiece);
  #view: DataView | undefined;
  /** Where the message that is being written begins, and where its next byte goes. */
  #start = headSize;
  #at = headSize;
  /** Where the message that was ended last begins. */
  #begun = headSize;
  readonly #full: Buffer[] = [];
  readonly #parts = new Map<number, Uint8Array>();
  #messages = 0;
  #size = 0;

  /** Messages that were ended. */
  get messages(): number {
    return this.#messages;
  }
  /** Their bytes. */
  get size(): number {
    return this.#size;
  }
  /** Bytes so far of the message that is being written. */
  get length(): number {
    return this.#at - this.#start;
  }

  begin(type: number, flags: number): void {
    this.#start = this.#at;
    this.#need(headerSize);
    const at = this.#start;
    this.#put32(at, 0);
    this.#put16(at + typeAt, type);
    this.#put16(at + flagsAt, flags | flag.request);
    this.#put32(at + sequenceAt, 0);
    this.#put32(at + sequenceAt + 4, 0);
    this.#at += headerSize;
  }

  end(): void {
    this.#put32(this.#start, this.length);
    this.#size += this.length;
    this.#messages += 1;
    this.#begun = this.#start;
    this.#start = this.#at;
  }

  /** The message that was ended last, to be written again. Good until the batch is sealed. */
  get last(): Uint8Array {
    return Uint8Array.from(this.#bytes.subarray(this.#begun, this.#at));
  }

  /** Writes a whole message again. */
  repeat(message: Uint8Array): void {
    this.#start = this.#at;
    this.raw(message);
    this.end();
  }

  /** Bytes as they are, padded. */
  raw(bytes: Uint8Array): void {
    const length = aligned(bytes.length);
    this.#need(length);
    this.#bytes.set(bytes, this.#at);
    for (let at = this.#at + bytes.length; at < this.#at + length; at += 1) this.#bytes[at] = 0;
    this.#at += length;
  }

  /** Writes a part of a message that its number fully identifies. A repeated part is copied. */
  again(part: number, write: () => void): void {
    const known = this.#parts.get(part);
    if (known !== undefined) {
      this.raw(known);
      return;
    }
    const place = this.length;
    write();
    this.#parts.set(part, Uint8Array.from(this.#bytes.subarray(this.#start + place, this.#at)));
  }

  /** The same of what begins a message. */
  beginAgain(part: number, write: () => void): void {
    this.#start = this.#at;
    this.again(part, write);
  }

  /** Writes the number over the last four bytes, as the network has it. */
  replaceBe32(value: number): void {
    this.#at -= 4;
    this.#putBe32(value);
  }

  /** Begins an attribute that holds attributes; the answer is for `close`. */
  open(type: number): number {
    const place = this.#at - this.#start;
    this.#head(type | nestedFlag, 0, 0);
    return place;
  }

  close(place: number): void {
    const length = this.#at - this.#start - place;
    if (length > 0xffff) throw new RangeError(`an attribute of ${length} bytes is too long`);
    const at = this.#start + place;
    this.#bytes[at] = length;
    this.#bytes[at + 1] = length >>> 8;
  }

  bytes(type: number, payload: Uint8Array): void {
    if (payload.length > 0xffff - attributeHeaderSize) throw new RangeError(`${payload.length} bytes are too many`);
    this.#head(type, payload.length, 0);
    this.raw(payload);
  }

  /** One byte. */
  u8(type: number, value: number): void {
    this.#head(type, 1, 4);
    this.#putBe32(value << 24);
  }

  /** A number of two bytes in the order of the network. */
  be16(type: number, value: number): void {
    this.#head(type, 2, 4);
    this.#putBe32(value << 16);
  }

  /** A number of four bytes in the order of the network. */
  be32(type: number, value: number): void {
    this.#head(type, 4, 4);
    this.#putBe32(value);
  }

  address(type: number, family: Family, value: bigint): void {
    if (family === 4) {
      this.be32(type, Number(value));
      return;
    }
    this.#head(type, 16, 16);
    this.#putAddress6(value);
  }

  /** An element of a list, with nothing but an address as its key: sets are made of thousands of these. */
  addressElement(family: Family, value: bigint): void {
    const template = family === 4 ? element4 : element6;
    this.#need(template.length);
    this.#bytes.set(template, this.#at);
    if (family === 4) {
      this.#at += template.length - 4;
      this.#putBe32(Number(value));
      return;
    }
    this.#at += template.length - 16;
    this.#putAddress6(value);
  }

  /** A name as the kernel reads it: with a zero at its end. */
  name(type: number, name: string): void {
    if (noName.test(name)) throw new RangeError(`${JSON.stringify(name)} is not a valid name in the kernel`);
    const length = aligned(name.length + 1);
    this.#head(type, name.length + 1, length);
    this.#bytes.write(name, this.#at, 'latin1');
    for (let at = this.#at + name.length; at < this.#at + length; at += 1) this.#bytes[at] = 0;
    this.#at += length;
  }

  /**
   * The pieces of the frame for this socket, with the messages numbered from here on, and an answer asked for to the one before the last, which is
   * the mark of the end: what the kernel says of it, it says after the commit.
   */
  seal(socket: number, first: number): readonly Uint8Array[] {
    const pieces = [...this.#full, this.#bytes.subarray(0, this.#start)];
    let sequence = first;
    let at = headSize;
    for (const piece of pieces) {
      this.#bytes = piece;
      for (; at < piece.length; at += this.#get32(at)) {
        this.#put32(at + sequenceAt, sequence);
        if (sequence === first + this.#messages - 2) piece[at + flagsAt] = (piece[at + flagsAt] ?? 0) | flag.ack;
        sequence += 1;
      }
      at = 0;
    }
    if (pieces[0] !== undefined) putFrameHead(pieces[0], this.#size, socket);
    return pieces;
  }

  /** An attribute's head, with room for so many bytes behind it. */
  #head(type: number, length: number, room: number): void {
    this.#need(attributeHeaderSize + room);
    const bytes = this.#bytes;
    const at = this.#at;
    bytes[at] = attributeHeaderSize + length;
    bytes[at + 1] = (attributeHeaderSize + length) >>> 8;
    bytes[at + 2] = type;
    bytes[at + 3] = type >>> 8;
    this.#at = at + attributeHeaderSize;
  }

  /** Makes room for so many bytes: a message that does not fit into its piece begins the next one. */
  #need(count: number): void {
    if (this.#at + count <= this.#bytes.length) return;
    const written = this.#bytes.subarray(this.#start, this.#at);
    if (this.#start > 0) this.#full.push(this.#bytes.subarray(0, this.#start));
    this.#bytes = Buffer.allocUnsafeSlow(
      Math.max(Math.min(growth * this.#bytes.length, largestPiece), 2 * (written.length + count)),
    );
    this.#bytes.set(written);
    this.#view = undefined;
    this.#at = written.length;
    this.#start = 0;
  }

  #put16(at: number, value: number): void {
    this.#bytes[at] = value;
    this.#bytes[at + 1] = value >>> 8;
  }

  #put32(at: number, value: number): void {
    this.#put16(at, value);
    this.#put16(at + 2, value >>> 16);
  }

  #putBe32(value: number): void {
    const bytes = this.#bytes;
    const at = this.#at;
    bytes[at] = value >>> 24;
    bytes[at + 1] = value >>> 16;
    bytes[at + 2] = value >>> 8;
    bytes[at + 3] = value;
    this.#at = at + 4;
  }

  #putAddress6(value: bigint): void {
    this.#view ??= new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
    this.#view.setBigUint64(this.#at, value >> 64n);
    // Of this, the lower half is taken.
    this.#view.setBigUint64(this.#at + 8, value);
    this.#at += 16;
  }

  #get32(at: number): number {
    const bytes = this.#bytes;
    return (
      ((bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8) | ((bytes[at + 2] ?? 0) << 16) | ((bytes[at + 3] ?? 0) << 24)) >>>
      0
    );
  }
}
