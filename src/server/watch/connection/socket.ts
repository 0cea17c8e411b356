/**
 * Owns the raw connection under a stream. Once a request has become a stream, the HTTP objects around its socket
 * (parser, request, response, listeners) have no use. The server releases them, which halves the cost of an idle
 * stream.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { keptOnTakeOver } from '../../http/listener/connections.ts';
import type { ConnectedSink } from '../opening.ts';
import type { Stream } from '../stream.ts';

const streamOf = Symbol('stream');
type StreamSocket = Socket & { [streamOf]?: Stream };

/** Up to this many bytes one copied buffer is quicker than several. */
const small = 8_192;
const sizeOf = (parts: readonly Buffer[]): number => parts.reduce((sum, part) => sum + part.length, 0);
const joined = (parts: readonly Buffer[]): Buffer | undefined =>
  parts.length < 8 && sizeOf(parts) < small ? Buffer.concat(parts) : undefined;

// Shared by all sockets: a closure for each would be kept as long as its stream.
function onClose(this: StreamSocket): void {
  this[streamOf]?.closed();
}
function onDrain(this: StreamSocket): void {
  this[streamOf]?.flushed();
}
function onData(this: StreamSocket, bytes: Buffer): void {
  this[streamOf]?.received(bytes);
}
/** The client sends nothing more: it is gone, or as good as gone, for the stream's connection serves nothing else. */
function onEnd(this: Socket): void {
  this.destroy();
}
function ignore(): void {
  // 'close' follows every error and reaches the stream.
}

/** What Node keeps on a server's socket, as far as it is let go here. Absent parts of another Node version do no harm. */
interface HttpParser {
  remove?: () => void;
  close?: () => void;
  socket?: unknown;
  incoming?: unknown;
  outgoing?: unknown;
}

let closing: HttpParser[] = [];

/** Not now: the parser may be the one that called us. Those of one turn of the event loop go together. */
function closeLater(parser: HttpParser): void {
  if (closing.push(parser) > 1) return;
  setImmediate(() => {
    const parsers = closing;
    closing = [];
    for (const one of parsers) one.close?.();
  });
}

function detach(socket: Socket, response: ServerResponse): void {
  const bearer = socket as Socket & { parser?: HttpParser | null };
  const parser = bearer.parser;
  // A listener for data makes Node's parser give the socket back.
  socket.on('data', ignore);
  for (const event of ['data', 'end', 'drain', 'timeout', 'error']) socket.removeAllListeners(event);
  for (const listener of socket.listeners('close') as (() => void)[]) {
    if (!(keptOnTakeOver in listener)) socket.off('close', listener);
  }
  response.detachSocket(socket);
  if (parser) {
    bearer.parser = null;
    parser.remove?.();
    parser.socket = null;
    parser.incoming = null;
    parser.outgoing = null;
    closeLater(parser);
  }
  socket.setTimeout(0);
  socket.setNoDelay(true);
}

class SocketSink implements ConnectedSink {
  readonly #socket: StreamSocket;

  constructor(socket: StreamSocket) {
    this.#socket = socket;
  }

  connect(stream: Stream): void {
    this.#socket[streamOf] = stream;
    // It closed before a stream was connected.
    if (this.#socket.destroyed) setImmediate(() => stream.closed());
  }

  write(bytes: readonly Buffer[]): boolean {
    const socket = this.#socket;
    const one = bytes.length === 1 ? bytes[0] : joined(bytes);
    if (one !== undefined) return socket.write(one);
    let hasRoom = true;
    socket.cork();
    for (const part of bytes) hasRoom = socket.write(part);
    socket.uncork();
    return hasRoom;
  }

  end(bytes: Buffer): void {
    this.#socket.end(bytes);
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

/** Makes a request's connection a stream's own. `twoWay`: the stream takes what the client sends. */
export function takeOver(
  request: IncomingMessage,
  response: ServerResponse,
  { twoWay = false }: { readonly twoWay?: boolean } = {},
): ConnectedSink {
  const { socket } = request;
  detach(socket, response);
  // Other data from the client is discarded, but its end counts.
  if (twoWay) socket.on('data', onData);
  socket.on('close', onClose).on('end', onEnd).on('error', ignore).on('drain', onDrain).resume();
  return new SocketSink(socket);
}
