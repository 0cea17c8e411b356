/** Proves which state of a record counts for a device while a change is being tried, and what follows when the trial ends. */
import { describe, expect, it } from 'vitest';
import { effectivePolicy, type EffectivePolicy, type MissingGroups } from '../effective.ts';
import { readGroupRecord } from '../fleet/group-record.ts';
import { NotUnderstood } from '../fleet/not-understood.ts';
import { parseSelectors } from '../fleet/selector-text.ts';
import { parseGroupId, type GroupId } from '../ids.ts';
import { Problems } from '../problem.ts';
import type { GroupBefore, PolicyGroup, Selector, Trial } from '../rule.ts';
import { policyAt } from '../time/policy-at.ts';
import { readListTrial } from './read-trial.ts';
import { isWithin } from './trial.ts';

const uuid = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const id = (n: number): GroupId => parseGroupId(uuid(n));
const group = (n: number, more: Partial<PolicyGroup> = {}): PolicyGroup => ({
  id: id(n),
  name: `tried ${n}`,
  inbound: [],
  outbound: [],
  ...more,
});
const start = Date.UTC(2030, 0, 1);
const trial = <Before>(before: Before | null, ms: number, scope?: readonly Selector[]): Trial<Before> => ({
  id: uuid(99),
  ends_at: new Date(start + ms).toISOString(),
  ...(scope && { scope }),
  before,
});
const before = (n: number, appliesTo: readonly Selector[] = []): GroupBefore => ({
  name: `before ${n}`,
  inbound: [],
  outbound: [],
  appliesTo,
  mode: 'enforce',
});
const canary = [{ labels: ['canary'] }];
const db = [{ labels: ['db'] }];

interface Device {
  readonly list?: readonly number[];
  readonly labels?: readonly string[];
  readonly trial?: Trial<{ readonly security_groups: readonly GroupId[] }>;
}
function policyOf({ list = [], labels = [], ...device }: Device, groups: readonly PolicyGroup[]) {
  const find = (wanted: GroupId): PolicyGroup | undefined => groups.find((each) => each.id === wanted);
  return effectivePolicy({ list: list.map(id), find, defaultGroup: group(0), labels, byLabel: groups, ...device });
}
/** The names of the groups in effect at moments after the start. */
const namesAt = (policy: EffectivePolicy | MissingGroups, ...moments: readonly number[]): unknown =>
  'missing' in policy
    ? policy
    : moments.map((ms) =>
        policyAt(policy, start + ms)
          .policy.groups.map(({ name }) => name)
          .join(),
      );

describe('a group on trial', () => {
  const tried = group(1, { trial: trial(before(1), 1_000, canary) });

  it('counts as it is for devices in scope, and as it was before for all others', () => {
    expect(namesAt(policyOf({ list: [1], labels: ['canary'] }, [tried]), 0)).toEqual(['tried 1']);
    expect(namesAt(policyOf({ list: [1] }, [tried]), 0)).toEqual(['before 1']);
    expect(policyOf({ list: [1] }, [tried])).not.toHaveProperty('next');
  });

  it('is what it was from the moment at which the trial ends, and not before', () => {
    const policy = policyOf({ list: [1], labels: ['canary'] }, [tried]);
    expect(namesAt(policy, 0, 999, 1_000, 5_000)).toEqual(['tried 1', 'tried 1', 'before 1', 'before 1']);
    expect('missing' in policy ? undefined : policyAt(policy, start).changesAt).toBe(start + 1_000);
    expect('missing' in policy ? undefined : policyAt(policy, start + 1_000)).not.toHaveProperty('changesAt');
  });

  it('that did not exist before exists for nobody outside the scope', () => {
    const made = group(1, { appliesTo: db, trial: trial<GroupBefore>(null, 1_000, canary) });
    expect(namesAt(policyOf({ labels: ['db', 'canary'] }, [made]), 0, 1_000)).toEqual(['tried 1', 'tried 0']);
    expect(namesAt(policyOf({ labels: ['db'] }, [made]), 0)).toEqual(['tried 0']);
    expect(policyOf({ list: [1] }, [made])).toEqual({ missing: [id(1)] });
  });

  it('may apply to other devices by label, and goes back to the ones before', () => {
    const moved = group(1, { appliesTo: canary, trial: trial(before(1, db), 1_000) });
    expect(namesAt(policyOf({ labels: ['db'] }, [moved]), 0, 1_000)).toEqual(['tried 0', 'before 1']);
    expect(namesAt(policyOf({ labels: ['canary'] }, [moved]), 0, 1_000)).toEqual(['tried 1', 'tried 0']);
  });

  it('may be a guardrail', () => {
    const rail = group(1, { guardrail: 'forbid', appliesTo: db, trial: trial<GroupBefore>(null, 1_000) });
    const policy = policyOf({ labels: ['db'] }, [rail]);
    const rails = (ms: number): number =>
      'missing' in policy ? -1 : (policyAt(policy, start + ms).policy.guardrails?.forbid.length ?? 0);
    expect([rails(0), rails(1_000)]).toEqual([1, 0]);
  });
});

describe('two trials at once', () => {
  it('end one after the other, each by itself', () => {
    const [one, two] = [group(1, { trial: trial(before(1), 1_000) }), group(2, { trial: trial(before(2), 3_000) })];
    const policy = policyOf({ list: [1, 2] }, [one, two]);
    expect(namesAt(policy, 0, 1_000, 3_000)).toEqual(['tried 1,tried 2', 'before 1,tried 2', 'before 1,before 2']);
    expect(namesAt(policy, 9_000)).toEqual(['before 1,before 2']);
  });

  it('of a list and of a group in it are both undone', () => {
    const made = group(2, { trial: trial<GroupBefore>(null, 1_000) });
    const list = trial({ security_groups: [id(1)] }, 1_000);
    expect(namesAt(policyOf({ list: [2], trial: list }, [group(1), made]), 0, 1_000)).toEqual(['tried 2', 'tried 1']);
    const scoped = { ...list, scope: canary };
    expect(namesAt(policyOf({ list: [2], trial: scoped }, [group(1), made]), 0)).toEqual(['tried 1']);
  });

  it('are not known while a group that follows is not', () => {
    const list = trial({ security_groups: [id(7)] }, 1_000);
    expect(policyOf({ list: [1], trial: list }, [group(1)])).toEqual({ missing: [id(7)] });
  });
});

it('the trial of a record is read whole, or the record is not understood', () => {
  const record = { id: uuid(1), group_name: 'web', revision: 1 };
  const good = { id: uuid(9), started_at: 'x', ends_at: new Date(start).toISOString(), by: uuid(3), before: null };
  expect(readGroupRecord({ ...record, trial: good }).trial).toMatchObject({ before: null });
  const bad = [
    { ...good, ends_at: 'soon' },
    { ...good, before: undefined },
    { ...good, pause: true },
    { ...good, scope: [{ tags: ['x'] }] },
    { ...good, before: { inbound_rules: [{ ip_protocol: 'sctp', from_port: 0, to_port: 0 }] } },
    { ...good, before: { outbound_rules: [], priority: 10 } },
    { ...good, before: { outbound_rules: [], mode: 'alert' } },
    'yes',
  ];
  for (const each of bad) expect(() => readGroupRecord({ ...record, trial: each })).toThrow(NotUnderstood);
  const problems = new Problems();
  readListTrial({ ...good, before: { security_groups: ['web'] } }, problems);
  expect(problems.count).toBe(1);
});

it('a scope is wider when it holds all devices of the other, by what the selectors say', () => {
  const edge = [{ labels: ['edge', 'prod'] }];
  expect([isWithin(edge, [{ labels: ['edge'] }]), isWithin(edge, [{ labels: ['prod'] }, { labels: ['x'] }])]).toEqual([
    true,
    true,
  ]);
  expect([isWithin(edge, undefined), isWithin(edge, [{ all_devices: true }])]).toEqual([true, true]);
  expect([isWithin([{ labels: ['edge'] }], edge), isWithin(undefined, edge), isWithin(edge, [])]).toEqual([
    false,
    false,
    false,
  ]);
});

it('selectors are read as policy files write them, and a plus may arrive as a space', () => {
  const both = [{ labels: ['canary'] }, { labels: ['edge', 'prod'] }];
  expect(parseSelectors('label:canary,label:edge+prod')).toEqual(both);
  expect(parseSelectors('label:canary, labels:prod edge')).toEqual(both);
  expect(parseSelectors('all-devices')).toEqual([{ all_devices: true }]);
  for (const text of ['', 'canary', 'label:', 'label:Bad', 'label:a,,label:b', 'device:web-1'])
    expect(parseSelectors(text), text).toHaveProperty('fault');
});
