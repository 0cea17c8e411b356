/** Proves that an audit entry reads as a natural sentence, and that differences are listed rule by rule. */
import { expect, test } from 'vitest';
import type { AuditEntry } from '../../api/audit.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { DevicePolicy } from '../../api/history/states.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { groupChanges } from './changes.ts';
import { changeSentence, sentenceOf, sentenceText, wholeSentence, type Names } from './sentence.ts';

const id = (end: number): string => `00000000-0000-4000-8000-${String(end).padStart(12, '0')}`;
const names: Names = {
  deviceOf: (one) => (one === id(1) ? 'bastion' : undefined),
  groupOf: (one) => ({ [id(7)]: 'web', [id(8)]: 'ops' })[one],
  otherOf: (one) => (one === id(9) ? 'kim' : undefined),
  ownerOf: (address) => (address === '100.64.0.9' ? 'db-1' : undefined),
};

const rule = (port: number, more: Partial<StoredRule> = {}): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const group = (more: Partial<SecurityGroup> = {}): SecurityGroup =>
  ({ id: id(7), org_id: id(5), group_name: 'ssh', group_description: '', revision: 3, ...more }) as SecurityGroup;
const device = (more: Partial<DevicePolicy> = {}): DevicePolicy =>
  ({ id: id(1), user_id: id(9), hostname: 'web-1', tunnel_ip: '100.64.0.1', ...more }) as DevicePolicy;
const entry = (operation: string, more: object): AuditEntry =>
  ({ operation, username: 'ada', credential: { kind: 'user_token' }, ...more }) as AuditEntry;

const fromBastion = rule(22, { peers: [{ device_id: id(1) }] as unknown as NonNullable<StoredRule['peers']> });
const told = (before: SecurityGroup | DevicePolicy, after: SecurityGroup | DevicePolicy): string | undefined => {
  const sentence = changeSentence(before, after, names);
  return sentence && sentenceText(sentence);
};

test('a rule that was added is told as what it allows, from whom and in which group', () => {
  const [before, after] = [group(), group({ inbound_rules: [fromBastion] })];
  expect(wholeSentence(entry('updateSecurityGroup', { before, after }), names)).toBe(
    'ada allowed tcp 22 from bastion in ssh',
  );
});

test('what an agent reports again is told as no change, and what is new by its fields', () => {
  const agent = { credential: { kind: 'device_token' }, subject_id: id(1), fields: ['local_ip'] };
  const sentence = (more: object): string =>
    sentenceText(sentenceOf(entry('updateDevice', { ...agent, ...more }), names));
  expect(sentence({ unchanged: true })).toBe('bastion reported again, no change');
  expect(sentence({})).toBe('bastion reported local ip');
});

test.each([
  ['stopped allowing tcp 22 from bastion in ssh', { inbound_rules: [fromBastion] }, {}],
  [
    'allowed tcp 443 from anywhere instead of tcp 80 from anywhere in ssh',
    { inbound_rules: [rule(80)] },
    { inbound_rules: [rule(443)] },
  ],
  ['allowed tcp 5432 to db-1 (100.64.0.9) in ssh', {}, { outbound_rules: [rule(5432, { ip_ranges: ['100.64.0.9'] })] }],
  [
    'allowed ip 53 to anywhere in ssh',
    {},
    { outbound_rules: [rule(53, { ip_protocol: 'ipv4' }), rule(53, { ip_protocol: 'ipv6' })] },
  ],
  ['renamed group ssh to shell, and changed its description', {}, { group_name: 'shell', group_description: 'x' }],
  [
    'described tcp 22 from bastion in ssh as “on call”',
    { inbound_rules: [fromBastion] },
    { inbound_rules: [{ ...fromBastion, description: 'on call' }] },
  ],
  [
    'changed the description of tcp 22 from bastion in ssh',
    { inbound_rules: [{ ...fromBastion, description: 'on call' }] },
    { inbound_rules: [fromBastion] },
  ],
  ['made ssh apply to label:db+prod', {}, { applies_to: [{ labels: ['db', 'prod'] }] }],
  [
    'forbade tcp 22 from bastion in ssh',
    { guardrail: 'forbid' },
    { guardrail: 'forbid', inbound_rules: [fromBastion] },
  ],
  [
    'allowed tcp 1 from anywhere, tcp 2 from anywhere, tcp 3 from anywhere and 2 more in ssh',
    {},
    { inbound_rules: [1, 2, 3, 4, 5].map((port) => rule(port)) },
  ],
] as const)('a change of a group: %s', (sentence, before, after) => {
  expect(told(group(before as Partial<SecurityGroup>), group(after as Partial<SecurityGroup>))).toBe(sentence);
});

test.each([
  ['put groups web and ops on web-1', {}, { security_groups: [id(7), id(8)] }],
  ['took group web off web-1, and put label db on it', { security_groups: [id(7)] }, { labels: ['db'] }],
  ['changed the address of web-1 from 100.64.0.1 to 100.64.0.2', {}, { tunnel_ip: '100.64.0.2' }],
  ['gave web-1 to another member', {}, { user_id: id(4) }],
  ['reordered the groups of web-1', { security_groups: [id(7), id(8)] }, { security_groups: [id(8), id(7)] }],
] as const)('a change of a device: %s', (sentence, before, after) => {
  expect(
    told(device(before as unknown as Partial<DevicePolicy>), device(after as unknown as Partial<DevicePolicy>)),
  ).toBe(sentence);
});

test('what has no states is told by its name, or by the end of its id where it has none', () => {
  expect(wholeSentence(entry('addMember', { subject_id: id(9) }), names)).toBe('ada added member kim');
  const invited = entry('addMember', { subject_id: id(9), fields: ['invitation'], after: { role: 'owner' } });
  expect(wholeSentence(invited, names)).toBe('ada joined by invitation as an owner');
  expect(wholeSentence(entry('liftIsolation', { subject_id: id(1), credential: { kind: 'server' } }), names)).toBe(
    'the server lifted the isolation of device bastion',
  );
  const isolated = { isolated: { since: '2026-11-19T20:34:54Z', by: id(4), reason: 'found malware' } };
  const isolation = entry('isolateDevice', { subject_id: id(1), before: {}, after: isolated as never });
  expect(wholeSentence(isolation, names)).toBe('ada isolated device bastion: found malware');
  const tried = { before: { group_name: 'ssh' }, after: { group_name: 'shell', trial: { id: id(7) } as never } };
  expect(wholeSentence(entry('updateSecurityGroup', { subject_id: id(2), ...tried }), names)).toBe(
    'ada renamed group ssh to shell, on trial',
  );
  expect(wholeSentence(entry('revokeToken', { subject_id: id(3) }), names)).toBe('ada revoked token 00000003');
  expect(wholeSentence(entry('updateDevice', { subject_id: id(1), fields: ['local_ip'] }), names)).toBe(
    'ada changed device bastion: local ip',
  );
  // Its subject is the change that it made, not the one that it undid.
  expect(wholeSentence(entry('revertChangeSet', { subject_id: id(3) }), names)).toBe(
    'ada undid a change, as change 00000003',
  );
});

test('a difference names every rule that came or went, and a device by its name', () => {
  const before = group({ inbound_rules: [rule(80), rule(443)] });
  const after = group({ group_description: 'shells', inbound_rules: [rule(443), fromBastion] });
  expect(groupChanges(before, after, { nameOf: names.deviceOf })).toEqual([
    ['+', 'description shells'],
    ['-', 'in tcp 80 from any'],
    ['+', 'in tcp 22 from device:bastion'],
  ]);
});

test('a trial is named by its end, and not by all of its fields', () => {
  const [started_at, ends_at] = ['2026-11-18T10:00:00.000Z', '2026-11-18T10:02:00.000Z'];
  const trial = { id: id(7), started_at, ends_at, by: id(8), before: { inbound_rules: [] } };
  expect(groupChanges(group({}), { ...group({}), trial } as never)).toEqual([
    ['+', 'trial until 2026-11-18 10:02 UTC'],
  ]);
});
