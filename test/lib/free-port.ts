/** Owns the ports of programs that need one beforehand. A program that can report its port listens on 0 instead. */
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the kernel's range of ephemeral ports: until the program listens, and while it is down, no other program gets
 * the port by chance.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 1_000; attempt += 1) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
  throw new Error('there is no free port');
}
