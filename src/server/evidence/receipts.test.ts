/** Proves which sample shows that a state of evidence was in force everywhere. */
import { expect, test } from 'vitest';
import { inForceOnAllAt } from './receipts.ts';

const time = (minute: number): string => new Date(Date.UTC(2026, 10, 18, 10, minute)).toISOString();
const sample = (minute: number, in_force: number) => ({ at: time(minute), devices: 3, in_force });
const span = { seconds: 300, end: Date.parse(time(30)) };

test('the first sample counts that was taken while the state lasted, and lacks no device', () => {
  const samples = [sample(0, 3), sample(5, 2), sample(10, 3), sample(15, 3)];
  expect(inForceOnAllAt({ from: time(4), until: time(30) }, samples, span)).toBe(time(10));
  expect(inForceOnAllAt({ from: time(0) }, samples, span)).toBe(time(0));
});

test('a sample that may be of the time before or after the state does not count', () => {
  const samples = [sample(0, 3), sample(5, 3), sample(25, 3)];
  expect(inForceOnAllAt({ from: time(1), until: time(9) }, samples, span)).toBeUndefined();
  expect(inForceOnAllAt({ from: time(21) }, samples, { ...span, end: Date.parse(time(29)) })).toBeUndefined();
  expect(inForceOnAllAt({ from: time(21) }, samples, span)).toBe(time(25));
});
