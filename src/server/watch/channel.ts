/** Owns one watched organization: its listings, its streams, and the rounds that serve them from its log. */
import type { OrganizationId, UserId } from '../../policy/ids.ts';
import type { LogSource } from '../store/data/change-log.ts';
import { batchBytes, Batches } from './batch.ts';
import { next, SharedCursor, type StateNeed, type View } from './cursor.ts';
import { Listings, type ListingMemory } from './listings.ts';
import { LiveStreams } from './live-streams.ts';
import type { FollowedLog, LogListener, ReachedHead } from '../store/follow/followed-log.ts';
import type { RevisionTokens } from '../store/follow/revision-tokens.ts';
import type { Ring } from '../store/follow/ring.ts';
import type { Task } from './scheduler.ts';
import type { WatchSettings } from './settings.ts';
import type { WatchStats } from './stats.ts';
import { StreamIndex } from './stream-index.ts';
import { isOpen, type StreamEvent } from './stream-state.ts';
import type { StreamEndReason, Stream, StreamOwner } from './stream.ts';

export interface ChannelOptions {
  readonly log: FollowedLog;
  readonly source: Pick<LogSource, 'readState'>;
  readonly settings: WatchSettings;
  readonly stats: WatchStats;
  readonly memory: ListingMemory;
  readonly now: () => number;
  /** Brings the log to the head as of now; undefined when the organization is gone. */
  readonly sync: () => Promise<ReachedHead | undefined>;
  /** Asks to be run. */
  readonly schedule: (channel: Channel) => void;
  readonly onWarning: (message: string, cause: unknown) => void;
  readonly onSign: (stream: Stream) => void;
  readonly onClosed: (stream: Stream) => void;
}

/** How much one stream may be sent in one go, so that a long listing leaves room for others. */
const goBytes = 262_144;

export class Channel implements View, StreamOwner, Task, LogListener {
  readonly org: OrganizationId;
  readonly ring: Ring;
  readonly batches: Batches;
  readonly listings: Listings;
  readonly streams = new Set<Stream>();
  readonly #byUser = new StreamIndex<UserId>();
  /** When the last stream went. */
  idleSince: number;
  readonly #o: ChannelOptions;
  readonly #live = new LiveStreams();
  /** The streams that are not live. */
  readonly #others = new Set<Stream>();
  #ready: Stream[] = [];
  /** Streams whose read failed; they try again with the next tick of the clock. */
  #stalled: Stream[] = [];
  /** The slot up to which live streams are still to be visited in this round, and whether another round is due. */
  #walk = -1;
  #again = false;
  /** Whether this round follows upon another. */
  #underLoad = false;
  #behindSince = 0;
  readonly #cursors = new SharedCursor();

  constructor(options: ChannelOptions) {
    this.#o = options;
    const { log, source, stats, memory, settings, sync } = options;
    const { org, ring } = log;
    this.org = org;
    this.ring = ring;
    this.idleSince = options.now();
    this.batches = new Batches(ring);
    this.listings = new Listings({
      org,
      ring,
      source,
      stats,
      memory,
      pageBytes: settings.pageBytes,
      sync,
      onLoaded: (waiting, kept) => this.#onLoaded(waiting, kept),
      onFailed: (waiting, cause) => {
        this.#stalled.push(...waiting);
        options.onWarning('cannot read the state of an organization', cause);
      },
    });
    log.listener = this;
  }

  /** Takes a stream in. The channel's log must have reached the head that the stream was promised. */
  add(stream: Stream): void {
    this.streams.add(stream);
    this.#others.add(stream);
    this.#byUser.add(stream.holder.user, stream);
    this.#o.stats.opened += 1;
    this.#move(stream, 'behind');
  }

  onReset(): void {
    this.listings.clear();
  }

  onRewind(): void {
    this.endAll('rewound');
  }

  onGone(): void {
    this.endAll('organization_gone');
  }

  endAll(why: StreamEndReason): void {
    for (const stream of this.streams) this.end(stream, why);
  }

  /** Ends the streams of one user. */
  endOf(user: UserId, why: StreamEndReason): void {
    for (const stream of this.#byUser.get(user)) this.end(stream, why);
  }

  end(stream: Stream, why: StreamEndReason): void {
    if (!isOpen(stream.state)) return;
    this.#move(stream, 'end');
    stream.finish(why, this.#o.now());
  }

  /** Tries again what failed. */
  tick(): void {
    const stalled = this.#stalled;
    this.#stalled = [];
    for (const stream of stalled) this.#move(stream, 'loaded');
  }

  /** Lets go of all memory. */
  close(): void {
    this.listings.clear();
    if (this.#o.log.listener === this) this.#o.log.listener = undefined;
  }

  get tokens(): RevisionTokens {
    return this.ring.tokens;
  }

  sentUpTo(stream: Stream): number | undefined {
    return stream.state === 'live' ? this.#live.revision(stream.slot) : undefined;
  }

  /** When a stream was last written to. */
  wroteAt(stream: Stream): number {
    return this.#live.wroteAt(stream);
  }

  /** The streams to look at now: whose time is over, who were silent for long, and all that do not keep up. Of the others nothing is read. */
  due(now: number): readonly Stream[] {
    return [...this.#others, ...this.#live.due(now, now - this.#o.settings.heartbeatMs)];
  }

  /** Sends a heartbeat to a stream that rests; one that is busy or blocked needs none. */
  heartbeat(stream: Stream, now: number): void {
    if (stream.state !== 'live' && stream.state !== 'reading') return;
    this.#o.stats.heartbeats += 1;
    const at = this.sentUpTo(stream);
    if (!stream.heartbeat(now, at, this.ring.tokens)) this.#move(stream, 'full');
    else if (stream.state === 'live') this.#live.wrote(stream.slot, now);
  }

  say(stream: Stream, line: Buffer, now: number): void {
    if (stream.state === 'live' && !stream.write([line], now)) this.#move(stream, 'full');
  }

  // What streams do, and what becomes of the lists that they are in.

  #move(stream: Stream, event: StreamEvent): void {
    const from = stream.state;
    const to = stream.step(event);
    if (from === 'live' && to !== 'live') this.#removeLive(stream);
    if (to === 'live' && from !== 'live') this.#addLive(stream);
    if (to === 'ready' && (from !== 'ready' || event === 'behind')) {
      this.#ready.push(stream);
      this.#o.schedule(this);
    }
  }

  #addLive(stream: Stream): void {
    const at = stream.cursor.phase === 'follow' ? stream.cursor.at : 0;
    stream.cursor = this.#cursors.at(at);
    this.#live.add(stream, at);
    this.#others.delete(stream);
  }

  #removeLive(stream: Stream): void {
    stream.cursor = this.#cursors.at(this.#live.remove(stream));
    this.#others.add(stream);
  }

  onAppend(): void {
    if (this.#behindSince === 0) this.#behindSince = this.#o.now();
    if (this.#walk >= 0) this.#again = true;
    else this.#walk = this.#live.length - 1;
    this.#o.schedule(this);
  }

  #onLoaded(waiting: readonly Stream[], kept: boolean): void {
    for (const stream of waiting) {
      if (kept) this.#move(stream, 'loaded');
      else if (stream.state === 'reading') this.end(stream, 'revision_gone');
    }
  }

  now(): number {
    return this.#o.now();
  }

  onSign(stream: Stream): void {
    this.heard(stream);
    this.#o.onSign(stream);
  }

  /** The reader of this stream has shown a sign of life, here or elsewhere. */
  heard(stream: Stream): void {
    stream.heardAt = this.#o.now();
    this.#live.heard(stream);
  }

  /** Moves every sign of life by this time. */
  excuse(ms: number): void {
    for (const stream of this.streams) {
      stream.heardAt += ms;
      this.#live.heard(stream);
    }
  }

  onFlushed(stream: Stream): void {
    this.#move(stream, 'flushed');
  }

  onClosed(stream: Stream): void {
    this.#move(stream, 'close');
    this.streams.delete(stream);
    this.#others.delete(stream);
    this.#byUser.delete(stream.holder.user, stream);
    this.#o.stats.ended(stream.ended ?? 'left');
    if (this.streams.size === 0) this.idleSince = this.#o.now();
    this.#o.onClosed(stream);
  }

  // Serving.

  /** Serves up to so many streams; true when there is more to do. */
  run(budget: number): boolean {
    const now = this.#o.now();
    const most = this.#underLoad ? Math.min(budget, this.#o.settings.sliceUnderLoad) : budget;
    let left = this.#serveReady(most, now);
    for (; left > 0 && this.#walk >= 0; this.#walk -= 1) {
      left -= 1;
      this.#follow(this.#walk, now);
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
      if (stream?.state === 'ready') left -= 1 + Math.floor(this.#serve(stream, now) / batchBytes) * 4;
    }
    if (served < queue.length) this.#ready = [...queue.slice(served), ...this.#ready];
    return Math.max(0, left) + kept;
  }

  /** For a live stream: one shared buffer, one write. Nothing of the stream itself is read where it is as most others and takes all. */
  #follow(slot: number, now: number): void {
    const live = this.#live;
    const at = live.revision(slot);
    const stream = live.stream(slot);
    if (stream === undefined || at >= this.ring.head) return;
    if (!this.ring.covers(at)) {
      this.#move(stream, 'behind');
      return;
    }
    const batch =
      this.batches.shared(at, live.selection(slot)) ?? this.batches.after(at, stream.selection, stream.reader.user);
    live.moveTo(slot, batch.through);
    if (batch.through < this.ring.head) this.#again = true;
    const { bytes, events } = batch;
    if (bytes === undefined) return;
    this.#count(bytes.length, events);
    live.wrote(slot, now);
    if (!stream.write([bytes], now)) this.#move(stream, 'full');
    // The next run sends the rest. A reader that asked for it then gets the line that says that the change is complete.
    if (batch.through < this.ring.head && stream.reader.format.complete) this.#oweComplete(stream);
  }

  #oweComplete(stream: Stream): void {
    if (stream.state === 'live') this.#move(stream, 'behind');
    if (stream.cursor.phase === 'follow') stream.cursor = { ...stream.cursor, owed: true };
  }

  /** For a stream that lists, resumes or fell behind: as much as one go may carry. Gives back how many bytes it took. */
  #serve(stream: Stream, now: number): number {
    const out: Buffer[] = stream.preface === undefined ? [] : [stream.preface];
    stream.preface = undefined;
    let size = 0;
    let need: StateNeed | undefined;
    let rests = false;
    while (size < goBytes && need === undefined && !rests) {
      const step = next(stream.cursor, stream.reader, this);
      if (step.do === 'read') need = step.need;
      else if (step.do === 'rest') rests = true;
      else {
        stream.cursor = step.to;
        if (step.bytes === undefined) continue;
        out.push(step.bytes);
        size += step.bytes.length;
        this.#count(step.bytes.length, step.events);
      }
    }
    if (out.length > 0 && !stream.write(out, now)) this.#move(stream, 'full');
    else if (need !== undefined) {
      this.#move(stream, 'read');
      this.listings.load(stream, need);
    } else this.#move(stream, rests ? 'caught_up' : 'behind');
    return size;
  }

  #count(bytes: number, events: number): void {
    this.#o.stats.deliveries += events;
    this.#o.stats.bytes += bytes;
  }
}
