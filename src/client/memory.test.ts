/** Proves that records are counted for at least what they take in memory. */
import { describe, expect, test } from 'vitest';
import { collectMemory } from '../../test/lib/collect-memory.ts';
import { memoryOf } from './memory.ts';

const inUse = (): number => {
  collectMemory();
  return process.memoryUsage().heapUsed;
};

describe('the memory of a record', () => {
  test.each([
    ['a long text', JSON.stringify('x'.repeat(20_000_000))],
    ['a long text in Chinese', JSON.stringify('長'.repeat(5_000_000))],
    ['short texts', JSON.stringify(Array.from({ length: 200_000 }, (_, i) => `10.0.0.${i}`))],
    ['empty objects', `[${'{},'.repeat(200_000)}{}]`],
    ['empty lists', `[${'[],'.repeat(200_000)}[]]`],
    ['objects with fields', JSON.stringify(Array.from({ length: 100_000 }, (_, i) => ({ id: `${i}`, port: i })))],
    ['numbers', JSON.stringify(Array.from({ length: 500_000 }, (_, i) => i + 0.5))],
  ])('is not underestimated: %s', (_, json) => {
    const before = inUse();
    const value: unknown = JSON.parse(json);
    const taken = inUse() - before;
    const counted = memoryOf(value);
    expect(counted).toBeGreaterThan(0.8 * taken);
    expect(counted).toBeLessThan(4 * taken);
  });
});
