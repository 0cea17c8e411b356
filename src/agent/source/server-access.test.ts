/** Proves that the agent's way to its server is open before a connection takes it, follows the server, and is as narrow as it can be. */
import { describe, expect, test } from 'vitest';
import { FakeClock, turn } from '../../client/fake.fixture.ts';
import { rangesOf } from '../../nft/policies.fixture.ts';
import { parseAddress, printAddress, type Address } from '../../policy/address.ts';
import type { ServerAccess } from '../../policy/server-access.ts';
import { ServerAddresses, type ServerAccessOptions } from './server-access.ts';
import { endpointOf, isOnThisDevice } from './server-endpoint.ts';

const address = (text: string): Address => {
  const read = parseAddress(text);
  if ('fault' in read) throw new Error(text);
  return read;
};
const shown = (addresses: readonly Address[]): string[] =>
  addresses.map(({ family, value }) => printAddress(family, value));

interface Scene {
  readonly addresses: ServerAddresses;
  readonly clock: FakeClock;
  readonly kept: string[][];
  names: string[] | Error | 'silence';
  resolvers: string[];
}

/** `rules` says whether they follow by themselves. */
function scene(url: string, options: Partial<ServerAccessOptions> = {}, rules: 'follow' | 'stuck' = 'follow'): Scene {
  const clock = new FakeClock();
  const kept: string[][] = [];
  const all: Omit<Scene, 'addresses'> & { addresses?: ServerAddresses } = {
    clock,
    kept,
    names: ['100.64.0.9'],
    resolvers: ['100.64.0.53'],
  };
  const addresses = new ServerAddresses({
    endpoint: endpointOf(url),
    resolve: async () => {
      if (all.names === 'silence') return new Promise(() => {});
      if (all.names instanceof Error) throw all.names;
      return all.names.map(address);
    },
    resolvers: async () => all.resolvers.map(address),
    kept: [],
    keep: async (found) => void kept.push(shown(found)),
    clock,
    monotonic: () => clock.now(),
    random: () => 0.5,
    log: () => {},
    ...options,
  });
  if (rules === 'follow') {
    const follow = (): void => addresses.settled(addresses.access);
    addresses.onChange(() => queueMicrotask(follow));
    follow();
  }
  return Object.assign(all, { addresses });
}

const access = (addresses: readonly string[], resolvers: readonly string[], port = 8_080): ServerAccess => {
  const of = (texts: readonly string[]) => ({
    v4: rangesOf(...texts.filter((text) => !text.includes(':'))),
    v6: rangesOf(...texts.filter((text) => text.includes(':'))),
  });
  return { addresses: of(addresses), port, resolvers: of(resolvers) };
};

describe('a server that is named by an address', () => {
  test.each([
    ['http://100.64.0.9:8080', access(['100.64.0.9'], [])],
    ['https://100.64.0.9', access(['100.64.0.9'], [], 443)],
    ['http://[fd7f::9]', access(['fd7f::9'], [], 80)],
    ['http://[::ffff:100.64.0.9]:8080', access(['100.64.0.9'], [])],
    ['http://127.0.0.1:8080', access([], [])],
    ['http://[::1]:8080', access([], [])],
  ])('%s needs nobody to be asked', async (url, expected) => {
    const { addresses, kept } = scene(url, { resolve: () => Promise.reject(new Error('asked')) });
    await addresses.begin();
    expect(addresses.access).toEqual(expected);
    expect(await addresses.find()).toHaveLength(1);
    expect(kept).toEqual([]);
  });
});

describe('a server that is named by a host name', () => {
  const url = 'http://ringfence.example:8080';

  test('is asked for with its resolvers open, and open itself before it is told', async () => {
    const { addresses } = scene(url, {}, 'stuck');
    await addresses.begin();
    expect(addresses.access).toEqual(access([], ['100.64.0.53']));
    let found: readonly Address[] | undefined;
    const finding = addresses.find().then((all) => (found = all));
    await turn(5);
    expect(addresses.access).toEqual(access([], ['100.64.0.53']));
    addresses.settled(access([], ['100.64.0.53']));
    await turn(5);
    expect(addresses.access).toEqual(access(['100.64.0.9'], ['100.64.0.53']));
    expect(found).toBeUndefined();
    addresses.settled(addresses.access);
    await finding;
    expect(shown(found ?? [])).toEqual(['100.64.0.9']);
  });

  test('is told all the same where the rules cannot follow: then there is nothing to wait for', async () => {
    const { addresses, clock } = scene(url, {}, 'stuck');
    const finding = addresses.find();
    await clock.advance(10_000);
    expect(shown(await finding)).toEqual(['100.64.0.9']);
  });

  test('is kept for the next start, once for each change', async () => {
    const { addresses, kept } = scene(url);
    await addresses.find();
    await addresses.find();
    expect(kept).toEqual([['100.64.0.9']]);
  });

  test('is open from the start where it was kept, and found there while nobody answers', async () => {
    const it = scene(url, { kept: [address('100.64.0.7'), address('fd7f::7')] });
    await it.addresses.begin();
    expect(it.addresses.access).toEqual(access(['100.64.0.7', 'fd7f::7'], ['100.64.0.53']));
    it.names = new Error('EAI_AGAIN');
    expect(shown(await it.addresses.find())).toEqual(['100.64.0.7', 'fd7f::7']);
    it.names = 'silence';
    const finding = it.addresses.find();
    await it.clock.advance(3_000);
    expect(shown(await finding)).toEqual(['100.64.0.7', 'fd7f::7']);
  });

  test('that nobody knows is told as such', async () => {
    const it = scene(url);
    it.names = new Error('ENOTFOUND');
    await expect(it.addresses.find()).rejects.toThrow('ENOTFOUND');
    it.names = [];
    await expect(it.addresses.find()).rejects.toThrow('ringfence.example has no address');
  });

  test('that moves is open at its new address at once, and at its old one for a while', async () => {
    const it = scene(url);
    await it.addresses.find();
    it.names = ['100.64.0.10'];
    await it.addresses.find();
    expect(it.addresses.access).toEqual(access(['100.64.0.9', '100.64.0.10'], ['100.64.0.53']));
    await it.clock.advance(10 * 60_000);
    await it.addresses.find();
    expect(it.addresses.access).toEqual(access(['100.64.0.10'], ['100.64.0.53']));
    expect(it.kept).toEqual([['100.64.0.9'], ['100.64.0.10']]);
  });

  test('stays open where a connection of the agent stands, however long ago it was named', async () => {
    const it = scene(url);
    await it.addresses.find();
    const ended = it.addresses.opened('100.64.0.9');
    it.names = ['100.64.0.10'];
    await it.addresses.find();
    await it.clock.advance(60 * 60_000);
    await it.addresses.find();
    expect(it.addresses.access).toEqual(access(['100.64.0.9', '100.64.0.10'], ['100.64.0.53']));
    ended();
    await it.addresses.find();
    expect(it.addresses.access).toEqual(access(['100.64.0.10'], ['100.64.0.53']));
  });

  test('is not closed because nobody answers', async () => {
    const it = scene(url);
    await it.addresses.find();
    it.names = new Error('EAI_AGAIN');
    await it.clock.advance(60 * 60_000);
    await it.addresses.find();
    expect(it.addresses.access).toEqual(access(['100.64.0.9'], ['100.64.0.53']));
  });

  test('is asked for now and then, and follows a change of resolvers', async () => {
    const it = scene(url);
    const end = new AbortController();
    const running = it.addresses.run({ signal: end.signal });
    it.names = ['100.64.0.11'];
    it.resolvers = ['fd7f::53'];
    await it.clock.advance(6 * 60_000);
    expect(it.addresses.access).toEqual(access(['100.64.0.11'], ['fd7f::53']));
    end.abort();
    await running;
  });

  test('opens no more than a few addresses, whatever a resolver answers', async () => {
    const it = scene(url);
    it.names = Array.from({ length: 300 }, (_, i) => `100.64.${i % 250}.${2 * (i % 120)}`);
    expect(await it.addresses.find()).toHaveLength(32);
    for (let round = 1; round < 20; round++) {
      it.names = Array.from({ length: 32 }, (_, i) => `100.65.${round}.${2 * i}`);
      await it.addresses.find();
    }
    expect(it.addresses.access.addresses.v4.length).toBeLessThanOrEqual(64);
  });

  test.each(['http://localhost:8080', 'http://api.localhost:8080'])('%s stays on the device', async (local) => {
    expect(isOnThisDevice(endpointOf(local))).toBe(true);
    const { addresses } = scene(local, { resolve: async () => [address('127.0.0.1'), address('::1')] });
    await addresses.begin();
    await addresses.find();
    expect(addresses.access).toEqual(access([], []));
  });
});
