/**
 * Owns connections before Node's HTTP server has them. Their first bytes are shown to one who may take the connection as it is, without the socket,
 * the parser and the listeners that Node makes for each; every other connection goes to Node with its bytes, as if nobody had looked.
 */
import type { Server, Socket } from 'node:net';
import { BareConnection, type ConnectionHandle } from './bare-connection.ts';

type OnConnection = (this: object, error: number, handle?: ConnectionHandle) => void;

/** A server of Node, as far as it is looked into here. */
type InnerServer = Server & {
  _handle?: { onconnection?: OnConnection } | null;
  _connections?: number;
  _emitCloseIfDrained?: () => void;
  closeAllConnections?: () => void;
};

/** A connection that says nothing for this long, or up to twice as long, is Node's to wait for, with its own time limits. */
const silenceMs = 500;
/** So many are given to Node in one turn of the event loop: whoever opens thousands and says nothing holds nobody else up. */
const slice = 50;

/** Takes the connection whose first bytes these are, or leaves it as it is. */
export type Taker = (bytes: Buffer, connection: BareConnection) => boolean;

export class BareConnections {
  readonly #server: InnerServer;
  readonly #takes: Taker;
  /** Those that have said nothing yet, and the look at them after which they came. */
  readonly #silent = new Map<BareConnection, number>();
  /** Those whose taker has not decided yet. */
  readonly #held = new Set<BareConnection>();
  #looks = 0;
  #isLooking = false;
  /** How Node takes a connection. */
  #toNode: ((handle: ConnectionHandle) => void) | undefined;

  /** Shows `takes` the first bytes of every connection of a server without TLS that does not listen yet. */
  static of(server: Server, takes: Taker): BareConnections {
    return new BareConnections(server, takes);
  }

  private constructor(server: Server, takes: Taker) {
    this.#server = server;
    this.#takes = takes;
    server.on('listening', () => this.#stepBetween());
    const { closeAllConnections } = this.#server;
    this.#server.closeAllConnections = () => {
      for (const connection of [...this.#silent.keys(), ...this.#held]) connection.destroy();
      closeAllConnections?.call(server);
    };
  }

  /** Where Node does not look as expected, nothing is done, and its server sees every connection first. */
  #stepBetween(): void {
    const server = this.#server;
    const { _handle: listening, _connections: count, _emitCloseIfDrained: emitClose } = server;
    const original = listening?.onconnection;
    if (listening === null || listening === undefined || typeof original !== 'function') return;
    if (typeof count !== 'number' || typeof emitClose !== 'function') return;
    this.#toNode = (handle) => original.call(listening, 0, handle);
    listening.onconnection = (error, handle) => {
      if (error !== 0 || handle === undefined || server.maxConnections > 0) original.call(listening, error, handle);
      else this.#accept(handle);
    };
  }

  #accept(handle: ConnectionHandle): void {
    const connection = new BareConnection(handle, this);
    this.#count(1);
    this.#silent.set(connection, this.#looks);
    if (!connection.begin()) connection.destroy();
    else if (!this.#isLooking) this.#lookLater();
  }

  #lookLater(): void {
    this.#isLooking = true;
    setTimeout(() => this.#look(), silenceMs).unref();
  }

  #look(): void {
    let left = slice;
    for (const [connection, since] of this.#silent) {
      // They stand in the order of their coming.
      if (since === this.#looks) break;
      if (left === 0) {
        setImmediate(() => this.#look());
        return;
      }
      left -= 1;
      connection.handOver();
    }
    this.#looks += 1;
    this.#isLooking = this.#silent.size > 0;
    if (this.#isLooking) this.#lookLater();
  }

  /** Node counts its connections, and a server that closes waits for them: so it does for these. */
  #count(change: 1 | -1): void {
    const { _connections: count = 0, _emitCloseIfDrained: emitClose } = this.#server;
    Object.assign(this.#server, { _connections: count + change });
    if (change < 0) emitClose?.call(this.#server);
  }

  // Called by the connections.

  onFirstBytes(bytes: Buffer, connection: BareConnection): void {
    this.#silent.delete(connection);
    this.#held.add(connection);
    if (!this.#takes(bytes, connection)) connection.handOver();
  }

  /** It has been decided who has the connection. */
  onDecided(connection: BareConnection): void {
    this.#silent.delete(connection);
    this.#held.delete(connection);
  }

  onClosed(): void {
    this.#count(-1);
  }

  giveToNode(handle: ConnectionHandle, prepare: (socket: Socket) => void): void {
    // Counted by Node from here on; first there, so that a server that closes does not think it was the last.
    this.#server.prependOnceListener('connection', prepare);
    this.#toNode?.(handle);
    this.#server.off('connection', prepare);
    this.#count(-1);
  }
}
