/** Proves that a set contains no two writes that depend on each other, and that the order of arrival is kept. */
import { parseUserId } from '../../../policy/ids.ts';
import { serverRight } from '../contract/actor.ts';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SingleStatementOperation, SingleStatementWrite } from './single-statement.ts';
import { inWaves, setValues } from './waves.ts';

const operation = (name: string): SingleStatementOperation => ({
  columns: ['id'],
  one: { name, text: '' },
  oneBySession: { name: `${name}_by_session`, text: '' },
  many: { name: `${name}_set`, text: '' },
});
const operations = [operation('create'), operation('update')];

let count = 0;
const write = (which: number, conflictKeys: readonly string[]): SingleStatementWrite<unknown> => ({
  kind: 'single-statement',
  operation: operations[which] ?? operation('other'),
  item: { id: `id ${(count += 1)}` },
  by: { user_id: parseUserId('00000000-0000-4000-8000-000000000001'), right: serverRight },
  conflictKeys,
  decode: () => undefined,
});

test('writes of one kind that touch different records are one set, sent as one array', () => {
  const writes = [write(0, ['a']), write(1, ['b']), write(0, ['c'])];
  const waves = inWaves(writes);
  expect(waves.map((sets) => sets.map((set) => [set.operation, set.writes.length]))).toEqual([
    [
      [operations[0], 2],
      [operations[1], 1],
    ],
  ]);
  const [set] = waves[0] ?? [];
  expect(set && setValues('org', set)).toEqual(['org', JSON.stringify([writes[0]?.item, writes[2]?.item])]);
});

test('whatever arrives: every write is in one set, none meets another on a record, earlier ones come first', () => {
  const arrivals = fc.array(
    fc.tuple(fc.nat(1), fc.uniqueArray(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 2 })),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(arrivals, (given) => {
      const writes = given.map(([which, conflictKeys]) => write(which, conflictKeys));
      const waves = inWaves(writes).map((sets) => sets.flatMap((set) => set.writes));
      expect(new Set(waves.flat())).toEqual(new Set(writes));
      expect(waves.flat()).toHaveLength(writes.length);
      for (const wave of waves) {
        const keys = wave.flatMap(({ conflictKeys }) => conflictKeys);
        expect(new Set(keys).size).toBe(keys.length);
      }
      for (const key of ['a', 'b', 'c', 'd']) {
        const touching = (list: readonly SingleStatementWrite<unknown>[]) =>
          list.filter(({ conflictKeys }) => conflictKeys.includes(key));
        expect(touching(waves.flat())).toEqual(touching(writes));
      }
    }),
  );
});
