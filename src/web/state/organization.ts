/** Owns what a page knows of its organization: the live snapshot of devices and groups, lookups over it, the record, the members, and the user's rights. */
import { useQuery, type UseQueryResult } from '@tanstack/react-query';
import { createContext, use, useMemo, useSyncExternalStore } from 'react';
import type { Device, DeviceStatus } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Member, MemberRole, Organization } from '../../api/organization.ts';
import type { WhoAmI } from '../../api/user.ts';
import { useSession } from './session.ts';
import type { WatchKind } from '../../api/kinds.ts';
import type { Change } from '../../client/cache.ts';
import type { RingfenceError } from '../../client/error.ts';
import { initialState, type ConnectionState } from '../../client/state.ts';
import { PageCopy } from '../stream/page-copy.ts';
import { Ordered, sortKey } from './order.ts';
import { printAddress } from '../../policy/address.ts';
import { devicesNamed, organizationOf } from '../../organization/of-records.ts';
import type { Organization as OrganizationModel } from '../../organization/organization.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { deviceNames, type DeviceNames } from '../model/far-end.ts';
import { peerKey } from '../../policy/fleet/selector.ts';
import type { Selector } from '../../policy/rule.ts';

export const LiveContext = createContext<LiveOrganization | undefined>(undefined);

export function useLive(): LiveOrganization {
  const live = use(LiveContext);
  if (live === undefined) throw new Error('no organization');
  return live;
}

/** An organization as it was; undefined for the present. */
export interface PastOrganization {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly snapshot: Snapshot;
}

/** What is below it shows the organization as it was. */
export const PastContext = createContext<PastOrganization | undefined>(undefined);
export const usePast = (): PastOrganization | undefined => use(PastContext);

export function useSnapshot(): Snapshot {
  const live = useLive();
  const past = usePast();
  const present = useSyncExternalStore(live.subscribe, live.read);
  return past?.snapshot ?? present;
}

export function useOrganizations(): UseQueryResult<readonly Organization[]> {
  const { client } = useSession();
  return useQuery({
    queryKey: ['organizations'],
    queryFn: ({ signal }) => client.organizations.list({ signal }),
  });
}

/** The record of this organization; undefined until it is loaded. */
export function useOrganization(): Organization | undefined {
  const { id } = useLive();
  return useOrganizations().data?.find((one) => one.id === id);
}

export function useMembers(): UseQueryResult<readonly Member[]> {
  const { client } = useSession();
  const { id } = useLive();
  return useQuery({ queryKey: ['members', id], queryFn: ({ signal }) => client.members.list(id, { signal }) });
}

/** A small fleet is asked more often: whether a change is in force is what people wait for. */
const statusesEvery = (devices: number): number => (devices <= 200 ? 3_000 : 15_000);

/** What agents last said, by device. It makes no events, so it is asked for now and then. */
export function useStatuses(): ReadonlyMap<string, DeviceStatus> {
  const { client } = useSession();
  const live = useLive();
  const { id } = live;
  const { data } = useQuery({
    queryKey: ['statuses', id],
    queryFn: ({ signal }) => client.statuses.list(id, { signal }),
    select: byDevice,
    refetchInterval: () => statusesEvery(live.read().devices.length),
    // Comparing ten thousand answers with the last ones costs more than it saves.
    structuralSharing: false,
  });
  // Nobody keeps what agents said in the past.
  return usePast() === undefined ? (data ?? none) : none;
}
const none: ReadonlyMap<string, DeviceStatus> = new Map();
const byDevice = (statuses: readonly DeviceStatus[]): ReadonlyMap<string, DeviceStatus> =>
  new Map(statuses.map((status) => [status.device_id, status]));

export interface Rights {
  readonly me: WhoAmI;
  /** Owns the organization; with a read-only credential nothing may be changed all the same. */
  readonly isOwner: boolean;
  readonly mayWrite: boolean;
  /** May change what is the organization's. */
  readonly governs: boolean;
  readonly editGroup: (group: SecurityGroup) => boolean;
  readonly editDevice: (device: Device) => boolean;
  /** Whether the group may stand in the device's list at all. */
  readonly attachable: (group: SecurityGroup, device: Device) => boolean;
}

const rightsOf = (me: WhoAmI, role: MemberRole | undefined): Rights => {
  const isOwner = role === 'owner';
  const mayWrite = me.scope !== 'read-only';
  return {
    me,
    isOwner,
    mayWrite,
    governs: isOwner && mayWrite,
    editGroup: (group) => mayWrite && (group.user_id === undefined ? isOwner : group.user_id === me.id),
    editDevice: (device) => mayWrite && (isOwner || device.user_id === me.id),
    attachable: (group, device) =>
      group.is_default !== true &&
      group.guardrail === undefined &&
      (group.user_id === undefined || group.user_id === device.user_id),
  };
};

/** The role of the user in the organization. `isKnown`: the server has said it, or could not say it; then nothing is offered. */
interface OwnRole {
  readonly role: MemberRole | undefined;
  readonly isKnown: boolean;
}

/** One question for all parts of a page, from when `isAsked` on. */
export function useOwnRole(organization: string, isAsked: boolean): OwnRole {
  const { me, client } = useSession();
  const { data, isPending } = useQuery({
    queryKey: ['members', organization, me.id],
    queryFn: ({ signal }) => client.members.get(organization, me.id, { signal }),
    enabled: isAsked,
  });
  const role = data?.role;
  return useMemo(() => ({ role, isKnown: !isPending }), [role, isPending]);
}

export const RoleContext = createContext<OwnRole>({ role: undefined, isKnown: false });

/** What is not allowed is not offered; the server decides all the same. */
export function useRights(): Rights {
  const { me } = useSession();
  const { role } = use(RoleContext);
  return useMemo(() => rightsOf(me, role), [me, role]);
}

export function useNames(): (userId: string) => string {
  const { data } = useMembers();
  const { me } = useSession();
  const names = new Map<string, string>(data?.map(({ user_id, username }) => [user_id, username]));
  return (userId) => (userId === me.id ? `${me.username} (you)` : (names.get(userId) ?? 'someone'));
}

interface FeedEntry {
  readonly number: number;
  readonly at: number;
  readonly change: Change;
}

export interface Snapshot {
  /** Sorted by name. */
  readonly devices: readonly Device[];
  /** Sorted: the default group first, then by name. */
  readonly groups: readonly SecurityGroup[];
  readonly deviceById: ReadonlyMap<string, Device>;
  readonly groupById: ReadonlyMap<string, SecurityGroup>;
  readonly defaultGroup: SecurityGroup | undefined;
  /** Whether everything has been seen once. */
  readonly synced: boolean;
  /** Records loaded so far, for the loading indicator. */
  readonly loaded: number;
  readonly connection: ConnectionState;
  /** Newest first. */
  readonly feed: readonly FeedEntry[];
  /** Why following ended for good. */
  readonly failure: RingfenceError | undefined;
}

const keptEvents = 500;
/** While a large listing arrives, the page counts along; it need not do so for every chunk. */
const listingPause = 120;

export const deviceName = (device: Device): string =>
  device.hostname !== ''
    ? device.hostname
    : device.tunnel_ip !== ''
      ? device.tunnel_ip
      : device.public_key.slice(0, 12);

const emptyPicture: Snapshot = {
  devices: [],
  groups: [],
  deviceById: new Map(),
  groupById: new Map(),
  defaultGroup: undefined,
  synced: false,
  loaded: 0,
  connection: initialState(0),
  feed: [],
  failure: undefined,
};

const orderedDevices = (): Ordered<Device> => new Ordered<Device>((device) => sortKey(deviceName(device)));
const orderedGroups = (): Ordered<SecurityGroup> =>
  new Ordered<SecurityGroup>(
    ({ is_default, group_name }) => `${is_default === true ? '0' : '1'}${sortKey(group_name)}`,
  );

const devicesIn = (devices: readonly Device[]): Pick<Snapshot, 'devices' | 'deviceById'> => ({
  devices,
  deviceById: new Map(devices.map((device) => [device.id, device])),
});
const groupsIn = (groups: readonly SecurityGroup[]): Pick<Snapshot, 'groups' | 'groupById' | 'defaultGroup'> => ({
  groups,
  groupById: new Map(groups.map((group) => [group.id, group])),
  defaultGroup: groups.find((group) => group.is_default),
});

/** A snapshot that nothing changes: an organization as it was. */
export function snapshotOf(devices: readonly Device[], groups: readonly SecurityGroup[]): Snapshot {
  const [sortedDevices, sortedGroups] = [orderedDevices(), orderedGroups()];
  sortedDevices.replaceAll(devices);
  sortedGroups.replaceAll(groups);
  return {
    ...emptyPicture,
    ...devicesIn(sortedDevices.list),
    ...groupsIn(sortedGroups.list),
    synced: true,
    loaded: devices.length + groups.length,
  };
}

export class LiveOrganization {
  readonly id: string;
  readonly #copy: PageCopy;
  readonly #listeners = new Set<() => void>();
  #snapshot: Snapshot = emptyPicture;
  readonly #devices = orderedDevices();
  readonly #groups = orderedGroups();
  #stop: (() => void) | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Whether the first listing is sorted. From then on changes are inserted one by one. */
  #ordered = false;
  #events: FeedEntry[] = [];
  #count = 0;

  constructor(organization: string, user: string, token: () => string | undefined) {
    this.id = organization;
    this.#copy = new PageCopy({
      subject: () => ({ organization, user, token: token() }),
      onChanges: (changes) => this.#take(changes),
      onConnection: (connection) => this.#publish({ connection }),
      onSynced: () => this.#arrange(),
      onFailure: (failure) => this.#publish({ failure }),
    });
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly read = (): Snapshot => this.#snapshot;

  /** Follows while the page is shown, until the answer is called. */
  start(): () => void {
    this.#publish({ failure: undefined });
    this.#stop = this.#copy.start();
    return () => {
      this.#stop?.();
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  retryNow(): void {
    if (this.#snapshot.failure !== undefined) {
      this.#stop?.();
      this.start();
    } else this.#copy.retryNow();
  }

  /** The first listing is whole: it is sorted in one task and shown in the next, so that neither holds the page for long. */
  #arrange(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#devices.replaceAll(this.#copy.view('device').values());
      this.#groups.replaceAll(this.#copy.view('security-groups').values());
      this.#ordered = true;
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.#refresh(new Set(['device', 'security-groups']));
      });
    });
  }

  #take(changes: readonly Change[]): void {
    // What the first listing brings is no news.
    if (!this.#ordered) {
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.#publish({ loaded: this.#size() });
      }, listingPause);
      return;
    }
    const devices = changes.filter(({ kind }) => kind === 'device');
    const groups = changes.filter(({ kind }) => kind === 'security-groups');
    if (devices.length > 0) this.#devices.apply(devices, this.#copy.view('device'));
    if (groups.length > 0) this.#groups.apply(groups, this.#copy.view('security-groups'));
    const at = Date.now();
    for (const change of changes) this.#events.unshift({ number: (this.#count += 1), at, change });
    this.#events.length = Math.min(this.#events.length, keptEvents);
    if (this.#snapshot.synced) this.#refresh(new Set(changes.map(({ kind }) => kind)));
  }

  #size(): number {
    return this.#copy.view('device').size + this.#copy.view('security-groups').size;
  }

  #refresh(kinds: ReadonlySet<WatchKind>): void {
    this.#publish({
      synced: true,
      feed: [...this.#events],
      ...(kinds.has('device') && devicesIn(this.#devices.list)),
      ...(kinds.has('security-groups') && groupsIn(this.#groups.list)),
      loaded: this.#size(),
    });
  }

  #publish(change: Partial<Snapshot>): void {
    this.#snapshot = { ...this.#snapshot, ...change };
    for (const listener of this.#listeners) listener();
  }
}

/** One computation for all that show the same devices. */
function remembered<T>(make: (devices: readonly Device[]) => T): (devices: readonly Device[]) => T {
  const known = new WeakMap<readonly Device[], { readonly value: T }>();
  return (devices) => {
    const found = known.get(devices) ?? { value: make(devices) };
    known.set(devices, found);
    return found.value;
  };
}

const namesOf = remembered(deviceNames);

const ownersOf = remembered((devices): ReadonlyMap<string, string> => {
  const owners = new Map<string, string>();
  for (const device of devices) {
    for (const { family, value } of deviceIdentity(device).addresses) {
      const address = printAddress(family, value);
      const other = owners.get(address);
      owners.set(address, other === undefined ? deviceName(device) : `${other}, ${deviceName(device)}`);
    }
  }
  return owners;
});

export function useDeviceNames(): DeviceNames {
  const { devices } = useSnapshot();
  return useMemo(() => namesOf(devices), [devices]);
}

/** The organization as the reader sees it. */
export function useModel(): OrganizationModel {
  const { devices, groups } = useSnapshot();
  return useMemo(() => organizationOf(devices, groups), [devices, groups]);
}

/** The names of the devices that have each address, for addresses that stand in rules. */
export function useAddressOwners(): ReadonlyMap<string, string> {
  const { devices } = useSnapshot();
  return useMemo(() => ownersOf(devices), [devices]);
}

/** How many devices each selector means, counted once for a state of the fleet. */
const countsOf = remembered((devices) => {
  const known = new Map<string, number>();
  return (selector: Selector): number => {
    const key = peerKey(selector);
    const count = known.get(key) ?? devicesNamed([selector], devices).length;
    known.set(key, count);
    return count;
  };
});

export function usePeerCounts(): (selector: Selector) => number {
  const { devices } = useSnapshot();
  return countsOf(devices);
}
