/** Proves which address a device is registered with: one that others can reach, or none. */
import { expect, test } from 'vitest';
import { CannotRun, type Run } from './run-command.ts';
import { tunnelAddress } from './tunnel-address.ts';

const four = { family: 'inet', local: '100.64.0.1', prefixlen: 24, scope: 'global' };
const six = { family: 'inet6', local: 'fd7f::1', prefixlen: 64, scope: 'global' };
const linkLocal = { family: 'inet6', local: 'fe80::1', prefixlen: 64, scope: 'link' };
const telling =
  (stdout: string, code = 0): Run =>
  async () => ({ code, stdout, stderr: '' });
const having = (...addr_info: readonly object[]): Run => telling(JSON.stringify([{ ifname: 'wg0', addr_info }]));

test.each<[string, Run, string | undefined]>([
  ['IPv4 before IPv6', having(linkLocal, six, four), '100.64.0.1'],
  ['IPv6 where there is no other', having(linkLocal, six), 'fd7f::1'],
  ['none that ends at the link', having(linkLocal), undefined],
  ['none where there is none', having(), undefined],
  ['none of an interface that is not there', telling('', 1), undefined],
  ['none where the answer is none', telling('[{"addr_info": 7}, null, {}]'), undefined],
  ['none where the answer is half', telling('[{'), undefined],
  ['none where nobody can be asked', () => Promise.reject(new CannotRun('no ip')), undefined],
])('%s', async (_, run, address) => {
  expect(await tunnelAddress(run, 'wg0')).toBe(address);
});

test('none without an interface', async () => {
  expect(await tunnelAddress(having(four), undefined)).toBeUndefined();
});
