/** Proves that an older state of a group can be simulated although devices that it names are gone and its rules have expired. */
import { expect, test } from 'vitest';
import type { SecurityGroup } from '../../api/group.ts';
import { restoreChange } from './restore-change.ts';

const rule = { ip_protocol: 'tcp', from_port: 22, to_port: 22 } as const;
const device = (id: string): { readonly device_id: string } => ({ device_id: id });
const groupOf = (fields: object): SecurityGroup => ({ id: 'g', group_name: 'ssh', ...fields }) as SecurityGroup;
const around = {
  now: groupOf({}),
  isGone: (id: string) => id.startsWith('gone'),
  labels: new Set(['none-0']),
  time: Date.parse('2030-01-02T00:00:00Z'),
};

test('devices that are gone and rules that expired match nothing, and no rule becomes wider or disappears', () => {
  const inbound_rules = [
    { ...rule, peers: [device('here'), device('gone-1'), device('gone-2')] },
    { ...rule, ip_ranges: ['10.0.0.0/8'], expires_at: '2030-01-01T00:00:00Z' },
    { ...rule, expires_at: '2030-01-03T00:00:00Z' },
    rule,
  ];
  const [entry] = restoreChange(groupOf({ inbound_rules }), around).security_groups ?? [];
  expect(entry).toEqual({
    id: 'g',
    inbound_rules: [
      { ...rule, peers: [device('here'), { labels: ['none-1'] }] },
      { ...rule, peers: [{ labels: ['none-1'] }] },
      { ...rule, expires_at: '2030-01-03T00:00:00Z' },
      rule,
    ],
    outbound_rules: [],
  });
});

test('a deleted group comes back with its name, its owner and what it applies to', () => {
  const applies_to = [{ labels: ['db'] }];
  const then = groupOf({ applies_to, guardrail: 'forbid', inbound_rules: [rule] });
  const [entry] = restoreChange(then, { ...around, now: undefined }).security_groups ?? [];
  expect(entry).toMatchObject({ group_name: 'ssh', guardrail: 'forbid', applies_to });
});

test('a state from before the group was watch only enforces, and one in which it was does not', () => {
  const watched = groupOf({ mode: 'observe' });
  const modeOf = (then: SecurityGroup, now: SecurityGroup | undefined): unknown =>
    restoreChange(then, { ...around, now }).security_groups?.[0]?.mode;
  expect(modeOf(groupOf({}), watched)).toBe('enforce');
  expect(modeOf(watched, groupOf({}))).toBe('observe');
  expect(modeOf(watched, undefined)).toBe('observe');
  expect(modeOf(groupOf({}), groupOf({}))).toBeUndefined();
});
