/** Proves the rule of usernames: nothing in them is invisible, and names that people could take for each other have one key. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { cleanUsername, readUsername, usernameKey } from './username.ts';

test.each([
  ['a plain name', 'ada', 'ada'],
  ['an address', 'ada@example.org', 'ada@example.org'],
  ['spaces around', '  Ada Lovelace ', 'Ada Lovelace'],
  ['accents, composed or not', 'Zoe\u0308', 'Zo\u00eb'],
  ['wide letters', '\uff41\uff44\uff41', 'ada'],
  ['another script', '\u0410\u043d\u043d\u0430 2', '\u0410\u043d\u043d\u0430 2'],
  ['Japanese with Latin', '\u5c71\u7530 taro', '\u5c71\u7530 taro'],
])('a name with %s is read', (_, given, name) => {
  expect(readUsername(given)).toBe(name);
  expect(cleanUsername(given)).toBe(name);
});

test.each([
  ['a zero-width space', 'ad\u200bmin', 'admin'],
  ['a zero-width joiner', 'ad\u200dmin', 'admin'],
  ['a soft hyphen', 'ad\u00admin', 'admin'],
  ['a right-to-left override', '\u202enimda', 'nimda'],
  ['an isolate', '\u2066admin\u2069', 'admin'],
  ['a line break', 'ad\nmin', 'admin'],
  ['a byte order mark', 'admin\ufeff!', 'admin!'],
  ['a Hangul filler', 'admin\u3164', 'admin'],
  ['a blank of Braille', 'admin\u2800', 'admin'],
  ['a variation selector', 'admin\ufe0f', 'admin'],
  ['a tag character', 'admin\u{e0041}', 'admin'],
  ['a private character', 'admin\ue000', 'admin'],
  ['half a character', 'admin\ud800', 'admin'],
])('a name with %s is refused, and a provider that suggests it is read without it', (_, given, clean) => {
  expect(readUsername(given)).toBeUndefined();
  expect(cleanUsername(given)).toBe(clean);
  expect(usernameKey(given)).toBe(usernameKey(clean));
});

test.each([
  ['Cyrillic', '\u0430dmin'],
  ['Greek', 'admi\u03bd'],
  ['Armenian', '\u0585live'],
  ['Cherokee', '\u13aadmin'],
])('a name that mixes Latin with %s is refused, also from a provider', (_, given) => {
  expect([readUsername(given), cleanUsername(given)]).toEqual([undefined, undefined]);
});

test.each([
  ['letter case', 'Admin', 'admin'],
  ['width', '\uff21DMIN', 'admin'],
  ['spaces', 'ada  lovelace', 'ada lovelace'],
  ['Cyrillic letters throughout', '\u0440\u0430\u0441\u0435', 'pace'],
  ['Cyrillic capitals throughout', '\u0421\u041e\u041c', 'com'],
  ['Greek letters throughout', '\u03ba\u03b1\u03c4\u03b5', 'kate'],
  ['a dotless i', 'adm\u0131n', 'admin'],
  ['a composed accent', 'zoe\u0308', 'Zo\u00cb'],
])('names that differ in %s only have one key', (_, one, other) => {
  expect(usernameKey(one)).toBe(usernameKey(other));
});

test('a name is as long as it is kept: one character may stand for eighteen; what a provider suggests is cut', () => {
  expect(readUsername('x'.repeat(255))).toBe('x'.repeat(255));
  expect(readUsername('\ufdfa'.repeat(20))).toBeUndefined();
  expect(cleanUsername('x'.repeat(999))).toBe('x'.repeat(250));
  expect(cleanUsername(`${'x'.repeat(249)}\u{20000}`)).toBe('x'.repeat(249));
});

test('names that people tell apart have keys of their own', () => {
  const names = [
    'admin',
    'admin2',
    'adm\u00efn',
    'ad min',
    'ad-min',
    'ad.min',
    'ad_min',
    'ada@example.org',
    '\u5c71\u7530',
  ];
  expect(new Set(names.map(usernameKey)).size).toBe(names.length);
});

test('a name that was read is read again as itself, and has the key of what was written', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const name = readUsername(text);
      if (name === undefined) return;
      expect(readUsername(name)).toBe(name);
      expect(usernameKey(name)).toBe(usernameKey(text));
      expect(usernameKey(usernameKey(name))).toBe(usernameKey(name));
    }),
  );
});
