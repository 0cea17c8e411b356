/** Owns one watched organization: its ring, its listings, its streams, and the turns in which they are served. */
import type { WatchKind } from '../../api/kinds.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import type { Head } from '../store/contract/change-log.ts';
import { batchBytes, Batches } from './batch.ts';
import { framesOf, maskOf } from './frame.ts';
import type { Asking } from './heads.ts';
import { Log } from './log-reader.ts';
import { next, type Need, type View } from './cursor.ts';
import { Ring } from './ring.ts';
import type { Pool } from './segment.ts';
import type { WatchSettings } from './settings.ts';
import type { Source } from './source.ts';
import { StateCache } from './state-cache.ts';
import type { WatchStats } from './stats.ts';
import type { Ending, Home, Stream } from './stream.ts';

export interface ChannelOptions {
  readonly org: OrganizationId;
  readonly source: Source;
  readonly settings: WatchSettings;
  readonly stats: WatchStats;
  readonly pool: Pool;
  readonly now: () => number;
  /** A head as of now, shared with whoever else asks. */
  readonly readHead: (org: OrganizationId, asking?: Asking) => Promise<Head | undefined>;
  /** Asks for a turn. */
  readonly wantTurn: (channel: Channel) => void;
  readonly onWarning: (message: string, cause: unknown) => void;
  readonly onGone: (stream: Stream) => void;
}

/** How much one stream may be sent in one turn, so that a long listing leaves room for others. */
const turnBytes = 262_144;
/** Rows of a page: few when records are large, and few at first, before that is known. */
const pageRows = { least: 8, first: 256, most: 4_096 };

interface Reading {
  readonly waiters: Stream[];
}

export class Channel implements View, Home {
  readonly org: OrganizationId;
  readonly ring: Ring;
  readonly batches: Batches;
  readonly log: Log;
  readonly streams = new Set<Stream>();
  /** When the last stream went. */
  idleSince: number;
  readonly #o: ChannelOptions;
  readonly #caches = new Map<string, StateCache>();
  readonly #readings = new Map<string, Reading>();
  readonly #live: Stream[] = [];
  #ready: Stream[] = [];
  /** Streams whose read failed; they try again with the next beat of the clock. */
  #stalled: Stream[] = [];
  /** The slot up to which live streams are still to be visited in this round, and whether another round is due. */
  #walk = -1;
  #again = false;
  /** Whether this round follows upon another. */
  #underLoad = false;
  #behindSince = 0;
  #rows = pageRows.first;

  constructor(head: number, options: ChannelOptions) {
    this.#o = options;
    this.org = options.org;
    this.idleSince = options.now();
    this.ring = new Ring(head, { bytes: options.settings.ringBytes, ageMs: options.settings.ringAgeMs });
    this.batches = new Batches(this.ring);
    this.log = new Log({
      org: options.org,
      ring: this.ring,
      source: options.source,
      stats: options.stats,
      now: options.now,
      readHead: (asking) => options.readHead(options.org, asking),
      onNews: () => this.#news(),
      onHole: () => this.#forget(),
    });
  }

  state(kind: WatchKind, deletions: boolean): StateCache {
    const key = `${kind} ${deletions}`;
    let cache = this.#caches.get(key);
    if (cache === undefined) {
      cache = new StateCache({ mask: maskOf([kind]), deletions, pool: this.#o.pool });
      this.#caches.set(key, cache);
    }
    return cache;
  }

  caches(): Iterable<StateCache> {
    return this.#caches.values();
  }

  /** Takes a stream in. The channel's log must have reached the head that the stream was promised. */
  add(stream: Stream): void {
    this.streams.add(stream);
    this.#o.stats.opened += 1;
    this.#makeReady(stream);
  }

  /** The database is behind what was read from it: it was restored. What is in memory belongs to a history that is no more. */
  rewind(head: Head): void {
    this.#forget();
    this.ring.reset(head.revision);
    this.endAll('rewound');
  }

  endAll(why: Ending): void {
    const now = this.#o.now();
    for (const stream of this.streams) this.#finish(stream, why, now);
  }

  end(stream: Stream, why: Ending): void {
    this.#finish(stream, why, this.#o.now());
  }

  /** Tries again what failed, and lets go of what is old. */
  beat(now: number): void {
    this.ring.trim(now);
    const stalled = this.#stalled;
    this.#stalled = [];
    for (const stream of stalled) if (stream.condition === 'reading') this.#makeReady(stream);
  }

  /** Lets go of all memory. */
  close(): void {
    this.#forget();
    this.ring.reset(this.ring.head);
  }

  /** Sends a heartbeat to a stream that rests; one that is busy or blocked needs none. */
  heartbeat(stream: Stream, now: number): void {
    if (stream.condition !== 'live' && stream.condition !== 'reading') return;
    this.#o.stats.heartbeats += 1;
    if (stream.beat(now)) return;
    this.#unlive(stream);
    stream.condition = 'blocked';
  }

  // A turn.

  /** Serves up to so many streams; true when there is more to do. */
  turn(budget: number): boolean {
    const now = this.#o.now();
    const most = this.#underLoad ? Math.min(budget, this.#o.settings.sliceUnderLoad) : budget;
    let left = this.#serveReady(most, now);
    for (; left > 0 && this.#walk >= 0; this.#walk -= 1) {
      const stream = this.#live[this.#walk];
      if (stream === undefined) continue;
      left -= 1;
      this.#follow(stream, now);
    }
    if (this.#walk < 0 && this.#again) {
      this.#again = false;
      this.#underLoad = true;
      this.#walk = this.#live.length - 1;
    } else if (this.#walk < 0 && this.#behindSince > 0) {
      this.#underLoad = false;
      this.#o.stats.onLag((this.#o.now() - this.#behindSince) / 1_000);
      this.#behindSince = 0;
    }
    return this.#ready.length > 0 || this.#walk >= 0;
  }

  /** Long listings count for more, and never take more than half while live streams wait. Gives back what is left. */
  #serveReady(budget: number, now: number): number {
    const queue = this.#ready;
    this.#ready = [];
    let left = this.#walk >= 0 ? Math.ceil(budget / 2) : budget;
    const kept = budget - left;
    let served = 0;
    for (; served < queue.length && left > 0; served += 1) {
      const stream = queue[served];
      if (stream?.condition === 'ready') left -= 1 + Math.floor(this.#serve(stream, now) / batchBytes) * 4;
    }
    if (served < queue.length) this.#ready = [...queue.slice(served), ...this.#ready];
    return Math.max(0, left) + kept;
  }

  /** The short way, for a live stream: one shared buffer, one write. */
  #follow(stream: Stream, now: number): void {
    const at = stream.place.phase === 'follow' ? stream.place.at : 0;
    if (at >= this.ring.head) return;
    if (!this.ring.covers(at)) {
      this.#unlive(stream);
      this.#makeReady(stream);
      return;
    }
    const batch = this.batches.after(at, stream.wanted, stream.reader.user);
    stream.place = this.#placeAt(batch.through);
    if (batch.through < this.ring.head) this.#again = true;
    if (batch.bytes === undefined) return;
    this.#count(batch.bytes.length, batch.events);
    if (stream.write([batch.bytes], now)) return;
    this.#unlive(stream);
    stream.condition = 'blocked';
  }

  // Streams at one place share the object that says so.
  #lastPlace: { readonly phase: 'follow'; readonly at: number; readonly ahead: readonly [] } | undefined;
  #placeAt(at: number): Stream['place'] {
    if (this.#lastPlace?.at !== at) this.#lastPlace = { phase: 'follow', at, ahead: [] };
    return this.#lastPlace;
  }

  /** The long way: listings, resumes, and whoever fell behind. Gives back how many bytes it took. */
  #serve(stream: Stream, now: number): number {
    const out: Buffer[] = stream.preface === undefined ? [] : [stream.preface];
    stream.preface = undefined;
    let size = 0;
    let need: Need | undefined;
    let rests = false;
    while (size < turnBytes && need === undefined && !rests) {
      const step = next(stream.place, stream.reader, this);
      if (step.do === 'read') need = step.need;
      else if (step.do === 'rest') rests = true;
      else {
        stream.place = step.to;
        if (step.bytes === undefined) continue;
        out.push(step.bytes);
        size += step.bytes.length;
        this.#count(step.bytes.length, step.events);
      }
    }
    if (out.length > 0 && !stream.write(out, now)) stream.condition = 'blocked';
    else if (need !== undefined) this.#read(stream, need);
    else if (rests) this.#makeLive(stream);
    else this.#makeReady(stream);
    return size;
  }

  #count(bytes: number, events: number): void {
    this.#o.stats.deliveries += events;
    this.#o.stats.bytes += bytes;
  }

  #makeReady(stream: Stream): void {
    stream.condition = 'ready';
    this.#ready.push(stream);
    this.#o.wantTurn(this);
  }

  #makeLive(stream: Stream): void {
    if (stream.place.phase === 'follow') stream.place = this.#placeAt(stream.place.at);
    stream.condition = 'live';
    stream.slot = this.#live.length;
    this.#live.push(stream);
  }

  /** The last live stream takes the slot; the round goes downwards, so that none is missed. */
  #unlive(stream: Stream): void {
    if (stream.slot < 0) return;
    const last = this.#live.pop();
    if (last !== undefined && last !== stream) {
      this.#live[stream.slot] = last;
      last.slot = stream.slot;
    }
    stream.slot = -1;
  }

  #news(): void {
    if (this.#behindSince === 0) this.#behindSince = this.#o.now();
    if (this.#walk >= 0) this.#again = true;
    else this.#walk = this.#live.length - 1;
    this.#o.wantTurn(this);
  }

  #forget(): void {
    for (const cache of this.#caches.values()) cache.clear();
  }

  // Reading state.

  #read(stream: Stream, need: Need): void {
    stream.condition = 'reading';
    const key = `${need.kind} ${need.deletions} ${need.after}`;
    const under = this.#readings.get(key);
    if (under !== undefined) {
      under.waiters.push(stream);
      return;
    }
    const reading: Reading = { waiters: [stream] };
    this.#readings.set(key, reading);
    this.#load(need).then(
      (kept) => this.#loaded(key, reading, kept),
      (cause: unknown) => {
        this.#readings.delete(key);
        this.#stalled.push(...reading.waiters);
        this.#o.onWarning('reading the state of an organization failed', cause);
      },
    );
  }

  #loaded(key: string, reading: Reading, kept: boolean): void {
    this.#readings.delete(key);
    const now = this.#o.now();
    for (const stream of reading.waiters) {
      if (stream.condition !== 'reading') continue;
      if (kept) this.#makeReady(stream);
      else this.#finish(stream, 'revision_gone', now);
    }
  }

  /** Reads one page into its cache. False when deletions that it should have are forgotten already. */
  async #load({ kind, deletions, after }: Need): Promise<boolean> {
    for (;;) {
      const from = this.ring.head;
      const limit = this.#rows;
      this.#o.stats.stateReads += 1;
      const page = await this.#o.source.readState(this.org, { kinds: [kind], after, limit, deletions });
      // What the page saw past the log must be in the log before the page is used: a resource that moved on would be missing.
      const head = await this.log.sync();
      if (head === undefined || (deletions && after < head.purged)) return false;
      const weight = page.reduce((sum, entry) => sum + entry.json.length, 0);
      if (page.length > 0) {
        const rows = Math.round(this.#o.settings.pageBytes / Math.max(1, weight / page.length));
        this.#rows = Math.min(Math.max(rows, pageRows.least), pageRows.most);
      }
      const frames = page.flatMap((entry) => framesOf(this.org, { ...entry, left_at: 0 }));
      const full = page.length >= limit;
      if (this.state(kind, deletions).install(after, frames, { from, full, ring: this.ring })) return true;
    }
  }

  // Ends.

  #finish(stream: Stream, why: Ending, now: number): void {
    this.#unlive(stream);
    stream.finish(why, now);
  }

  flushed(stream: Stream): void {
    this.#makeReady(stream);
  }

  gone(stream: Stream): void {
    this.#unlive(stream);
    this.streams.delete(stream);
    this.#o.stats.ended(stream.ended ?? 'left');
    if (this.streams.size === 0) this.idleSince = this.#o.now();
    this.#o.onGone(stream);
  }
}
