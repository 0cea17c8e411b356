/** Proves which interface the policy binds, in whatever way interfaces come, go and change their names. */
import { describe, expect, test } from 'vitest';
import { BadName, parseInterfaceName } from '../../nft/names.ts';
import { chooseDriver, parseSelector, type Driver, type Link } from './driver-interface.ts';
import { parseLinks } from './link-monitor.ts';

const link = (index: number, name: string, discovers = true): Link => ({ index, name, discovers });
const driver = (index: number | undefined, name: string, neighbourDiscovery = true): Driver => ({
  index,
  name: parseInterfaceName(name),
  neighbourDiscovery,
});
const lo = link(1, 'lo');

const cases: readonly [string, string, readonly Link[], Driver | undefined, Driver | undefined, readonly string[]][] = [
  ['a name that is there', 'wg0', [lo, link(5, 'wg0', false)], undefined, driver(5, 'wg0', false), []],
  ['a name that is not there yet is bound already', 'wg0', [lo], undefined, driver(undefined, 'wg0', false), []],
  ['a name comes back on a new interface', 'wg0', [link(9, 'wg0')], driver(undefined, 'wg0'), driver(9, 'wg0'), []],
  ['a name goes', 'wg0', [lo], driver(5, 'wg0'), driver(undefined, 'wg0'), ['gone']],
  ['an interface is followed to its new name', 'wg0', [link(5, 'x')], driver(5, 'wg0'), driver(5, 'x'), ['renamed']],
  ['a renamed one goes', 'wg0', [lo], driver(5, 'x'), driver(undefined, 'wg0'), ['gone']],
  ['it is renamed back', 'wg0', [link(5, 'wg0')], driver(5, 'x'), driver(5, 'wg0'), ['renamed']],
  [
    'the given name appears on another interface, and wins',
    'wg0',
    [link(5, 'x'), link(6, 'wg0')],
    driver(5, 'x'),
    driver(6, 'wg0'),
    ['replaced'],
  ],
  ['a pattern finds the oldest', 'wg*', [link(7, 'wg1'), link(5, 'wg9')], undefined, driver(5, 'wg9'), ['several']],
  [
    'a pattern keeps its find',
    'wg*',
    [link(3, 'wg1'), link(5, 'wg9')],
    driver(5, 'wg9'),
    driver(5, 'wg9'),
    ['several'],
  ],
  ['a pattern follows a renamed find', 'wg?', [lo, link(5, 'x')], driver(5, 'wg9'), driver(5, 'x'), ['renamed']],
  ['a pattern finds nothing', 'wg*', [lo, link(4, 'awg0')], undefined, undefined, []],
  ['a pattern keeps the last name', 'wg*', [lo], driver(5, 'wg9'), driver(undefined, 'wg9'), ['gone']],
  ['a pattern is no expression', 'w.*', [link(5, 'wg0'), link(6, 'w.0')], undefined, driver(6, 'w.0'), []],
  ['a name that nft cannot hold is never chosen', 'a*', [link(5, 'a"b')], undefined, undefined, []],
];

describe('the driver interface', () => {
  test.each(cases)('%s', (_, selector, links, before, after, notes) => {
    const choice = chooseDriver(parseSelector(selector), links, before);
    expect(choice.driver).toEqual(after);
    expect(choice.notes.map(({ kind }) => kind)).toEqual(notes);
  });

  test.each(['br0', 'bond0', 'vrf-blue'])(
    'that is a member of %s is known as one, also before its rules are',
    (master) => {
      const listing = [{ ifindex: 5, ifname: 'wg0', flags: ['BROADCAST', 'SLAVE', 'UP'], master }];
      const { driver: chosen } = chooseDriver(parseSelector('wg0'), parseLinks(JSON.stringify(listing)), undefined);
      expect(chosen).toEqual({ ...driver(5, 'wg0'), master });
    },
  );

  test.each([
    ['macvlan', 'passthru', 'wg0', 'mv0'],
    ['macvtap', 'passthru', 'wg0', 'mv0'],
    ['macvlan', 'bridge', 'wg0', undefined],
    ['macvlan', 'passthru', 'eth0', undefined],
    ['ipvlan', 'l2', 'wg0', undefined],
  ])('a %s in the mode %s over %s receives all of its traffic: %s', (info_kind, mode, below, master) => {
    const flags = ['BROADCAST', 'MULTICAST', 'UP'];
    // As `ip -d -j link` of iproute2 6.1 prints them, without what is not read.
    const listing = [
      { ifindex: 5, ifname: 'wg0', flags, linkinfo: { info_kind: 'veth' } },
      { ifindex: 6, ifname: 'mv0', link: below, flags, linkinfo: { info_kind, info_data: { mode, bcqueuelen: 1000 } } },
    ];
    const { driver: chosen } = chooseDriver(parseSelector('wg0'), parseLinks(JSON.stringify(listing)), undefined);
    expect(chosen).toEqual({ ...driver(5, 'wg0'), ...(master !== undefined && { master }) });
  });

  test.each(['', 'a b', 'a/b', 'sixteen-letters-', '"*', 'sixteen-letters*-'])('is never selected by %j', (text) => {
    expect(() => parseSelector(text)).toThrow(BadName);
  });
});
