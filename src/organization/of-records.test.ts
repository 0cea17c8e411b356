/** Proves which devices have a group, as pages and commands say it. */
import { describe, expect, it } from 'vitest';
import { parseGroupId } from '../policy/ids.ts';
import { devicesOf, groupsOf, type HasGroups } from './of-records.ts';

interface Group {
  readonly id: string;
}
interface Device extends HasGroups {
  readonly id: string;
}

const idOf = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`;
const group = (n: number, more: object = {}): Group =>
  ({
    id: idOf(n),
    group_name: `group ${n}`,
    inbound_rules: [],
    outbound_rules: [],
    ...more,
  }) as Group;
const device = (n: number, ...labels: string[]): Device => ({ id: idOf(100 + n), labels });
const labelled = (...labels: string[]): object => ({ applies_to: [{ labels }] });

const standard = group(1, { is_default: true });
const numbers = (devices: readonly Device[]): readonly number[] => devices.map(({ id }) => Number(id.slice(-2)));
const having = (one: Group, devices: readonly Device[], groups: readonly Group[]): readonly number[] =>
  numbers(devicesOf(one.id, devices, groups));

describe('a group', () => {
  const devices = [device(1, 'db'), device(2, 'app'), device(3, 'app', 'canary')];

  it('whose selector is tried on some devices is on those that try it, and elsewhere as it was', () => {
    const before = { group_name: 'group 2', inbound_rules: [], outbound_rules: [], applies_to: [{ labels: ['db'] }] };
    const trial = { id: idOf(9), ends_at: '2100-01-01T00:00:00Z', scope: [{ labels: ['canary'] }], before };
    const tried = group(2, { ...labelled('app'), trial });
    expect(having(tried, devices, [standard, tried])).toEqual([1, 3]);
    expect(having(standard, devices, [standard, tried])).toEqual([2]);
  });

  it('that is watch only is on its devices, beside the default group', () => {
    const watched = group(2, { ...labelled('db'), mode: 'observe' });
    const groups = [standard, watched];
    expect(having(watched, devices, groups)).toEqual([1]);
    expect(having(standard, devices, groups)).toEqual([1, 2, 3]);
  });

  it('that is a guardrail does not take the place of the default group', () => {
    const forbid = group(2, { applies_to: [{ all_devices: true }], guardrail: 'forbid' });
    const groups = [standard, forbid];
    expect(having(forbid, devices, groups)).toEqual([1, 2, 3]);
    expect(having(standard, devices, groups)).toEqual([1, 2, 3]);
  });

  it('that the reader may not see still takes the place of the default group', () => {
    const listed = { security_groups: [parseGroupId(idOf(7))] };
    expect(groupsOf(listed, [standard]).groups).toEqual([{ id: idOf(7), by: 'list', group: undefined }]);
  });
});
