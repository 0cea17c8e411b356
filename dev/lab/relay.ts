/** Owns the relay between the lab's hub and the server outside: it passes connections from devices on, byte by byte. */
import type { ChildProcess } from 'node:child_process';
import { connect, Server, type Socket } from 'node:net';
import type { Namespace } from './namespace.ts';
import { relayAddress } from './topology.ts';

/**
 * A socket stays in the namespace in which it was made, even when another process holds it. So a short-lived process
 * inside makes the listener and hands it over, and no interface of the machine itself is touched.
 */
const maker = `
const server = require('node:net').createServer({ pauseOnConnect: true });
server.listen(${relayAddress.port}, '${relayAddress.address}', () => process.send('listening', server));
`;

export class Relay {
  /** Where the server is at the moment. */
  target: { readonly host: string; readonly port: number } | undefined;
  readonly #listener: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(listener: Server) {
    this.#listener = listener;
    listener.on('connection', (near) => this.#pass(near));
  }

  static async open(hub: Namespace): Promise<Relay> {
    const child: ChildProcess = hub.spawn([process.execPath, '-e', maker], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const listener = await new Promise<Server>((resolve, reject) => {
      child.once('message', (_, handle) => {
        // Its maker would go on to accept connections beside us.
        child.kill('SIGKILL');
        if (handle instanceof Server) resolve(handle);
        else reject(new Error('the relay did not start'));
      });
      child.once('error', reject);
      child.once('close', (code) => reject(new Error(`the relay did not start: it ended with ${code}`)));
    });
    return new Relay(listener);
  }

  #pass(near: Socket): void {
    const { target } = this;
    if (target === undefined) {
      near.resetAndDestroy();
      return;
    }
    const far = connect({ ...target, noDelay: true });
    near.setNoDelay(true);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }

  close(): void {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
