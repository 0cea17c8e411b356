/** Owns the reading of a chunked stream, piece by piece: the status, then each line once it is whole. */

export class Decoder {
  readonly #onStatus: (status: number) => void;
  readonly #onLine: (line: string) => void;
  #rest: Buffer = Buffer.alloc(0);
  #inBody = false;
  #chunked = false;
  /** Bytes of the current chunk that have not come yet; -1 before a chunk's length. */
  #left = -1;
  #text: Buffer = Buffer.alloc(0);
  /** Whether the last chunk has come. */
  ended = false;

  constructor(options: { onStatus: (status: number) => void; onLine: (line: string) => void }) {
    this.#onStatus = options.onStatus;
    this.#onLine = options.onLine;
  }

  take(piece: Buffer): void {
    this.#rest = this.#rest.length === 0 ? piece : Buffer.concat([this.#rest, piece]);
    if (!this.#inBody && !this.#head()) return;
    if (!this.#chunked) return;
    while (this.#chunk());
  }

  #head(): boolean {
    const end = this.#rest.indexOf('\r\n\r\n');
    if (end < 0) return false;
    const head = this.#rest.subarray(0, end).toString('latin1');
    this.#rest = this.#rest.subarray(end + 4);
    this.#inBody = true;
    this.#chunked = head.startsWith('HTTP/1.1 200 ') && /^transfer-encoding: chunked$/im.test(head);
    this.#onStatus(Number(head.slice(9, 12)));
    return true;
  }

  /** Takes one step; false when more must come first. */
  #chunk(): boolean {
    if (this.ended) return false;
    if (this.#left < 0) {
      const line = this.#rest.indexOf('\r\n');
      if (line < 0) return false;
      this.#left = Number.parseInt(this.#rest.subarray(0, line).toString('latin1'), 16);
      this.#rest = this.#rest.subarray(line + 2);
      this.ended = this.#left === 0;
      return !this.ended;
    }
    if (this.#rest.length < this.#left + 2) return false;
    this.#lines(this.#rest.subarray(0, this.#left));
    this.#rest = this.#rest.subarray(this.#left + 2);
    this.#left = -1;
    return true;
  }

  #lines(bytes: Buffer): void {
    let text = this.#text.length === 0 ? bytes : Buffer.concat([this.#text, bytes]);
    for (let end = text.indexOf(10); end >= 0; end = text.indexOf(10)) {
      if (end > 0) this.#onLine(text.toString('utf8', 0, end));
      text = text.subarray(end + 1);
    }
    // A piece of a line would keep a whole network buffer alive.
    this.#text = text.length === 0 ? text : Buffer.from(text);
  }
}
