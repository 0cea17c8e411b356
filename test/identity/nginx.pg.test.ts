/** Runs the nginx set-up of `docs/tls-and-proxies.md` in a real nginx: streams pass as they come, and addresses cannot be forged. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freePort } from '../lib/free-port.ts';
import { first } from '../lib/certificates.ts';
import type { Json } from '../lib/http.ts';
import { startNginx, type TestNginx } from '../lib/nginx.ts';
import { startProvider, webClient, type TestProvider } from '../lib/provider.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let nginx: TestNginx;
let proxy: string;
// Another address of this machine than the proxy's, as clients have.
const agent = new Agent({ localAddress: '127.0.0.2', ca: [first.cert], keepAlive: true });

beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  // The server needs its public address, and the proxy has one only when it knows the server's address.
  const port = await freePort();
  nginx = await startNginx('documented', `http://127.0.0.1:${port}`, first);
  proxy = nginx.url;
  server = await startTestServer(postgres, {
    listen: { host: '127.0.0.1', port },
    trustedProxy: ['127.0.0.1'],
    publicUrl: proxy,
    oidcIssuer: [provider.issuer],
    oidcClientId: webClient.id,
    watch: { heartbeatMs: 300 },
  });
});
afterAll(async () => {
  agent.destroy();
  await nginx?.close();
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

async function ask(
  method: string,
  path: string,
  { token, body, headers = {} }: { token?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<IncomingMessage> {
  const asked = request(`${proxy}${path}`, {
    method,
    agent,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
  });
  asked.end(body === undefined ? undefined : JSON.stringify(body));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  return answer;
}

async function jsonOf(answer: IncomingMessage): Promise<Json> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}

it('each event and each heartbeat passes while the stream stays open', async () => {
  const { owner, org, base } = await newPlace(server);
  const answer = await ask('POST', `${base}/events`, { token: owner.token, body: [{ kind: 'device' }] });
  expect(answer.statusCode).toBe(200);
  let text = '';
  answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  const shows = async (what: string, so: () => boolean): Promise<void> => {
    for (let waited = 0; !so(); waited += 20) {
      if (waited > 60_000) expect.fail(`waited for ${what} in vain: ${text}`);
      await sleep(20);
    }
  };
  try {
    await shows('the tail', () => text.includes('"tail"'));
    for (const key of ['one', 'two', 'three']) {
      await owner.api.expect(201, 'POST', `/api/organizations/${org}/devices`, { public_key: key });
      await shows(key, () => text.includes(`"public_key":"${key}"`));
    }
    const before = text.length;
    await shows('a heartbeat', () => /^\n+$/.test(text.slice(before)));
  } finally {
    answer.destroy();
  }
});

it('the address in the audit is that of the client, whatever the client writes into X-Forwarded-For', async () => {
  const { owner, org } = await newPlace(server);
  const headers = { 'x-forwarded-for': '203.0.113.66', 'x-real-ip': '203.0.113.66', forwarded: 'for=203.0.113.66' };
  const made = await ask('POST', `/api/organizations/${org}/devices`, {
    token: owner.token,
    body: { public_key: 'k' },
    headers,
  });
  expect(made.statusCode).toBe(201);
  await jsonOf(made);
  const audit: Json[] = await owner.api.expect(200, 'GET', `/api/organizations/${org}/audit`);
  expect(audit.find(({ operation }) => operation === 'createDevice')).toMatchObject({ address: '127.0.0.2' });
});

it('the sign-in by browser begins at the public address, with cookies that are bound to it', async () => {
  const answer = await ask('GET', '/api/auth/login');
  answer.resume();
  expect(answer.headers.location).toMatch(new RegExp(`^${provider.issuer}/auth\\?`));
  const asked = new URL(answer.headers.location ?? '').searchParams;
  expect(asked.get('redirect_uri')).toBe(`${proxy}/api/auth/callback`);
  expect(answer.headers['set-cookie']).toEqual([expect.stringMatching(/^__Host-ringfence-sign-in=.*; Secure$/)]);
});
