/** Owns which devices the list shows and in which order: filters and sorting from the URL. */
import { anyText, readSearch } from '../state/search.ts';
import type { Device, DeviceStatus } from '../../api/device.ts';
import { inForceWords, mostUrgentFirst, type InForce } from '../../api/enforcement/in-force.ts';
import { groupsOf } from '../../organization/of-records.ts';
import { idsIn } from '../../policy/effective.ts';
import { deviceName, type Snapshot } from '../state/organization.ts';
import { sortKey } from '../state/order.ts';
import { stateOf } from './device-state.ts';
import { openDevices } from './device-policy.ts';

const deviceColumns = ['name', 'state', 'address', 'labels', 'groups', 'user', 'version', 'seen'] as const;
export type DeviceColumn = (typeof deviceColumns)[number];

/** A word for whether the policy is in force, or `pending`: whatever is not. */
type StateFilter = InForce | 'pending';

/** The part of the address behind the question mark. What is absent does not narrow. */
export interface DeviceSearch {
  readonly q?: string;
  readonly state?: StateFilter;
  readonly label?: string;
  readonly group?: string;
  readonly user?: string;
  readonly version?: string;
  readonly admits?: 'everything';
  /** By name unless given. */
  readonly sort?: DeviceColumn;
  readonly reverse?: true;
}

const isStateFilter = (text: string): text is StateFilter =>
  text === 'pending' || inForceWords.some((word) => word === text);
const isColumn = (text: string): text is DeviceColumn => deviceColumns.some((column) => column === text);

export const parseDeviceSearch = (search: Readonly<Record<string, unknown>>): DeviceSearch =>
  ({
    ...readSearch(search, {
      q: anyText,
      state: isStateFilter,
      label: anyText,
      group: anyText,
      user: anyText,
      version: anyText,
      admits: (text) => text === 'everything',
      sort: isColumn,
    }),
    ...(String(search['reverse']) === 'true' && { reverse: true }),
  }) as DeviceSearch;

type Statuses = ReadonlyMap<string, DeviceStatus>;

/** Used where an agent reported no version. */
const unknownVersion = 'unknown';
export const versionOf = (status: DeviceStatus | undefined): string => status?.status?.agent_version ?? unknownVersion;

const hasText = (device: Device, text: string): boolean =>
  [device.hostname, device.tunnel_ip, device.local_ip, device.public_key, device.id].some((value) =>
    value.toLowerCase().includes(text),
  ) || [...(device.labels ?? []), ...(device.addresses ?? [])].some((value) => value.includes(text));

type Fleet = Pick<Snapshot, 'devices' | 'groups'>;

/** The devices that every filter lets through, in the order given. */
export function selectDevices(fleet: Fleet, statuses: Statuses, search: DeviceSearch): readonly Device[] {
  const { q = '', state, label, group, user, version, admits } = search;
  const text = q.trim().toLowerCase();
  const isIn = (word: InForce): boolean => (state === 'pending' ? word !== 'yes' : word === state);
  return (admits === undefined ? fleet.devices : openDevices(fleet)).filter(
    (device) =>
      (text === '' || hasText(device, text)) &&
      (user === undefined || device.user_id === user) &&
      (label === undefined || device.labels?.includes(label) === true) &&
      (group === undefined || idsIn(groupsOf(device, fleet.groups)).some((id) => id === group)) &&
      (state === undefined || isIn(stateOf(statuses.get(device.id)))) &&
      (version === undefined || versionOf(statuses.get(device.id)) === version),
  );
}

interface SortBy {
  readonly column: DeviceColumn;
  readonly reverse: boolean;
  readonly statuses: Statuses;
  readonly userName: (user: string) => string;
  /** How many groups a device has. */
  readonly groupCount: (device: Device) => number;
}

/** Devices that come sorted by name; those that are equal in the column stay so. */
export function sortDevices(devices: readonly Device[], by: SortBy): readonly Device[] {
  const { column, reverse, statuses, userName, groupCount } = by;
  const urgency = new Map(mostUrgentFirst.map((word, place) => [word, place]));
  const keys: { readonly [C in DeviceColumn]: (device: Device) => string | number } = {
    name: (device) => sortKey(deviceName(device)),
    state: ({ id }) => urgency.get(stateOf(statuses.get(id))) ?? 0,
    address: ({ tunnel_ip }) => sortKey(tunnel_ip),
    labels: ({ labels = [] }) => labels.join(),
    groups: groupCount,
    user: ({ user_id }) => sortKey(userName(user_id)),
    version: ({ id }) => sortKey(versionOf(statuses.get(id))),
    seen: ({ id }) => statuses.get(id)?.last_seen_at ?? '',
  };
  if (column === 'name') return reverse ? devices.toReversed() : devices;
  const sign = reverse ? -1 : 1;
  return devices
    .map((device) => ({ device, key: keys[column](device) }))
    .toSorted((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0))
    .map(({ device }) => device);
}
