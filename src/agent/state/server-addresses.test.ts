/** Proves that what is kept of the server's addresses is read back for the same server only, and never by halves. */
import { expect, test } from 'vitest';
import { parseAddress, type Address } from '../../policy/address.ts';
import { parseServerAddresses, printServerAddresses } from './server-addresses.ts';

const endpoint = { host: 'ringfence.example', port: 443 };
const found = ['100.64.0.9', 'fd7f::9'].map((text) => parseAddress(text) as Address);
const text = printServerAddresses([{ ...endpoint, addresses: found }]);

test('what was kept is read back', () => {
  expect(parseServerAddresses(text, endpoint)).toEqual(found);
});

test('of several servers, each gets its own addresses back', () => {
  const other = { host: 'other.example', port: 443 };
  const [first, second] = found.map((address) => [address]);
  const several = printServerAddresses([
    { ...endpoint, addresses: first ?? [] },
    { ...other, addresses: second ?? [] },
  ]);
  expect(parseServerAddresses(several, endpoint)).toEqual(first);
  expect(parseServerAddresses(several, other)).toEqual(second);
  expect(parseServerAddresses(several, { ...other, port: 80 })).toEqual([]);
});

test.each([
  ['another host', { ...endpoint, host: 'other.example' }, text],
  ['another port', { ...endpoint, port: 80 }, text],
  ['a text cut off', endpoint, text.slice(0, -5)],
  ['nothing', endpoint, ''],
  ['another format', endpoint, text.replace('"format":1', '"format":2')],
  ['an entry that is no address', endpoint, text.replace('100.64.0.9', '100.64.0.0/8')],
  ['something else', endpoint, '[1]'],
])('%s gives none', (_, asked, kept) => {
  expect(parseServerAddresses(kept, asked)).toEqual([]);
});
