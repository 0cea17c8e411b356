/** Owns a real HAProxy in front of several servers: it asks each whether it is ready, and tries another where a connection fails. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import { freePort } from '../lib/free-port.ts';
import { mortal } from '../lib/mortal.ts';

export interface Haproxy {
  readonly url: string;
  /** Sends new requests to a server again, or no longer. */
  use(index: number, isUsed: boolean): Promise<void>;
  /** Asks no server any more whether it is ready: each counts as ready unless it is not used. */
  stopChecks(): Promise<void>;
}

/** It ends with the test. */
export async function startHaproxy(folder: string, servers: readonly string[]): Promise<Haproxy> {
  const port = await freePort();
  const lines = servers.map((url, index) => `  server s${index} ${new URL(url).host}`);
  const file = join(folder, 'haproxy.cfg');
  await writeFile(
    file,
    `global
  stats socket ${join(folder, 'haproxy.socket')} mode 600 level admin
defaults
  mode http
  timeout connect 2s
  timeout client 1h
  timeout server 1h
  timeout tunnel 1h
  option http-server-close
  option redispatch 1
  retries 3
frontend in
  bind 127.0.0.1:${port}
  default_backend servers
backend servers
  option httpchk GET /readyz
  timeout check 10s
  default-server check inter 500ms fall 2 rise 1
${lines.join('\n')}
`,
  );
  const child = spawn(...mortal('/usr/sbin/haproxy', ['-db', '-q', '-f', file]), {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  await eventually('HAProxy passes requests on', () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  const command = async (text: string): Promise<void> => {
    const socket = connect(join(folder, 'haproxy.socket'));
    socket.end(`${text}\n`);
    await once(socket.resume(), 'close');
  };
  return {
    url,
    use: (index, isUsed) => command(`set server servers/s${index} state ${isUsed ? 'ready' : 'maint'}`),
    async stopChecks() {
      for (const index of servers.keys()) await command(`disable health servers/s${index}`);
    },
  };
}
