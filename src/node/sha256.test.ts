/** Proves that both ways to a digest are one: rules that the agent names, and receipts that the server compares, hang on it. */
import { expect, it } from 'vitest';
import { sha256Hex as everywhere } from '../policy/digest/sha256.ts';
import { sha256Hex as onNode } from './sha256.ts';

it.each([
  ['nothing', ''],
  ['plain text', 'policy 1\ninbound open\n'],
  ['letters of several bytes', 'Grüße 🦊 \u{10ffff}'],
  ['halves of letters', 'a\ud800b\udc00\ud83e'],
  ['the edges of a block', 'x'.repeat(55) + '\n' + 'y'.repeat(64)],
  ['much', 'z'.repeat(1_000_003)],
])('gives the same digest of %s with and without the runtime', (_, text) => {
  expect(onNode(text)).toBe(everywhere(text));
  const bytes = new TextEncoder().encode(text);
  expect([onNode(bytes), everywhere(bytes)]).toEqual([onNode(text), onNode(text)]);
  expect(onNode(text)).toMatch(/^[0-9a-f]{64}$/);
});
