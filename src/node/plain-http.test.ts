/** Proves which addresses of a server send credentials over a network in the clear. */
import { expect, test } from 'vitest';
import { isPlainRemote } from './plain-http.ts';

test.each([
  ['http://ringfence.example', true],
  ['http://10.0.0.1:8080', true],
  ['http://[fd00::1]:8080', true],
  ['http://127.0.0.1.example', true],
  ['http://localhost.example:80', true],
  ['http://[::ffff:10.0.0.1]', true],
  ['https://ringfence.example', false],
  ['http://127.0.0.1:8080', false],
  ['http://127.1.2.3', false],
  ['http://[::1]:8080', false],
  ['http://localhost:8080', false],
])('%s: %s', (server, plain) => {
  expect(isPlainRemote(server)).toBe(plain);
});
