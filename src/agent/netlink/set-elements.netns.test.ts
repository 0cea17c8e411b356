/** Proves that elements of sets and maps change over netlink as nft would change them, whole or not at all. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Namespace } from '../../../test/lib/netns.ts';
import { systemClock } from '../../client/clock.ts';
import { NetlinkChannel } from './channel.ts';
import { changeElements, type ElementChange } from './set-elements.ts';

const ruleset = `
table inet service {
  counter in-a { }
  counter in-b { }
  map peers4 { type ipv4_addr : counter; elements = { 100.64.0.1 : "in-a" } }
  map peers6 { type ipv6_addr : counter; }
  set hosts { type ipv4_addr; }
}
`;
const table = 'service';
const inA = (verb: 'add' | 'delete', ...addresses: bigint[]): ElementChange => ({
  verb,
  table,
  set: 'peers4',
  family: 4,
  addresses,
  counter: 'in-a',
});

describe('elements', () => {
  let namespace: Namespace;
  let channel: NetlinkChannel;
  beforeEach(async () => {
    namespace = await Namespace.create();
    channel = new NetlinkChannel({ clock: systemClock, prefix: namespace.inside([]) });
    await namespace.run(['nft', '-f', '-'], ruleset);
  });
  afterEach(async () => {
    await channel.close();
    await namespace.close();
  });
  const held = async (kind: 'map' | 'set', name: string): Promise<string> => {
    const { stdout } = await namespace.run(['nft', 'list', kind, 'inet', table, name]);
    return /elements = \{([^}]*)\}/.exec(stdout)?.[1]?.replaceAll(/\s+/g, ' ').trim() ?? '';
  };

  test('join and leave a map of counters, of both families, and a plain set', async () => {
    await changeElements(channel, [
      inA('add', 0x64400002n, 0x64400003n),
      { verb: 'add', table, set: 'peers6', family: 6, addresses: [(0xfd7fn << 112n) | 9n], counter: 'in-b' },
      { verb: 'add', table, set: 'hosts', family: 4, addresses: [0x0a000001n] },
    ]);
    expect(await held('map', 'peers4')).toBe('100.64.0.1 : "in-a", 100.64.0.2 : "in-a", 100.64.0.3 : "in-a"');
    expect(await held('map', 'peers6')).toBe('fd7f::9 : "in-b"');
    expect(await held('set', 'hosts')).toBe('10.0.0.1');
    await changeElements(channel, [inA('delete', 0x64400001n, 0x64400003n)]);
    expect(await held('map', 'peers4')).toBe('100.64.0.2 : "in-a"');
  });

  test('join again without harm, and without being moved to another counter', async () => {
    await changeElements(channel, [inA('add', 0x64400001n)]);
    const moved = changeElements(channel, [{ ...inA('add', 0x64400001n), counter: 'in-b' }]);
    await expect(moved).rejects.toMatchObject({ code: 'refused', errno: 17 });
    expect(await held('map', 'peers4')).toBe('100.64.0.1 : "in-a"');
  });

  test.each<[string, ElementChange]>([
    ['an element that is not there', inA('delete', 0x64400009n)],
    ['a set that is not there', { ...inA('add', 1n), set: 'nobody' }],
    ['a counter that is not there', { ...inA('add', 1n), counter: 'in-none' }],
  ])('change all together or not at all: %s', async (_, wrong) => {
    const asked = changeElements(channel, [inA('add', 0x64400002n), wrong, inA('add', 0x64400003n)]);
    await expect(asked).rejects.toMatchObject({ code: 'refused', errno: 2 });
    expect(await held('map', 'peers4')).toBe('100.64.0.1 : "in-a"');
  });

  test('join by the thousand', async () => {
    const many = Array.from({ length: 3_000 }, (_, i) => 0x0a000000n + BigInt(i));
    await changeElements(channel, [inA('add', ...many)]);
    expect((await held('map', 'peers4')).split(',')).toHaveLength(3_001);
    await changeElements(channel, [inA('delete', ...many)]);
    expect(await held('map', 'peers4')).toBe('100.64.0.1 : "in-a"');
  });

  test('are not changed by a process without the right to', async () => {
    const prefix = [...namespace.inside([]), 'setpriv', '--bounding-set', '-net_admin', '--inh-caps', '-net_admin'];
    const powerless = new NetlinkChannel({ clock: systemClock, prefix });
    await expect(changeElements(powerless, [inA('add', 0x64400002n)])).rejects.toMatchObject({ errno: 1 });
    await powerless.close();
    expect(await held('map', 'peers4')).toBe('100.64.0.1 : "in-a"');
  });
});
