/** Proves that nothing outlives an idle browser session: no stream, and no reconnecting one. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Person } from '../lib/person.ts';
import { startProvider, webClient, type TestProvider } from '../lib/provider.ts';
import { startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

const sessionIdle = 600;
let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let moment = Date.now();
beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  server = await startTestServer(postgres, {
    clock: () => moment,
    oidcIssuer: [provider.issuer],
    oidcClientId: webClient.id,
    sessionIdle,
    sessionLifetime: 86_400,
    sessionCheck: 86_400,
    streamMaxAge: 86_400,
  });
  provider.serveWeb(server.url, { isPublic: true });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

test('a stream ends with the idle session that opened it, and opening streams again and again is no use of it', async () => {
  const browser = new Person('watcher');
  await browser.follow(`${server.url}/api/auth/login`, { stop: `${server.url}/ui/` });
  const cookie = browser.cookieHeader;
  const api = server.nobody.asBrowser(cookie);
  const { id: org } = await api.expect(201, 'POST', '/api/organizations', { name: 'x' });
  const headers = { Cookie: cookie, 'X-Ringfence-Csrf': '1', Origin: server.url, 'Sec-Fetch-Site': 'same-origin' };
  const open = (): EventStream => new EventStream(server.url, undefined, org, [{ kind: 'device' }], { headers });

  const first = open();
  await first.tail();
  for (let opened = 0; opened < 3; opened += 1) {
    moment += (sessionIdle / 4) * 1000;
    const again = open();
    await again.tail();
    again.close();
  }
  expect(first.body.ended).toBe(false);
  moment += (sessionIdle / 4) * 1000;
  await first.until('its end', ({ body }) => body.ended);
  const late = open();
  await late.until('an answer', ({ status }) => status > 0);
  expect(late.status).toBe(401);
  late.close();
  expect((await api.get('/api/users/me')).status).toBe(401);
});
