/** Proves that the effective access of a device lists what decides, in the order in which it decides. */
import { expect, test } from 'vitest';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { deviceAccess, groupAccess } from './device-policy.ts';

const tcp = (port: number, more: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const group = (name: string, inbound: readonly StoredRule[], outbound: readonly StoredRule[] = []): PolicyGroup => ({
  id: parseGroupId('00000000-0000-4000-8000-000000000001'),
  name,
  inbound,
  outbound,
});
const brief = ({ rows, rest }: ReturnType<typeof deviceAccess>): readonly string[] => [
  ...rows.map(({ verdict, rule, group: from }) => `${verdict} ${rule.from_port} ${from?.name ?? 'isolation'}`),
  `rest: ${rest}`,
];
const policy: EffectivePolicy = {
  source: 'list',
  groups: [group('web', [tcp(443), tcp(80, { expires_at: '2020-01-01T00:00:00Z', expired: true })])],
  guardrails: { forbid: [group('no telnet', [tcp(23)], [tcp(25)])], require: [group('ssh', [tcp(22)])] },
};

test('refusals of guardrails come first, then what guardrails require, then the groups; expired rules are left out', () => {
  expect(brief(deviceAccess(policy, 'inbound'))).toEqual([
    'refuse 23 no telnet',
    'require 22 ssh',
    'allow 443 web',
    'rest: refuse',
  ]);
  expect(brief(deviceAccess(policy, 'outbound'))).toEqual(['refuse 25 no telnet', 'rest: allow']);
});

test('an isolated device keeps its refusals and admits only what its isolation allows', () => {
  const isolation = { own: { allow: [{ labels: ['forensics'] }] }, refused: [] };
  const { rows, rest } = deviceAccess({ ...policy, isolation }, 'inbound');
  expect(brief({ rows, rest })).toEqual(['refuse 23 no telnet', 'allow 0 isolation', 'rest: refuse']);
  expect(rows[1]?.rule.peers).toEqual([{ labels: ['forensics'] }]);
});

test('isolated devices are refused before everything else', () => {
  const isolation = { refused: [{ id: 'other', addresses: [] }] };
  const { rows } = deviceAccess({ ...policy, isolation }, 'inbound');
  expect(rows[0]).toMatchObject({ verdict: 'refuse', byIsolation: true, rule: { peers: [{ device_id: 'other' }] } });
});

test('a group without outbound rules leaves outbound open, and a guardrail says nothing about the rest', () => {
  expect(groupAccess([], 'outbound', undefined).rest).toBe('allow');
  expect(groupAccess([], 'inbound', undefined).rest).toBe('refuse');
  expect(groupAccess([tcp(23)], 'inbound', 'forbid')).toMatchObject({ rows: [{ verdict: 'refuse' }] });
  expect(groupAccess([tcp(23)], 'inbound', 'forbid').rest).toBeUndefined();
});
