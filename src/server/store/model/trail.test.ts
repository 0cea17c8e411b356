/** Proves what is known of the steps of a model: also after a transaction that was rolled back, and never more than its bound. */
import { expect, test } from 'vitest';
import { Trail, type LoggedStep } from './trail.ts';

const step = (revision: number, characters = 1): LoggedStep => ({ revision, change: undefined, characters });
const revisionsOf = (trail: Trail, origin: object, after: number): readonly number[] | undefined =>
  trail.since(origin, after)?.map(({ revision }) => revision);

test('two trails that go on from the same one do not see the steps of the other', () => {
  const common = Trail.begin(10).with([step(11)]);
  const rolledBack = common.with([step(12)]);
  const committed = common.with([step(12), step(13)]);
  expect(revisionsOf(common, common.origin, 10)).toEqual([11]);
  expect(revisionsOf(rolledBack, common.origin, 10)).toEqual([11, 12]);
  expect(revisionsOf(committed, common.origin, 11)).toEqual([12, 13]);
});

test('what came before the model was loaded, or of another one, is not known', () => {
  const trail = Trail.begin(10).with([step(11)]);
  expect(revisionsOf(trail, trail.origin, 9)).toBeUndefined();
  expect(revisionsOf(Trail.begin(10), trail.origin, 10)).toBeUndefined();
  expect(revisionsOf(trail, trail.origin, 11)).toEqual([]);
});

test('many steps, and steps of large records, are forgotten from the beginning', () => {
  let trail = Trail.begin(0);
  for (let revision = 1; revision <= 10_000; revision += 1) trail = trail.with([step(revision)]);
  expect(revisionsOf(trail, trail.origin, 0)).toBeUndefined();
  expect(revisionsOf(trail, trail.origin, 8_000)).toHaveLength(2_000);
  trail = trail.with([step(10_001, 1e9)]);
  expect(revisionsOf(trail, trail.origin, 9_999)).toBeUndefined();
  expect(revisionsOf(trail, trail.origin, 10_000)).toEqual([10_001]);
});
