/** Owns the reading of event streams in tests: exact bytes from a raw socket, documents as they come. */
import { connect, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Json } from './http.ts';

export interface StreamOptions {
  readonly version?: '1.0' | '1.1';
  readonly headers?: Readonly<Record<string, string>>;
  /** The path up to `/organizations`. */
  readonly prefix?: string;
  /** The certificate of the server, where the address is `https:`. */
  readonly ca?: string;
}

/** One request for a stream, from its first byte to its last. */
export class EventStream {
  readonly #socket: Socket;
  /** Put together when it is looked at. */
  #parts: Buffer[] = [];
  #error: Error | undefined;
  #closed = false;
  /** Those who wait for something to happen to the stream. */
  readonly #waiting = new Set<() => void>();

  constructor(url: string, token: string | undefined, org: string, body: unknown, options: StreamOptions = {}) {
    const { protocol, hostname, port } = new URL(url);
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const headers = {
      Host: `${hostname}:${port}`,
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      'Content-Type': 'application/json',
      'Content-Length': String(Buffer.byteLength(text)),
      ...options.headers,
    };
    const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    const path = `${options.prefix ?? '/api'}/organizations/${org}/events`;
    const to = { host: hostname, port: Number(port) };
    this.#socket = protocol === 'https:' ? connectSecurely({ ...to, ca: options.ca }) : connect(to);
    this.#socket.write(`POST ${path} HTTP/${options.version ?? '1.1'}\r\n${head.join('')}\r\n${text}`);
    this.#socket.on('data', (chunk: Buffer) => {
      this.#parts.push(chunk);
      this.#wake();
    });
    this.#socket.on('error', (error) => (this.#error = error));
    this.#socket.on('close', () => {
      this.#closed = true;
      this.#wake();
    });
  }

  #wake(): void {
    for (const proceed of this.#waiting) proceed();
  }

  /** Resolves when something has come or the stream has closed. A condition may look at more than the stream: so also without that, after a while. */
  #changed(): Promise<void> {
    return new Promise((resolve) => {
      const proceed = (): void => {
        this.#waiting.delete(proceed);
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(proceed, 100);
      this.#waiting.add(proceed);
    });
  }

  get #raw(): Buffer {
    const [first = Buffer.alloc(0), ...more] = this.#parts;
    if (more.length === 0) return first;
    const whole = Buffer.concat(this.#parts);
    this.#parts = [whole];
    return whole;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get error(): Error | undefined {
    return this.#error;
  }

  /** Everything received, as it was received. */
  get raw(): string {
    return this.#raw.toString();
  }

  get head(): string {
    const end = this.#raw.indexOf('\r\n\r\n');
    return end < 0 ? '' : this.#raw.subarray(0, end).toString();
  }

  get status(): number {
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(this.head)?.[1] ?? 0);
  }

  header(name: string): string | undefined {
    return new RegExp(`^${name}: (.*)$`, 'im').exec(this.head)?.[1]?.trim();
  }

  /** The body without its chunk framing, as far as it has come, and whether its end has come. */
  get body(): { readonly text: string; readonly ended: boolean } {
    const start = this.#raw.indexOf('\r\n\r\n');
    if (start < 0) return { text: '', ended: false };
    const body = this.#raw.subarray(start + 4);
    if (this.header('transfer-encoding') !== 'chunked') return { text: body.toString(), ended: this.#closed };
    const parts: Buffer[] = [];
    for (let at = 0; ;) {
      const line = body.indexOf('\r\n', at);
      if (line < 0) break;
      const size = Number.parseInt(body.subarray(at, line).toString(), 16);
      if (size === 0) return { text: Buffer.concat(parts).toString(), ended: true };
      if (line + 2 + size + 2 > body.length) break;
      parts.push(body.subarray(line + 2, line + 2 + size));
      at = line + 2 + size + 2;
    }
    return { text: Buffer.concat(parts).toString(), ended: false };
  }

  get documents(): readonly Json[] {
    const lines = this.body.text.split('\n');
    // What follows the last line feed is not whole yet.
    return lines.slice(0, -1).flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  }

  /** Documents in short: `change 5`, `tail`, with the kind in front when it is there. */
  get told(): readonly string[] {
    return this.documents.map((one) =>
      [one.kind, one.type, one.value?.revision].filter((part) => part !== undefined).join(' '),
    );
  }

  /**
   * Waits until something is so; fails with what came when it does not become so. It looks when something has come, and not at each of
   * many parts: to look reads all that came, and a test can wait for hundreds of streams.
   */
  async until(what: string, so: (stream: this) => boolean, ms = 120_000): Promise<this> {
    for (const end = Date.now() + ms; !so(this); await sleep(5)) {
      if (Date.now() > end) throw new Error(`waited for ${what} in vain; received: ${this.raw.slice(-2_000)}`);
      await this.#changed();
    }
    return this;
  }

  /** Waits for some text among what comes. */
  shows(text: string, ms?: number): Promise<this> {
    return this.until(text, () => this.#raw.includes(text), ms);
  }

  tail(count = 1): Promise<this> {
    return this.until('the tail', () => this.documents.filter((one) => one.type === 'tail').length >= count);
  }

  count(documents: number): Promise<this> {
    return this.until(`${documents} documents`, () => this.documents.length >= documents);
  }

  answered(): Promise<this> {
    return this.until('an answer', () => this.status > 0);
  }

  end(): Promise<this> {
    return this.until('the end', () => this.#closed);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  send(text: string): void {
    this.#socket.write(text);
  }

  halfClose(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }
}
