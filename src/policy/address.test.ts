/** Proves the strict reading and the printing of addresses, prefixes and ranges; `ip-address` is the independent oracle. */
import fc from 'fast-check';
import { Address4, Address6 } from 'ip-address';
import { describe, expect, it } from 'vitest';
import { parseAddress, parseRange, printAddress, printRange } from './address.ts';
import { address, rangeText } from './arbitrary.fixture.ts';
import { lastAddress } from './range.ts';

describe('parseRange', () => {
  it.each([
    ['10.0.0.1', 4, 0x0a000001n, 0x0a000001n],
    [' 10.0.0.1\t', 4, 0x0a000001n, 0x0a000001n],
    ['10.1.2.3/8', 4, 0x0a000000n, 0x0affffffn],
    ['0.0.0.0/0', 4, 0n, 0xffffffffn],
    ['255.255.255.255/32', 4, 0xffffffffn, 0xffffffffn],
    ['10.0.0.1-10.0.0.9', 4, 0x0a000001n, 0x0a000009n],
    ['10.0.0.1 - 10.0.0.9', 4, 0x0a000001n, 0x0a000009n],
    ['::', 6, 0n, 0n],
    ['::1', 6, 1n, 1n],
    ['1::', 6, 1n << 112n, 1n << 112n],
    ['FD00::/8', 6, 0xfdn << 120n, (0xfen << 120n) - 1n],
    ['::/0', 6, 0n, (1n << 128n) - 1n],
    ['::ffff:1.2.3.4', 6, 0xffff01020304n, 0xffff01020304n],
    ['1:2:3:4:5:6:7:8', 6, 0x00010002000300040005000600070008n, 0x00010002000300040005000600070008n],
    ['fd00::1-fd00::ff', 6, (0xfd00n << 112n) + 1n, (0xfd00n << 112n) + 255n],
  ] as const)('reads %j', (text, family, first, last) => {
    expect(parseRange(text)).toEqual({ family, first, last });
  });

  it.each([
    ['', 'address_invalid'],
    ['any', 'address_invalid'],
    ['10.0.0.256', 'address_invalid'],
    ['10.0.0.1.2', 'address_invalid'],
    ['10.0.0.-1', 'address_invalid'],
    ['0x10.0.0.1', 'address_invalid'],
    ['1e1.0.0.1', 'address_invalid'],
    ['+1.0.0.1', 'address_invalid'],
    ['١.0.0.1', 'address_invalid'],
    ['10.0.0.1\n10.0.0.2', 'address_invalid'],
    ['10.0.0.1, 10.0.0.2', 'address_invalid'],
    ['10.0.0.1 10.0.0.2', 'address_invalid'],
    ['010.0.0.1', 'address_octal'],
    ['10.0.0.00', 'address_octal'],
    ['1.2.3', 'address_short'],
    ['167772161', 'address_short'],
    ['10.0/16', 'address_short'],
    ['10.0.0.1/', 'prefix_invalid'],
    ['10.0.0.1/33', 'prefix_invalid'],
    ['10.0.0.1/08', 'prefix_invalid'],
    ['10.0.0.1/-1', 'address_invalid'],
    ['10.0.0.1/8/8', 'prefix_invalid'],
    ['10.0.0.0/255.0.0.0', 'prefix_invalid'],
    ['10.0.0.1/ 8', 'prefix_invalid'],
    ['::/129', 'prefix_invalid'],
    ['10.0.0.9-10.0.0.1', 'range_reversed'],
    ['10.0.0.1-::1', 'range_mixed_families'],
    ['10.0.0.1-10.0.0.2-10.0.0.3', 'address_invalid'],
    ['10.0.0.1-', 'address_invalid'],
    ['-10.0.0.1', 'address_invalid'],
    ['10.0.0.0/8-11.0.0.0/8', 'address_invalid'],
    ['10.0.0.1 \n- 10.0.0.2', 'address_invalid'],
    ['fe80::1%eth0', 'address_zone'],
    ['10.0.0.1%eth0', 'address_zone'],
    [':::', 'address_invalid'],
    ['1::2::3', 'address_invalid'],
    [':1:2:3:4:5:6:7', 'address_invalid'],
    ['1:2:3:4:5:6:7', 'address_invalid'],
    ['1:2:3:4:5:6:7:8:9', 'address_invalid'],
    ['1:2:3:4:5:6:7::8', 'address_invalid'],
    ['12345::', 'address_invalid'],
    ['::g', 'address_invalid'],
    ['1.2.3.4::', 'address_invalid'],
    ['::1.2.3', 'address_short'],
    ['::1.2.3.04', 'address_octal'],
    ['[::1]', 'address_invalid'],
    ['::1 ', undefined],
    ['x'.repeat(1_000_000), 'address_invalid'],
  ] as const)('says of %.40j: %s', (text, fault) => {
    const range = parseRange(text);
    expect('fault' in range ? range.fault : undefined).toBe(fault);
  });
});

describe('address text against an independent library', () => {
  const families = fc.constantFrom(4 as const, 6 as const);

  it('reads what it prints, and the library reads the same number out of it', () => {
    fc.assert(
      fc.property(
        families.chain((family) => address(family).map((value) => ({ family, value }))),
        ({ family, value }) => {
          const text = printAddress(family, value);
          expect(parseAddress(text)).toEqual({ family, value });
          const other = family === 4 ? new Address4(text) : new Address6(text);
          expect(other.bigInt()).toBe(value);
          if (family === 6) expect(text).toBe(new Address6(text).correctForm());
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('reads prefixes as the library does, host bits included', () => {
    fc.assert(
      fc.property(
        families.chain((family) =>
          fc.tuple(fc.constant(family), address(family), fc.integer({ min: 0, max: family === 4 ? 32 : 128 })),
        ),
        ([family, value, length]) => {
          const text = `${printAddress(family, value)}/${length}`;
          const other = family === 4 ? new Address4(text) : new Address6(text);
          expect(parseRange(text)).toEqual({
            family,
            first: other.startAddress().bigInt(),
            last: other.endAddress().bigInt(),
          });
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('accepts nothing of IPv6 shape that the library refuses', () => {
    const piece = fc.constantFrom('0', '1', 'ffff', '00ab', ':', '::', '.', '1.2.3.4', '12345', 'g', '');
    fc.assert(
      fc.property(fc.array(piece, { minLength: 1, maxLength: 16 }), (pieces) => {
        const text = pieces.join('');
        if (!('fault' in parseAddress(text))) {
          expect(text.includes(':') ? Address6.isValid(text) : Address4.isValid(text)).toBe(true);
        }
      }),
      { numRuns: 5_000 },
    );
  });

  it('accepts every IPv6 text that the library holds for valid', () => {
    const group = fc.integer({ min: 0, max: 0xffff }).map((n) => n.toString(16));
    fc.assert(
      fc.property(fc.array(group, { minLength: 0, maxLength: 8 }), fc.integer({ min: 0, max: 8 }), (groups, at) => {
        const cut = Math.min(at, groups.length);
        const text =
          groups.length === 8 ? groups.join(':') : `${groups.slice(0, cut).join(':')}::${groups.slice(cut).join(':')}`;
        expect(Address6.isValid(text)).toBe(true);
        expect(parseAddress(text)).toEqual({ family: 6, value: new Address6(text).bigInt() });
      }),
      { numRuns: 2_000 },
    );
  });

  it('prints a range as the text that reads back to the same range', () => {
    fc.assert(
      fc.property(
        families.chain((family) => rangeText(family)),
        (text) => {
          const range = parseRange(text);
          if ('fault' in range) throw new Error(`${text} ${range.reason}`);
          expect(parseRange(printRange(range.family, range))).toEqual(range);
          expect(range.last <= lastAddress(range.family)).toBe(true);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});
