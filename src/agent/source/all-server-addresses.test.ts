/** Proves that the rules keep the way to every server open, and that a connection asks for the addresses of its own. */
import { expect, test } from 'vitest';
import { systemClock } from '../../client/clock.ts';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import { AllServerAddresses } from './all-server-addresses.ts';
import { ServerAddresses } from './server-access.ts';
import { endpointOf, portOf } from './server-endpoint.ts';

const address = (text: string): Address => parseAddress(text) as Address;
const names: Readonly<Record<string, readonly string[]>> = {
  'a.example': ['100.64.0.1'],
  'b.example': ['100.64.0.2'],
  'both.example': ['100.64.0.1', '100.64.0.2', 'fd00::1'],
  'dual.example': ['100.64.0.1', 'fd00::1'],
};

function open(urls: readonly string[], random = Math.random): AllServerAddresses {
  const servers = urls.map((url) => {
    const endpoint = endpointOf(url);
    const addresses = new ServerAddresses({
      endpoint,
      resolve: (host) => Promise.resolve((names[host] ?? []).map(address)),
      resolvers: () => Promise.resolve([address('100.64.0.53')]),
      kept: [],
      keep: () => Promise.resolve(),
      clock: systemClock,
      monotonic: () => 0,
      random: Math.random,
      log: () => {},
    });
    return { endpoint, addresses };
  });
  const all = new AllServerAddresses(servers, portOf(servers.map(({ endpoint }) => endpoint)), { random });
  // The rules follow at once.
  all.onChange(() => all.settled(all.access));
  all.settled(all.access);
  return all;
}

const shown = ({ access: { addresses, port, resolvers } }: AllServerAddresses) => ({
  addresses: addresses.v4.flatMap(({ first, last }) => [first, last].map((value) => printAddress(4, value))),
  port,
  resolvers: resolvers.v4.map(({ first }) => printAddress(4, first)),
});

test('the way to all servers is open, each found by its own name', async () => {
  const all = open(['https://a.example:8443', 'https://b.example:8443', 'http://127.0.0.1:1']);
  expect(await all.find('b.example')).toEqual([address('100.64.0.2')]);
  expect(await all.find('a.example')).toEqual([address('100.64.0.1')]);
  expect(shown(all)).toEqual({ addresses: ['100.64.0.1', '100.64.0.2'], port: 8443, resolvers: ['100.64.0.53'] });
});

test('a server that the URL names by its address needs no name server', () => {
  const all = open(['https://100.64.0.7', 'https://100.64.0.9']);
  expect(shown(all)).toEqual({
    addresses: ['100.64.0.7', '100.64.0.7', '100.64.0.9', '100.64.0.9'],
    port: 443,
    resolvers: [],
  });
});

test('the addresses of a name are tried in a random order, which stays; one that could not work comes last', async () => {
  const texts = async (all: AllServerAddresses): Promise<readonly string[]> =>
    (await all.find('both.example')).map(({ family, value }) => printAddress(family, value));
  const url = 'https://both.example';
  const chances = [0.5, 0.7, 0.1, 0.9, 0.2, 0.3];
  const random = (): number => chances.shift() ?? 0;
  const [one, other] = [open([url], random), open([url], random)];
  expect(await texts(one)).toEqual(['fd00::1', '100.64.0.1', '100.64.0.2']);
  expect(await texts(other)).toEqual(['100.64.0.2', 'fd00::1', '100.64.0.1']);
  one.leave(url, '::ffff:100.64.0.1');
  expect(await texts(one)).toEqual(['fd00::1', '100.64.0.2', '100.64.0.1']);
  one.leave(url, undefined);
  expect(await texts(one)).toEqual(['100.64.0.2', '100.64.0.1', 'fd00::1']);
  one.leave(url, '192.0.2.1');
  expect(await texts(one)).toEqual(['100.64.0.2', '100.64.0.1', 'fd00::1']);
});

test('a name is known to have several servers by its addresses of one family', async () => {
  for (const [host, count] of [['both.example', 2] as const, ['dual.example', 1] as const]) {
    const all = open([`https://${host}`]);
    expect(all.count(`https://${host}`)).toBe(0);
    await all.find(host);
    expect([host, all.count(`https://${host}`)]).toEqual([host, count]);
  }
});
