/** Proves which groups and guardrails apply to a device: by its list, by label, by default. */
import { describe, expect, it } from 'vitest';
import { effectivePolicy, selectGroups, type EffectivePolicy } from './effective.ts';
import { parseGroupId, type GroupId } from './ids.ts';
import type { PolicyGroup } from './rule.ts';

const id = (n: number): GroupId => parseGroupId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
const group = (n: number, more: Partial<PolicyGroup> = {}): PolicyGroup => ({
  id: id(n),
  name: `group ${n}`,
  inbound: [],
  outbound: [],
  ...more,
});

const byDb = { appliesTo: [{ labels: ['db'] }] };
const all = [
  group(1),
  group(5, byDb),
  group(3, { appliesTo: [{ labels: ['web'] }, { labels: ['db', 'prod'] }] }),
  group(4, { appliesTo: [] }),
  group(9, { appliesTo: [{ all_devices: true }], guardrail: 'forbid' }),
  group(8, { ...byDb, guardrail: 'require' }),
];

function inEffect(list: readonly number[], labels: readonly string[], groups = all): string[] | object {
  const ids = list.map(id);
  const find = (wanted: GroupId): PolicyGroup | undefined => groups.find((each) => each.id === wanted);
  const input = { list: ids, find, defaultGroup: group(0), labels, byLabel: groups };
  const policy = effectivePolicy(input);
  if ('missing' in policy) return policy;
  const { forbid, require, groups: deciding } = selectGroups(input, input);
  const words = (one: GroupId, by: string): string => `${Number(one.slice(-4))} ${by}`;
  return [
    ...[...forbid, ...require].map((one) => words(one.id, 'guardrail')),
    ...deciding.map((one) => words(one.id, one.by)),
  ];
}

describe('a device has', () => {
  it('the default group while nothing else applies, and guardrails beside it', () => {
    expect(inEffect([], [])).toEqual(['9 guardrail', '0 default']);
  });

  it('the groups of its list first, then those by label in the order of their ids, instead of the default group', () => {
    expect(inEffect([1], ['db', 'prod'])).toEqual(['9 guardrail', '8 guardrail', '1 list', '3 label', '5 label']);
    expect(inEffect([], ['db'])).toEqual(['9 guardrail', '8 guardrail', '5 label']);
  });

  it('a group once that its list names and its labels match', () => {
    expect(inEffect([5, 1], ['db'])).toEqual(['9 guardrail', '8 guardrail', '5 list', '1 list']);
  });

  it('no policy that is known while a group of its list is missing, whatever applies by label', () => {
    expect(inEffect([7], ['db'])).toEqual({ missing: [id(7)] });
  });

  it('no guardrails at all where none applies', () => {
    const policy = effectivePolicy({
      list: [],
      find: () => undefined,
      defaultGroup: group(0),
      byLabel: [group(8, byDb)],
    });
    expect(policy).toEqual({ source: 'default', groups: [group(0)] } satisfies EffectivePolicy);
  });
});
