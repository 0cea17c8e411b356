/**
 * Proves that the reason why a rule does not match is worded correctly: protocol, port, family, far end, alone and
 * together.
 */
import { expect, test } from 'vitest';
import { parseAddress, type Address } from '../../policy/address.ts';
import type { Packet } from '../../policy/packet.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { expiryWords } from './expiry.ts';
import { mismatchWords } from './mismatch.ts';

const address = parseAddress('100.64.0.2') as Address;
const ssh: Packet = {
  direction: 'inbound',
  family: address.family,
  remote: address.value,
  transport: { kind: 'tcp', dport: 22 },
};
const rule = (more: Partial<StoredRule>): StoredRule => ({ ip_protocol: 'tcp', from_port: 22, to_port: 22, ...more });

test.each<readonly [string | undefined, Partial<StoredRule>]>([
  [undefined, {}],
  ['its port is 443, not 22', { from_port: 443, to_port: 443 }],
  ['its ports are 8000-8100, not 22', { from_port: 8000, to_port: 8100 }],
  ['it applies to udp, not to tcp', { ip_protocol: 'udp' }],
  ['it applies to ping, not to tcp', { ip_protocol: 'icmp', from_port: 0, to_port: 0 }],
  ['it applies to IPv6, not to IPv4', { ip_protocol: 'ipv6', from_port: 0, to_port: 0 }],
  ['bastion (100.64.0.2) is not among those it names', { ip_ranges: ['10.0.0.0/8'] }],
  [
    'its port is 443, not 22, and bastion (100.64.0.2) is not among those it names',
    { from_port: 443, to_port: 443, peers: [{ labels: ['app'] }], members: { v4: [], v6: [] } },
  ],
])('%s', (words, more) => {
  expect(mismatchWords(rule(more), ssh, 'bastion')).toBe(words);
});

test('a rule that has expired says so first', () => {
  const expires_at = new Date(Date.now() - 3 * 3_600_000).toISOString();
  expect(mismatchWords(rule({ expires_at, expired: true }), ssh, 'bastion')).toBe('it expired 3 h ago');
  const other = rule({ expires_at, expired: true, from_port: 443, to_port: 443 });
  expect(mismatchWords(other, ssh, 'bastion')).toBe('it expired 3 h ago, and its port is 443, not 22');
});

test.each([
  [-90_000, 'expired 90 s ago'],
  [-7_200_000, 'expired 2 h ago'],
  [0, 'expired 0 s ago'],
  [30_000, 'expires in 30 s'],
  [3_600_000, 'expires in 60 min'],
  [36 * 3_600_000, 'expires in 36 h'],
  [30 * 86_400_000, 'expires in 30 d'],
])('an expiry in %i ms is told as %s', (left, words) => {
  const now = Date.UTC(2030, 0, 1);
  expect(expiryWords(new Date(now + left).toISOString(), now)).toBe(words);
});
