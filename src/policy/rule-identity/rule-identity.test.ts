/** Proves what makes two rules one, and that agents are left without descriptions wherever a record has them. */
import { expect, test } from 'vitest';
import { normalizeRules } from '../normalize.ts';
import type { SecurityRule } from '../rule.ts';
import { jsonWithoutDescriptions, withoutDescriptions } from './descriptions.ts';
import { ruleIdentity } from './rule-identity.ts';

const ssh: SecurityRule = { ip_protocol: 'tcp', from_port: 22, to_port: 22 };

test('the identity of a rule has no description, and no order of ranges and peers', () => {
  const one = { ...ssh, ip_ranges: ['10.0.0.1', '10.0.0.2'], peers: [{ labels: ['a', 'b'] }, { all_devices: true }] };
  const other = {
    ...ssh,
    ip_ranges: ['10.0.0.2', '10.0.0.1 '],
    peers: [{ all_devices: true }, { labels: ['b', 'a'] }],
  };
  expect(ruleIdentity({ ...one, description: 'x' } as SecurityRule)).toBe(ruleIdentity(other as SecurityRule));
});

test.each<readonly [string, Partial<SecurityRule>]>([
  ['protocol', { ip_protocol: 'udp' }],
  ['port', { to_port: 23 }],
  ['range', { ip_ranges: ['10.0.0.1'] }],
  ['peers', { peers: [{ labels: ['db'] }] }],
  ['expiry', { expires_at: '2030-01-31T12:00:00Z' }],
])('rules of another %s are other rules', (_, change) => {
  expect(ruleIdentity({ ...ssh, ...change })).not.toBe(ruleIdentity(ssh));
});

test('the same time written in another zone is the same expiry', () => {
  const at = (expires_at: string): string => ruleIdentity({ ...ssh, expires_at });
  expect(at('2030-01-31T12:00:00Z')).toBe(at('2030-01-31T13:00:00+01:00'));
});

test('rules that differ in their description only are one rule with the first description', () => {
  const rules = normalizeRules([
    ssh,
    { ...ssh, to_port: 23 },
    { ...ssh, description: '  on call ' },
    { ...ssh, description: 'other' },
    { ...ssh, to_port: 23 },
  ]);
  expect(rules).toEqual([
    { ...ssh, description: 'on call' },
    { ...ssh, to_port: 23 },
    { ...ssh, to_port: 23 },
  ]);
});

test('each rule that one becomes has its description, and an empty one is none', () => {
  const any: SecurityRule = { ip_protocol: 'ip', from_port: 0, to_port: 0 };
  expect(normalizeRules([{ ...any, description: 'all' }]).map(({ description }) => description)).toEqual([
    'all',
    'all',
  ]);
  expect(normalizeRules([{ ...any, description: ' ' }]).some((rule) => 'description' in rule)).toBe(false);
});

test('a record without descriptions keeps everything else, also what it had before a trial', () => {
  const rule = { ...ssh, description: 'x' };
  const record = {
    group_name: 'g',
    group_description: 'stays',
    inbound_rules: [rule, ssh],
    outbound_rules: [rule],
    trial: { id: 't', before: { group_description: 'old', inbound_rules: [rule], outbound_rules: [] } },
  };
  expect(withoutDescriptions(record)).toEqual({
    ...record,
    inbound_rules: [ssh, ssh],
    outbound_rules: [ssh],
    trial: { id: 't', before: { group_description: 'old', inbound_rules: [ssh], outbound_rules: [] } },
  });
  expect(withoutDescriptions({ trial: { id: 't', before: null } })).toEqual({ trial: { id: 't', before: null } });
});

test('the text of a record is shared unless a rule in it has a description', () => {
  const named = { group_name: '"description":', group_description: '"description":"x"', inbound_rules: [ssh] };
  expect(jsonWithoutDescriptions(JSON.stringify(named))).toBeUndefined();
  const described = { ...named, inbound_rules: [{ ...ssh, description: '"description":1' }] };
  expect(JSON.parse(jsonWithoutDescriptions(JSON.stringify(described)) ?? '')).toEqual(named);
});
