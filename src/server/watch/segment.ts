/** Owns one range of an organization's state: the newest state of each resource whose revision is in it. */
import type { UserId } from '../../policy/ids.ts';
import { collect, type Batch } from './batch.ts';
import type { Frame } from './frame.ts';
import { costOf, type Ring } from './log/ring.ts';
import { formatKey, type Format } from './wire.ts';

/** Shared by all caches of a process: what they hold together, and a clock of uses. */
export interface Pool {
  bytes: number;
  uses: number;
}

/** A group that only its owner sees has two entries: the owner's current state, and what others last saw. */
export const keyOf = (frame: Frame): string => (frame.forOwner ? `~${frame.id}` : frame.id);

/** What a frame puts out of date. A frame for everyone ends both tracks of a group. */
export const replacedBy = (frame: Frame): readonly string[] =>
  frame.owner === undefined ? [frame.id, `~${frame.id}`] : [keyOf(frame)];

/** Ready buffers kept for one segment; more forms than this are asked for only by readers at odd places. */
const builtForms = 16;

export class Segment {
  /** Covers the revisions after this … */
  after: number;
  /** … up to and including this. */
  through: number;
  used = 0;
  readonly #pool: Pool;
  /** Ascending by revision, as a map keeps the order of insertion. */
  readonly #entries = new Map<string, Frame>();
  readonly #built = new Map<string, Batch>();
  #bytes = 0;
  #builtBytes = 0;
  /** Entries that not everybody sees. */
  #guarded = 0;

  constructor(after: number, through: number, pool: Pool) {
    this.after = after;
    this.through = through;
    this.#pool = pool;
    this.touch();
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  keys(): Iterable<string> {
    return this.#entries.keys();
  }

  newer(revision: number): readonly Frame[] {
    this.touch();
    return [...this.#entries.values()].filter((frame) => frame.revision > revision);
  }

  touch(): void {
    this.used = this.#pool.uses += 1;
  }

  put(frame: Frame): void {
    this.#entries.set(keyOf(frame), frame);
    this.#grow(costOf(frame));
    if (frame.owner !== undefined) this.#guarded += 1;
    this.#forget();
  }

  take(key: string): void {
    const frame = this.#entries.get(key);
    if (frame === undefined) return;
    this.#entries.delete(key);
    this.#grow(-costOf(frame));
    if (frame.owner !== undefined) this.#guarded -= 1;
    this.#forget();
  }

  /** Gives its memory back. */
  release(): void {
    this.#forget();
    this.#grow(-this.#bytes);
    this.#entries.clear();
  }

  read(after: number, until: number, ring: Ring, format: Format, reader: UserId | undefined): Batch {
    this.touch();
    const personal =
      reader !== undefined && this.#guarded > 0 && [...this.#entries.values()].some((frame) => frame.owner === reader);
    const range = after <= this.after && until >= this.through ? 'all' : `${after}-${until}`;
    const key = `${formatKey(format)} ${range} ${personal ? reader : ''}`;
    const ready = this.#built.get(key);
    if (ready !== undefined) return ready;
    const batch = collect(this.#entries.values(), {
      accept: (frame) => frame.revision > after && frame.revision <= until,
      reader: personal ? reader : undefined,
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
    this.#pool.bytes += batch.bytes?.length ?? 0;
    return batch;
  }

  #grow(bytes: number): void {
    this.#bytes += bytes;
    this.#pool.bytes += bytes;
  }

  #forget(): void {
    this.#pool.bytes -= this.#builtBytes;
    this.#builtBytes = 0;
    this.#built.clear();
  }
}
