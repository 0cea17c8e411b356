/** Proves what the list of devices shows for an address, and in which order. */
import { describe, expect, it } from 'vitest';
import type { Device, DeviceStatus } from '../../api/device.ts';
import type { InForce } from '../../api/enforcement/in-force.ts';
import { device, group, groupId } from '../../client/records.fixture.ts';
import { parseDeviceSearch, selectDevices, sortDevices, type DeviceSearch } from './device-search.ts';

const any = { ip_protocol: 'ipv4', from_port: 0, to_port: 0 } as const;
const defaultGroup = group(1, 1, { group_name: 'default', is_default: true, inbound_rules: [any] });
const ssh = group(2, 1, {
  group_name: 'ssh',
  inbound_rules: [{ ...any, ip_protocol: 'tcp', from_port: 22, to_port: 22 }],
});
const databases = group(3, 1, { group_name: 'databases', applies_to: [{ labels: ['db'] }] });
const groups = [defaultGroup, ssh, databases];
const devices = [
  device(1, 1, { hostname: 'app-1', tunnel_ip: '10.0.0.10', security_groups: [groupId(2)], labels: ['app'] }),
  device(2, 1, { hostname: 'db-1', tunnel_ip: '10.0.0.9', labels: ['db'] }),
  device(3, 1, { hostname: 'lone-1' }),
  device(4, 1, { hostname: 'spare-1' }),
];
const fleet = { devices, groups, groupById: new Map(groups.map((one) => [one.id as string, one])), defaultGroup };
const status = (of: number, in_force: InForce, agent_version?: string, last_seen_at?: string): DeviceStatus => ({
  device_id: device(of, 1).id,
  hostname: '',
  in_force,
  online: true,
  ...(last_seen_at !== undefined && { last_seen_at }),
  ...(agent_version !== undefined && { status: { state: 'applied', agent_version } }),
});
const statuses = new Map(
  [
    status(1, 'yes', '0.10.0', '2026-01-01T00:00:03.000Z'),
    status(2, 'failed', '0.9.0', '2026-01-01T00:00:01.000Z'),
    status(3, 'behind', '0.9.0', '2026-01-01T00:00:02.000Z'),
  ].map((one) => [one.device_id as string, one]),
);
const names = (list: readonly Device[]): readonly string[] => list.map(({ hostname }) => hostname);
const select = (search: DeviceSearch): readonly string[] => names(selectDevices(fleet, statuses, search));

describe('an address', () => {
  it('is read as far as it has a meaning; what looks like a number stays the text it was', () => {
    expect(parseDeviceSearch({ q: 22, state: 'failed', label: 'db', sort: 'state', reverse: true })).toEqual({
      q: '22',
      state: 'failed',
      label: 'db',
      sort: 'state',
      reverse: true,
    });
    const nonsense = {
      q: '',
      state: 'fine',
      sort: 'colour',
      reverse: 'no',
      admits: 'nothing',
      group: { a: 1 },
      user: null,
    };
    expect(parseDeviceSearch(nonsense)).toEqual({});
  });
});

describe('filters', () => {
  it('are each enough to hide a device', () => {
    expect(select({})).toEqual(['app-1', 'db-1', 'lone-1', 'spare-1']);
    expect(select({ q: '0.0.9' })).toEqual(['db-1']);
    expect(select({ state: 'failed' })).toEqual(['db-1']);
    expect(select({ state: 'never_seen' })).toEqual(['spare-1']);
    expect(select({ label: 'app' })).toEqual(['app-1']);
    expect(select({ group: groupId(2) })).toEqual(['app-1']);
    expect(select({ version: '0.9.0' })).toEqual(['db-1', 'lone-1']);
    expect(select({ version: 'unknown' })).toEqual(['spare-1']);
    expect(select({ user: 'somebody else' })).toEqual([]);
    expect(select({ version: '0.9.0', state: 'behind' })).toEqual(['lone-1']);
  });

  it('know whatever is not in force by one word', () => {
    expect(select({ state: 'pending' })).toEqual(['db-1', 'lone-1', 'spare-1']);
  });

  it('find the devices that admit everything: neither a list nor a label closes them', () => {
    expect(select({ admits: 'everything' })).toEqual(['lone-1', 'spare-1']);
    expect(select({ group: defaultGroup.id })).toEqual(['lone-1', 'spare-1']);
    expect(select({ group: databases.id })).toEqual(['db-1']);
  });
});

describe('sorting', () => {
  const sorted = (column: Parameters<typeof sortDevices>[1]['column'], reverse = false): readonly string[] =>
    names(
      sortDevices(devices, {
        column,
        reverse,
        statuses,
        userName: (user) => user,
        groupCount: ({ security_groups = [] }) => security_groups.length,
      }),
    );

  it('by state puts the worst first', () => {
    expect(sorted('state')).toEqual(['db-1', 'lone-1', 'spare-1', 'app-1']);
    expect(sorted('state', true)).toEqual(['app-1', 'spare-1', 'lone-1', 'db-1']);
  });

  it('knows that 9 comes before 10, in addresses and in versions', () => {
    expect(sorted('address')).toEqual(['lone-1', 'spare-1', 'db-1', 'app-1']);
    expect(sorted('version')).toEqual(['db-1', 'lone-1', 'app-1', 'spare-1']);
  });

  it('by the last sight begins with those that were never seen, and equals stay in the order of their names', () => {
    expect(sorted('seen')).toEqual(['spare-1', 'db-1', 'lone-1', 'app-1']);
    expect(sorted('groups', true)).toEqual(['app-1', 'db-1', 'lone-1', 'spare-1']);
  });
});
