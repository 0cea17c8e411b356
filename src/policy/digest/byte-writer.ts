/** Owns a growing byte buffer for numbers of fixed width, most significant byte first. */

export class ByteWriter {
  #bytes = new Uint8Array(1_024);
  #view = new DataView(this.#bytes.buffer);
  #size = 0;

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#size);
  }

  get size(): number {
    return this.#size;
  }

  /** Four bytes. */
  number(value: number): void {
    this.#room(4);
    this.#view.setUint32(this.#size, value);
    this.#size += 4;
  }

  /** Writes again what was written as a number at that place. */
  numberAt(place: number, value: number): void {
    this.#view.setUint32(place, value);
  }

  /** Four bytes or sixteen. */
  address(family: 4 | 6, value: bigint): void {
    if (family === 4) return this.number(Number(value));
    this.#room(16);
    this.#view.setBigUint64(this.#size, value >> 64n);
    this.#view.setBigUint64(this.#size + 8, value & 0xffff_ffff_ffff_ffffn);
    this.#size += 16;
  }

  numbers(values: Int32Array): void {
    this.#room(4 * values.length);
    for (const [i, value] of values.entries()) this.#view.setUint32(this.#size + 4 * i, value);
    this.#size += 4 * values.length;
  }

  #room(more: number): void {
    if (this.#size + more <= this.#bytes.length) return;
    const bytes = new Uint8Array(Math.max(2 * this.#bytes.length, this.#size + more));
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}
