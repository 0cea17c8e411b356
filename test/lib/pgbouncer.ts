/** Owns a real PgBouncer for tests, in front of one PostgreSQL. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { asAccount, databaseAccount, type DatabaseNode } from './database-node.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';

export interface TestPgbouncer {
  readonly url: string;
  close(): Promise<void>;
}

/** At a free port unless one is given. With its own defaults but for the mode and the size of the pool: a small one, so that sessions change hands all the time. */
export async function startPgbouncer(
  node: DatabaseNode,
  mode: 'session' | 'transaction',
  poolSize: number,
  given?: number,
): Promise<TestPgbouncer> {
  const folder = await mkdtemp(join(tmpdir(), 'rf-pgbouncer-'));
  await chmod(folder, 0o755);
  const port = given ?? (await freePort());
  const file = join(folder, 'pgbouncer.ini');
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${node.port} user=ringfence
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${poolSize}
max_client_conn = 500
`,
  );
  const child = spawn(...asAccount(await databaseAccount(), '/usr/sbin/pgbouncer', ['-q', file]), {
    cwd: '/',
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const url = `postgres://ringfence@127.0.0.1:${port}/postgres`;
  const close = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await eventually('PgBouncer takes connections', async () => {
      const client = new Client({ connectionString: url });
      client.on('error', () => {});
      return client.connect().then(
        () => client.end().then(() => true),
        () => false,
      );
    });
    return { url, close };
  } catch (error) {
    await close();
    throw error;
  }
}
