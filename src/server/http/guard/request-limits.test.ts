/** Proves that failed credentials count over all processes of a server. */
import { expect, test } from 'vitest';
import type { FailedElsewhere } from '../../limits/failed-elsewhere.ts';
import { RequestLimits } from './request-limits.ts';

const none = { perSecond: 0, burst: 0 };
const presented = { authorization: 'Bearer guess' };

/** The limits of two processes that tell each other. */
function twoProcesses(): readonly [RequestLimits, RequestLimits] {
  const listeners: ((address: string) => void)[] = [];
  const linkOf = (own: number): FailedElsewhere => ({
    tell: (address) => listeners.forEach((listener, index) => index !== own && listener(address)),
    listen: (listener) => (listeners[own] = listener),
  });
  const options = { credential: none, user: none, address: none, failed: { perSecond: 1, burst: 4 } };
  return [new RequestLimits(options, () => 0, linkOf(0)), new RequestLimits(options, () => 0, linkOf(1))];
}

test('an address has one burst of failed credentials, whichever process it meets', () => {
  const [one, other] = twoProcesses();
  for (const limits of [one, other, other, one]) limits.failed('192.0.2.1');
  for (const limits of [one, other]) {
    expect(() => limits.presented(presented, '192.0.2.1')).toThrow('Too many requests');
    expect(() => limits.failed('192.0.2.1')).toThrow('Too many requests');
    expect(() => limits.presented(presented, '192.0.2.2')).not.toThrow();
  }
});

test('a process without the limit tells the others nothing', () => {
  const told: string[] = [];
  const link: FailedElsewhere = { tell: (address) => told.push(address), listen: () => undefined };
  const options = { credential: none, user: none, address: none };
  new RequestLimits({ ...options, failed: none }, () => 0, link).failed('192.0.2.1');
  new RequestLimits({ ...options, failed: { perSecond: 1, burst: 4 } }, () => 0, link).failed('192.0.2.2');
  expect(told).toEqual(['192.0.2.2']);
});
