/** Owns real reverse proxies for tests: each set up as docs/tls-and-proxies.md says, and an nginx that knows nothing of streams. */
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

const proxyNames = [
  'nginx',
  'nginx without the docs',
  'HAProxy',
  'HAProxy without TLS',
  'Apache',
  'Caddy',
  'Varnish',
] as const;
export type ProxyName = (typeof proxyNames)[number];

export interface TestProxy {
  /** https://127.0.0.1:…, or http: where the proxy itself speaks no TLS. */
  readonly url: string;
  close(): Promise<void>;
}

interface Place {
  readonly folder: string;
  readonly port: number;
  /** The address of the server, without `http://`. */
  readonly target: string;
}

interface SetUp {
  readonly program: string;
  readonly protocol: 'http' | 'https';
  /** What replaces what is only true on the machine of a reader of the docs; each must be there. */
  readonly replacements: (place: Place) => readonly (readonly [string, string])[];
  /** The configuration around the block of the docs. */
  readonly wrap?: (block: string, place: Place) => string;
  readonly args: (file: string, place: Place) => readonly string[];
}

const modules = 'mpm_event authz_core ssl socache_shmcb proxy proxy_http http2'.split(' ');
const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];

const nginx: SetUp = {
  program: '/usr/sbin/nginx',
  protocol: 'https',
  replacements: ({ folder, port, target }) => [
    ['listen 443 ', `listen 127.0.0.1:${port} `],
    ['/etc/nginx/ringfence.crt', join(folder, 'tls.crt')],
    ['/etc/nginx/ringfence.key', join(folder, 'tls.key')],
    ['127.0.0.1:8080', target],
  ],
  wrap: (block, { folder }) => `daemon off; master_process off; pid ${join(folder, 'pid')}; error_log stderr error;
events {}
http { access_log off; ${temporary.map((name) => `${name}_temp_path ${join(folder, name)};`).join(' ')}
${block} }
`,
  args: (file, { folder }) => ['-e', 'stderr', '-p', folder, '-c', file],
};

const haproxy: SetUp = {
  program: '/usr/sbin/haproxy',
  protocol: 'https',
  replacements: ({ folder, port, target }) => [
    ['bind :443 ', `bind 127.0.0.1:${port} `],
    ['/etc/haproxy/ringfence.pem', join(folder, 'tls.pem')],
    ['127.0.0.1:8080', target],
  ],
  args: (file) => ['-db', '-q', '-f', file],
};

const setUps: { readonly [Name in ProxyName]: SetUp } = {
  nginx,
  'nginx without the docs': nginx,
  HAProxy: haproxy,
  'HAProxy without TLS': {
    ...haproxy,
    protocol: 'http',
    replacements: ({ port, target }) => [
      ['bind :443 ssl crt /etc/haproxy/ringfence.pem alpn h2,http/1.1', `bind 127.0.0.1:${port}`],
      ['127.0.0.1:8080', target],
    ],
  },
  Apache: {
    program: '/usr/sbin/apache2',
    protocol: 'https',
    replacements: ({ folder, port, target }) => [
      ['<VirtualHost *:443>', `<VirtualHost 127.0.0.1:${port}>`],
      ['/etc/apache2/ringfence.crt', join(folder, 'tls.crt')],
      ['/etc/apache2/ringfence.key', join(folder, 'tls.key')],
      ['127.0.0.1:8080', target],
    ],
    wrap: (block, { folder, port }) => `ServerRoot ${folder}
DefaultRuntimeDir ${folder}
PidFile ${join(folder, 'pid')}
ErrorLog ${join(folder, 'error.log')}
User www-data
Group www-data
${modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`).join('\n')}
Listen 127.0.0.1:${port}
${block}`,
    args: (file) => ['-X', '-f', file],
  },
  Caddy: {
    program: '/usr/bin/caddy',
    protocol: 'https',
    // Caddy of the docs gets its certificate by itself, which needs the internet.
    replacements: ({ folder, port, target }) => [
      [
        'ringfence.example {',
        `https://127.0.0.1:${port} {\n  tls ${join(folder, 'tls.crt')} ${join(folder, 'tls.key')}`,
      ],
      ['127.0.0.1:8080', target],
    ],
    wrap: (block) => `{\n  admin off\n  auto_https disable_redirects\n}\n${block}`,
    args: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
  },
  Varnish: {
    program: '/usr/sbin/varnishd',
    protocol: 'http',
    replacements: ({ target }) => {
      const [host = '', port = ''] = target.split(':');
      return [
        ['.host = "127.0.0.1"', `.host = "${host}"`],
        ['.port = "8080"', `.port = "${port}"`],
      ];
    },
    args: (file, { folder, port }) => [
      '-F',
      '-f',
      file,
      '-a',
      `127.0.0.1:${port}`,
      '-n',
      join(folder, 'varnish'),
      '-s',
      'malloc,16m',
      '-j',
      'none',
    ],
  },
};

/** A set-up of nginx that passes requests on and knows nothing of streams. */
const withoutDocs = `server {
  listen 443 ssl;
  ssl_certificate     /etc/nginx/ringfence.crt;
  ssl_certificate_key /etc/nginx/ringfence.key;
  location / { proxy_pass http://127.0.0.1:8080; }
}`;

/** The block of the page that people copy. */
async function documented(name: ProxyName): Promise<string> {
  const page = await readFile(new URL('../../docs/tls-and-proxies.md', import.meta.url), 'utf8');
  const [program] = name.split(' ');
  const section = page.split('\n### ').find((text) => text.startsWith(`${program}\n`));
  return /```\w+\n([\s\S]*?)```/.exec(section ?? '')?.[1] ?? expect.fail(`the page has no set-up of ${name}`);
}

/** Passes requests on to `target`, an address of plain HTTP; speaks TLS with the certificate. */
export async function startProxy(name: ProxyName, target: string, { cert, key }: Pair): Promise<TestProxy> {
  const { program, protocol, replacements, wrap = (block) => block, args } = setUps[name];
  const folder = await mkdtemp(join(tmpdir(), 'ringfence-proxy-'));
  const place: Place = { folder, port: await freePort(), target: new URL(target).host };
  let block = name === 'nginx without the docs' ? withoutDocs : await documented(name);
  for (const [from, to] of replacements(place)) {
    expect(block).toContain(from);
    block = block.replaceAll(from, () => to);
  }
  const file = join(folder, 'proxy.conf');
  await Promise.all([
    writeFile(join(folder, 'tls.crt'), cert),
    writeFile(join(folder, 'tls.key'), key),
    writeFile(join(folder, 'tls.pem'), cert + key),
    writeFile(file, wrap(block, place)),
  ]);
  const child = spawn(...mortal(program, args(file, place)), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: folder },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const close = async (): Promise<void> => {
    if (!hasEnded()) {
      child.kill('SIGTERM');
      setTimeout(() => child.kill('SIGKILL'), 5_000).unref();
      await once(child, 'exit');
    }
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await eventually(`${name} takes connections`, async () => {
      if (hasEnded()) throw new Error(`${name} has ended: ${output}`);
      return takesConnections(place.port);
    });
    return { url: `${protocol}://127.0.0.1:${place.port}`, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function takesConnections(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
