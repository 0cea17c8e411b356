/** Owns a real nginx for tests: with the configuration from the documentation, or with an unadapted one. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { Pair } from './certificates.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { mortal } from './mortal.ts';

/** A set-up that passes requests on and knows nothing of streams. */
const unadapted = `server {
  listen 443 ssl;
  ssl_certificate     /etc/nginx/ringfence.crt;
  ssl_certificate_key /etc/nginx/ringfence.key;
  location / { proxy_pass http://127.0.0.1:8080; }
}`;

/** The block of the page that people copy. */
async function documented(): Promise<string> {
  const page = await readFile(new URL('../../docs/tls-and-proxies.md', import.meta.url), 'utf8');
  return /```nginx\n([\s\S]*?)```/.exec(page)?.[1] ?? expect.fail('the page has no set-up of nginx');
}

export interface TestNginx {
  /** https://127.0.0.1:… */
  readonly url: string;
  close(): Promise<void>;
}

/** Speaks TLS with the certificate and passes requests on to `target`. */
export async function startNginx(
  setUp: 'documented' | 'unadapted',
  target: string,
  { cert, key }: Pair,
): Promise<TestNginx> {
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-nginx-'));
  const port = await freePort();
  const block = setUp === 'documented' ? await documented() : unadapted;
  const placed = block
    .replace('listen 443 ', `listen 127.0.0.1:${port} `)
    .replace('/etc/nginx/ringfence.crt', join(folder, 'tls.crt'))
    .replace('/etc/nginx/ringfence.key', join(folder, 'tls.key'))
    .replace('http://127.0.0.1:8080', target);
  expect(placed.split(folder)).toHaveLength(3);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  );
  const file = join(folder, 'nginx.conf');
  await Promise.all([
    writeFile(join(folder, 'tls.crt'), cert),
    writeFile(join(folder, 'tls.key'), key),
    writeFile(
      file,
      `daemon off; master_process off; pid ${join(folder, 'pid')}; error_log stderr error;
events {}
http { access_log off; ${temporary.join(' ')}
${placed} }
`,
    ),
  ]);
  const nginx = spawn(...mortal('/usr/sbin/nginx', ['-e', 'stderr', '-p', folder, '-c', file]), {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const close = async (): Promise<void> => {
    if (nginx.exitCode === null) {
      nginx.kill('SIGQUIT');
      setTimeout(() => nginx.kill('SIGKILL'), 5_000).unref();
      await once(nginx, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await eventually('nginx takes connections', () => answersAt(port));
    return { url: `https://127.0.0.1:${port}`, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function answersAt(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
