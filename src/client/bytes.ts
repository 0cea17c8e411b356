/** Owns the collecting of bytes that arrive in pieces: it keeps no piece, so that a million of one byte take no more memory than one of a million. */

const smallest = 4_096;

export class CollectedBytes {
  #bytes = new Uint8Array(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  add(part: Uint8Array): void {
    const length = this.#length + part.length;
    if (length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(smallest, 2 * this.#bytes.length, length));
      larger.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = larger;
    }
    this.#bytes.set(part, this.#length);
    this.#length = length;
  }

  /** Everything that was added, and an end to keeping it. */
  take(): Uint8Array {
    const all = this.#bytes.subarray(0, this.#length);
    this.#bytes = new Uint8Array(0);
    this.#length = 0;
    return all;
  }
}
