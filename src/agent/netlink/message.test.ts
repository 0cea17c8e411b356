/** Proves the wire form of netlink by bytes that are written here by hand, and that broken bytes are refused. */
import { describe, expect, test } from 'vitest';
import { FrameReader, headSize, sealFrame, type Frame } from './frames.ts';
import {
  addressBytes,
  addressValue,
  attribute,
  be16,
  be32,
  eachAttribute,
  readMessages,
  errorNumber,
  le32,
  Malformed,
  nested,
  text,
  u8,
  writeMessages,
  type Message,
} from './message.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
const plain = (spaced: string): string => spaced.replaceAll(' ', '');
const bytes = (spaced: string): Uint8Array => Uint8Array.from(Buffer.from(plain(spaced), 'hex'));

const hexOf = (messages: readonly Message[]): unknown[] =>
  messages.map(({ payload, ...head }) => ({ ...head, payload: hex(payload) }));
const writeFrame = ({ socket, bytes: carried }: Frame): Uint8Array => {
  const frame = new Uint8Array(headSize + carried.length);
  frame.set(carried, headSize);
  return sealFrame(frame, socket);
};

describe('a message', () => {
  test('is a header of sixteen bytes and its payload, padded to four', () => {
    const message = writeMessages([{ type: 0x102, flags: 0x5, sequence: 7, payload: u8(0xab) }]);
    expect(hex(message)).toBe(plain('11000000 0201 0500 07000000 00000000 ab000000'));
    expect(hexOf(readMessages(message))).toEqual([{ type: 0x102, flags: 5, sequence: 7, payload: 'ab' }]);
  });

  test('stands behind others, and behind what its writer leaves room for', () => {
    const messages = [
      { type: 0x10, flags: 1, sequence: 0xffff_fffe, payload: u8(0xab) },
      { type: 0x11, flags: 0, sequence: 2, payload: new Uint8Array(0) },
    ];
    const written = writeMessages(messages, 3);
    expect(hex(written.subarray(3))).toBe(
      plain('11000000 1000 0100 feffffff 00000000 ab000000 10000000 1100 0000 02000000 00000000'),
    );
    expect(hexOf(readMessages(written.subarray(3)))).toEqual(hexOf(messages));
  });

  test('holds attributes, padded each, some of them nested', () => {
    const whole = nested(1, attribute(2, be16(0x1234)), attribute(3, u8(6)));
    expect(hex(whole)).toBe(plain('1400 0180 0600 0200 12340000 0500 0300 06000000'));
    const seen: [number, string][] = [];
    eachAttribute(whole, (type, payload) => seen.push([type, hex(payload)]));
    expect(seen).toEqual([[1, plain('0600 0200 12340000 0500 0300 06000000')]]);
  });

  test('holds numbers in the order that each wants, addresses in that of the network, and texts with a zero', () => {
    expect([be32(0x01020304), le32(0x01020304), le32(0xffff_ffff), text('rf')].map(hex)).toEqual([
      '01020304',
      '04030201',
      'ffffffff',
      '726600',
    ]);
    expect(hex(addressBytes(4, 0x64400001n))).toBe('64400001');
    expect(hex(addressBytes(6, (0xfd7fn << 112n) | 1n))).toBe('fd7f0000000000000000000000000001');
    expect(addressValue(bytes('fd7f0000000000000000000000000001'))).toBe((0xfd7fn << 112n) | 1n);
  });

  test('that answers tells the number of the error, or that there is none', () => {
    const answer = (payload: string) => errorNumber({ type: 2, flags: 0, sequence: 1, payload: bytes(payload) });
    expect([answer('00000000'), answer('feffffff'), answer('ffffffff')]).toEqual([0, 2, 1]);
    expect(() => answer('00')).toThrow(Malformed);
  });

  test.each([
    ['a message longer than what came', '20000000 0200 0000 01000000 00000000'],
    ['a message shorter than its header', '04000000 0200 0000 01000000 00000000'],
  ])('is refused: %s', (_, spaced) => {
    expect(() => readMessages(bytes(spaced))).toThrow(Malformed);
  });

  test.each(['ff00 0100 00000000', '0300 0100'])('with an attribute of a wrong length is refused: %s', (spaced) => {
    expect(() => eachAttribute(bytes(spaced), () => {})).toThrow(Malformed);
  });
});

describe('frames', () => {
  test('come whole, however the pipe has cut them', () => {
    const sent = [
      { socket: 12, bytes: bytes('010203') },
      { socket: 4, bytes: new Uint8Array(0) },
      { socket: 0, bytes: new Uint8Array(7_000).fill(9) },
    ];
    const stream = Buffer.concat(sent.map(writeFrame));
    for (const size of [3, 5, 64, 65_536, stream.length]) {
      const reader = new FrameReader();
      const got = [];
      for (let at = 0; at < stream.length; at += size) got.push(...reader.push(stream.subarray(at, at + size)));
      expect(got.map(({ socket, bytes: b }) => [socket, hex(b)])).toEqual(
        sent.map(({ socket, bytes: b }) => [socket, hex(b)]),
      );
    }
  });
});
