/** Proves patterns for names. */
import { expect, it } from 'vitest';
import { isPattern, matchesPattern } from './device.ts';

it.each([
  ['web-*', 'web-1', true],
  ['web-*', 'web-', true],
  ['web-*', 'my-web-1', false],
  ['*-1', 'web-1', true],
  ['*', '', true],
  ['?', '', false],
  ['w?b', 'wéb', true],
  ['w?b', 'w🦔b', true],
  ['a*b*c', 'aXXbYYc', true],
  ['a*b*c', 'aXXbYY', false],
  ['a.c', 'abc', false],
  ['[ab]*', 'a', false],
])('%j against %j is %j', (pattern, name, expected) => {
  expect(matchesPattern(pattern, name)).toBe(expected);
});

it('a text without a star or a question mark is a name', () => {
  expect(['web-1', 'w*b', 'w?b'].map(isPattern)).toEqual([false, true, true]);
});

it('many stars against a long name that does not match are decided at once', () => {
  expect(matchesPattern(`${'*a'.repeat(60)}b`, 'a'.repeat(2_000))).toBe(false);
});
