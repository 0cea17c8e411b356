/** Proves that a reader that asks for it learns when no change is half sent, and only then (reference 4.3 (30)). */
import { expect, test } from 'vitest';
import { both, device, hubMaker, loopTurns, type TestHub } from './hub.fixture.ts';
import type { FakeSink } from './sink.fixture.ts';

const make = hubMaker();

interface Document {
  readonly type: string;
  readonly revision?: number;
  readonly value?: { readonly id: string; readonly revision: number };
}

const documents = (sink: FakeSink): readonly Document[] => sink.lines().map((line) => JSON.parse(line) as Document);
const completes = (sink: FakeSink): readonly (number | undefined)[] =>
  documents(sink).flatMap(({ type, revision }) => (type === 'complete' ? [revision] : []));

/** More than one write carries. */
const many = 1_500;
const writeSet = ({ db }: TestHub): void => {
  for (let n = 0; n < many; n += 1) db.create(n % 2 === 0 ? 'device' : 'security-groups');
};

test('after the listings of all kinds, and after each change', async () => {
  const t = make();
  t.db.create('device');
  const sink = await t.watch(both, { complete: true });
  t.db.create('device');
  await t.hint();
  expect(documents(sink).map(({ type, revision, value }) => `${type} ${value?.revision ?? revision ?? ''}`)).toEqual([
    'change 1',
    'tail ',
    'tail ',
    'complete 1',
    'change 2',
    'complete 2',
  ]);
  const ordinary = await t.watch(both);
  t.db.create('device');
  await t.hint();
  expect(completes(ordinary)).toEqual([]);
});

test('once for a set of changes that takes many writes', async () => {
  const t = make();
  const sink = await t.watch(both, { complete: true });
  writeSet(t);
  await t.hint();
  await loopTurns(200);
  expect(completes(sink)).toEqual([0, many]);
  expect(documents(sink).at(-1)).toMatchObject({ type: 'complete', revision: many });
  expect(documents(sink).filter(({ type }) => type === 'change')).toHaveLength(many);
});

test('also where the last part of a set is nothing that the reader sees', async () => {
  const t = make();
  const sink = await t.watch(device, { complete: true });
  for (let n = 0; n < many; n += 1) t.db.create('device');
  for (let n = 0; n < many; n += 1) t.db.create('security-groups');
  await t.hint();
  await loopTurns(200);
  expect(completes(sink)).toEqual([0, 2 * many]);
});

test('a reader that takes nothing for a while, and falls behind what is in memory, is told when it has all', async () => {
  const t = make({ settings: { ringBytes: 1_000 } });
  const sink = await t.watch(both, { complete: true });
  sink.full = true;
  writeSet(t);
  await t.hint();
  t.db.create('device');
  await t.hint();
  sink.drain();
  await loopTurns(400);
  expect(completes(sink).at(-1)).toBe(many + 1);
  // Before that only what was complete when it was said: every document up to that revision has come by then.
  const seen = new Set<string>();
  for (const { type, revision, value } of documents(sink)) {
    if (value !== undefined) seen.add(value.id);
    if (type === 'complete') expect(seen.size).toBe(revision);
  }
});

test('a reader that resumes in the middle of a set is told at its end', async () => {
  const t = make();
  writeSet(t);
  const middle = many / 2;
  const items = both.map(({ kind }) => ({ kind, gt_revision: middle }));
  const sink = await t.watch(items, { complete: true });
  await loopTurns(200);
  expect(completes(sink)).toEqual([many]);
  expect(documents(sink).filter(({ type }) => type === 'change')).toHaveLength(many - middle);
});
