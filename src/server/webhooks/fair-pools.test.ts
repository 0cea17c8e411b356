/** Proves how concurrent work shares a process: slow organizations never hold the places of fast ones. */
import { expect, test } from 'vitest';
import { parseOrganizationId } from '../../policy/ids.ts';
import { FairPools } from './fair-pools.ts';

const organization = (n: number) => parseOrganizationId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
const poolsOf = (places: number) => {
  const pools = new FairPools({ places, slowForMs: 1_000 });
  const cut: number[] = [];
  const batch = (n: number, size = 2) => ({ organization: organization(n), size, cut: () => cut.push(n) });
  return { pools, cut, batch };
};

test('a batch that takes long leaves its places in the fast pool to others', () => {
  const { pools, batch, cut } = poolsOf(4);
  const [first, second] = [batch(1), batch(2)];
  pools.begin('fast', first);
  pools.begin('fast', second);
  expect([pools.freePlaces('fast'), pools.freePlaces('slow')]).toEqual([0, 4]);
  pools.becomeSlow(first, 0);
  expect([pools.freePlaces('fast'), pools.freePlaces('slow')]).toEqual([2, 2]);
  expect(pools.busyOrganizations()).toEqual([organization(2), organization(1)]);
  pools.end(first);
  pools.end(second);
  expect([pools.freePlaces('fast'), pools.freePlaces('slow'), pools.busyOrganizations()]).toEqual([4, 4, []]);
  expect(cut).toEqual([]);
});

test('a slow pool that is full ends its oldest batch, once', () => {
  const { pools, batch, cut } = poolsOf(4);
  const batches = [1, 2, 3, 4].map((n) => batch(n));
  for (const one of batches) pools.begin('fast', one);
  for (const one of batches) pools.becomeSlow(one, 0);
  expect(cut).toEqual([1, 2]);
  expect([pools.freePlaces('fast'), pools.freePlaces('slow')]).toEqual([4, 0]);
  for (const one of batches) pools.becomeSlow(one, 0);
  for (const one of batches) pools.end(one);
  expect([cut, pools.freePlaces('slow')]).toEqual([[1, 2], 4]);
});

test('an organization begins in the slow pool for a while after it was slow', () => {
  const { pools, batch } = poolsOf(4);
  const slow = batch(1);
  pools.begin('fast', slow);
  pools.becomeSlow(slow, 500);
  pools.end(slow);
  expect(pools.slowOrganizations(1_499)).toEqual([organization(1)]);
  expect(pools.slowOrganizations(1_500)).toEqual([]);
  // One that has ended meanwhile is not slow.
  pools.becomeSlow(slow, 2_000);
  expect(pools.slowOrganizations(2_000)).toEqual([]);
});
