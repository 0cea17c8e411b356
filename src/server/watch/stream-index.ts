/** Owns the index of streams by key, so that the end of one credential or membership touches no other stream. */
import type { Stream } from './stream.ts';

/** Most keys have one stream, which then costs no set of its own. */
export class StreamIndex<Key> {
  readonly #streams = new Map<Key, Stream | Set<Stream>>();

  add(key: Key, stream: Stream): void {
    const known = this.#streams.get(key);
    if (known === undefined) this.#streams.set(key, stream);
    else if (known instanceof Set) known.add(stream);
    else if (known !== stream) this.#streams.set(key, new Set([known, stream]));
  }

  delete(key: Key, stream: Stream): void {
    const known = this.#streams.get(key);
    if (known === stream) this.#streams.delete(key);
    else if (known instanceof Set) {
      known.delete(stream);
      if (known.size === 0) this.#streams.delete(key);
    }
  }

  /** A copy: streams may end while it is walked. */
  get(key: Key): readonly Stream[] {
    const known = this.#streams.get(key);
    if (known === undefined) return [];
    return known instanceof Set ? [...known] : [known];
  }

  /** How many keys have streams. */
  get size(): number {
    return this.#streams.size;
  }
}
