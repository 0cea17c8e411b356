/** Owns the room in memory for records of a server: how much each takes, and how much all may take together. */
import { RingfenceError } from './error.ts';

/** What an entry of a map takes besides its record. */
const entry = 200;

/** What a value that was read from JSON takes in memory, in bytes, roughly and rather too much: short texts, lists and objects take more than their text. */
export function memoryOf(value: unknown): number {
  if (typeof value === 'string') return 24 + 2 * value.length;
  if (typeof value !== 'object' || value === null) return 8;
  if (Array.isArray(value)) {
    let size = 32;
    for (const each of value as readonly unknown[]) size += 8 + memoryOf(each);
    return size;
  }
  let size = 56;
  for (const name in value) size += 24 + memoryOf((value as Readonly<Record<string, unknown>>)[name]);
  return size;
}

/** What all records of one reader take. */
export class MemoryRoom {
  readonly #most: number;
  #used = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Makes room for a record in the place of one that took `before`; returns what it takes. Throws where there is not enough. */
  take(record: object, before = 0): number {
    const size = entry + memoryOf(record);
    if (this.#used - before + size > this.#most) {
      const message = `the records of the server take more than ${this.#most} bytes of memory`;
      throw new RingfenceError({ code: 'document_too_large', message });
    }
    this.#used += size - before;
    return size;
  }

  free(size: number): void {
    this.#used -= size;
  }
}
