/** Proves the model: what is laid over one is what one made anew would say, and the one below stays as it is. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { effectivePolicy } from '../policy/effective.ts';
import { Fleet } from '../policy/fleet/fleet.ts';
import { device, deviceIds, guardedPolicy, peer } from '../policy/fleet/fleet.fixture.ts';
import type { DeviceIdentity } from '../policy/fleet/identity.ts';
import { resolvePolicy } from '../policy/fleet/resolve.ts';
import { parseDeviceId, type DeviceId, type GroupId } from '../policy/ids.ts';
import type { PolicyGroup } from '../policy/rule.ts';
import { policiesOf } from './device-policies.ts';
import { LayeredMap } from './layered-map.ts';
import { emptyOrganization, overlay, type Organization, type OrganizationChange } from './organization.ts';
import { modelGroup } from './organization.fixture.ts';

/** Groups by list, by label, guardrails, and a default group. */
const groups = fc.tuple(guardedPolicy, fc.array(peer, { minLength: 12, maxLength: 12 })).map(([policy, peers]) => {
  const selectors = peers.flatMap((each) => ('device_id' in each ? [] : [each]));
  const applied = (group: PolicyGroup, i: number, guardrail: 'forbid' | 'require' | undefined): PolicyGroup => ({
    ...group,
    appliesTo: selectors.slice(i, i + 2),
    ...(guardrail && { guardrail }),
  });
  return [
    ...policy.groups.map((group, i) => (i % 2 === 0 ? group : applied(group, i, undefined))),
    ...(policy.guardrails?.forbid ?? []).map((group, i) => applied(group, i + 3, 'forbid')),
    ...(policy.guardrails?.require ?? []).map((group, i) => applied(group, i + 5, 'require')),
  ];
});

const deviceChange = (identity: DeviceIdentity, list: readonly GroupId[]): OrganizationChange => {
  const id = parseDeviceId(identity.id);
  return { kind: 'device', id, device: { id, hostname: `host ${id.slice(-2)}`, list, identity } };
};

const changes = fc
  .tuple(groups, fc.array(fc.tuple(device, fc.boolean(), fc.boolean()), { maxLength: 30 }))
  .map(([made, devices]): OrganizationChange[] => {
    const [first] = made;
    return [
      ...made.map((group, i): OrganizationChange => ({
        kind: 'group',
        id: group.id,
        group: modelGroup(group, i === made.length - 1 && group.appliesTo === undefined),
      })),
      ...devices.map(([identity, lists, gone]): OrganizationChange =>
        gone
          ? { kind: 'device', id: parseDeviceId(identity.id), device: undefined }
          : deviceChange(identity, lists && first !== undefined && first.appliesTo === undefined ? [first.id] : []),
      ),
    ];
  });

/** The policy by the long way: no index and no cache. */
function policyAnew(organization: Organization, id: DeviceId) {
  const found = organization.devices.get(id);
  if (found === undefined) return undefined;
  const all = [...organization.groups.values()].map(({ group }) => group);
  const policy = effectivePolicy({
    list: found.list,
    labels: found.identity.labels,
    find: (group) => all.find((each) => each.id === group),
    defaultGroup: all.find((each) => each.id === organization.defaultGroup),
    byLabel: all,
  });
  const fleet = new Fleet([...organization.devices.values()].map(({ identity }) => identity));
  return 'missing' in policy ? policy : resolvePolicy(policy, fleet);
}

/** Members are written out when they are looked at. */
const plain = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, each: unknown) => {
      if (key === 'members') {
        const { v4, v6 } = each as { v4: unknown; v6: unknown };
        return { v4, v6 };
      }
      return typeof each === 'bigint' ? `${each}` : each;
    }) ?? 'null',
  );

const policiesIn = (organization: Organization): unknown =>
  plain(deviceIds.map((id) => policiesOf(organization).of(parseDeviceId(id)) ?? null));
const policiesAnew = (organization: Organization): unknown =>
  plain(deviceIds.map((id) => policyAnew(organization, parseDeviceId(id)) ?? null));

describe('a policy organization', () => {
  it('gives each device the policy that follows from its groups and peers, also with changes laid over it', () => {
    fc.assert(
      fc.property(changes, changes, changes, (first, second, third) => {
        const before = overlay(emptyOrganization, first, { revision: 1 });
        const old = policiesIn(before);
        const after = overlay(overlay(before, second), third);
        expect(old).toEqual(policiesAnew(before));
        expect(policiesIn(after)).toEqual(policiesAnew(after));
        expect(policiesIn(before)).toEqual(old);
      }),
      { numRuns: 60 },
    );
  });

  it('gives one object to devices that have the same groups, and to organizations in which nothing about them changed', () => {
    const rule = { ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['web'] }] } as const;
    const id = '00000000-0000-4000-8000-000000000001' as GroupId;
    const group: PolicyGroup = { id, name: 'ssh', inbound: [rule], outbound: [] };
    const at = (n: number, labels: readonly string[]): OrganizationChange =>
      deviceChange({ id: deviceIds[n] ?? '', labels, addresses: [{ family: 4, value: BigInt(n) }] }, [id]);
    const before = overlay(emptyOrganization, [
      { kind: 'group', id, group: modelGroup(group) },
      at(0, ['db']),
      at(1, ['ci']),
    ]);
    const [one, other] = [0, 1].map((n) => policiesOf(before).of(parseDeviceId(deviceIds[n])));
    expect(one).toBe(other);
    const groupOf = (organization: Organization): PolicyGroup | undefined => {
      const policy = policiesOf(organization).of(parseDeviceId(deviceIds[0]));
      return policy === undefined || 'missing' in policy ? undefined : policy.groups[0];
    };
    expect(groupOf(overlay(before, [at(2, ['eu'])]))).toBe(groupOf(before));
    expect(groupOf(overlay(before, [at(2, ['web'])]))).not.toBe(groupOf(before));
  });

  it('names the devices of an address set, and tells whether it holds other addresses', () => {
    const at = (n: number, value: bigint): OrganizationChange =>
      deviceChange({ id: deviceIds[n] ?? '', labels: [], addresses: [{ family: 4, value }] }, []);
    const below = overlay(emptyOrganization, [at(0, 5n), at(1, 7n), at(2, 9n)]);
    const written = { ...below, devices: new LayeredMap(new Map(below.devices.entries())) };
    const after = overlay(written, [
      at(1, 100n),
      { kind: 'device', id: parseDeviceId(deviceIds[2]), device: undefined },
    ]);
    const name = (organization: Organization, ...values: bigint[]): [string[], boolean] => {
      const v4 = values.map((value) => ({ first: value, last: value }));
      const { devices, others } = policiesOf(organization).fleet.nameSet({ v4, v6: [] });
      return [devices.map(({ id }) => id), others];
    };
    expect(name(written, 5n, 7n)).toEqual([[deviceIds[0], deviceIds[1]], false]);
    expect(name(after, 5n, 7n, 9n)).toEqual([[deviceIds[0]], true]);
    expect(name(after, 100n)).toEqual([[deviceIds[1]], false]);
  });
});
