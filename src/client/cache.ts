/** Owns the local copy of one kind: the records that the server has sent, and how each differs from before. */
import type { WatchKind } from '../api/kinds.ts';
import type { Watched, WatchedByIdentity, WatchedId } from '../api/watch.ts';
import type { WatchEvent } from './document.ts';
import type { MemoryRoom } from './memory.ts';

/** What became different. `revision` is that of the change; a resource that was found missing has none. */
export type Change<K extends WatchKind = WatchKind, R extends WatchedByIdentity = Watched> = K extends WatchKind
  ?
      | { readonly type: 'added'; readonly kind: K; readonly id: WatchedId[K]; readonly new: R[K] }
      | {
          readonly type: 'updated';
          readonly kind: K;
          readonly id: WatchedId[K];
          readonly old: R[K];
          readonly new: R[K];
        }
      | {
          readonly type: 'deleted';
          readonly kind: K;
          readonly id: WatchedId[K];
          readonly old: R[K];
          readonly revision: number | undefined;
        }
  : never;

interface CachedRecord<K extends WatchKind, R extends WatchedByIdentity> {
  readonly id: WatchedId[K];
  readonly record: R[K];
  /** The listing in which it was last shown. */
  readonly listing: number;
  /** Bytes of memory that it takes, roughly. */
  readonly size: number;
}

/** A read-only look at the resources of one kind, always the newest. */
export interface View<K extends WatchKind, R extends WatchedByIdentity = Watched> extends Iterable<R[K]> {
  readonly kind: K;
  readonly size: number;
  get(id: string): R[K] | undefined;
}

export interface CacheOptions<K extends WatchKind, R extends WatchedByIdentity> {
  /** What is not to be kept counts as absent. */
  readonly keep?: ((record: R[K]) => boolean | R[K]) | undefined;
  /** Where records take their place. */
  readonly room: MemoryRoom;
}

export class Cache<K extends WatchKind, R extends WatchedByIdentity = Watched> implements View<K, R> {
  readonly kind: K;
  /** By id, in lower case as the server writes it. */
  readonly #held = new Map<string, CachedRecord<K, R>>();
  #listing = 1;
  #complete = false;
  #position = 0;
  #token: string | undefined;

  readonly #keep: (record: R[K]) => boolean | R[K];
  readonly #room: MemoryRoom;

  constructor(kind: K, { keep = () => true, room }: CacheOptions<K, R>) {
    this.kind = kind;
    this.#keep = keep;
    this.#room = room;
  }

  get size(): number {
    return this.#held.size;
  }
  get(id: string): R[K] | undefined {
    return this.#held.get(id.toLowerCase())?.record;
  }
  *[Symbol.iterator](): Iterator<R[K]> {
    for (const { record } of this.#held.values()) yield record;
  }

  /** Whether the listing that is in force has been seen to its tail. */
  get complete(): boolean {
    return this.#complete;
  }

  /** Every change up to this revision has been seen: where a next stream goes on. 0 before the first. */
  get position(): number {
    return this.#position;
  }
  /** The token that came with the position. Undefined where the server sent none. */
  get token(): string | undefined {
    return this.#token;
  }
  advance(revision: number, token: string | undefined): void {
    if (revision < this.#position) return;
    this.#token = token ?? (revision === this.#position ? this.#token : undefined);
    this.#position = revision;
  }

  /**
   * The server no longer knows our revision: the next listing is a whole new one. What is held stays, so that readers
   * do not see an empty cache meanwhile, and is compared with the new listing until its tail.
   */
  startAfresh(): void {
    this.#listing += 1;
    this.#complete = false;
    this.#position = 0;
    this.#token = undefined;
  }

  /** Takes one event in; undefined when it is no news. */
  apply(event: Extract<WatchEvent<K, R>, { type: 'change' | 'delete' }>): Change<K, R> | undefined {
    const { kind, id, revision } = event as WatchEvent & { type: 'change' | 'delete' };
    const held = this.#held.get(id);
    // Within one listing a resource only moves forward. A new one may go back: the server's data may have been restored.
    if (held !== undefined && held.listing === this.#listing && revision <= held.record.revision) return undefined;
    if (event.type === 'delete') {
      if (held === undefined) return undefined;
      this.#remove(held);
      return { type: 'deleted', kind, id, old: held.record, revision } as unknown as Change<K, R>;
    }
    const shown = event.value as R[K];
    const kept = this.#keep(shown);
    if (kept === false) {
      if (held === undefined) return undefined;
      this.#remove(held);
      return { type: 'deleted', kind, id, old: held.record, revision } as unknown as Change<K, R>;
    }
    const record = kept === true ? shown : kept;
    const size = this.#room.take(record, held?.size);
    this.#held.set(id, { id: event.id as WatchedId[K], record, listing: this.#listing, size });
    if (held === undefined) return { type: 'added', kind, id, new: record } as unknown as Change<K, R>;
    if (held.listing !== this.#listing && isSame(held.record, record)) return undefined;
    return { type: 'updated', kind, id, old: held.record, new: record } as unknown as Change<K, R>;
  }

  /** The listing is whole: what it did not show is gone. */
  finish(): readonly Change<K, R>[] {
    if (this.#complete) return [];
    this.#complete = true;
    return this.#drop([...this.#held.values()].filter(({ listing }) => listing !== this.#listing));
  }

  /** Lets everything go: there was no room for all. */
  empty(): readonly Change<K, R>[] {
    this.startAfresh();
    return this.#drop([...this.#held.values()]);
  }

  #drop(gone: readonly CachedRecord<K, R>[]): readonly Change<K, R>[] {
    return gone.map((held) => {
      this.#remove(held);
      const { id, record } = held;
      return { type: 'deleted', kind: this.kind, id, old: record, revision: undefined } as unknown as Change<K, R>;
    });
  }

  #remove({ id, size }: CachedRecord<K, R>): void {
    this.#held.delete(id);
    this.#room.free(size);
  }
}

/** The same server writes the same record the same way; a false alarm costs one needless update. */
const isSame = (a: object, b: object): boolean => JSON.stringify(a) === JSON.stringify(b);
