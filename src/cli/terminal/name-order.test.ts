/** Proves that names stand in the order of the collator, which is not loaded for most of them. */
import { describe, expect, test } from 'vitest';
import { compareNames } from './name-order.ts';

const collator = new Intl.Collator('en', { numeric: true });

/** Small and repeatable. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const printable = Array.from({ length: 95 }, (_, index) => String.fromCodePoint(32 + index));

function expectAgreement(pairs: readonly (readonly [string, string])[]): void {
  const wrong = pairs.filter(([a, b]) => Math.sign(compareNames(a, b)) !== Math.sign(collator.compare(a, b)));
  expect(wrong.slice(0, 10)).toEqual([]);
}

describe('the order of names is that of the collator', () => {
  test('for every two printable characters, alone, before and after others', () => {
    const pairs = printable.flatMap((a) => printable.map((b) => [a, b] as const));
    expectAgreement(pairs);
    expectAgreement(pairs.map(([a, b]) => [`${a}1`, `${b}02`]));
    expectAgreement(pairs.map(([a, b]) => [`x9${a}z`, `X9${b}a`]));
    expectAgreement(pairs.map(([a, b]) => [a + b, b]));
    expectAgreement(pairs.map(([a, b]) => [a + b, a]));
  });

  test('for random names that are close to each other', () => {
    const below = random(20_261_116);
    const alphabets = [printable, [...'aAbB01 -_.'], [...'0019'], [...'webWEB-0123456789']];
    const pairs = Array.from({ length: 60_000 }, (_, index) => {
      const alphabet = alphabets[index % alphabets.length] ?? printable;
      const word = (): string =>
        Array.from({ length: below(9) }, () => alphabet[below(alphabet.length)] ?? '').join('');
      const start = word();
      return [start + word(), start + word()] as const;
    });
    expectAgreement(pairs);
  });

  test('for numbers as long as names may be, and longer', () => {
    const lengths = [1, 15, 16, 17, 200, 253, 254, 255, 300, 600];
    const numbers = lengths.flatMap((length) => ['1', '9', '0'].map((digit) => digit.repeat(length)));
    expectAgreement(numbers.flatMap((a) => numbers.flatMap((b) => [[a, b] as const, [`a${a}b`, `a${b}c`] as const])));
  });

  test('beyond ASCII', () => {
    const names = [
      '',
      'a',
      'Z',
      'é',
      'ä1',
      'a\u03081',
      'ß',
      'ss',
      '名',
      '\t',
      'a\tb',
      'a\u0000',
      '١',
      '１２',
      '𝟙',
      '😀',
    ];
    expectAgreement(names.flatMap((a) => names.map((b) => [a, b] as const)));
  });

  test('so that web-2 stands before web-10', () => {
    expect(['web-10', 'Web-2', 'web-2', 'db', 'web'].toSorted(compareNames)).toEqual([
      'db',
      'web',
      'web-2',
      'Web-2',
      'web-10',
    ]);
  });
});
