/** Proves that devices which the same changes touched share one list, and that the lists say what they would say alone. */
import { expect, test } from 'vitest';
import { TouchLists, untouched } from './touch-lists.ts';
import type { Touch } from './verdict.ts';

test('devices that the same changes touched share one list, others have their own', () => {
  const lists = new TouchLists();
  let [a, b, c]: (readonly Touch[])[] = [untouched, untouched, untouched];
  for (let revision = 1; revision <= 12; revision += 1) {
    a = lists.after(a ?? untouched, { key: `k${revision}`, revision });
    b = lists.after(b ?? untouched, { key: `k${revision}`, revision });
    c = lists.after(c ?? untouched, { key: `other${revision}`, revision });
  }
  expect(a).toBe(b);
  const revisions = [5, 6, 7, 8, 9, 10, 11, 12];
  expect(a).toEqual(revisions.map((revision) => ({ key: `k${revision}`, revision })));
  expect(c).toEqual(revisions.map((revision) => ({ key: `other${revision}`, revision })));
});

test('a touch whose revision is certain is not taken for one that is not', () => {
  const lists = new TouchLists();
  const loaded = lists.after(untouched, { key: 'k', revision: 3, atLatest: true });
  const followed = lists.after(untouched, { key: 'k', revision: 3 });
  expect([loaded, followed]).toEqual([[{ key: 'k', revision: 3, atLatest: true }], [{ key: 'k', revision: 3 }]]);
  expect(untouched).toEqual([]);
});
