/**
 * Owns which connections a process keeps: a limit for each address, a limit in total, and a timeout for silent ones. At
 * the limit, a new connection replaces the one that has been idle longest. A connection with a request in progress is
 * never closed for another.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { BlockList, isIP, type Server, type Socket } from 'node:net';
import { Server as TlsServer, type TLSSocket } from 'node:tls';
import { subscriberOf } from '../../limits/subscriber.ts';

/** A listener of `close` with this property stays on a socket that becomes a stream's, unlike those of the HTTP server. */
export const keptOnTakeOver = Symbol('kept on take-over');

export interface ConnectionLimits {
  /** Connections of the process. */
  readonly total: number;
  /** Connections from one address; of IPv6, from one /64. */
  readonly perAddress: number;
  /** How long a new connection may be silent. */
  readonly firstByteMs: number;
}

export type ConnectionEnd = 'address_limit' | 'process_limit' | 'silent';

export interface ConnectionsOptions {
  readonly limits: ConnectionLimits;
  /** Addresses and networks of proxies: each of their connections may be somebody else's, so they count in all only. */
  readonly trustedProxies: readonly string[];
  readonly onEnd: (why: ConnectionEnd) => void;
  /** Called after each TLS handshake. */
  readonly onHandshake?: (kind: 'full' | 'resumed') => void;
}

/** Beyond the limit, this many connections are kept for short requests, such as health checks: one answer each, and no streams. */
export const spareConnections = 16;
/** One address leaves this share of the process to others. */
const sharedPart = 1 / 4;
const lookEveryMs = 1_000;

interface Connection {
  readonly socket: Socket;
  /** The other end, by address and port. */
  readonly peer: string;
  /** Whose it is; undefined for a proxy's. */
  readonly subscriber: string | undefined;
  readonly isSpare: boolean;
  readonly since: number;
  /** Requests under way. */
  requests: number;
}

interface Subscriber {
  connections: number;
  /** Those without a request, the longest waiting first. */
  readonly idle: Set<Connection>;
}

/** For TLS, a request comes with another socket than the one that was accepted. */
const peerOf = ({ remoteAddress = '', remotePort = 0 }: Socket): string => `${remoteAddress} ${remotePort}`;

export class Connections {
  readonly #o: ConnectionsOptions;
  readonly #perAddress: number;
  readonly #proxies = new BlockList();
  readonly #all = new Set<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #bySubscriber = new Map<string, Subscriber>();
  /** Connections without a request, the longest waiting first. */
  readonly #idle = new Set<Connection>();
  /** Connections that have sent nothing yet, the oldest first. */
  readonly #silent = new Set<Connection>();
  /** TLS: connections whose handshake is under way, by their peers. */
  readonly #handshakes = new Map<string, Connection>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: ConnectionsOptions) {
    this.#o = options;
    const { total, perAddress } = options.limits;
    this.#perAddress = Math.max(1, Math.min(perAddress, Math.ceil(total * (1 - sharedPart))));
    for (const network of options.trustedProxies) {
      const [address = '', length] = network.split('/');
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
      if (length === undefined) this.#proxies.addAddress(address, family);
      else this.#proxies.addSubnet(address, Number(length), family);
    }
    this.#timer = setInterval(() => this.#endSilent(), lookEveryMs).unref();
  }

  get size(): number {
    return this.#all.size;
  }

  /** Guards a server that is not listening yet. */
  guard(server: Server): void {
    const accepts = server.listeners('connection') as ((socket: Socket) => void)[];
    server.removeAllListeners('connection');
    const shakesHands = server instanceof TlsServer;
    server.on('connection', (socket: Socket) => {
      const connection = this.#admit(socket);
      if (connection === undefined) {
        socket.resetAndDestroy();
        return;
      }
      if (shakesHands) this.#handshakes.set(connection.peer, connection);
      for (const accept of accepts) accept.call(server, socket);
    });
    if (shakesHands) {
      server.on('secureConnection', (socket: TLSSocket) => this.#secured(socket));
      // After a failed or slow handshake there is no client to answer. A graceful end would wait for the handshake for ever.
      server.removeAllListeners('tlsClientError');
      server.on('tlsClientError', (error: NodeJS.ErrnoException, socket: Socket) => {
        const late = error.code === 'ERR_TLS_HANDSHAKE_TIMEOUT' ? this.#handshakes.get(peerOf(socket)) : undefined;
        if (late === undefined) socket.destroy();
        else this.#end(late, 'silent');
      });
    }
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      const connection = this.#bySocket.get(request.socket);
      if (connection === undefined) return;
      this.#busy(connection);
      response.once('close', () => this.#answered(connection));
    });
  }

  /** Whether a request came on a connection that is kept for short requests. */
  isSpare(socket: Socket): boolean {
    return this.#bySocket.get(socket)?.isSpare === true;
  }

  /** Ends connections that have not begun to speak HTTP, which the close of a server would wait for. */
  endUnheard(): void {
    for (const { socket } of this.#silent) if (socket.bytesRead === 0) socket.destroy();
    for (const { socket } of this.#handshakes.values()) socket.destroy();
  }

  /** Ends every connection at once, also those with a request in progress. */
  close(): void {
    clearInterval(this.#timer);
    for (const { socket } of this.#all) socket.destroy();
  }

  #admit(socket: Socket): Connection | undefined {
    const subscriber = this.#subscriberOf(socket);
    if (subscriber !== undefined && !this.#hasRoomFor(subscriber)) {
      this.#o.onEnd('address_limit');
      return undefined;
    }
    const { total } = this.#o.limits;
    if (this.#all.size >= total + spareConnections && !this.#giveWay(this.#idle, 'process_limit')) {
      this.#o.onEnd('process_limit');
      return undefined;
    }
    const isSpare = this.#all.size >= total && !this.#giveWay(this.#idle, 'process_limit');
    const connection: Connection = {
      socket,
      peer: peerOf(socket),
      subscriber,
      isSpare,
      since: performance.now(),
      requests: 0,
    };
    this.#all.add(connection);
    this.#bySocket.set(socket, connection);
    this.#idle.add(connection);
    this.#silent.add(connection);
    if (subscriber !== undefined) {
      const known = this.#bySubscriber.get(subscriber) ?? { connections: 0, idle: new Set() };
      known.connections += 1;
      known.idle.add(connection);
      this.#bySubscriber.set(subscriber, known);
    }
    const onClose = (): void => this.#forget(connection);
    socket.on('close', Object.assign(onClose, { [keptOnTakeOver]: true }));
    return connection;
  }

  #subscriberOf({ remoteAddress = '' }: Socket): string | undefined {
    const subscriber = subscriberOf(remoteAddress);
    const isMapped = isIP(subscriber) === 4;
    const isProxy = isMapped ? this.#proxies.check(subscriber) : this.#proxies.check(remoteAddress, 'ipv6');
    return isProxy ? undefined : subscriber;
  }

  #hasRoomFor(subscriber: string): boolean {
    const known = this.#bySubscriber.get(subscriber);
    if (known === undefined || known.connections < this.#perAddress) return true;
    return this.#giveWay(known.idle, 'address_limit');
  }

  /** Ends the one that has waited longest; false where all have requests under way. */
  #giveWay(idle: ReadonlySet<Connection>, why: ConnectionEnd): boolean {
    const [longest] = idle;
    if (longest === undefined) return false;
    this.#end(longest, why);
    return true;
  }

  #end(connection: Connection, why: ConnectionEnd): void {
    this.#o.onEnd(why);
    this.#forget(connection);
    connection.socket.resetAndDestroy();
  }

  #forget(connection: Connection): void {
    if (!this.#all.delete(connection)) return;
    this.#idle.delete(connection);
    this.#silent.delete(connection);
    if (this.#handshakes.get(connection.peer) === connection) this.#handshakes.delete(connection.peer);
    const { subscriber } = connection;
    const known = subscriber === undefined ? undefined : this.#bySubscriber.get(subscriber);
    if (subscriber === undefined || known === undefined) return;
    known.connections -= 1;
    known.idle.delete(connection);
    if (known.connections === 0) this.#bySubscriber.delete(subscriber);
  }

  #secured(socket: TLSSocket): void {
    this.#o.onHandshake?.(socket.isSessionReused() ? 'resumed' : 'full');
    const connection = this.#handshakes.get(peerOf(socket));
    if (connection === undefined) return;
    this.#handshakes.delete(connection.peer);
    this.#bySocket.set(socket, connection);
  }

  #busy(connection: Connection): void {
    connection.requests += 1;
    this.#silent.delete(connection);
    this.#idle.delete(connection);
    if (connection.subscriber !== undefined) this.#bySubscriber.get(connection.subscriber)?.idle.delete(connection);
  }

  #answered(connection: Connection): void {
    connection.requests -= 1;
    if (connection.requests > 0 || !this.#all.has(connection)) return;
    this.#idle.add(connection);
    if (connection.subscriber !== undefined) this.#bySubscriber.get(connection.subscriber)?.idle.add(connection);
  }

  #endSilent(): void {
    const since = performance.now() - this.#o.limits.firstByteMs;
    for (const connection of this.#silent) {
      if (connection.since > since) return;
      this.#silent.delete(connection);
      if (connection.socket.bytesRead === 0) this.#end(connection, 'silent');
    }
  }
}
