/** Proves that names sort as people expect, and that a list kept in order equals one sorted anew. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Ordered, sortKey } from './order.ts';

const sorted = (texts: readonly string[]): readonly string[] =>
  texts.toSorted((a, b) => (sortKey(a) < sortKey(b) ? -1 : Number(sortKey(a) > sortKey(b))));

test('numbers sort by their value, whatever stands around them', () => {
  expect(sorted(['web-10', 'web-2', 'web-1', 'db-9'])).toEqual(['db-9', 'web-1', 'web-2', 'web-10']);
  expect(sorted(['100.64.0.10', '100.64.0.9', '9.0.0.1'])).toEqual(['9.0.0.1', '100.64.0.9', '100.64.0.10']);
  expect(sortKey('web-007')).toBe(sortKey('web-7'));
});

test('case and accents make no difference', () => {
  expect(sorted(['Zulu', 'alpha', 'Émile', 'beta'])).toEqual(['alpha', 'beta', 'Émile', 'Zulu']);
  expect(sortKey('MÜNCHEN')).toBe(sortKey('munchen'));
});

interface Named {
  readonly id: string;
  readonly name: string;
}

test('a list that took in changes one by one equals the list sorted anew', () => {
  const step = fc.record({
    id: fc.integer({ min: 0, max: 40 }).map(String),
    name: fc.oneof(fc.constant(undefined), fc.string({ maxLength: 3 }), fc.nat(120).map(String)),
  });
  fc.assert(
    fc.property(fc.array(fc.array(step, { maxLength: 20 }), { maxLength: 20 }), (batches) => {
      const all = new Map<string, Named>();
      const kept = new Ordered<Named>(({ name }) => sortKey(name));
      for (const batch of batches) {
        for (const { id, name } of batch) {
          if (name === undefined) all.delete(id);
          else all.set(id, { id, name });
        }
        const before = kept.list;
        const copy = [...before];
        kept.apply(
          batch.map(({ id, name }) => ({ id, type: name === undefined ? 'deleted' : 'updated' }) as never),
          all,
        );
        const anew = new Ordered<Named>(({ name }) => sortKey(name));
        anew.replaceAll(all.values());
        expect(kept.list).toEqual(anew.list);
        expect(before).toEqual(copy);
      }
    }),
    { numRuns: 200 },
  );
});
