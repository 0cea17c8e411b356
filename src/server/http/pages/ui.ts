/** Owns the delivery of the web UI from memory; when it was not built, the server sends a page that says so. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { HttpError } from '../../problems.ts';
import { page, pageHeaders } from './html.ts';

const placeholder = page(
  'Ringfence',
  `<h1>Ringfence</h1>
<p>The server is running, but its web interface was not built: run <code>npm run build</code> and start the server again.</p>
<ul>
<li><a href="/api/docs">The API, readable</a></li>
<li><a href="/api/openapi.json">The API as OpenAPI 3.1</a></li>
<li><a href="/readyz">Is it ready?</a></li>
</ul>`,
);

/** Only our own files, and no inline script or style: script that somebody puts into a name cannot run. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "worker-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
};

/** In order of preference; the suffix is that of the file which the build wrote. */
const encodings = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const;

interface Asset {
  readonly type: string;
  readonly etag: string;
  readonly bytes: Buffer;
  readonly encoded: ReadonlyMap<string, Buffer>;
  /** Its name holds a hash of its content: it never changes. */
  readonly immutable: boolean;
}

export type Assets = ReadonlyMap<string, Asset>;

/** Every built file by its path below `/ui/`; undefined where nothing was built. */
export function readAssets(folder: string): Assets | undefined {
  let names: readonly string[];
  try {
    names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  } catch {
    return undefined;
  }
  const known = new Set(names);
  const read = (name: string): Buffer => readFileSync(`${folder}/${name}`);
  const assets = names.flatMap((name): [string, Asset][] => {
    const type = types[name.slice(name.lastIndexOf('.') + 1)];
    if (type === undefined) return [];
    const bytes = read(name);
    const encoded = encodings.flatMap(([encoding, suffix]): [string, Buffer][] =>
      known.has(name + suffix) ? [[encoding, read(name + suffix)]] : [],
    );
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
    return [[name, { type, etag, bytes, encoded: new Map(encoded), immutable: name.startsWith('assets/') }]];
  });
  return assets.some(([name]) => name === 'index.html') ? new Map(assets) : undefined;
}

/** Beside the bundle where it was built; in `dist` where the sources run as they are. */
export const findAssets = (): Assets | undefined =>
  readAssets(fileURLToPath(new URL('./ui', import.meta.url))) ??
  readAssets(fileURLToPath(new URL('../../../../dist/ui', import.meta.url)));

/** Whether the header names the encoding with a weight above zero. */
const accepts = (header: string | undefined, encoding: string): boolean =>
  (header ?? '')
    .toLowerCase()
    .split(',')
    .some((part) => {
      const [name, weight] = part.split(';').map((word) => word.trim());
      return name === encoding && !/^q=0(\.0*)?$/.test(weight ?? '');
    });

function answer(asset: Asset, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  reply.headers({
    'content-security-policy': policy,
    'x-frame-options': 'DENY',
    'cache-control': asset.immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    vary: 'accept-encoding',
    etag: asset.etag,
  });
  const given = request.headers['if-none-match'];
  if (given?.split(',').some((tag) => tag.trim().replace(/^W\//, '') === asset.etag) === true) {
    return reply.code(304).send();
  }
  const encoding = [...asset.encoded.keys()].find((name) => accepts(request.headers['accept-encoding'], name));
  if (encoding !== undefined) reply.header('content-encoding', encoding);
  return reply.type(asset.type).send((encoding === undefined ? undefined : asset.encoded.get(encoding)) ?? asset.bytes);
}

export function registerUi(app: FastifyInstance, assets: Assets | undefined): void {
  app.get('/', (_request, reply) => reply.redirect('/ui/', 302));
  app.get('/ui', (_request, reply) => reply.redirect('/ui/', 302));
  if (assets === undefined) {
    app.get('/ui/*', (_request, reply) => reply.headers(pageHeaders).send(placeholder));
    return;
  }
  app.get<{ Params: { '*': string } }>('/ui/*', (request, reply) => {
    const path = request.params['*'];
    // A page of the UI has its own address; only the script knows which there are.
    const asset = assets.get(path) ?? (path.startsWith('assets/') ? undefined : assets.get('index.html'));
    if (asset === undefined) throw new HttpError('not_found', 'This file does not exist.');
    return answer(asset, request, reply);
  });
}
