/** Proves how request bodies are counted: for their user, their address and in total, exactly until they are answered. */
import { expect, test } from 'vitest';
import { HttpError } from '../../problems.ts';
import { BodyMemory, type BodyClaim } from './body-memory.ts';

const kib = 1024;
const memoryOf = () => new BodyMemory({ user: 1_000 * kib, address: 2_000 * kib, total: 3_000 * kib });
const refusal = (act: () => unknown): [number, string | undefined] | undefined => {
  try {
    act();
    return undefined;
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    return [error.status, error.headers['Retry-After']];
  }
};
/** A body of a user that is here. */
function held(memory: BodyMemory, { user, address }: { user: string; address: string }, bytes: number): BodyClaim {
  const claim = memory.open(address, bytes);
  claim.bill(user, bytes);
  claim.grow(bytes);
  return claim;
}

test('a user has so many bytes and no more, at any address; other users go on', () => {
  const memory = memoryOf();
  const first = held(memory, { user: 'u', address: 'a' }, 600 * kib);
  held(memory, { user: 'u', address: 'b' }, 400 * kib);
  expect(refusal(() => held(memory, { user: 'u', address: 'c' }, kib))).toEqual([429, '5']);
  held(memory, { user: 'v', address: 'a' }, kib);
  first.end();
  held(memory, { user: 'u', address: 'c' }, kib);
});

test('an address has so many bytes and no more, also before its users are known', () => {
  const memory = memoryOf();
  held(memory, { user: 'u', address: 'a' }, 1_000 * kib);
  held(memory, { user: 'v', address: 'a' }, 1_000 * kib);
  expect(refusal(() => memory.open('a', 1))).toEqual([429, '5']);
  expect(refusal(() => memory.open('b', 1))).toBeUndefined();
});

test('all bodies together have so many bytes and no more (503)', () => {
  const memory = memoryOf();
  for (const name of ['u', 'v', 'w']) held(memory, { user: name, address: name }, 1_000 * kib);
  expect(refusal(() => memory.open('x', 1))).toEqual([503, '5']);
});

test('a body is refused by the length that it declares, before it is here; one without a length when it has grown too large', () => {
  const memory = memoryOf();
  held(memory, { user: 'u', address: 'a' }, 900 * kib);
  const declared = memory.open('a', 200 * kib);
  expect(refusal(() => declared.bill('u', 200 * kib))).toEqual([429, '5']);
  declared.end();
  const unknown = memory.open('a', undefined);
  expect(refusal(() => unknown.bill('u', undefined))).toBeUndefined();
  expect(refusal(() => unknown.grow(100 * kib))).toBeUndefined();
  expect(refusal(() => unknown.grow(101 * kib))).toEqual([429, '5']);
});

test('nothing is left of bodies that have ended, whatever happened to them', () => {
  const memory = memoryOf();
  const claims = Array.from({ length: 40 }, (_, n) => {
    const claim = memory.open(`a${n % 5}`, n * kib);
    refusal(() => claim.bill(`u${n % 3}`, n * kib));
    refusal(() => claim.grow(2 * n * kib));
    return claim;
  });
  expect(memory.total).toBeGreaterThan(0);
  for (const claim of claims) {
    claim.end();
    claim.end();
    claim.grow(10 * kib);
  }
  expect(memory.total).toBe(0);
  held(memory, { user: 'u0', address: 'a0' }, 1_000 * kib);
});
