/** Proves which rules, keys and tokens the overview announces as ending soon. */
import { expect, test } from 'vitest';
import type { SecurityGroup } from '../../api/group.ts';
import { endingSoon } from './expiry.ts';
import { noNames } from './far-end.ts';

const now = Date.parse('2030-01-01T00:00:00Z');
const rule = (port: number, expires_at?: string): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(expires_at !== undefined && { expires_at }),
});

test('rules that end within two weeks come with keys and tokens, the first to end first, and no rule that has expired', () => {
  const inbound_rules = [
    rule(22, '2030-01-03T00:00:00Z'),
    rule(23, '2029-12-31T00:00:00Z'),
    rule(24, '2030-03-01T00:00:00Z'),
    rule(443),
  ];
  const groups = [{ id: 'g', group_name: 'web', inbound_rules } as unknown as SecurityGroup];
  const tokens = [{ id: 't', name: 'deploy', expires_at: '2030-01-02T00:00:00Z' }];
  const keys = [{ id: 'k', name: 'rack', expires_at: '2030-01-04T00:00:00Z', uses_left: 1 }];
  const ending = endingSoon({ keys, tokens, groups, names: noNames, now });
  expect(ending.map(({ kind, name }) => [kind, name])).toEqual([
    ['token', 'deploy'],
    ['rule', 'in tcp 22 from any'],
    ['key', 'rack'],
  ]);
});
