/**
 * Owns the parts of organizations' current states that are in memory, for listings and for resumes from before the ring. A part comes from one read of the
 * database, or from the ring, and follows the log from then on. So a thousand agents that connect at once cost one read.
 */
import type { OrganizationId, UserId } from '../../policy/ids.ts';
import { isInGap, type LogSource } from '../store/data/change-log.ts';
import { batchBytes, collect, type Batch } from './batch.ts';
import type { StateListings, StateNeed } from './cursor.ts';
import { keyOf, kindOf, maskOf, replacedBy, stateFramesOf, type Frame, type Mask } from '../store/follow/frame.ts';
import type { ReachedHead } from '../store/follow/followed-log.ts';
import { costOf, type Ring } from '../store/follow/ring.ts';
import type { WatchStats } from './stats.ts';
import type { Stream } from './stream.ts';
import { formatKey, type Format } from './wire.ts';

/** Ready buffers kept for one part; more forms than this are asked for only by readers at odd places. */
const builtForms = 16;
/** Where the log has gone on by more than this, a part is read anew: that is quicker than to follow. */
const mostFollowed = 16_384;
/** So many parts of a listing are few, however little they hold. */
const fewParts = 8;

/** All parts of a process. */
export class ListingMemory {
  bytes = 0;
  /** Those that were not used for longest come first. */
  readonly #parts = new Set<Part>();

  use(part: Part): void {
    this.#parts.delete(part);
    this.#parts.add(part);
  }

  delete(part: Part): void {
    this.#parts.delete(part);
  }

  /** Drops the least used parts; somewhat more than it must, so that this is not done again at once. */
  keepWithin(limit: number): void {
    if (this.bytes <= limit) return;
    for (const part of this.#parts) {
      if (this.bytes <= limit * 0.8) return;
      part.drop();
    }
  }
}

/** The parts of one projection, with or without deletions, by the revision after which they begin. */
interface Listing {
  readonly mask: Mask;
  readonly deletions: boolean;
  readonly parts: Map<number, Part>;
}

/** The newest state of each resource whose revision is in one range. */
class Part {
  readonly after: number;
  /** The last revision of the range. */
  through: number;
  readonly #memory: ListingMemory;
  readonly #listing: Listing;
  /** The log is accounted for up to here. */
  #followed: number;
  /** Ascending by revision, as a map keeps the order of insertion. */
  readonly #frames = new Map<string, Frame>();
  #bytes = 0;
  readonly #built = new Map<string, Batch>();
  #builtBytes = 0;
  /** The readers to whom its frames look different. */
  #owners: ReadonlySet<UserId | undefined> | undefined;

  /** Without frames yet, as of a head. */
  constructor(memory: ListingMemory, listing: Listing, range: { readonly after: number; readonly head: number }) {
    this.#memory = memory;
    this.#listing = listing;
    this.after = range.after;
    this.through = range.after;
    this.#followed = range.head;
    listing.parts.get(range.after)?.drop();
    listing.parts.set(range.after, this);
    memory.use(this);
  }

  /** Without the ready buffers. */
  get bytes(): number {
    return this.#bytes;
  }

  get isFull(): boolean {
    return this.#bytes >= batchBytes;
  }

  put(frame: Frame): void {
    this.#frames.set(keyOf(frame), frame);
    this.#grow(costOf(frame));
  }

  #take(key: string): void {
    const frame = this.#frames.get(key);
    if (frame === undefined) return;
    this.#frames.delete(key);
    this.#grow(-costOf(frame));
  }

  #grow(bytes: number): void {
    this.#bytes += bytes;
    this.#memory.bytes += bytes;
    this.#forget();
  }

  #forget(): void {
    this.#memory.bytes -= this.#builtBytes;
    this.#builtBytes = 0;
    this.#built.clear();
    this.#owners = undefined;
  }

  /** Gives its memory back. */
  drop(): void {
    this.#grow(-this.#bytes);
    this.#memory.delete(this);
    this.#listing.parts.delete(this.after);
  }

  /**
   * Follows the log: what changed leaves the part, and one that reached the head goes on to reach it until it is full. False where the ring no longer tells
   * all that happened, or it is too much.
   */
  follow(ring: Ring): boolean {
    if (this.#followed === ring.head) return true;
    if (!ring.covers(this.#followed) || ring.countAfter(this.#followed) > mostFollowed) return false;
    const { mask, deletions } = this.#listing;
    let reaches = this.through === this.#followed;
    for (const frame of ring.after(this.#followed)) {
      if (frame.mask !== mask) continue;
      for (const key of replacedBy(frame)) this.#take(key);
      reaches &&= !this.isFull || frame.revision === this.through;
      if (!reaches) continue;
      if (frame.type === 'change' || deletions) this.put(frame);
      this.through = frame.revision;
    }
    this.#followed = ring.head;
    if (reaches) this.through = ring.head;
    return true;
  }

  newer(revision: number): readonly Frame[] {
    return [...this.#frames.values()].filter((frame) => frame.revision > revision);
  }

  read(
    after: number,
    until: number,
    { ring, format, reader }: { readonly ring: Ring; readonly format: Format; readonly reader: UserId | undefined },
  ): Batch {
    this.#owners ??= new Set([...this.#frames.values()].map(({ owner }) => owner));
    const personal = this.#owners.has(reader) ? reader : undefined;
    const range = after <= this.after && until >= this.through ? 'all' : `${after}-${until}`;
    const key = `${formatKey(format)} ${range} ${personal ?? ''}`;
    const ready = this.#built.get(key);
    if (ready !== undefined) return ready;
    const batch = collect(this.#frames.values(), {
      accept: (frame) => frame.revision > after && frame.revision <= until,
      reader: personal,
      format,
      tokens: ring.tokens,
      newest: false,
      through: Math.min(this.through, until),
      // A listing of one kind is never the whole.
      head: Number.POSITIVE_INFINITY,
    });
    if (this.#built.size >= builtForms) this.#forget();
    this.#built.set(key, batch);
    this.#builtBytes += batch.bytes?.length ?? 0;
    this.#memory.bytes += batch.bytes?.length ?? 0;
    return batch;
  }
}

export interface ListingsOptions {
  readonly org: OrganizationId;
  readonly ring: Ring;
  readonly source: Pick<LogSource, 'readState'>;
  readonly stats: WatchStats;
  readonly memory: ListingMemory;
  /** About what one page should weigh. */
  readonly pageBytes: number;
  /** Brings the ring to the head as of now; undefined when the organization is gone. */
  readonly sync: () => Promise<ReachedHead | undefined>;
  /** A page is there; `kept` is false when the deletions that it should have are forgotten already. */
  readonly onLoaded: (waiting: readonly Stream[], kept: boolean) => void;
  readonly onFailed: (waiting: readonly Stream[], cause: unknown) => void;
}

/** Those of one organization. */
export class Listings implements StateListings {
  readonly #o: ListingsOptions;
  readonly #listings = new Map<string, Listing>();
  /** Streams that wait, by the page that is being read for them. */
  readonly #waiting = new Map<string, Stream[]>();

  constructor(options: ListingsOptions) {
    this.#o = options;
  }

  read(need: StateNeed, until: number, format: Format, reader: UserId | undefined): Batch | undefined {
    return this.#partFor(need)?.read(need.after, until, { ring: this.#o.ring, format, reader });
  }

  peek(need: StateNeed): { readonly through: number; readonly frames: readonly Frame[] } | undefined {
    const part = this.#partFor(need);
    return part && { through: part.through, frames: part.newer(need.after) };
  }

  /** Reads what a stream needs, unless that is being read already. */
  load(stream: Stream, need: StateNeed): void {
    const { onLoaded, onFailed } = this.#o;
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
        (kept) => onLoaded(waiting, kept),
        (cause: unknown) => onFailed(waiting, cause),
      );
  }

  clear(): void {
    for (const listing of this.#listings.values()) dropAll(listing);
  }

  #listingOf({ projection, deletions }: StateNeed): Listing {
    const key = `${projection} ${deletions}`;
    let listing = this.#listings.get(key);
    if (listing === undefined) {
      listing = { mask: maskOf([projection]), deletions, parts: new Map() };
      this.#listings.set(key, listing);
    }
    return listing;
  }

  /** A part that goes on beyond the revision, as of the head of the ring. */
  #partFor(need: StateNeed): Part | undefined {
    const { ring, memory } = this.#o;
    const { after } = need;
    const listing = this.#listingOf(need);
    const known = covering(listing, after);
    if (known?.follow(ring) === false) known.drop();
    else if (known !== undefined && known.through > after) {
      memory.use(known);
      return known;
    }
    if (isSparse(listing)) dropAll(listing);
    if (!ring.covers(after) || ring.countAfter(after) > mostFollowed) return undefined;
    const made = new Part(memory, listing, { after, head: after });
    made.follow(ring);
    return made;
  }

  /** Reads one page into parts. False when deletions that it should have are forgotten already. */
  async #load(need: StateNeed): Promise<boolean> {
    const { org, ring, source, stats, sync, pageBytes } = this.#o;
    const { projection, deletions, after } = need;
    for (;;) {
      const { head: from, history } = ring;
      stats.stateReads += 1;
      const page = await source.readState(org, { projection, after, bytes: pageBytes, deletions });
      // What the page saw past the log must be in the log before the page is used: a resource that moved on would be missing.
      const head = await sync();
      if (head === undefined || (deletions && isInGap(head.gaps, kindOf(projection), after))) return false;
      if (ring.history !== history) continue;
      const through = Math.min(page.through ?? from, from);
      if (through <= after) throw new Error(`a page of state after ${after} reaches ${through} only`);
      const frames = page.entries.flatMap((entry) => stateFramesOf(org, entry, projection));
      this.#install(need, { frames, through, from });
      return true;
    }
  }

  /** Makes parts of about a batch each. Cuts between revisions. */
  #install(
    need: StateNeed,
    { frames, through, from }: { readonly frames: readonly Frame[]; readonly through: number; readonly from: number },
  ): void {
    const listing = this.#listingOf(need);
    const begin = (after: number): Part => new Part(this.#o.memory, listing, { after, head: from });
    let part = begin(need.after);
    for (const frame of frames) {
      if (frame.revision > through) break;
      if (part.isFull && frame.revision !== part.through) part = begin(part.through);
      part.put(frame);
      part.through = frame.revision;
    }
    part.through = through;
  }
}

function dropAll({ parts }: Listing): void {
  for (const part of parts.values()) part.drop();
}

/** Whether most of what the parts held has moved on, so that a reader would pass many to be sent little. */
function isSparse({ parts }: Listing): boolean {
  let bytes = 0;
  for (const part of parts.values()) bytes += part.bytes;
  return parts.size > fewParts && bytes * 4 < parts.size * batchBytes;
}

/** The part that goes furthest of those that begin at a revision or before and reach it; one that begins there comes first. */
function covering({ parts }: Listing, after: number): Part | undefined {
  let found = parts.get(after);
  if (found !== undefined) return found;
  for (const part of parts.values()) {
    if (part.after < after && part.through >= after && part.through > (found?.through ?? 0)) found = part;
  }
  return found;
}
