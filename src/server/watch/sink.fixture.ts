/** Owns a connection in memory for tests of the hub: it can stop taking bytes, and it parses what it was sent. */
import { Socket } from 'node:net';
import { watchKinds, type WatchKind } from '../../api/kinds.ts';
import { printOf, type Received } from './checker.fixture.ts';
import { directHandle, learn, type Handle } from './connection/direct.ts';
import type { ConnectedSink } from './opening.ts';
import type { Stream } from './stream.ts';

/** Looks like what Node has under a socket, as far as one write needs it. */
class MuteHandle {
  writeBuffer(): number {
    return 0;
  }
  readStart(): number {
    return 0;
  }
  readStop(): number {
    return 0;
  }
  close(closed?: () => void): void {
    if (closed !== undefined) setImmediate(closed);
  }
}

/** Direct writes are learned from one ordinary write; this one goes nowhere. */
function requireDirectWrites(): void {
  const socket = new Socket({ handle: new MuteHandle() } as object).on('error', () => {});
  learn(socket);
  socket.write(Buffer.from('x'));
  const isLearned = directHandle(socket) !== undefined;
  socket.destroy();
  if (!isLearned) throw new Error('this Node has no direct write');
}

export class FakeSink implements ConnectedSink {
  stream: Stream | undefined;
  /** While true the kernel takes nothing. */
  full = false;
  ended = false;
  destroyed = false;
  writes = 0;
  readonly sent: Buffer[] = [];
  readonly handle: Handle | undefined;
  #waiting: Buffer[] = [];
  #request: Parameters<Handle['writeBuffer']>[0] | undefined;

  /** `bare`: what streams are sent while they follow goes past the sink. */
  constructor({ bare = false } = {}) {
    const handle: Handle = { writeBuffer: (request, bytes) => this.#writePast(request, bytes) };
    if (bare) requireDirectWrites();
    this.handle = bare ? handle : undefined;
  }

  connect(stream: Stream): void {
    this.stream = stream;
  }

  /** As Node's own handle: one that is closed says so, and a request that is under way has an id. */
  #writePast(request: Parameters<Handle['writeBuffer']>[0], bytes: Buffer): number {
    if (this.destroyed) return -9;
    if (this.write([bytes])) return 0;
    request.getAsyncId = () => 1;
    this.#request = request;
    return 0;
  }

  write(bytes: readonly Buffer[]): boolean {
    if (this.#waiting.length > 0) throw new Error('written to while blocked');
    if (this.ended || this.destroyed) throw new Error('written to after its end');
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
    const request = this.#request;
    this.#request = undefined;
    if (this.destroyed) return;
    if (request?.oncomplete === undefined) this.stream?.flushed();
    else request.oncomplete(0);
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
