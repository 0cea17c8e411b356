/** Proves how the server delivers the web UI: caching, compression, client-side routes, and a clear page when the UI was not built. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { fastify, type FastifyInstance } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readAssets, registerUi } from './ui.ts';

let folder: string;
let app: FastifyInstance;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'rf-ui-'));
  mkdirSync(join(folder, 'assets'));
  writeFileSync(join(folder, 'index.html'), '<!doctype html><title>UI</title>');
  writeFileSync(join(folder, 'assets/main-abc.js'), 'run()');
  writeFileSync(join(folder, 'assets/main-abc.js.gz'), gzipSync('run()'));
  writeFileSync(join(folder, 'secret.txt'), 'not for serving');
  app = fastify();
  registerUi(app, readAssets(folder));
});
afterAll(async () => {
  await app.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('the built UI', () => {
  it('is answered at every address below /ui/, to be checked each time, under a policy without inline code', async () => {
    for (const url of ['/ui/', '/ui/o/some/devices', '/ui/secret.txt', '/ui/..%2fsecret.txt']) {
      const { statusCode, headers, body } = await app.inject({ url });
      expect([url, statusCode, body]).toEqual([url, 200, '<!doctype html><title>UI</title>']);
      expect(headers['cache-control']).toBe('no-cache');
      expect(headers['content-security-policy']).toContain("script-src 'self'");
      expect(headers['content-security-policy']).not.toContain('unsafe');
    }
  });

  it('keeps hashed files for good, compressed where the browser takes it', async () => {
    const plain = await app.inject({ url: '/ui/assets/main-abc.js' });
    expect(plain.body).toBe('run()');
    expect(plain.headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
    });
    const small = await app.inject({ url: '/ui/assets/main-abc.js', headers: { 'accept-encoding': 'br, gzip' } });
    expect(small.headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(small.rawPayload).toString()).toBe('run()');
    const refused = await app.inject({ url: '/ui/assets/main-abc.js', headers: { 'accept-encoding': 'gzip;q=0' } });
    expect(refused.headers['content-encoding']).toBeUndefined();
  });

  it('answers 304 to whoever has the file, and 404 to a file of an older build', async () => {
    const { headers } = await app.inject({ url: '/ui/' });
    const again = await app.inject({ url: '/ui/', headers: { 'if-none-match': `W/"x", ${String(headers.etag)}` } });
    expect([again.statusCode, again.body]).toEqual([304, '']);
    expect((await app.inject({ url: '/ui/assets/main-old.js' })).statusCode).not.toBe(200);
  });
});

it('says what to do where nothing was built', async () => {
  const bare = fastify();
  registerUi(bare, readAssets(join(folder, 'missing')));
  const { statusCode, body, headers } = await bare.inject({ url: '/ui/anything' });
  expect(statusCode).toBe(200);
  expect(body).toContain('npm run build');
  expect(headers['content-security-policy']).toContain("default-src 'none'");
  await bare.close();
});
