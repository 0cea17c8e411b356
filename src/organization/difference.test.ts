/** Proves the difference of two organizations: which devices are affected, what each gains and loses, and whom the far ends are. */
import { describe, expect, it } from 'vitest';
import { finished } from '../../test/lib/finished.ts';
import { printRange } from '../policy/address.ts';
import { parseDeviceId, type DeviceId } from '../policy/ids.ts';
import { deviceChange, groupChange } from './read-records.ts';
import { emptyOrganization, overlay, type Organization } from './organization.ts';
import { Comparison, type DeviceTraffic } from './difference.ts';

const idOf = (n: number): DeviceId =>
  parseDeviceId(`00000000-0000-4000-8000-0000000000${n.toString(16).padStart(2, '0')}`);
const groupIdOf = (n: number): string => `00000000-0000-4000-9000-0000000000${n.toString(16).padStart(2, '0')}`;

const tcp = (port: number, more: object): object => ({ ip_protocol: 'tcp', from_port: port, to_port: port, ...more });
const group = (n: number, fields: object) => groupChange({ id: groupIdOf(n), group_name: `group ${n}`, ...fields });
const device = (n: number, fields: object = {}) =>
  deviceChange({ id: idOf(n), hostname: `host-${n}`, tunnel_ip: `10.0.0.${n}/24`, ...fields });

const organization: Organization = overlay(emptyOrganization, [
  group(0, { is_default: true, inbound_rules: [{ ip_protocol: 'ipv4', from_port: 0, to_port: 0 }] }),
  group(1, { inbound_rules: [tcp(5432, { peers: [{ labels: ['app'] }] })], applies_to: [{ labels: ['db'] }] }),
  device(1, { labels: ['db'] }),
  device(2, { labels: ['db'] }),
  device(3, { labels: ['app'] }),
  device(4, { labels: [] }),
]);

const written = (traffic: readonly DeviceTraffic[] = []): string[] =>
  traffic.map(({ direction, protocol, ports = [], v4, v6, far }) =>
    [
      direction,
      protocol,
      ...ports.map(({ from, to }) => `${from}-${to}`),
      ...v4.map((range) => printRange(4, range)),
      ...v6.map((range) => printRange(6, range)),
      '=',
      ...far().devices.map(({ hostname }) => hostname),
      ...(far().others ? ['others'] : []),
    ].join(' '),
  );

const compare = (after: Organization) => {
  const comparison = new Comparison(organization, after);
  return Object.fromEntries(
    comparison.ids.flatMap((id) => {
      const difference = finished(comparison.isAffected(id)) ? finished(comparison.of(id)) : undefined;
      const name = (after.devices.get(id) ?? organization.devices.get(id))?.hostname ?? '';
      return difference === undefined ? [] : [[name, [written(difference.gained), written(difference.lost)]]];
    }),
  );
};

describe('the difference of two organizations', () => {
  it('tells of the devices that rules name when a device gets a label, and of no other device', () => {
    const after = overlay(organization, [device(4, { labels: ['app'] })]);
    expect(compare(after)).toEqual({
      'host-1': [['inbound tcp 5432-5432 10.0.0.4 = host-4'], []],
      'host-2': [['inbound tcp 5432-5432 10.0.0.4 = host-4'], []],
    });
  });

  it('is one object for devices that have the same policy before and after', () => {
    const comparison = new Comparison(organization, overlay(organization, [device(4, { labels: ['app'] })]));
    expect(finished(comparison.of(idOf(1)))).toBe(finished(comparison.of(idOf(2))));
  });

  it('names a deleted device where it was the far end, and tells what it admitted itself', () => {
    const after = overlay(organization, [{ kind: 'device', id: idOf(3), device: undefined }]);
    expect(compare(after)).toEqual({
      'host-1': [[], ['inbound tcp 5432-5432 10.0.0.3 = host-3']],
      'host-2': [[], ['inbound tcp 5432-5432 10.0.0.3 = host-3']],
      'host-3': [
        [],
        [
          'inbound any 0.0.0.0/0 = host-1 host-2 host-3 host-4 others',
          'outbound any 0.0.0.0/0 ::/0 = host-1 host-2 host-3 host-4 others',
        ],
      ],
    });
  });

  it('finds nothing where a group is written otherwise and means the same', () => {
    const rules = [tcp(5432, { peers: [{ labels: ['app'] }] }), tcp(5432, { ip_ranges: ['10.0.0.3'] })];
    const after = overlay(organization, [group(1, { inbound_rules: rules, applies_to: [{ labels: ['db'] }] })]);
    expect(compare(after)).toEqual({});
  });

  it('counts a device as affected by a guardrail that forbids what nothing admits, and shows nothing gained or lost', () => {
    const forbid = { guardrail: 'forbid', applies_to: [{ labels: ['db'] }], inbound_rules: [tcp(23, {})] };
    expect(compare(overlay(organization, [group(2, forbid)]))).toEqual({ 'host-1': [[], []], 'host-2': [[], []] });
  });
});
