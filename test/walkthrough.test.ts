/** Proves that a page is read as a person would follow it, and that a wrong page is noticed. */
import { expect, it } from 'vitest';
import { isShown, stepsUnder } from './lib/walkthrough.ts';

const page =
  '# P\n\n## A\n\n```sh\none\n```\n\nText.\n\n```sh\ntwo\n```\n\n```text\nx…z\ny\n```\n\n## B\n\n```sh\nthree\n```\n';

it('takes the blocks under the heading, each with what it shows', () => {
  expect(stepsUnder('A', page)).toEqual([
    { script: 'one\n', shows: [] },
    { script: 'two\n', shows: ['x…z', 'y'] },
  ]);
  expect(() => stepsUnder('C', page)).toThrow('no heading "C"');
});

it('compares whole lines, with … for anything', () => {
  expect(isShown('x…z', 'a\nx(1)z\n')).toBe(true);
  expect(isShown('x…z', 'x\nz\n')).toBe(false);
  expect(isShown('x', 'xy\n')).toBe(false);
  expect(isShown('a.b', 'acb\n')).toBe(false);
});
