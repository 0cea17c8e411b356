/** Proves which forbids stand together on the devices that have a group. */
import { expect, test } from 'vitest';
import { parseGroupId } from '../policy/ids.ts';
import { forbidsOn } from './forbids.ts';
import { emptyOrganization, overlay } from './organization.ts';
import { deviceChange, groupChange } from './read-records.ts';

const idOf = (n: number): string => `00000000-0000-4000-8000-${n.toString().padStart(12, '0')}`;
const forbid = (n: number, label: string, more: object = {}) =>
  groupChange({ id: idOf(n), group_name: `f${n}`, guardrail: 'forbid', applies_to: [{ labels: [label] }], ...more });
const device = (n: number, labels: readonly string[], ...groups: readonly number[]) =>
  deviceChange({ id: idOf(100 + n), labels, security_groups: groups.map(idOf) });

function standing(group: number, ...changes: Parameters<typeof overlay>[1] & readonly unknown[]) {
  const steps = forbidsOn(overlay(emptyOrganization, changes), parseGroupId(idOf(group)));
  for (let step = steps.next(); ; step = steps.next())
    if (step.done === true)
      return step.value.map(({ guardrails, devices }) => [devices, ...guardrails.map(({ name }) => name)]);
}

const listed = groupChange({ id: idOf(1), group_name: 'listed' });

test('each set is told once with its devices, the most common first', () => {
  expect(
    standing(
      1,
      listed,
      forbid(2, 'app'),
      forbid(3, 'db'),
      device(1, ['app'], 1),
      device(2, ['app', 'db'], 1),
      device(3, ['db', 'app'], 1),
      device(4, ['app', 'db']),
      device(5, [], 1),
    ),
  ).toEqual([
    [2, 'f2', 'f3'],
    [1, 'f2'],
  ]);
});

test('a device that has the group by label counts, too', () => {
  const byLabel = groupChange({ id: idOf(1), group_name: 'by label', applies_to: [{ labels: ['app'] }] });
  expect(standing(1, byLabel, forbid(2, 'app'), device(1, ['app']), device(2, ['db']))).toEqual([[1, 'f2']]);
});

test('where no device has the group, those count that stand on all devices', () => {
  const everywhere = forbid(2, '', { applies_to: [{ all_devices: true }] });
  expect(standing(1, listed, everywhere, forbid(3, 'app'), device(1, ['app']))).toEqual([[0, 'f2']]);
});

test('guardrails that are watch only, or that require, forbid nothing', () => {
  expect(
    standing(
      1,
      listed,
      forbid(2, 'app', { mode: 'observe' }),
      forbid(3, 'app', { guardrail: 'require' }),
      device(1, ['app'], 1),
    ),
  ).toEqual([]);
});
