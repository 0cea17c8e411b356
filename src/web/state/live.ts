/** Owns the live picture of one organization: its devices and groups as the change stream tells them, for React to read. */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { WatchKind } from '../../api/kinds.ts';
import type { Change } from '../../client/cache.ts';
import { RingfenceError } from '../../client/error.ts';
import type { Client } from '../../client/http.ts';
import { createInformer, type Informer } from '../../client/informer.ts';
import { initialState, type ConnectionState } from '../../client/state.ts';

export interface FeedEntry {
  readonly number: number;
  readonly at: number;
  readonly change: Change;
}

export interface Picture {
  /** Sorted by name. */
  readonly devices: readonly Device[];
  /** Sorted: the default group first, then by name. */
  readonly groups: readonly SecurityGroup[];
  readonly deviceById: ReadonlyMap<string, Device>;
  readonly groupById: ReadonlyMap<string, SecurityGroup>;
  readonly defaultGroup: SecurityGroup | undefined;
  /** Whether everything has been seen once. */
  readonly synced: boolean;
  /** Records seen so far, for whoever waits. */
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

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
export const byText = (a: string, b: string): number => collator.compare(a, b);
export const deviceName = (device: Device): string =>
  device.hostname !== ''
    ? device.hostname
    : device.tunnel_ip !== ''
      ? device.tunnel_ip
      : device.public_key.slice(0, 12);

const emptyPicture: Picture = {
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

export class LiveOrganization {
  readonly id: string;
  readonly #informer: Informer;
  readonly #listeners = new Set<() => void>();
  #picture: Picture = emptyPicture;
  #stop: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #changed = new Set<WatchKind>();
  #events: FeedEntry[] = [];
  #count = 0;

  constructor(client: Client, organization: string) {
    this.id = organization;
    this.#informer = createInformer({
      client,
      organization,
      kinds: ['device', 'security-groups'],
      backoff: { longest: 10_000 },
    });
    this.#informer.onChange((changes) => this.#take(changes));
    this.#informer.onState((connection) => this.#publish({ connection }));
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly read = (): Picture => this.#picture;

  /** Follows until the answer is called. */
  start(): () => void {
    const stop = new AbortController();
    this.#stop = stop;
    const online = (): void => this.#informer.retryNow();
    window.addEventListener('online', online, { signal: stop.signal });
    this.#publish({ failure: undefined });
    this.#informer.run({ signal: stop.signal }).catch((error: unknown) => {
      if (!stop.signal.aborted) this.#publish({ failure: asFailure(error) });
    });
    void this.#informer.whenSynced({ signal: stop.signal }).then(
      () => this.#refresh(true),
      () => undefined,
    );
    return () => {
      this.#stop?.abort();
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  retryNow(): void {
    if (this.#picture.failure !== undefined) {
      this.#stop?.abort();
      this.start();
    } else this.#informer.retryNow();
  }

  #take(changes: readonly Change[]): void {
    for (const change of changes) this.#changed.add(change.kind);
    // What the first listing brings is no news.
    if (this.#picture.synced) {
      const at = Date.now();
      for (const change of changes) this.#events.unshift({ number: (this.#count += 1), at, change });
      this.#events.length = Math.min(this.#events.length, keptEvents);
      this.#refresh(false);
    } else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        if (!this.#picture.synced) this.#publish({ loaded: this.#size() });
      }, listingPause);
    }
  }

  #size(): number {
    return this.#informer.view('device').size + this.#informer.view('security-groups').size;
  }

  #refresh(everything: boolean): void {
    const next: { -readonly [K in keyof Picture]?: Picture[K] } = { synced: true, feed: [...this.#events] };
    if (everything || this.#changed.has('device')) {
      const named = [...this.#informer.view('device')].map((device) => ({ device, name: deviceName(device) }));
      next.devices = named.toSorted((a, b) => byText(a.name, b.name)).map(({ device }) => device);
      next.deviceById = new Map(next.devices.map((device) => [device.id, device]));
    }
    if (everything || this.#changed.has('security-groups')) {
      next.groups = [...this.#informer.view('security-groups')].toSorted(
        (a, b) => Number(b.is_default ?? false) - Number(a.is_default ?? false) || byText(a.group_name, b.group_name),
      );
      next.groupById = new Map(next.groups.map((group) => [group.id, group]));
      next.defaultGroup = next.groups.find((group) => group.is_default);
    }
    this.#changed.clear();
    this.#publish({ ...next, loaded: this.#size() });
  }

  #publish(change: Partial<Picture>): void {
    this.#picture = { ...this.#picture, ...change };
    for (const listener of this.#listeners) listener();
  }
}

const asFailure = (error: unknown): RingfenceError =>
  error instanceof RingfenceError
    ? error
    : new RingfenceError({ code: 'bad_answer', message: 'The page could not follow the organization.', cause: error });
