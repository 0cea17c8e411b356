/**
 * Owns the direct write to the kernel for bytes that go to thousands of sockets. `socket.write` needs a request and a
 * tick for each write, which is a fifth of the cost of a broadcast. When the kernel takes all bytes at once, as it does
 * for every reader that keeps up, none of that is needed. If this Node version does not have the expected internals,
 * the server uses `socket.write`.
 */
import type { Socket } from 'node:net';

/** A write under way, as Node's own streams make it. */
interface WriteRequest {
  /** Of a request that is under way; -1 of one that never was, since the kernel took all bytes at once. */
  getAsyncId(): number;
  oncomplete?: (this: WriteRequest, status: number) => void;
  /** Kept alive until the kernel has it. */
  buffer?: Buffer;
}
type WriteRequestClass = new () => WriteRequest;

/** What lies under a socket. */
export interface Handle {
  writeBuffer(request: WriteRequest, bytes: Buffer): number;
}

export type Outcome = 'taken' | 'waiting' | 'failed';

let requestClass: WriteRequestClass | undefined;
/** Used for every write that the kernel takes at once: it leaves no trace in its request. */
let spare: WriteRequest | undefined;

function under(socket: Socket): Partial<Handle> | undefined {
  if ('encrypted' in socket) return undefined;
  const { _handle: handle } = socket as Socket & { _handle?: Partial<Handle> | null };
  return handle ?? undefined;
}

/** Learns from one ordinary write of this socket what a request is made of. To be called just before that write. */
export function learn(socket: Socket): void {
  const handle = under(socket);
  const original = handle?.writeBuffer;
  if (requestClass !== undefined || handle === undefined || original === undefined) return;
  handle.writeBuffer = (request, bytes) => {
    delete handle.writeBuffer;
    const made = request.constructor as WriteRequestClass;
    if (made.name === 'WriteWrap' && typeof request.getAsyncId === 'function') requestClass = made;
    return original.call(handle as Handle, request, bytes);
  };
}

/** Whether this, which Node has under a socket, can be written to directly. */
const isHandle = (handle: object): handle is Handle =>
  requestClass !== undefined && 'writeBuffer' in handle && typeof handle.writeBuffer === 'function';

/** The handle for direct writes to this socket, if there is one. */
export function directHandle(socket: Socket): Handle | undefined {
  const handle = under(socket);
  return handle !== undefined && isHandle(handle) ? handle : undefined;
}

/**
 * Writes past the socket's own queue, which must be empty. `waiting`: the kernel has not taken all bytes; `flushed`
 * reports when it has. `failed`: the connection is broken or closed.
 */
export function writeDirect(handle: Handle, bytes: Buffer, writer: { flushed(): void }): Outcome {
  if (requestClass === undefined) return 'failed';
  const request = (spare ??= new requestClass());
  const status = handle.writeBuffer(request, bytes);
  // The request itself must show it: bytes may leave the queue before the callback runs, and Node aborts the process
  // when a request is reused while it is in progress.
  if (request.getAsyncId() === -1) return status === 0 ? 'taken' : 'failed';
  spare = undefined;
  if (status !== 0) return 'failed';
  request.buffer = bytes;
  request.oncomplete = (ended) => {
    if (ended === 0) writer.flushed();
  };
  return 'waiting';
}
