/** Proves that a server listens at one address only, so that the connection limits cover every connection. */
import { expect, test } from 'vitest';
import { oneAddress } from './listen.ts';

const ipv4 = { address: '127.0.0.1', family: 4 };
const ipv6 = { address: '::1', family: 6 };

test.each([
  ['of both families, that of IPv4', [ipv6, ipv4], '127.0.0.1'],
  ['of IPv6 where there is no other', [ipv6], '::1'],
  ['of IPv4 where the system knows no localhost', [], '127.0.0.1'],
])('localhost is one address: %s', async (_, found, expected) => {
  expect(await oneAddress('localhost', async () => found)).toBe(expected);
  expect(await oneAddress('localhost', async () => Promise.reject(new Error('ENOTFOUND')))).toBe('127.0.0.1');
});

test('any other host is left as it is', async () => {
  const never = (): Promise<never> => Promise.reject(new Error('not to be asked'));
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'ringfence.test']) expect(await oneAddress(host, never)).toBe(host);
});
