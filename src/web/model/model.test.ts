/** Proves the editor's model: ports as text, problems at their field, differences and merges of rules that have no order. */
import { describe, expect, it } from 'vitest';
import type { StoredRule } from '../../policy/rule.ts';
import { compilePolicy } from './ruleset.ts';
import {
  difference,
  merge,
  patchOf,
  draftOf,
  emptyContent,
  judge,
  portsOf,
  problemAt,
  problemsAt,
  type Content,
  type DraftRule,
} from './draft.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { policyOfContent } from './device-policy.ts';
import { noNames } from './far-end.ts';
import { ruleText, serviceName } from './rule-text.ts';

const tcp = (port: number, ...ip_ranges: string[]): StoredRule => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...(ip_ranges.length === 0 ? {} : { ip_ranges }),
});
const content = (inbound_rules: readonly StoredRule[], more: Partial<Content> = {}): Content => ({
  ...emptyContent,
  group_name: 'web',
  inbound_rules,
  ...more,
});
const row = (protocol: string, ports: string, ...ranges: string[]): DraftRule => ({
  key: 'k',
  protocol,
  ports,
  ranges,
});
const problemsOf = (rule: DraftRule, field: 'protocol' | 'ports' | 'ranges'): readonly string[] =>
  problemsAt(
    judge({ name: 'x', description: '', inbound: [rule], outbound: [], appliesTo: [] }, { names: noNames }).problems,
    'inbound',
    0,
    field,
  );

describe('a draft', () => {
  it.each([
    ['', [0, 0]],
    ['any', [0, 0]],
    ['443', [443, 443]],
    [' 8000 - 8100 ', [8000, 8100]],
    ['8000–8100', [8000, 8100]],
    ['http', ['http', 'http']],
    ['-5', ['-5', '-5']],
    ['8000-', ['8000-', '8000-']],
    ['1-2-3', ['1-2-3', '1-2-3']],
  ])('reads the ports %j as %j', (text, ports) => {
    expect(portsOf(text)).toEqual(ports);
  });

  it('carries what a group holds there and back', () => {
    const stored = content([tcp(443), tcp(22, '10.0.0.0/8', 'fd00::/8')], { outbound_rules: [tcp(53)] });
    expect(judge(draftOf(stored, noNames), { names: noNames }).content).toEqual(stored);
    const watched = content([tcp(443)], { mode: 'observe' });
    expect(judge(draftOf(watched, noNames), { names: noNames, mode: 'observe' }).content).toEqual(watched);
  });

  it('puts each sentence of the one validation at its field, and none twice', () => {
    expect(problemsOf(row('tcp', '70000'), 'ports')).toEqual(['a port must be between 1 and 65535, got 70000.']);
    expect(problemsOf(row('tcp', '80', 'label:web', '10.0.0.1', 'lable:app'), 'ranges')).toEqual([
      '“lable:app” names no devices. Did you mean “label:app”?',
    ]);
    const draft = { ...draftOf(emptyContent, noNames), name: 'x', appliesTo: ['label:web', 'lable:db'] };
    expect(problemAt(judge(draft, { names: noNames }).problems, '/applies_to')).toContain('“label:db”');
    expect(problemsOf(row('tcp', '90-80'), 'ports')).toEqual([
      'the range of ports begins at 90 and ends at 80: swap them.',
    ]);
    expect(problemsOf(row('tcp', 'http'), 'ports')).toHaveLength(1);
    expect(problemsOf(row('tcp', '80', '10.0.0.1', '1.2.3', '010.0.0.1'), 'ranges')).toHaveLength(2);
    expect(problemsOf(row('ipv4', '', 'fd00::1'), 'ranges')[0]).toContain('IPv6');
    expect(problemsOf(row('tcp', '80', 'fd00::1'), 'ranges')).toEqual([]);
    expect(problemsOf(row('gre', ''), 'protocol')[0]).toContain('is not a protocol');
  });

  it('has no ports where the protocol has none, whatever was typed before', () => {
    expect(
      judge(
        { name: 'x', description: '', inbound: [row('icmp', '443')], outbound: [], appliesTo: [] },
        { names: noNames },
      ).problems,
    ).toEqual([]);
  });
});

describe('a difference', () => {
  it('does not see the order of rules, nor of their addresses', () => {
    const a = content([tcp(80), tcp(22, '10.0.0.1', '10.0.0.2')]);
    const b = content([tcp(22, '10.0.0.2', '10.0.0.1'), tcp(80)]);
    expect(difference(a, b).count).toBe(0);
    expect(patchOf(a, b)).toEqual({});
  });

  it('counts the same rule as often as it stands there', () => {
    expect(difference(content([tcp(80), tcp(80)]), content([tcp(80)])).inbound.removed).toEqual([tcp(80)]);
  });

  it('sends only what changed', () => {
    const before = content([tcp(80)]);
    expect(patchOf(before, { ...before, group_name: 'new' })).toEqual({ group_name: 'new' });
    expect(patchOf(before, { ...before, outbound_rules: [tcp(53)] })).toEqual({ outbound_rules: [tcp(53)] });
    const watched: Content = { ...before, mode: 'observe' };
    expect(patchOf(before, watched)).toEqual({ mode: 'observe' });
    expect(patchOf(watched, before)).toEqual({ mode: 'enforce' });
    expect(patchOf(watched, watched)).toEqual({});
  });
});

describe('a merge', () => {
  const base = content([tcp(80), tcp(22)]);

  it('keeps what both added and drops what either removed', () => {
    const mine = content([tcp(80), tcp(443)]);
    const theirs = content([tcp(22), tcp(80), tcp(5432)]);
    expect(merge(base, mine, theirs).inbound_rules).toEqual([tcp(80), tcp(5432), tcp(443)]);
  });

  it('adds once what both added, and removes without complaint what both removed', () => {
    const both = content([tcp(80), tcp(443)]);
    expect(merge(base, both, both).inbound_rules).toEqual(both.inbound_rules);
  });

  it('takes their text unless I changed it too', () => {
    const theirs = { ...base, group_name: 'theirs', group_description: 'theirs' };
    expect(merge(base, { ...base, group_description: 'mine' }, theirs)).toMatchObject({
      group_name: 'theirs',
      group_description: 'mine',
    });
  });
});

it('names services as people do', () => {
  expect(serviceName(tcp(22))).toBe('SSH');
  expect(serviceName({ ip_protocol: 'udp', from_port: 53, to_port: 53 })).toBe('DNS');
  expect(ruleText(tcp(5432, '10.0.0.0/8'))).toBe('TCP 5432 (PostgreSQL), 10.0.0.0/8');
});

it('shows the nftables text that an agent would load', () => {
  const policy = policyOfContent(content([tcp(443)]), new Fleet());
  const text = compilePolicy(policy);
  expect(text).toContain('add table inet service');
  expect(text).toMatch(/tcp dport 443 counter name in-[0-9a-f-]{36} accept/);
  expect(text).toContain('iifname "wg0"');
  expect(compilePolicy(policy, { state: 'applied', interface: 'tun7' })).toContain('iifname "tun7"');
  expect(compilePolicy(policy, { state: 'applied', interface: 'no "name" at all' })).toBe(text);
});
