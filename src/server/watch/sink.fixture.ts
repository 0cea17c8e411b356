/** Owns a connection in memory for tests of the hub: it can stop taking bytes, and it parses what it was sent. */
import { watchKinds, type WatchKind } from '../../api/kinds.ts';
import { printOf, type Received } from './checker.fixture.ts';
import type { ConnectedSink } from './opening.ts';
import type { Stream } from './stream.ts';

export class FakeSink implements ConnectedSink {
  stream: Stream | undefined;
  /** While true the kernel takes nothing. */
  full = false;
  /** The connection is broken, and no event has reported it yet: bytes are lost, as in a socket that was destroyed. */
  broken = false;
  ended = false;
  destroyed = false;
  writes = 0;
  readonly sent: Buffer[] = [];
  #waiting: Buffer[] = [];

  connect(stream: Stream): void {
    this.stream = stream;
  }

  write(bytes: readonly Buffer[]): boolean {
    if (this.#waiting.length > 0) throw new Error('written to while blocked');
    if (this.ended || this.destroyed) throw new Error('written to after its end');
    if (this.broken) return false;
    this.writes += 1;
    if (!this.full) {
      this.sent.push(...bytes);
      return true;
    }
    this.#waiting.push(...bytes);
    return false;
  }

  /** The reader reads again. */
  drain(): void {
    this.full = false;
    if (this.#waiting.length === 0) return;
    this.sent.push(...this.#waiting);
    this.#waiting = [];
    if (!this.destroyed) this.stream?.flushed();
  }

  end(bytes: Buffer): void {
    this.ended = true;
    (this.#waiting.length > 0 ? this.#waiting : this.sent).push(bytes);
  }

  destroy(): void {
    this.destroyed = true;
    this.close();
  }

  close(): void {
    this.stream?.closed();
  }

  /** Bytes that wait in the process because the kernel did not take them. */
  get held(): number {
    return this.#waiting.reduce((sum, part) => sum + part.length, 0);
  }

  /** The body, with the chunk framing taken off and checked. */
  body(chunked = true): string {
    const raw = Buffer.concat(this.sent);
    return chunked ? unchunk(raw).text : raw.toString();
  }

  /** Whether the body came to its proper end. */
  get clean(): boolean {
    return unchunk(Buffer.concat(this.sent)).ended;
  }

  lines(): readonly string[] {
    return this.body()
      .split('\n')
      .filter((line) => line !== '');
  }

  received(only?: WatchKind): readonly Received[] {
    return this.lines().map((line) => parseLine(line, only));
  }
}

function unchunk(raw: Buffer): { readonly text: string; readonly ended: boolean } {
  const parts: Buffer[] = [];
  for (let at = 0; at < raw.length;) {
    const line = raw.indexOf('\r\n', at);
    const size = Number.parseInt(raw.subarray(at, line).toString('latin1'), 16);
    if (line < 0 || Number.isNaN(size)) throw new Error(`no chunk at ${at}`);
    const end = line + 2 + size;
    if (raw.subarray(end, end + 2).toString('latin1') !== '\r\n') throw new Error(`the chunk at ${at} is too short`);
    if (size === 0) return { text: Buffer.concat(parts).toString(), ended: end + 2 === raw.length };
    parts.push(raw.subarray(line + 2, end));
    at = end + 2;
  }
  return { text: Buffer.concat(parts).toString(), ended: false };
}

/** One document as the checker takes it. `only` names the kind when documents do not. */
export function parseLine(line: string, only?: WatchKind): Received {
  const type = /^\{"type":"(change|delete|tail)"/.exec(line)?.[1];
  const named = /^\{"type":"\w+","kind":"([\w-]+)"/.exec(line)?.[1];
  const kind = watchKinds.find((one) => one === named) ?? only;
  if (kind === undefined) throw new Error(`no kind in ${line.slice(0, 80)}`);
  if (type === 'tail') return { kind, type, revision: 0, print: 0 };
  if (type !== 'change' && type !== 'delete') throw new Error(`no type in ${line.slice(0, 80)}`);
  const json = line.slice(line.indexOf('"value":') + '"value":'.length, -1);
  const revision = Number(/"revision":(\d+)\}$/.exec(json)?.[1]);
  return { kind, type, revision, print: printOf(type, json) };
}
