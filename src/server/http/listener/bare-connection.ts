/** Owns one connection that is nobody's socket: what Node has under a socket, and who is told of its end. */
import { Socket } from 'node:net';

const bearer = Symbol('bearer');

/** What Node has under a socket. */
export interface ConnectionHandle {
  onread?: (this: ConnectionHandle, bytes?: ArrayBuffer) => void;
  /** Kept by Node's sockets, to know whether they must begin to read. */
  reading?: boolean;
  readStart(): number;
  readStop(): number;
  setNoDelay(on: boolean): number;
  getpeername(out: { address?: string }): number;
  close(closed?: (this: ConnectionHandle) => void): void;
  [bearer]?: BareConnection | undefined;
}

/** Whoever keeps the connections of a server. */
interface Keeper {
  onFirstBytes(bytes: Buffer, connection: BareConnection): void;
  onDecided(connection: BareConnection): void;
  onClosed(): void;
  giveToNode(handle: ConnectionHandle, prepare: (socket: Socket) => void): void;
}

// Shared by all handles: a closure for each would be kept as long as its connection. Without bytes the other end sends nothing more, or is gone.
function onFirstRead(this: ConnectionHandle, bytes?: ArrayBuffer): void {
  if (bytes === undefined) this[bearer]?.destroy();
  else this[bearer]?.onFirstBytes(Buffer.from(bytes));
}
function onRead(this: ConnectionHandle, bytes?: ArrayBuffer): void {
  if (bytes === undefined) this[bearer]?.onNoMore();
  else this[bearer]?.onBytes(bytes);
}
function onClosed(this: ConnectionHandle): void {
  this[bearer]?.onClosed();
}

export class BareConnection {
  readonly handle: ConnectionHandle;
  readonly #keeper: Keeper;
  /** What has come, for Node, until it is decided who has the connection. */
  #bytes: Buffer[] | undefined = [];
  #isOver = false;
  /** Nothing more comes: whoever asked may still read an answer, but no stream. */
  #isHalfClosed = false;
  /** Told when the connection has ended. */
  listener: { closed(): void } | undefined;

  constructor(handle: ConnectionHandle, keeper: Keeper) {
    this.handle = handle;
    this.#keeper = keeper;
    handle[bearer] = this;
    handle.onread = onFirstRead;
  }

  /** It has ended, or is a socket by now. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Where its other end is; empty when that is gone. */
  get address(): string {
    const out: { address?: string } = {};
    return this.#isOver || this.handle.getpeername(out) !== 0 ? '' : (out.address ?? '');
  }

  /** Reads; false when that fails. */
  begin(): boolean {
    if (this.handle.reading === true) return true;
    this.handle.reading = true;
    return this.handle.readStart() === 0;
  }

  /** The connection is the taker's for good. What has come is thrown away, and what comes. */
  keep(): void {
    this.#decide();
    if (this.#isHalfClosed) this.destroy();
    if (this.#isOver) return;
    this.handle.setNoDelay(true);
    this.begin();
  }

  /** Gives the connection to Node's server, with all that came. */
  handOver(prepare?: (socket: Socket) => void): void {
    if (this.#isOver) return;
    const bytes = this.#bytes ?? [];
    this.#decide();
    this.#letGo();
    this.#keeper.giveToNode(this.handle, (socket) => {
      if (bytes.length > 0) socket.unshift(Buffer.concat(bytes));
      prepare?.(socket);
    });
  }

  /** Makes a socket of one that was kept, for what a bare connection cannot do. */
  toSocket(): Socket {
    this.#letGo();
    // As Node's own servers make theirs; its types do not know the option.
    const socket = new Socket({ handle: this.handle } as object);
    return socket.on('close', () => this.#keeper.onClosed());
  }

  destroy(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#decide();
    this.handle.close(onClosed);
  }

  #decide(): void {
    if (this.#bytes === undefined) return;
    this.#bytes = undefined;
    this.#keeper.onDecided(this);
  }

  #letGo(): void {
    this.#isOver = true;
    this.#pause();
    this.handle[bearer] = undefined;
  }

  #pause(): void {
    this.handle.reading = false;
    this.handle.readStop();
  }

  // Called by the handle.

  onFirstBytes(bytes: Buffer): void {
    this.#bytes?.push(bytes);
    this.handle.onread = onRead;
    this.#keeper.onFirstBytes(bytes, this);
  }

  onBytes(bytes: ArrayBuffer): void {
    if (this.#bytes === undefined) return;
    this.#bytes.push(Buffer.from(bytes));
    // The rest waits in the kernel.
    this.#pause();
  }

  /** While it is not decided who has the connection, Node may be the one, and is told the same when it reads. */
  onNoMore(): void {
    if (this.#bytes === undefined) {
      this.destroy();
      return;
    }
    this.#isHalfClosed = true;
    this.#pause();
  }

  onClosed(): void {
    this.handle[bearer] = undefined;
    this.#keeper.onClosed();
    this.listener?.closed();
  }
}
