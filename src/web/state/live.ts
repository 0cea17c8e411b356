/** Owns the live snapshot of one organization: its devices and groups from the change stream, for React to read. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { WatchKind } from '../../api/kinds.ts';
import type { Change } from '../../client/cache.ts';
import type { RingfenceError } from '../../client/error.ts';
import { initialState, type ConnectionState } from '../../client/state.ts';
import { PageCopy } from '../stream/page-copy.ts';
import { Ordered, sortKey } from './order.ts';

export interface FeedEntry {
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
