/** Proves which addresses a device is registered with: those that others can reach, or none. */
import { expect, test } from 'vitest';
import { CannotRun, type Run } from './run-command.ts';
import { tunnelAddresses } from './tunnel-address.ts';

const four = { family: 'inet', local: '100.64.0.1', prefixlen: 24, scope: 'global' };
const second = { family: 'inet', local: '10.0.0.1', prefixlen: 24, scope: 'global', secondary: true };
const six = { family: 'inet6', local: 'fd7f::1', prefixlen: 64, scope: 'global' };
const temporary = { family: 'inet6', local: 'fd7f::9', prefixlen: 64, scope: 'global', temporary: true, dynamic: true };
const taken = { family: 'inet6', local: 'fd7f::8', prefixlen: 64, scope: 'global', tentative: true, dadfailed: true };
const linkLocal = { family: 'inet6', local: 'fe80::1', prefixlen: 64, scope: 'link' };
const telling =
  (stdout: string, code = 0): Run =>
  async () => ({ code, stdout, stderr: '' });
const having = (...addr_info: readonly object[]): Run => telling(JSON.stringify([{ ifname: 'wg0', addr_info }]));

test.each<[string, Run, readonly string[]]>([
  [
    'all of both families, IPv4 before IPv6',
    having(linkLocal, six, four, second),
    ['100.64.0.1', '10.0.0.1', 'fd7f::1'],
  ],
  ['IPv6 where there is no other', having(linkLocal, six), ['fd7f::1']],
  ['none that changes every day, and none that another device has', having(temporary, six, taken), ['fd7f::1']],
  ['none that ends at the link', having(linkLocal), []],
  ['none where there is none', having(), []],
  ['none of an interface that is not there', telling('', 1), []],
  ['none where the answer is none', telling('[{"addr_info": 7}, null, {}]'), []],
  ['none where the answer is half', telling('[{'), []],
  ['none where nobody can be asked', () => Promise.reject(new CannotRun('no ip')), []],
])('%s', async (_, run, addresses) => {
  expect(await tunnelAddresses(run, 'wg0')).toEqual(addresses);
});

test('none without an interface', async () => {
  expect(await tunnelAddresses(having(four), undefined)).toEqual([]);
});
