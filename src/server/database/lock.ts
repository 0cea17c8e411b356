/** Owns the lock that prevents two servers from using one data directory. */
import { stat } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { DatabaseError } from './errors.ts';

export interface DirectoryLock {
  release(): Promise<void>;
}

/** Asks the holder for its process id; undefined when it is gone or does not answer. */
function askHolder(name: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(name);
    socket.setTimeout(500, () => socket.destroy());
    socket.on('data', (chunk) => (text += chunk.toString('latin1')));
    socket.on('error', () => {});
    socket.on('close', () => resolve(/^\d+$/.test(text) ? Number(text) : undefined));
  });
}

function listen(name: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => {});
      socket.end(String(process.pid));
    });
    server.once('error', reject);
    server.listen(name, () => resolve(server.unref()));
  });
}

/**
 * Takes the lock or fails with `in_use`, naming the holder. The lock is an abstract unix socket named after the directory's
 * inode: the kernel grants it to one process at a time and drops it the moment that process dies, so
 * nothing stale is ever left behind. Elsewhere than on Linux PostgreSQL's own interlock remains, with a less friendly message.
 */
export async function lockDirectory(dir: string): Promise<DirectoryLock> {
  if (process.platform !== 'linux') return { release: () => Promise.resolve() };
  const { dev, ino } = await stat(dir, { bigint: true });
  const name = `\0ringfence-data-${dev}-${ino}`;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    try {
      const server = await listen(name);
      return { release: () => new Promise((resolve) => server.close(() => resolve())) };
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw cause;
      const pid = await askHolder(name);
      if (pid !== undefined) throw new DatabaseError('in_use', `another ringfence server (pid ${pid}) is using ${dir}`);
    }
  }
  throw new DatabaseError('in_use', `another ringfence server is using ${dir}`);
}
