/** Owns the splitting of a byte stream into lines, independent of its chunks. */
import { CollectedBytes } from './bytes.ts';
import { RingfenceError } from './error.ts';

const lineFeed = 0x0a;

/**
 * Collects bytes and gives back whole lines as text. A line's bytes are decoded together, so a character split
 * between two chunks is whole again; text that is no UTF-8 is refused. What is kept is never longer than `longest`.
 */
export class LineReader {
  readonly #longest: number;
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  readonly #kept = new CollectedBytes();

  constructor({ longest }: { readonly longest: number }) {
    this.#longest = longest;
  }

  /** Bytes of a line that has not ended yet. */
  get pending(): number {
    return this.#kept.length;
  }

  /** The lines that end in this chunk, without their line feeds. An empty one is a heartbeat. */
  push(chunk: Uint8Array): string[] {
    const lines: string[] = [];
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(lineFeed, start);
      if (end === -1) break;
      lines.push(this.#finish(chunk.subarray(start, end)));
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
    return lines;
  }

  #keep(part: Uint8Array): void {
    this.#check(part);
    this.#kept.add(part);
  }

  #check(part: Uint8Array): void {
    if (this.#kept.length + part.length <= this.#longest) return;
    throw new RingfenceError({
      code: 'document_too_large',
      message: `a document of the stream is longer than ${this.#longest} bytes`,
    });
  }

  #finish(last: Uint8Array): string {
    let whole = last;
    if (this.#kept.length === 0) this.#check(last);
    else {
      this.#keep(last);
      whole = this.#kept.take();
    }
    try {
      return this.#decoder.decode(whole);
    } catch (cause) {
      throw new RingfenceError({ code: 'bad_answer', message: 'a line of the stream is not UTF-8', cause });
    }
  }
}
