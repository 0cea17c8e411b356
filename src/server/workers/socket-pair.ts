/** Owns the creation of two connected sockets for two processes. No third process can connect to them. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Neither is read from here: what comes is for whom it is handed to. */
export async function socketPair(): Promise<readonly [Socket, Socket]> {
  // Its owner alone may enter.
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-pair-'));
  const server = createServer({ pauseOnConnect: true });
  try {
    const path = join(folder, 'pair');
    server.listen({ path, exclusive: true });
    await once(server, 'listening');
    const accepted = once(server, 'connection');
    const one = connect(path).pause();
    await once(one, 'connect');
    const [other] = (await accepted) as [Socket];
    return [one, other];
  } finally {
    server.close();
    await rm(folder, { recursive: true, force: true });
  }
}
