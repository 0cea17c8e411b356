/** Proves that walks over the devices of an organization pause often, however many selectors its groups have. */
import { expect, test } from 'vitest';
import { parseGroupId } from '../policy/ids.ts';
import { forbidsOn } from './forbids.ts';
import { devicesBeyond, HeldGroups, holdersByLabel, holdersOf } from './held-groups.ts';
import { openAmong, openedDevices } from './openings.ts';
import { modelGroup } from './organization.fixture.ts';
import { emptyOrganization, overlay, type OrganizationChange } from './organization.ts';
import { deviceChange } from './read-records.ts';

const idOf = (kind: number, n: number): string => `00000000-0000-4000-8${kind}00-${n.toString().padStart(12, '0')}`;
const [groups, selectors, devices, labels] = [60, 64, 300, 600];

/** How often the labels of a selector were asked for. */
let looks = 0;
function group(n: number): OrganizationChange {
  const appliesTo = Array.from({ length: selectors }, (_, i) => ({
    get labels(): string[] {
      looks += 1;
      return [`l${(n * selectors + i) % labels}`, `l${(n * 31 + i * 7 + 1) % labels}`];
    },
  }));
  const id = parseGroupId(idOf(1, n));
  const guardrail = n % 2 === 0 ? { guardrail: 'forbid' as const } : {};
  return {
    kind: 'group',
    id,
    group: modelGroup({ id, name: `g${n}`, inbound: [], outbound: [], appliesTo, ...guardrail }),
  };
}
const labelsOf = (n: number): string[] => Array.from({ length: 32 }, (_, i) => `l${(n + i * 11) % labels}`);
const organization = overlay(emptyOrganization, [
  ...Array.from({ length: groups }, (_, n) => group(n)),
  ...Array.from({ length: devices }, (_, n) => deviceChange({ id: idOf(2, n), labels: labelsOf(n) })),
]);
const first = parseGroupId(idOf(1, 0));
const all = [...organization.devices.values()];
const without = overlay(organization, [{ kind: 'group', id: first, group: undefined }]);

const walks = {
  holdersOf: () => holdersOf(organization, first),
  holdersByLabel: () => holdersByLabel(organization, first, all),
  devicesBeyond: () => devicesBeyond(organization, new HeldGroups(organization), 1),
  forbidsOn: () => forbidsOn(organization, first),
  openedDevices: () => openedDevices(organization, without),
  openAmong: () =>
    openAmong(
      organization,
      all.map(({ list, identity }) => ({ list, labels: identity.labels })),
    ),
};

test.each(Object.entries(walks))(
  'a step of %s looks at few selectors, and all steps together at few of each device',
  (_, walk) => {
    let [most, sum, steps] = [0, 0, 0];
    const walking = walk();
    for (let isDone = false; !isDone; steps += 1) {
      looks = 0;
      isDone = walking.next().done === true;
      most = Math.max(most, looks);
      sum += looks;
    }
    expect(steps).toBeGreaterThanOrEqual(devices);
    // An index of each of two organizations, and one device.
    expect(most).toBeLessThan(6 * groups * selectors);
    expect(sum).toBeLessThan((devices * groups * selectors) / 4);
  },
);
