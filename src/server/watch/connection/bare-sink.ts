/**
 * Owns a stream's way to a connection that is no socket of Node's: bytes go straight to the kernel, which takes them at once from every reader that keeps
 * up. For its end a socket is made.
 */
import { Socket } from 'node:net';
import { isHandle, learn, writeDirect, type Handle, type Outcome } from './direct.ts';
import type { ConnectedSink } from '../hub.ts';
import { joined, streamSocket } from './socket.ts';
import type { Stream } from '../stream.ts';

/** A connection that is nobody's socket yet. */
export interface BareConnection {
  /** What Node has under a socket. */
  readonly handle: object;
  /** It has ended. */
  readonly isOver: boolean;
  /** Told when it has ended. */
  listener: { closed(): void } | undefined;
  destroy(): void;
  toSocket(): Socket;
}

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

let hasLearned = false;

/** Learns from a write that goes nowhere what direct writes need, so that not even the first streams after a start need a socket. */
function learnOnce(): void {
  hasLearned = true;
  try {
    const socket = new Socket({ handle: new MuteHandle() } as object).on('error', () => {});
    learn(socket);
    socket.write(Buffer.from('x'));
    socket.destroy();
  } catch {
    // Not with this Node: the first stream that has a socket teaches it.
  }
}

/** Whether a stream can do without a socket here. */
export function canBeBare({ handle }: BareConnection): boolean {
  if (!hasLearned) learnOnce();
  return isHandle(handle);
}

/** Is told of the parts of a long write before the last. */
const nobody = { flushed: (): void => {} };

class BareSink implements ConnectedSink {
  readonly #connection: BareConnection;
  /** Until there is a socket. */
  #direct: Handle | undefined;
  #socket: ConnectedSink | undefined;
  #stream: Stream | undefined;

  constructor(connection: BareConnection) {
    this.#connection = connection;
    const { handle } = connection;
    if (isHandle(handle)) this.#direct = handle;
  }

  connect(stream: Stream): void {
    this.#stream = stream;
    this.#connection.listener = stream;
    // Closed before anyone could be told.
    if (this.#connection.isOver) setImmediate(() => stream.closed());
  }

  write(bytes: readonly Buffer[]): boolean {
    if (this.#direct === undefined) return this.#asSocket()?.write(bytes) ?? false;
    const one = bytes.length === 1 ? bytes[0] : joined(bytes);
    let outcome: Outcome = 'taken';
    // In their order, whether they wait or not: the last one has gone when all have. One that is closed says so.
    const parts = one === undefined ? bytes : [one];
    for (const [index, part] of parts.entries()) {
      outcome = writeDirect(this.#direct, part, index === parts.length - 1 ? this : nobody);
      if (outcome === 'failed') break;
    }
    if (outcome === 'failed') this.#connection.destroy();
    return outcome === 'taken';
  }

  get handle(): Handle | undefined {
    return this.#direct;
  }

  flushed(): void {
    this.#stream?.flushed();
  }

  end(bytes: Buffer): void {
    this.#asSocket()?.end(bytes);
  }

  destroy(): void {
    if (this.#socket === undefined) this.#connection.destroy();
    else this.#socket.destroy();
  }

  /** Undefined for a connection that has ended. */
  #asSocket(): ConnectedSink | undefined {
    if (this.#socket !== undefined || this.#connection.isOver) return this.#socket;
    this.#direct = undefined;
    this.#socket = streamSocket(this.#connection.toSocket());
    if (this.#stream !== undefined) this.#socket.connect(this.#stream);
    return this.#socket;
  }
}

/** Makes a connection a stream's own. */
export const bareSink = (connection: BareConnection): ConnectedSink => new BareSink(connection);
