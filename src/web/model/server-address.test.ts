/** Proves which addresses of a server other machines cannot reach. */
import { expect, test } from 'vitest';
import { isLoopback } from './server-address.ts';

test.each([
  ['http://localhost:8080', true],
  ['http://127.0.0.1:8080', true],
  ['http://127.9.9.9', true],
  ['http://[::1]:8080', true],
  ['https://ringfence.example', false],
  ['http://100.64.0.1:8080', false],
  ['https://localhost.example', false],
])('%s: %s', (url, expected) => {
  expect(isLoopback(url)).toBe(expected);
});
