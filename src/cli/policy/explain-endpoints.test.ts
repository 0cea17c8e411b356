/** Proves which ends a question about a connection has: addresses, devices, and devices that have no address yet. */
import { expect, test } from 'vitest';
import type { Device } from '../../api/device.ts';
import { printAddress } from '../../policy/address.ts';
import { pairsOf, readEndpoints, readExplainQuery, type NamedEndpoint } from './explain-endpoints.ts';

const device = (hostname: string, tunnel_ip: string): Device =>
  ({ id: `id-of-${hostname}`, hostname, tunnel_ip, labels: ['app'] }) as unknown as Device;
const [app, db, six] = [device('app-1', ''), device('db-1', '100.64.0.2'), device('six-1', 'fd00::6')];
const devices = [app, db, six];

const addressesOf = ({ addresses }: NamedEndpoint): string =>
  addresses.map(({ family, value }) => printAddress(family, value)).join(' ');
const shown = (end: NamedEndpoint | undefined): string | undefined =>
  end && `${end.name} ${addressesOf(end)}${end.isStandIn ? ' stands in' : ''}`;

test.each([
  ['a device with an address has it', 'db-1', '10.0.0.1', ['db-1 100.64.0.2', '10.0.0.1 10.0.0.1']],
  ['an address that a device has is that device', '100.64.0.2', '10.0.0.1', ['db-1 100.64.0.2', '10.0.0.1 10.0.0.1']],
  ['one without an address stands somewhere', 'app-1', 'db-1', ['app-1 240.0.0.2 stands in', 'db-1 100.64.0.2']],
  ['in the family of the other end', 'six-1', 'app-1', ['six-1 fd00::6', 'app-1 100::1 stands in']],
])('%s', (_title, from, to, expected) => {
  const ends = readEndpoints({ from, to }, devices);
  expect([shown(ends.from), shown(ends.to)]).toEqual(expected);
});

test('the fleet has the device where it stands in, so that rules by label find it', () => {
  const { from, devices: all } = readEndpoints({ from: 'app-1', to: 'db-1' }, devices);
  expect(all.find(({ name }) => name === 'app-1')?.device).toBe(from?.device);
  expect(from?.device).toMatchObject({ tunnel_ip: '240.0.0.2', labels: ['app'] });
});

test('where any device may be the other end, each without an address stands somewhere', () => {
  const newer = device('app-2', '');
  const { from, devices: all } = readEndpoints({ from: undefined, to: 'db-1' }, [...devices, newer]);
  expect(from).toBeUndefined();
  expect(all.map(addressesOf)).toEqual(['240.0.0.3', '100.64.0.2', 'fd00::6', '240.0.0.4']);
  expect(all.map(({ isStandIn }) => isStandIn)).toEqual([true, false, false, true]);
});

test('every address of one family is paired with every one of the other end, and a placeholder has each family', () => {
  const both = { ...device('both-1', '100.64.0.7'), addresses: ['fd00::7', '192.0.2.7'] };
  const pairs = (from: string, to: string): readonly string[] => {
    const ends = readEndpoints({ from, to }, [...devices, both]);
    if (ends.from === undefined) throw new Error('there is a source');
    return pairsOf(ends.from, ends.to).map((pair) =>
      [pair.from, pair.to].map(({ address: { family, value } }) => printAddress(family, value)).join(' → '),
    );
  };
  expect(pairs('both-1', 'db-1')).toEqual(['100.64.0.7 → 100.64.0.2', '192.0.2.7 → 100.64.0.2']);
  expect(pairs('six-1', 'both-1')).toEqual(['fd00::6 → fd00::7']);
  expect(pairs('192.0.2.7', 'db-1')).toEqual(['192.0.2.7 → 100.64.0.2']);
  expect(pairs('app-1', 'both-1')).toEqual(['240.0.0.2 → 100.64.0.7', '240.0.0.2 → 192.0.2.7', '100::2 → fd00::7']);
  expect(pairs('six-1', 'db-1')).toEqual([]);
});

const words = { proto: 'tcp' };
test.each([
  [['app-1', 'db-1', '22'], words, ['app-1', 'db-1', '22']],
  [['db-1', '22'], { ...words, from: 'app-1' }, ['app-1', 'db-1', '22']],
  [['app-1', '22'], { ...words, to: 'db-1' }, ['app-1', 'db-1', '22']],
  [['db-1'], { ...words, from: 'app-1', port: '22' }, ['app-1', 'db-1', '22']],
  [['22'], { ...words, who: true, to: 'db-1' }, [undefined, 'db-1', '22']],
  [[], { ...words, from: 'app-1' }, ['app-1', undefined, undefined]],
])('%j with %j', (row, options, expected) => {
  const { from, to, port } = readExplainQuery(row, options);
  expect([from, to, port]).toEqual(expected);
});

test('what is given twice is too much', () => {
  expect(() => readExplainQuery(['app-1', 'db-1', '22'], { ...words, from: 'app-1' })).toThrow(/too many arguments/);
});
