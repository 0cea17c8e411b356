/**
 * Owns the live streams of an organization in columns: what a delivery needs of each is adjacent in memory. A round
 * over thousands of streams that want nothing of a change touches only these columns, and not the stream objects, which
 * are in no cache by then.
 */
import type { Selection } from './batch.ts';
import type { Stream } from './stream.ts';

/** Room for so many at first; twice as many whenever it is short. */
const leastRoom = 8;

/** A slot is a stream's place in every column. The last stream takes the slot of one that leaves, so a round goes downwards and misses none. */
export class LiveStreams {
  readonly #streams: Stream[] = [];
  readonly #selections: Selection[] = [];
  /** Everything up to here was sent. */
  #revisions = new Float64Array(leastRoom);
  #wroteAt = new Float64Array(leastRoom);
  #endsAt = new Float64Array(leastRoom);
  #silentAt = new Float64Array(leastRoom);

  get length(): number {
    return this.#streams.length;
  }

  add(stream: Stream, revision: number): void {
    const slot = this.#streams.length;
    if (slot === this.#revisions.length) this.#makeRoom(slot * 2);
    stream.slot = slot;
    this.#streams.push(stream);
    this.#selections.push(stream.selection);
    this.#revisions[slot] = revision;
    this.#wroteAt[slot] = stream.wroteAt;
    this.#endsAt[slot] = stream.lastMoment;
    this.#silentAt[slot] = stream.silentAt;
  }

  /** Gives back up to where the stream was sent everything. */
  remove(stream: Stream): number {
    const { slot } = stream;
    const revision = this.revision(slot);
    stream.wroteAt = this.wroteAt(stream);
    const last = this.#streams.pop();
    const selection = this.#selections.pop();
    if (last !== undefined && selection !== undefined && last !== stream) {
      this.#streams[slot] = last;
      this.#selections[slot] = selection;
      this.#revisions[slot] = this.revision(last.slot);
      this.#wroteAt[slot] = this.#wroteAt[last.slot] ?? 0;
      this.#endsAt[slot] = this.#endsAt[last.slot] ?? 0;
      this.#silentAt[slot] = this.#silentAt[last.slot] ?? 0;
      last.slot = slot;
    }
    stream.slot = -1;
    return revision;
  }

  stream(slot: number): Stream | undefined {
    return this.#streams[slot];
  }

  selection(slot: number): Selection | undefined {
    return this.#selections[slot];
  }

  revision(slot: number): number {
    return this.#revisions[slot] ?? 0;
  }

  /** The stream in this slot was sent everything up to a revision, without or with bytes for it. */
  moveTo(slot: number, revision: number): void {
    this.#revisions[slot] = revision;
  }

  wrote(slot: number, now: number): void {
    this.#wroteAt[slot] = now;
  }

  /** When bytes last went to a stream, live or not. */
  wroteAt(stream: Stream): number {
    return stream.slot < 0 ? stream.wroteAt : Math.max(stream.wroteAt, this.#wroteAt[stream.slot] ?? 0);
  }

  /** Its reader has shown a sign of life. */
  heard(stream: Stream): void {
    if (stream.slot >= 0) this.#silentAt[stream.slot] = stream.silentAt;
  }

  /** The streams whose time is over, that were sent nothing since a moment, or whose readers show no sign of life. */
  due(now: number, wroteNothingSince: number): readonly Stream[] {
    const due: Stream[] = [];
    for (const [slot, stream] of this.#streams.entries()) {
      const end = Math.min(this.#endsAt[slot] ?? 0, this.#silentAt[slot] ?? 0);
      if (end <= now || (this.#wroteAt[slot] ?? 0) <= wroteNothingSince) due.push(stream);
    }
    return due;
  }

  #makeRoom(size: number): void {
    const [revisions, wroteAt, endsAt, silentAt] = [this.#revisions, this.#wroteAt, this.#endsAt, this.#silentAt];
    (this.#revisions = new Float64Array(size)).set(revisions);
    (this.#wroteAt = new Float64Array(size)).set(wroteAt);
    (this.#endsAt = new Float64Array(size)).set(endsAt);
    (this.#silentAt = new Float64Array(size)).set(silentAt);
  }
}
