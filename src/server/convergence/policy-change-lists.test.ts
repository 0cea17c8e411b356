/** Proves that devices with the same policy changes share one list, and that a shared list has the same content as separate ones. */
import { expect, test } from 'vitest';
import { PolicyChangeLists, noPolicyChanges } from './policy-change-lists.ts';
import type { PolicyChange } from './verdict.ts';

test('devices that the same changes touched share one list, others have their own', () => {
  const lists = new PolicyChangeLists();
  let [a, b, c]: (readonly PolicyChange[])[] = [noPolicyChanges, noPolicyChanges, noPolicyChanges];
  for (let revision = 1; revision <= 12; revision += 1) {
    a = lists.after(a ?? noPolicyChanges, { key: `k${revision}`, revision });
    b = lists.after(b ?? noPolicyChanges, { key: `k${revision}`, revision });
    c = lists.after(c ?? noPolicyChanges, { key: `other${revision}`, revision });
  }
  expect(a).toBe(b);
  const revisions = [5, 6, 7, 8, 9, 10, 11, 12];
  expect(a).toEqual(revisions.map((revision) => ({ key: `k${revision}`, revision })));
  expect(c).toEqual(revisions.map((revision) => ({ key: `other${revision}`, revision })));
});

test('a policy change whose revision is certain is not taken for one that is not', () => {
  const lists = new PolicyChangeLists();
  const loaded = lists.after(noPolicyChanges, { key: 'k', revision: 3, atLatest: true });
  const followed = lists.after(noPolicyChanges, { key: 'k', revision: 3 });
  expect([loaded, followed]).toEqual([[{ key: 'k', revision: 3, atLatest: true }], [{ key: 'k', revision: 3 }]]);
  expect(noPolicyChanges).toEqual([]);
});
