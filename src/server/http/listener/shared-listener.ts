/** Owns a process's part in a shared port: it accepts connections, or pauses and leaves them to the other processes. */
import { Server as TcpServer, type ListenOptions } from 'node:net';

/**
 * How many connections may wait to be accepted: as many as the kernel allows, which cuts this to `net.core.somaxconn`. A fleet that comes back
 * at once must not be turned away while a process is busy for a moment.
 */
export const acceptQueue = 65_535;

export class SharedListener {
  readonly #server: TcpServer;
  readonly #at: ListenOptions;
  readonly #onWarning: (message: string, cause: unknown) => void;
  #opening = false;
  #closed = false;

  /** For a server that already listens, with the options that it listens with. */
  constructor(server: TcpServer, at: ListenOptions, onWarning: (message: string, cause: unknown) => void) {
    this.#server = server;
    this.#at = at;
    this.#onWarning = onWarning;
  }

  connections(): Promise<number> {
    return new Promise((resolve) => this.#server.getConnections((_error, count) => resolve(count ?? 0)));
  }

  /** Takes no more connections; those that are here stay as they are, which the close of an HTTP server would not let them. */
  pause(): void {
    if (this.#server.listening) TcpServer.prototype.close.call(this.#server);
  }

  /** Takes connections again. */
  open(): void {
    if (this.#server.listening || this.#opening || this.#closed) return;
    this.#opening = true;
    const server = this.#server;
    const settled = (): void => {
      server.off('listening', settled).off('error', failed);
      this.#opening = false;
      // `close` was called meanwhile.
      if (this.#closed) this.pause();
    };
    const failed = (cause: Error): void => {
      settled();
      this.#onWarning('cannot accept connections; trying again', cause);
    };
    server
      .on('listening', settled)
      .on('error', failed)
      .listen({ ...this.#at, backlog: acceptQueue });
  }

  /** Permanently: the server is about to end. */
  close(): void {
    this.#closed = true;
  }
}
