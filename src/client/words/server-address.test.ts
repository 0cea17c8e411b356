/** Proves which addresses of a server other machines cannot reach, and which of two addresses they receive. */
import { expect, test } from 'vitest';
import { addressForDevices, isLoopback } from './server-address.ts';

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

test.each([
  ['what the server says of itself', 'https://ringfence.example', 'http://127.0.0.1:8080', 'https://ringfence.example'],
  ['it also from another place', 'https://ringfence.example', 'http://10.0.0.5:8080', 'https://ringfence.example'],
  ['the way that was taken, where it says nothing', undefined, 'http://10.0.0.5:8080', 'http://10.0.0.5:8080'],
  ['that too where it names only itself', 'http://localhost:8080', 'http://10.0.0.5:8080', 'http://10.0.0.5:8080'],
  ['itself where nothing else is known', 'http://localhost:8080', 'http://127.0.0.1:80', 'http://localhost:8080'],
])('devices are told %s', (_title, publicUrl, here, expected) => {
  expect(addressForDevices(publicUrl, here)).toBe(expected);
});
