/** Owns what every reverse proxy of docs/tls-and-proxies.md does for us, as tests that one proxy or another runs. */
import { once } from 'node:events';
import { Agent as PlainAgent, request as plainRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:http2';
import { Agent, request } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { first } from './certificates.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import type { Json } from './http.ts';
import { startProvider, webClient, type TestProvider } from './provider.ts';
import { startProxy, type ProxyName, type TestProxy } from './reverse-proxy.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from './server.ts';
import { EventStream } from './stream.ts';

interface ProxyTraits {
  /** Whether streams go both ways through it. Where it drops `Upgrade`, devices send small requests beside their stream. */
  readonly passesUpgrade: boolean;
  /** Whether it speaks TLS, and so HTTP/2 to browsers. */
  readonly speaksTls: boolean;
}

interface AskOptions {
  readonly token?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

const heartbeatMs = 3_000;
const silentMs = 4_000;
/** Requests through the proxy, one after the other. A change that the proxy passes on at once comes long before the last answer. */
const roundTrips = 20;

async function jsonOf(answer: IncomingMessage): Promise<Json> {
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}

export function proxyContract(name: ProxyName, { passesUpgrade, speaksTls }: ProxyTraits): void {
  let provider: TestProvider;
  let postgres: TestPostgres;
  let server: TestServer;
  let proxy: TestProxy;
  // Another address of this machine than the proxy's, as clients have.
  const from = { localAddress: '127.0.0.2', keepAlive: true };
  const [secure, plain] = [new Agent({ ...from, ca: [first.cert] }), new PlainAgent(from)];

  beforeAll(async () => {
    [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
    // The server needs its public address, and the proxy has one only when it knows the server's address.
    const port = await freePort();
    proxy = await startProxy(name, `http://127.0.0.1:${port}`, first);
    server = await startTestServer(postgres, {
      listen: { host: '127.0.0.1', port },
      trustedProxy: ['127.0.0.1'],
      publicUrl: proxy.url,
      oidcIssuer: [provider.issuer],
      oidcClientId: webClient.id,
      watch: { heartbeatMs, silentMs },
    });
  });
  afterAll(async () => {
    for (const agent of [secure, plain]) agent.destroy();
    await proxy?.close();
    await server?.close();
    await postgres?.stop();
    await provider?.stop();
  });

  async function ask(
    method: string,
    path: string,
    { token, body, headers = {} }: AskOptions = {},
  ): Promise<IncomingMessage> {
    const all = {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    };
    const url = proxy.url + path;
    const asked = speaksTls
      ? request(url, { method, agent: secure, headers: all })
      : plainRequest(url, { method, agent: plain, headers: all });
    asked.end(body === undefined ? undefined : JSON.stringify(body));
    const [answer] = (await once(asked, 'response')) as [IncomingMessage];
    return answer;
  }
  const open = (token: string, org: string, headers: Record<string, string> = {}): EventStream =>
    new EventStream(proxy.url, token, org, [{ kind: 'device' }], { ca: first.cert, headers });

  it('passes each change on at once, however little it is, and each heartbeat', async () => {
    const { owner, org, base } = await newPlace(server);
    const stream = open(owner.token, org);
    try {
      await stream.tail();
      for (const key of ['one', 'two', 'three', 'four', 'five']) {
        await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: key });
        for (let trip = 0; trip < roundTrips; trip += 1) (await ask('GET', '/healthz')).resume();
        expect(stream.raw).toContain(`"public_key":"${key}"`);
      }
      const before = stream.body.text.length;
      await stream.until('a heartbeat', ({ body }) => /^\n+$/.test(body.text.slice(before)));
    } finally {
      stream.close();
    }
  });

  it(
    passesUpgrade
      ? 'passes streams on that go both ways: signs of life in them keep a device online'
      : 'drops Upgrade, and a device that sends its signs of life as requests stays online',
    async () => {
      const { owner, org, base } = await newPlace(server);
      const { id, device_token: token } = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'k' });
      const headers = { Connection: 'Upgrade', Upgrade: 'ringfence-watch', Prefer: 'signs-of-life' };
      const stream = open(token, org, headers);
      try {
        await stream.until('the tail', ({ raw }) => raw.includes('"tail"'));
        const applied = `signs-of-life=${String(Math.round(silentMs / 2.25) / 1_000)}, heartbeat=${heartbeatMs / 1_000}`;
        expect([stream.status, stream.header('preference-applied')]).toEqual([passesUpgrade ? 101 : 200, applied]);
        const started = Date.now();
        await eventually('it was seen after it would have been offline', async () => {
          if (passesUpgrade) stream.send('\n');
          else expect((await jsonOf(await ask('GET', `${base}/devices/${id}`, { token }))).id).toBe(id);
          await sleep(silentMs / 10);
          const [status]: Json[] = await owner.api.expect(200, 'GET', `${base}/device_statuses`);
          return status.device_id === id && status.online && Date.parse(status.last_seen_at) > started + silentMs;
        });
        expect(stream.closed).toBe(false);
      } finally {
        stream.close();
      }
    },
  );

  it('hands over the address of the client, whatever the client writes into X-Forwarded-For', async () => {
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

  it('lets a browser sign in: it begins at the public address, with cookies that are bound to it', async () => {
    const answer = await ask('GET', '/api/auth/login');
    answer.resume();
    expect(answer.headers.location).toMatch(new RegExp(`^${provider.issuer}/auth\\?`));
    const asked = new URL(answer.headers.location ?? '').searchParams;
    expect(asked.get('redirect_uri')).toBe(`${proxy.url}/api/auth/callback`);
    const cookie = speaksTls ? /^__Host-ringfence-sign-in=.*; Secure$/ : /^ringfence-sign-in=/;
    expect(answer.headers['set-cookie']).toEqual([expect.stringMatching(cookie)]);
  });

  it.runIf(speaksTls)('speaks HTTP/2 to browsers', async () => {
    const session = connect(proxy.url, { ca: first.cert });
    try {
      const stream = session.request({ ':path': '/healthz' });
      const [head] = (await once(stream, 'response')) as [Record<string, unknown>];
      expect([head[':status'], session.alpnProtocol]).toEqual([200, 'h2']);
    } finally {
      session.destroy();
    }
  });
}
