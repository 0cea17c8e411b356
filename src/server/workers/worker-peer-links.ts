/** Owns a worker's connections to the others: messages are lines of JSON, and only a little is queued for one that does not read. */
import type { Socket } from 'node:net';

/** Bytes that may be queued for a worker that does not read. Further messages are dropped. */
const mostUnread = 1024 * 1024;

export class WorkerPeerLinks {
  readonly #links = new Set<Socket>();
  #listener: (message: unknown) => void = () => {};

  add(socket: Socket): void {
    this.#links.add(socket);
    // The beginning of a line whose end is to come.
    let begun = '';
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      const lines = text.split('\n');
      lines[0] = `${begun}${lines[0]}`;
      begun = lines.pop() ?? '';
      for (const line of lines) this.#listener(JSON.parse(line));
    });
    // An error needs no handling: `close` follows.
    socket.on('error', () => {});
    socket.on('close', () => this.#links.delete(socket));
    socket.resume();
  }

  send(message: unknown): void {
    if (this.#links.size === 0) return;
    const line = `${JSON.stringify(message)}\n`;
    for (const socket of this.#links) {
      if (socket.writable && socket.writableLength + line.length <= mostUnread) socket.write(line);
    }
  }

  listen(listener: (message: unknown) => void): void {
    this.#listener = listener;
  }

  close(): void {
    for (const socket of this.#links) socket.destroy();
  }
}
