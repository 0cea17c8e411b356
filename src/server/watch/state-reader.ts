/** Owns the reading of an organization's state into its caches: one page at a time, each read once for all waiting streams. */
import type { OrganizationId } from '../../policy/ids.ts';
import { isInGap, type Projection } from '../store/data/change-log.ts';
import type { StateRead } from './cursor.ts';
import { kindOf, maskOf, stateFramesOf } from './frame.ts';
import type { SyncedHead } from './log/log-reader.ts';
import type { Ring } from './log/ring.ts';
import type { Pool } from './segment.ts';
import type { Source } from './source.ts';
import { StateCache } from './state-cache.ts';
import type { WatchStats } from './stats.ts';
import type { Stream } from './stream.ts';

export interface StateReaderOptions {
  readonly org: OrganizationId;
  readonly ring: Ring;
  readonly source: Source;
  readonly stats: WatchStats;
  readonly pool: Pool;
  /** About what one page should weigh. */
  readonly pageBytes: number;
  /** Brings the ring to the head as of now; undefined when the organization is gone. */
  readonly sync: () => Promise<SyncedHead | undefined>;
  /** A page is there; `kept` is false when the deletions that it should have are forgotten already. */
  readonly onLoaded: (waiting: readonly Stream[], kept: boolean) => void;
  readonly onFailed: (waiting: readonly Stream[], cause: unknown) => void;
}

/** Rows of a page: few when records are large, and few at first, before that is known. */
const pageRows = { least: 8, first: 256, most: 4_096 };

export class StateReader {
  readonly #o: StateReaderOptions;
  readonly #caches = new Map<string, StateCache>();
  /** Streams that wait, by the page that is being read for them. */
  readonly #waiting = new Map<string, Stream[]>();
  #rows = pageRows.first;

  constructor(options: StateReaderOptions) {
    this.#o = options;
  }

  cache(projection: Projection, deletions: boolean): StateCache {
    const key = `${projection} ${deletions}`;
    let cache = this.#caches.get(key);
    if (cache === undefined) {
      cache = new StateCache({ mask: maskOf([projection]), deletions, pool: this.#o.pool });
      this.#caches.set(key, cache);
    }
    return cache;
  }

  caches(): Iterable<StateCache> {
    return this.#caches.values();
  }

  clear(): void {
    for (const cache of this.#caches.values()) cache.clear();
  }

  /** Reads what a stream needs, unless that is being read already. */
  read(stream: Stream, need: StateRead): void {
    const key = `${need.projection} ${need.deletions} ${need.after}`;
    const others = this.#waiting.get(key);
    if (others !== undefined) {
      others.push(stream);
      return;
    }
    const waiting = [stream];
    this.#waiting.set(key, waiting);
    this.#load(need)
      .finally(() => this.#waiting.delete(key))
      .then(
        (kept) => this.#o.onLoaded(waiting, kept),
        (cause: unknown) => this.#o.onFailed(waiting, cause),
      );
  }

  /** Reads one page into its cache. False when deletions that it should have are forgotten already. */
  async #load({ projection, deletions, after }: StateRead): Promise<boolean> {
    const { org, ring, source, stats, sync, pageBytes } = this.#o;
    for (;;) {
      const from = ring.head;
      const limit = this.#rows;
      stats.stateReads += 1;
      const page = await source.readState(org, { kinds: [projection], after, limit, deletions });
      // What the page saw past the log must be in the log before the page is used: a resource that moved on would be missing.
      const head = await sync();
      if (head === undefined || (deletions && isInGap(head.gaps, kindOf(projection), after))) return false;
      const weight = page.reduce((sum, entry) => sum + entry.json.length, 0);
      if (page.length > 0) {
        const rows = Math.round(pageBytes / Math.max(1, weight / page.length));
        this.#rows = Math.min(Math.max(rows, pageRows.least), pageRows.most);
      }
      const frames = page.flatMap((entry) => stateFramesOf(org, entry, projection));
      const full = page.length >= limit;
      if (this.cache(projection, deletions).install(after, frames, { from, full, ring })) return true;
    }
  }
}
