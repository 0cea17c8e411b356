/** Proves how deliveries in flight share a process: slow receivers never hold the places of prompt ones. */
import { expect, test } from 'vitest';
import { parseOrganizationId } from '../../policy/ids.ts';
import { Lanes } from './lanes.ts';

const organization = (n: number) => parseOrganizationId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
const lanesOf = (places: number) => {
  const lanes = new Lanes({ places, slowForMs: 1_000 });
  const cut: number[] = [];
  const batch = (n: number, size = 2) => ({ organization: organization(n), size, cut: () => cut.push(n) });
  return { lanes, cut, batch };
};

test('a batch that takes long leaves its places in the prompt lane to others', () => {
  const { lanes, batch, cut } = lanesOf(4);
  const [first, second] = [batch(1), batch(2)];
  lanes.begin('prompt', first);
  lanes.begin('prompt', second);
  expect([lanes.freePlaces('prompt'), lanes.freePlaces('slow')]).toEqual([0, 4]);
  lanes.becomeSlow(first, 0);
  expect([lanes.freePlaces('prompt'), lanes.freePlaces('slow')]).toEqual([2, 2]);
  expect(lanes.busyOrganizations()).toEqual([organization(2), organization(1)]);
  lanes.end(first);
  lanes.end(second);
  expect([lanes.freePlaces('prompt'), lanes.freePlaces('slow'), lanes.busyOrganizations()]).toEqual([4, 4, []]);
  expect(cut).toEqual([]);
});

test('a slow lane that is full ends its oldest batch, once', () => {
  const { lanes, batch, cut } = lanesOf(4);
  const batches = [1, 2, 3, 4].map((n) => batch(n));
  for (const one of batches) lanes.begin('prompt', one);
  for (const one of batches) lanes.becomeSlow(one, 0);
  expect(cut).toEqual([1, 2]);
  expect([lanes.freePlaces('prompt'), lanes.freePlaces('slow')]).toEqual([4, 0]);
  for (const one of batches) lanes.becomeSlow(one, 0);
  for (const one of batches) lanes.end(one);
  expect([cut, lanes.freePlaces('slow')]).toEqual([[1, 2], 4]);
});

test('an organization begins in the slow lane for a while after it was slow', () => {
  const { lanes, batch } = lanesOf(4);
  const slow = batch(1);
  lanes.begin('prompt', slow);
  lanes.becomeSlow(slow, 500);
  lanes.end(slow);
  expect(lanes.slowOrganizations(1_499)).toEqual([organization(1)]);
  expect(lanes.slowOrganizations(1_500)).toEqual([]);
  // One that has ended meanwhile is not slow.
  lanes.becomeSlow(slow, 2_000);
  expect(lanes.slowOrganizations(2_000)).toEqual([]);
});
