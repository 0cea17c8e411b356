/** Proves that only names which nft reads as we mean them pass the parsers. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BadName, isObjectName, parseInterfaceName, parseObjectName } from './names.ts';

function nameOf(text: string): string | undefined {
  try {
    return parseInterfaceName(text);
  } catch (error) {
    if (error instanceof BadName) return undefined;
    throw error;
  }
}

describe('an interface name', () => {
  test.each(['eth0', 'wg0', 'tun-a.1', 'a*b', 'x', 'fifteen-bytes-x', 'é0', '$x', '#', 'a\\'])('may be %j', (name) => {
    expect(parseInterfaceName(name)).toBe(name);
  });

  test.each([
    '',
    'sixteen-bytes-xx',
    'ééééééé0é',
    'a b',
    'a\tb',
    'a\nb',
    'a\0b',
    'a\u0085b',
    'a\u00a0b',
    'a\u2028b',
    'a"b',
    "a'b",
    'a`b',
    'a/b',
    'a:b',
    '.',
    '..',
    '*',
    'eth*',
    '\ud800',
    'x'.repeat(1_000_000),
    7,
    null,
    undefined,
    ['eth0'],
  ])('is never %j', (name) => {
    expect(() => parseInterfaceName(name)).toThrow(BadName);
  });

  test('of any text is refused, or holds nothing that ends an nft string or line', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: 'binary', maxLength: 20 }), fc.string({ maxLength: 20 })), (text) => {
        const name = nameOf(text) ?? '';
        expect(new TextEncoder().encode(name).length).toBeLessThanOrEqual(15);
        expect(name).not.toMatch(/["\s]/);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('an object name', () => {
  test('is what nft reads bare', () => {
    expect(parseObjectName('service-inbound')).toBe('service-inbound');
    for (const name of ['', '1a', '-a', 'a b', 'a;b', 'a"', 'a{', 'é', 'a\n', 'x'.repeat(200)]) {
      expect(isObjectName(name)).toBe(false);
      expect(() => parseObjectName(name)).toThrow(BadName);
    }
  });
});
