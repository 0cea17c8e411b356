/** Proves how much of a list fits into one answer. */
import { expect, test } from 'vitest';
import { textsThatFit } from './texts-that-fit.ts';

/** Runs the steps. */
function shown(items: Iterable<unknown>, most: number): readonly string[] {
  const steps = textsThatFit(items, most);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

test('as many items as have room together, in bytes of an answer', () => {
  const items = ['aaaa', 'bbbb', 'cccc'];
  expect(shown(items, JSON.stringify(items).length + 1)).toEqual(items.map((item) => JSON.stringify(item)));
  expect(shown(items, JSON.stringify(items).length)).toHaveLength(2);
  expect(shown(['ä'.repeat(10), 'b'], 25)).toHaveLength(1);
});

test('one item at least, and none is looked at beyond the first that has no room', () => {
  let looked = 0;
  function* large(): Generator<string> {
    for (;;) {
      looked += 1;
      yield 'x'.repeat(100);
    }
  }
  expect(shown(large(), 10)).toHaveLength(1);
  expect(looked).toBe(2);
});
