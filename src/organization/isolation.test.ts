/** Proves what isolated devices mean for each device: the same as looked at one by one, at the price of their labels. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { finished } from '../../test/lib/finished.ts';
import { device } from '../policy/fleet/fleet.fixture.ts';
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import { parseDeviceId, parseGroupId } from '../policy/ids.ts';
import { policiesOf } from './device-policies.ts';
import { holdersOf } from './held-groups.ts';
import { emptyOrganization, overlay, type OrganizationChange } from './organization.ts';
import { groupChange, loggedChange } from './read-records.ts';
import { policyIsolation } from '../policy/isolation/isolation.ts';
import { Isolations } from '../policy/isolation/isolations.ts';

test('each device has the isolation that it has by itself', () => {
  fc.assert(
    fc.property(fc.array(device, { maxLength: 30 }), (devices) => {
      const isolated = devices.filter((one) => one.isolated !== undefined);
      const all = new Isolations(isolated);
      for (const one of devices) expect(all.of(one)).toEqual(policyIsolation(one, isolated));
    }),
  );
});

test('of 3,000 devices, 20 of them isolated, each isolated one is looked at once for each set of labels', () => {
  let looks = 0;
  const changes = Array.from({ length: 3_000 }, (_, n): OrganizationChange => {
    const id = parseDeviceId(`00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
    const isolation = { allow: [{ labels: ['l1'] }] };
    const plain = { id, labels: [`l${n % 10}`], addresses: [] };
    const isolated = {
      ...plain,
      get isolated() {
        looks += 1;
        return isolation;
      },
    };
    const identity: DeviceIdentity = n < 20 ? isolated : plain;
    return { kind: 'device', id, device: { id, hostname: '', list: [], identity } };
  });
  const organization = overlay(emptyOrganization, changes, { revision: 1 });
  const policies = policiesOf(organization);
  for (const one of organization.devices.values()) policies.ofDevice(one);
  expect(looks).toBeLessThan(2_000);
});

test('an isolation of a later version keeps nobody from asking who has a group; policies are not known, since it may allow less', () => {
  const [device_id, id] = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'];
  const isolated = { since: '2026-01-01T00:00:00Z', by: device_id, reason: 'odd', only_ports: [22] };
  const record = { id: device_id, hostname: 'a', security_groups: [id], isolated };
  const organization = overlay(emptyOrganization, [
    groupChange({ id, group_name: 'g' }),
    loggedChange('device', device_id, JSON.stringify(record)),
  ]);
  const holders = finished(holdersOf(organization, parseGroupId(id)));
  expect(holders.map(({ hostname }) => hostname)).toEqual(['a']);
  expect(() => policiesOf(organization)).toThrow(/only_ports is unknown/);
});
