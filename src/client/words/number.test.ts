/** Proves that numbers read as English writes them. */
import { expect, test } from 'vitest';
import { compactCount, grouped } from './number.ts';

const numbers = [0, 7, 999, 1_000, 1_234, 12_345, 999_949, 999_950, 1_000_000, 1_234_567, 12_300_000_000, 5e14];

test('numbers are grouped by thousands as English does', () => {
  expect(numbers.map(grouped)).toEqual(numbers.map((count) => count.toLocaleString('en')));
});

test('a count in short has one digit after the point at most', () => {
  expect(numbers.map(compactCount).join(' ')).toBe('0 7 999 1K 1.2K 12.3K 999.9K 1M 1M 1.2M 12.3B 500T');
});
