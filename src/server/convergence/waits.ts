/**
 * Owns the requests that wait until a revision is in force on every device. All of an organization's waits share one
 * look at its devices.
 */
import { StoreError } from '../problems.ts';
import type { DeviceId } from '../../policy/ids.ts';
import type { EnforcedRevisions } from './enforced-revisions.ts';

export interface WaitsOptions {
  /** Takes in everything that was written before. */
  readonly refresh: () => Promise<void>;
  readonly enforced: Pick<EnforcedRevisions, 'look'>;
  /** Asks these devices, or all of the organization, for a receipt of the revision. */
  readonly ask: (revision: number, devices: readonly DeviceId[] | undefined) => void;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
}

/** How long a request waits: until a moment of `monotonic`, or until the caller disconnects. */
export interface WaitLimit {
  readonly until: number;
  readonly signal?: AbortSignal | undefined;
  /** Only these devices are waited for. */
  readonly among?: ReadonlySet<DeviceId> | undefined;
}

interface Waiter {
  readonly revision: number;
  readonly among: ReadonlySet<DeviceId> | undefined;
  readonly settle: (failure?: unknown) => void;
}

/** Receipts that come so close together are taken in at once. */
const gatherMs = 25;
/** So often devices are looked at without a hint: one may be lost. */
const lookMs = 1_000;
/** The pause after a look is this many times its duration, up to a maximum: looks never take most of a process. */
const restFactor = 10;
const longestRestMs = 250;
/**
 * Devices are asked again this long after the last of them reported something else: one that reconnected meanwhile has
 * not received the request.
 */
const askMs = 3_000;
/** And at the latest this long after the last request, also while devices report one by one. */
const longestAskMs = 15_000;
/** Up to this many devices are asked by id; beyond it, all devices of the organization. */
const mostNamed = 400;

/** What all of them have; of these alone, where they are given. */
function leastOf(upTo: ReadonlyMap<DeviceId, number>, among?: ReadonlySet<DeviceId>): number {
  let least = Number.POSITIVE_INFINITY;
  if (among === undefined) for (const revision of upTo.values()) least = Math.min(least, revision);
  else for (const id of among) least = Math.min(least, upTo.get(id) ?? least);
  return least;
}

const countBelow = (upTo: ReadonlyMap<unknown, number>, highest: number): number => {
  let count = 0;
  for (const revision of upTo.values()) if (revision < highest) count += 1;
  return count;
};

/** Those that lack the revision. */
function* below<T>(upTo: ReadonlyMap<T, number>, highest: number): Generator<T> {
  for (const [id, revision] of upTo) if (revision < highest) yield id;
}

export class OrganizationWaits {
  readonly #o: WaitsOptions;
  readonly #waiters = new Set<Waiter>();
  #wake: () => void = () => {};
  /** A hint came while no loop waited for one. */
  #woken = false;
  #isRunning = false;

  constructor(options: WaitsOptions) {
    this.#o = options;
  }

  get size(): number {
    return this.#waiters.size;
  }

  /** Something may have changed. */
  wake(): void {
    this.#woken = true;
    this.#wake();
  }

  /** Ends all waits, for a server that stops. */
  close(): void {
    this.#settleAll(new StoreError({ code: 'unavailable' }));
  }

  /** Whether every device, or each of these, has the revision in force, by what is known at this moment. */
  async isInForce(revision: number, among?: ReadonlySet<DeviceId>): Promise<boolean> {
    return leastOf(await this.#o.enforced.look(), among) >= revision;
  }

  /**
   * Resolves when a look has shown the revision on every device that is waited for, or when the time is over. Fails with the signal's
   * reason when the caller disconnects.
   */
  wait(revision: number, { until, signal, among }: WaitLimit): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const settle = (failure?: unknown): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', gone);
        this.#waiters.delete(waiter);
        if (this.#waiters.size === 0) this.#wake();
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const gone = (): void => settle(signal?.reason ?? new Error('gone'));
      const timer = setTimeout(settle, Math.max(0, until - this.#o.monotonic()));
      const waiter = { revision, among, settle };
      signal?.addEventListener('abort', gone);
      this.#waiters.add(waiter);
      // The look under way may be older than this question, and not go as far.
      this.wake();
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      await this.#look();
    } catch (error) {
      this.#settleAll(error);
    } finally {
      this.#isRunning = false;
    }
  }

  async #look(): Promise<void> {
    const { enforced, monotonic } = this.#o;
    let asked = { revision: -1, at: Number.NEGATIVE_INFINITY };
    /** How many lacked the revision, at the last look that showed fewer. */
    let lacked = { devices: 0, at: Number.NEGATIVE_INFINITY };
    let began = monotonic();
    while (this.#waiters.size > 0) {
      const isDue = began - lacked.at >= askMs || began - asked.at >= longestAskMs;
      this.#woken = false;
      const upTo = await enforced.look();
      const least = leastOf(upTo);
      let highest = -1;
      for (const { revision, among, settle } of this.#waiters) {
        if (revision <= (among === undefined ? least : leastOf(upTo, among))) settle();
        else highest = Math.max(highest, revision);
      }
      const devices = countBelow(upTo, highest);
      const isNew = highest > asked.revision;
      const areComing = !isNew && devices < lacked.devices && began - asked.at < longestAskMs;
      if (highest >= 0 && (isNew || (isDue && !areComing))) {
        asked = { revision: highest, at: began };
        lacked = { devices, at: began };
        this.#o.ask(highest, devices <= mostNamed ? [...below(upTo, highest)] : undefined);
      } else if (areComing) lacked = { devices, at: began };
      const took = monotonic() - began;
      await this.#changed();
      await this.#rest(Math.min(longestRestMs, Math.max(gatherMs, restFactor * took)));
      began = monotonic();
      if (this.#waiters.size > 0) await this.#o.refresh();
    }
  }

  /** Until something may have changed, or the next look is due. */
  #changed(): Promise<void> {
    if (this.#woken || this.#waiters.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#wake(), lookMs);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = () => {};
        resolve();
      };
    });
  }

  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, this.#waiters.size === 0 ? 0 : ms));
  }

  #settleAll(failure: unknown): void {
    for (const { settle } of this.#waiters) settle(failure);
  }
}
