/** Proves that a mistyped word is guessed only where the guess is near. */
import { expect, test } from 'vitest';
import { nearest } from './nearest.ts';

test('knows the nearest word, if one is near', () => {
  expect(nearest('edge-11', ['edge-1', 'web'])).toBe('edge-1');
  expect(nearest('ewb', ['web', 'db'])).toBe('web');
  expect(nearest('something', ['web', 'db'])).toBeUndefined();
});
