/**
 * Owns a cache of an organization's current state in one projection, as segments over the axis of revisions. A resource
 * that changes moves from its segment to the last one. The cache serves listings and resumes from far back, so that a
 * thousand agents that connect at once cost one read of the database.
 */
import type { UserId } from '../../policy/ids.ts';
import { batchBytes, type Batch } from './batch.ts';
import type { Frame, Mask } from './frame.ts';
import type { Ring } from './log/ring.ts';
import { keyOf, replacedBy, Segment, type Pool } from './segment.ts';
import type { Format } from './wire.ts';

export interface PageRead {
  /** The head of the log before the page was read. */
  readonly from: number;
  /** Whether the page ended at its limit, so that more may follow. */
  readonly full: boolean;
  /** Of the log, at or past what the page could see. */
  readonly ring: Ring;
}

export class StateCache {
  readonly #mask: Mask;
  readonly #deletions: boolean;
  readonly #pool: Pool;
  /** Ascending, never overlapping; what lies between two of them is not here. */
  #segments: Segment[] = [];
  readonly #where = new Map<string, Segment>();
  /** The log is accounted for up to here. */
  #rolled = 0;

  constructor(options: { readonly mask: Mask; readonly deletions: boolean; readonly pool: Pool }) {
    this.#mask = options.mask;
    this.#deletions = options.deletions;
    this.#pool = options.pool;
  }

  get segments(): readonly Segment[] {
    return this.#segments;
  }

  /**
   * What a reader is to be sent after a revision, up to `until` at most; undefined when that part is not here and must be read.
   * Deletions are among it only when this cache keeps them.
   */
  read(after: number, until: number, ring: Ring, format: Format, reader: UserId | undefined): Batch | undefined {
    this.#roll(ring);
    return this.#covering(after)?.read(after, until, ring, format, reader);
  }

  /** The frames of the stretch that begins after a revision, for a reader that needs several kinds merged. */
  peek(after: number, ring: Ring): { readonly through: number; readonly frames: readonly Frame[] } | undefined {
    this.#roll(ring);
    const segment = this.#covering(after);
    if (segment === undefined) return undefined;
    return { through: segment.through, frames: segment.newer(after) };
  }

  /**
   * Takes in the newest states after a revision, as far as the page goes. False when the ring cannot tell what changed
   * while the page was read: the page is useless, read again.
   */
  install(after: number, page: readonly Frame[], { from, full, ring }: PageRead): boolean {
    if (!ring.covers(from)) return false;
    this.#roll(ring);
    if (this.#covering(after) !== undefined) return true;
    // A full page may end between two frames of one revision: its last revision is left for the next page.
    const reach = full ? Math.min((page.at(-1)?.revision ?? 0) - 1, from) : from;
    const next = this.#segments.find((segment) => segment.after >= after);
    const through = Math.min(reach, next?.after ?? reach);
    if (through <= after) throw new Error(`a page of state after ${after} reaches ${through} only`);
    const changed = new Set<string>();
    for (const frame of ring.after(from)) {
      if (frame.mask === this.#mask) for (const key of replacedBy(frame)) changed.add(key);
    }
    this.#insert(
      after,
      through,
      page.filter((frame) => frame.revision <= through && !changed.has(keyOf(frame))),
    );
    if (next === undefined && through === from) this.#extend(ring, from);
    return true;
  }

  clear(): void {
    for (const segment of this.#segments) segment.release();
    this.#segments = [];
    this.#where.clear();
  }

  drop(segment: Segment): void {
    for (const key of segment.keys()) this.#where.delete(key);
    segment.release();
    this.#segments = this.#segments.filter((other) => other !== segment);
  }

  #covering(after: number): Segment | undefined {
    let low = 0;
    let high = this.#segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#segments[middle]?.through ?? 0) > after) high = middle;
      else low = middle + 1;
    }
    const found = this.#segments[low];
    return found !== undefined && found.after <= after ? found : undefined;
  }

  #insert(after: number, through: number, frames: readonly Frame[]): void {
    const first = new Segment(after, after, this.#pool);
    const made = this.#fill(first, frames, through);
    this.#segments = [...this.#segments, first, ...made].toSorted((a, b) => a.after - b.after);
  }

  /** Puts frames into a segment and, past about a batch each, into further ones, which it gives back. Cuts between revisions. */
  #fill(first: Segment, frames: Iterable<Frame>, through: number): readonly Segment[] {
    const made: Segment[] = [];
    let segment = first;
    let last = segment.through;
    for (const frame of frames) {
      if (segment.bytes >= batchBytes && frame.revision !== last) {
        segment.through = last;
        made.push((segment = new Segment(last, last, this.#pool)));
      }
      segment.put(frame);
      this.#where.set(keyOf(frame), segment);
      last = frame.revision;
    }
    segment.through = through;
    return made;
  }

  /** Follows the log to the ring's head. A ring that has moved on too far leaves nothing to trust. */
  #roll(ring: Ring): void {
    if (this.#rolled === ring.head) return;
    const from = this.#rolled;
    this.#rolled = ring.head;
    if (this.#segments.length === 0) return;
    if (!ring.covers(from) || from > ring.head) {
      this.clear();
      return;
    }
    for (const frame of ring.after(from)) {
      if (frame.mask === this.#mask) for (const key of replacedBy(frame)) this.#take(key);
    }
    if (this.#segments.at(-1)?.through === from) this.#extend(ring, from);
  }

  #take(key: string): void {
    this.#where.get(key)?.take(key);
    this.#where.delete(key);
  }

  /** Appends the newest states after `from`: the last segment reaches the head again. */
  #extend(ring: Ring, from: number): void {
    const newest = new Map<string, Frame>();
    for (const frame of ring.after(from)) {
      if (frame.mask !== this.#mask) continue;
      for (const key of replacedBy(frame)) newest.delete(key);
      if (frame.type === 'change' || this.#deletions) newest.set(keyOf(frame), frame);
    }
    const last = this.#segments.at(-1);
    if (last === undefined) return;
    this.#segments.push(...this.#fill(last, newest.values(), ring.head));
    this.#mergeEmpty();
  }

  /** Segments that lost all their resources join their successor, so that a busy cache does not fill with empty ones. */
  #mergeEmpty(): void {
    const kept: Segment[] = [];
    let start: number | undefined;
    for (const [index, segment] of this.#segments.entries()) {
      const next = this.#segments[index + 1];
      if (segment.size === 0 && next?.after === segment.through) {
        start ??= segment.after;
        continue;
      }
      if (start !== undefined) segment.after = start;
      start = undefined;
      kept.push(segment);
    }
    if (kept.length < this.#segments.length) this.#segments = kept;
  }
}
