/** Proves the wire form of a batch by the one-by-one writers of messages and attributes, also where it does not fit into one piece. */
import { describe, expect, test } from 'vitest';
import { Batch } from './batch.ts';
import { headSize } from './frames.ts';
import { addressBytes, attribute, be16, be32, concat, nested, readMessages, text, u8 } from './message.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const v6 = 0x2001_0db8_0000_0001_ffff_0000_8000_0009n;

/** All kinds of attributes; so many bytes of the last. */
function fill(batch: Batch, type: number, filling: number): void {
  batch.begin(type, 0x400);
  batch.raw(Uint8Array.of(1, 2, 3));
  batch.name(1, 'rf0');
  const outer = batch.open(2);
  batch.u8(1, 0xab);
  const inner = batch.open(3);
  batch.be16(4, 0x1234);
  batch.be32(5, 0xffff_fffd);
  batch.close(inner);
  batch.address(6, 4, 0x0a00_0001n);
  batch.address(7, 6, v6);
  batch.addressElement(4, 0xffff_ffffn);
  batch.addressElement(6, v6);
  batch.close(outer);
  batch.bytes(8, new Uint8Array(filling).fill(7));
  batch.end();
}

const expected = (filling: number): Uint8Array =>
  concat([
    Uint8Array.of(1, 2, 3, 0),
    attribute(1, text('rf0')),
    nested(
      2,
      attribute(1, u8(0xab)),
      nested(3, attribute(4, be16(0x1234)), attribute(5, be32(-3))),
      attribute(6, be32(0x0a00_0001)),
      attribute(7, addressBytes(6, v6)),
      nested(1, nested(1, attribute(1, be32(0xffff_ffff)))),
      nested(1, nested(1, attribute(1, addressBytes(6, v6)))),
    ),
    attribute(8, new Uint8Array(filling).fill(7)),
  ]);

describe('a batch', () => {
  test.each([
    ['in one piece', [5, 6, 7, 8]],
    ['in several', [1_900, 20, 16_000, 60_001, 60_002, 60_003, 65_000, 5, 65_531, 65_000]],
  ])('holds its messages as they are written one by one, %s', (_, fillings) => {
    const batch = new Batch();
    for (const [i, filling] of fillings.entries()) fill(batch, 0x100 + i, filling);
    const frame = concat(batch.seal(12, 0xffff_fff0));
    expect(frame[4]).toBe(12);
    expect(Buffer.from(frame).readUInt32LE(0)).toBe(frame.length - headSize);
    expect(batch.size).toBe(frame.length - headSize);
    expect(batch.messages).toBe(fillings.length);
    const found = readMessages(frame.subarray(headSize));
    expect(found.map(({ type, flags, sequence }) => ({ type, flags, sequence }))).toEqual(
      fillings.map((_filling, i) => ({
        type: 0x100 + i,
        // An answer is asked for to the one before the last.
        flags: i === fillings.length - 2 ? 0x405 : 0x401,
        sequence: 0xffff_fff0 + i,
      })),
    );
    expect(found.map(({ payload }) => hex(payload))).toEqual(fillings.map((filling) => hex(expected(filling))));
  });

  test('copies parts that come again, and what begins a message', () => {
    const batch = new Batch();
    let written = 0;
    for (const value of [5, 6]) {
      batch.beginAgain(1, () => {
        batch.begin(0x100, 0);
        batch.name(1, 'rf');
        written += 1;
      });
      for (let i = 0; i < 2; i += 1) batch.again(2, () => batch.be32(2, ++written));
      batch.be32(3, 0);
      batch.replaceBe32(value);
      batch.end();
    }
    expect(written).toBe(2);
    const payload = (value: number): string =>
      hex(concat([attribute(1, text('rf')), attribute(2, be32(2)), attribute(2, be32(2)), attribute(3, be32(value))]));
    const found = readMessages(concat(batch.seal(12, 1)).subarray(headSize));
    expect(found.map((message) => hex(message.payload))).toEqual([payload(5), payload(6)]);
  });

  test('writes a whole message again, whatever was written between', () => {
    const [batch, other] = [new Batch(), new Batch()];
    fill(batch, 0x100, 5);
    fill(batch, 0x101, 1_900);
    const kept = batch.last;
    fill(batch, 0x102, 7);
    batch.repeat(kept);
    fill(batch, 0x103, 8);
    for (const [type, filling] of [[0x100, 5] as const, [0x101, 1_900] as const]) fill(other, type, filling);
    fill(other, 0x102, 7);
    fill(other, 0x101, 1_900);
    fill(other, 0x103, 8);
    expect([batch.messages, batch.size]).toEqual([other.messages, other.size]);
    expect(hex(concat(batch.seal(12, 9)))).toBe(hex(concat(other.seal(12, 9))));
  });

  test('refuses names that the kernel would read otherwise, and attributes that are too long', () => {
    const batch = new Batch();
    batch.begin(0x100, 0);
    for (const name of ['é', 'a\0b', 'Ā']) expect(() => batch.name(3, name)).toThrow(RangeError);
    const list = batch.open(1);
    batch.bytes(2, new Uint8Array(65_528));
    expect(() => batch.close(list)).toThrow(RangeError);
    expect(() => batch.bytes(2, new Uint8Array(65_532))).toThrow(RangeError);
  });
});
