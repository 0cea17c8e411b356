/** Proves which texts are e-mail addresses that can be compared, and that no letter of another alphabet passes for a Latin one. */
import { expect, test } from 'vitest';
import { readEmail } from './email.ts';

test.each([
  ['kim@example.org', 'kim@example.org'],
  ['Kim.Lee+x@Example.ORG', 'kim.lee+x@example.org'],
  ['kim@xn--bcher-kva.example', 'kim@xn--bcher-kva.example'],
])('%s is compared as %s', (text, email) => {
  expect(readEmail(text)).toBe(email);
});

test.each([
  ['', 'kim', 'kim@', '@example.org', 'kim@example.org ', ' kim@example.org', 'kim @example.org', 'a@b@example.org'],
  [
    '\u212Aim@example.org',
    'kim@example.org\u200b',
    'k\u0131m@example.org',
    'kim@b\u00fccher.example',
    'kim@example.org\n',
  ],
  ['kim@-example.org', 'kim@example.', `${'k'.repeat(65)}@example.org`],
])('%j and the others are not', (...texts) => {
  expect(texts.filter((text) => readEmail(text) !== undefined)).toEqual([]);
});
