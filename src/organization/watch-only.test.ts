/** Proves that a watch-only group decides nothing: every device has exactly the policy that it would have without the group (reference 1.6). */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalize } from '../policy/canonicalize.ts';
import { decide } from '../policy/decide.ts';
import { policyDigest } from '../policy/digest/digest.ts';
import { device, deviceIds, guardedPolicy, packetOfFleet, peer } from '../policy/fleet/fleet.fixture.ts';
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import { parseDeviceId, parseGroupId, type GroupId } from '../policy/ids.ts';
import type { GroupMode, PolicyGroup } from '../policy/rule.ts';
import { policiesOf, type DevicePolicy } from './device-policies.ts';
import { emptyOrganization, overlay, type Organization, type OrganizationChange } from './organization.ts';
import { modelGroup } from './organization.fixture.ts';

const modes = fc.array(fc.constantFrom<GroupMode>('enforce', 'observe'), { minLength: 8, maxLength: 8 });

/** Groups by list, by label and guardrails, each of them watch only or not. */
const groups = fc
  .tuple(guardedPolicy, modes, fc.array(peer, { minLength: 12, maxLength: 12 }))
  .map(([policy, modeOf, peers]) => {
    const selectors = peers.flatMap((each) => ('device_id' in each ? [] : [each]));
    const { forbid = [], require = [] } = policy.guardrails ?? {};
    const all: readonly PolicyGroup[] = [
      ...policy.groups.map((group, i) => (i % 2 === 0 ? group : { ...group, appliesTo: selectors.slice(0, 2) })),
      ...forbid.map((group) => ({ ...group, guardrail: 'forbid' as const, appliesTo: selectors.slice(2, 4) })),
      ...require.map((group) => ({ ...group, guardrail: 'require' as const, appliesTo: selectors.slice(4, 6) })),
    ];
    return all.map((group, i): PolicyGroup => ({ ...group, mode: modeOf[i] ?? 'enforce' }));
  });

const defaultGroup: PolicyGroup = {
  id: parseGroupId('00000000-0000-4000-8000-0000000000ee'),
  name: 'default',
  inbound: [{ ip_protocol: 'tcp', from_port: 7, to_port: 7 }],
  outbound: [],
};

function snapshotOf(some: readonly PolicyGroup[], devices: readonly DeviceIdentity[]): Organization {
  const listed: readonly GroupId[] = some.flatMap(({ id, appliesTo }) => (appliesTo === undefined ? [id] : []));
  const known = [defaultGroup, ...some].map((group): OrganizationChange => ({
    kind: 'group',
    id: group.id,
    group: modelGroup(group, group === defaultGroup),
  }));
  const made = devices.map((identity): OrganizationChange => {
    const id = parseDeviceId(identity.id);
    return { kind: 'device', id, device: { id, hostname: '', list: listed, identity } };
  });
  return overlay(emptyOrganization, [...known, ...made]);
}

const digestOf = (policy: DevicePolicy | undefined): string =>
  policy === undefined || 'missing' in policy ? 'unknown' : policyDigest(canonicalize(policy));

describe('a watch-only group', () => {
  it('changes neither the verdict on any packet nor the digest of any device, by list, by label and as a guardrail', () => {
    let changed = 0;
    fc.assert(
      fc.property(groups, fc.array(device, { minLength: 3, maxLength: 8 }), packetOfFleet, (made, devices, packet) => {
        const observing = snapshotOf(made, devices);
        const without = snapshotOf(
          made.filter(({ mode }) => mode === 'enforce'),
          devices,
        );
        const enforcing = snapshotOf(
          made.map((group) => ({ ...group, mode: 'enforce' as const })),
          devices,
        );
        for (const text of deviceIds) {
          const id = parseDeviceId(text);
          const [one, other] = [policiesOf(observing).of(id), policiesOf(without).of(id)];
          expect(digestOf(one)).toBe(digestOf(other));
          if (digestOf(one) !== digestOf(policiesOf(enforcing).of(id))) changed += 1;
          if (one === undefined || other === undefined || 'missing' in one || 'missing' in other) continue;
          expect(decide(one, packet)).toEqual(decide(other, packet));
        }
      }),
      { numRuns: 40 },
    );
    // The same groups, if they enforced, would have changed many policies.
    expect(changed).toBeGreaterThan(20);
  });

  it('leaves a device that has no other group with the default group', () => {
    const watched: PolicyGroup = { ...defaultGroup, id: parseGroupId(deviceIds[0]), mode: 'observe', inbound: [] };
    const organization = snapshotOf([watched], [{ id: deviceIds[0] ?? '', labels: [], addresses: [] }]);
    expect(policiesOf(organization).of(parseDeviceId(deviceIds[0]))).toMatchObject({
      source: 'default',
      groups: [{ name: 'default' }],
    });
  });
});
