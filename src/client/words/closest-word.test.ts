/** Proves that a mistyped word is guessed only where the guess is near. */
import { expect, test } from 'vitest';
import { closestWord } from './closest-word.ts';

test('knows the nearest word, if one is near', () => {
  expect(closestWord('edge-11', ['edge-1', 'web'])).toBe('edge-1');
  expect(closestWord('ewb', ['web', 'db'])).toBe('web');
  expect(closestWord('something', ['web', 'db'])).toBeUndefined();
});
