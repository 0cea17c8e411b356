/** Proves when a device is taken to forward nothing: only where the kernel's settings say so for every interface. */
import { expect, test } from 'vitest';
import { readForwarding, type Settings } from './forwarding.ts';

const absent = Object.assign(new Error('no such file'), { code: 'ENOENT' });

/** Settings by their path; an interface is listed where any of its settings is given. */
function settings(all: Readonly<Record<string, string | Error>>): Settings {
  return {
    read: async (path) => {
      const value = all[path] ?? absent;
      if (value instanceof Error) throw value;
      return value;
    },
    list: async (path) => {
      const names = Object.keys(all).flatMap((key) => (key.startsWith(`${path}/`) ? [key.split('/')[2] ?? ''] : []));
      if (names.length === 0) throw absent;
      return names;
    },
  };
}
const off = { 'ipv4/conf/all/forwarding': '0\n', 'ipv4/conf/wg0/forwarding': '0\n' };
const off6 = { 'ipv6/conf/all/forwarding': '0\n', 'ipv6/conf/wg0/forwarding': '0\n' };

test.each<[what: string, expected: 'on' | 'off', Settings]>([
  ['no interface forwards', 'off', settings({ ...off, ...off6 })],
  ['all of IPv4 forward', 'on', settings({ ...off, ...off6, 'ipv4/conf/all/forwarding': '1\n' })],
  ['all of IPv6 forward', 'on', settings({ ...off, ...off6, 'ipv6/conf/all/forwarding': '1\n' })],
  ['one interface forwards', 'on', settings({ ...off, ...off6, 'ipv4/conf/cni0/forwarding': '1\n' })],
  ['one of IPv6 forwards', 'on', settings({ ...off, ...off6, 'ipv6/conf/cni0/forwarding': '2\n' })],
  ['the kernel knows no IPv6', 'off', settings(off)],
  ['an interface goes meanwhile', 'off', settings({ ...off, 'ipv4/conf/gone/forwarding': absent })],
  ['nothing can be read', 'on', settings({})],
  ['it may not be read', 'on', settings({ ...off, 'ipv4/conf/all/forwarding': new Error('EACCES') })],
])('where %s, forwarding is %s', async (_, expected, given) => {
  expect(await readForwarding(given)).toBe(expected);
});
