/** HTTPS by the real server: streams, renewed certificates, and whose word on addresses is taken. */
import { createPrivateKey } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request as plainRequest } from 'node:http';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, createSecureContext, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { first, rsa, second, type Pair } from '../lib/certificates.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres } from '../lib/server.ts';

let postgres: TestPostgres;
let folder: string;
let files: { tlsCert: string; tlsKey: string };
beforeAll(async () => {
  postgres = await startPostgres();
  folder = await mkdtemp(join(tmpdir(), 'ringfence-tls-'));
  files = { tlsCert: join(folder, 'tls.crt'), tlsKey: join(folder, 'tls.key') };
});
afterAll(async () => {
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

const write = async ({ cert, key }: Pair): Promise<void> => {
  await writeFile(files.tlsCert, cert);
  await writeFile(files.tlsKey, key);
};

interface Asked {
  readonly token: string;
  readonly method?: string;
  readonly body?: unknown;
  readonly onData?: (text: string) => void;
}

/** Asks over TLS; gives status and body when the answer has ended. */
function ask(url: string, path: string, { token, method = 'GET', body, onData }: Asked): Promise<[number, string]> {
  return new Promise((resolve, reject) => {
    const asked = request(
      `${url}${path}`,
      {
        method,
        agent: false,
        ca: [first.cert, second.cert],
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => {
          text += chunk;
          onData?.(text);
        });
        answer.on('error', reject);
        answer.on('end', () => resolve([answer.statusCode ?? 0, text]));
      },
    );
    asked.on('error', reject);
    asked.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** The subject of the certificate that a new connection is shown. */
function subjectAt(url: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), ca: [first.cert, second.cert] }, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.end();
    });
    socket.on('error', reject);
  });
}

/** Connects, with a session or without; gives whether it was resumed, and the session to resume next. */
function shakeHands(url: string, options: ConnectionOptions = {}): Promise<{ reused: boolean; session: Buffer }> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), ca: [first.cert, second.cert], ...options });
    const done = (session: Buffer): void => {
      resolve({ reused: socket.isSessionReused(), session });
      socket.end();
    };
    socket.once('session', done).once('error', reject);
    // A resumed session of TLS 1.2 brings no new ticket.
    socket.once('secureConnect', () => {
      const session = socket.getSession();
      if (socket.isSessionReused() && session !== undefined) done(session);
    });
  });
}

/** Opens a stream on a connection that offers a session; gives whether it was resumed, once the stream has come to its tail. */
function openStream(url: string, org: string, { token, session }: { token: string; session: Buffer }) {
  return new Promise<boolean>((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const options = { method: 'POST', agent: false, ca: first.cert, session, headers } as const;
    const asked = request(`${url}/api/organizations/${org}/events`, options, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (!text.includes('"tail"')) return;
        resolve((answer.socket as TLSSocket).isSessionReused());
        asked.destroy();
      });
    });
    asked.on('error', reject).end(JSON.stringify([{ kind: 'device' }]));
  });
}

describe('TLS sessions', () => {
  const versions = [{ maxVersion: 'TLSv1.2' }, { maxVersion: 'TLSv1.3' }] as const;

  it('are resumed by every server with the same certificate and database, and by a renewed one with the same key, and by no other', async () => {
    await write(first);
    const [one, two] = [
      await startTestServer(postgres, { ...files, tls: { renewalMs: 10 } }),
      await startTestServer(postgres, files),
    ];
    const other = await startTestServer(postgres, { ...files, url: one.databaseUrl });
    try {
      for (const version of versions) {
        const { reused, session } = await shakeHands(one.url, version);
        expect(reused).toBe(false);
        const again = await Promise.all([one, other, two].map(({ url }) => shakeHands(url, { ...version, session })));
        expect(
          again.map((hands) => hands.reused),
          version.maxVersion,
        ).toEqual([true, true, false]);
      }
      const { session } = await shakeHands(one.url);
      // The same certificate and key, written another way.
      await write({
        cert: `${first.cert}\n`,
        key: createPrivateKey(first.key).export({ format: 'pem', type: 'sec1' }).toString(),
      });
      await expect.poll(() => one.logged()).toContain('the certificate was renewed');
      expect((await shakeHands(one.url, { session })).reused).toBe(true);
      await write(second);
      await expect.poll(() => subjectAt(one.url).catch(() => '')).toBe('second');
      expect((await shakeHands(one.url, { session })).reused).toBe(false);
    } finally {
      await Promise.all([one.close(), two.close(), other.close()]);
    }
  });

  it('end with their period: its secret is deleted, and a stream opens by a full handshake', async () => {
    await write(first);
    const server = await startTestServer(postgres, { ...files, tls: { ticketPeriodMs: 2_000 } });
    const database = new Client({ connectionString: server.databaseUrl });
    await database.connect();
    const secrets = async (): Promise<readonly string[]> =>
      (await database.query<{ secret: Buffer }>('SELECT secret FROM tls_ticket_secrets')).rows.map(({ secret }) =>
        secret.toString('hex'),
      );
    try {
      const token = server.adminToken;
      const [, text] = await ask(server.url, '/api/organizations', { token });
      const org: string = JSON.parse(text)[0].id;
      const [secret] = await secrets();
      const { session } = await shakeHands(server.url);
      const spoken = await Promise.all(versions.map((version) => shakeHands(server.url, version)));
      await expect.poll(async () => (await secrets())[0] !== secret).toBe(true);
      expect(await secrets()).toHaveLength(1);
      await expect.poll(() => openStream(server.url, org, { token, session })).toBe(false);
      for (const [index, version] of versions.entries()) {
        const old = spoken[index]?.session;
        // A session can be of a period that began after the first one.
        const resumes = async (): Promise<boolean> =>
          (await shakeHands(server.url, { ...version, ...(old && { session: old }) })).reused;
        await expect.poll(resumes).toBe(false);
      }
    } finally {
      await database.end();
      await server.close();
    }
  });
});

describe('over TLS', () => {
  it('requests are answered, and a stream lists, follows, and ends with its token', async () => {
    await write(first);
    const server = await startTestServer(postgres, files);
    try {
      expect(server.url).toMatch(/^https:/);
      const token = server.adminToken;
      const [status, text] = await ask(server.url, '/api/organizations', { token });
      expect(status).toBe(200);
      const org: string = JSON.parse(text)[0].id;
      const issued: Json = JSON.parse(
        (await ask(server.url, '/api/users/me/tokens', { token, method: 'POST', body: {} }))[1],
      );
      let seen = '';
      let devices = 0;
      const add = (): Promise<unknown> => {
        devices += 1;
        const body = { public_key: `k${devices}`, hostname: `host-${devices}` };
        return ask(server.url, `/api/organizations/${org}/devices`, { token, method: 'POST', body });
      };
      await add();
      const stream = ask(server.url, `/api/organizations/${org}/events`, {
        token: issued.token,
        method: 'POST',
        body: [{ kind: 'device' }],
        onData: (now) => (seen = now),
      });
      const shows = async (what: string): Promise<void> => {
        for (let tries = 0; !seen.includes(what) && tries < 12_000; tries += 1) await sleep(5);
        expect(seen).toContain(what);
      };
      await shows('"tail"');
      for (let n = 0; n < 20; n += 1) await add();
      await shows('"host-21"');
      await ask(server.url, `/api/tokens/${issued.id}`, { token, method: 'DELETE' });
      const [streamed, whole] = await stream;
      expect(streamed).toBe(200);
      expect(
        whole
          .trim()
          .split('\n')
          .filter((line) => line !== ''),
      ).toHaveLength(22);
    } finally {
      await server.close();
    }
  });

  it('a renewed certificate is shown to new connections, a half-written or wrong one never', async () => {
    await write(first);
    const server = await startTestServer(postgres, { ...files, tls: { renewalMs: 10 } });
    try {
      expect(await subjectAt(server.url)).toBe('first');
      await writeFile(files.tlsCert, second.cert);
      for (let tries = 0; !server.logged().includes('cannot reload the certificate') && tries < 12_000; tries += 1)
        await sleep(5);
      expect(server.logged()).toContain('cannot reload the certificate');
      expect(await subjectAt(server.url)).toBe('first');
      await writeFile(files.tlsKey, second.key);
      for (let tries = 0; (await subjectAt(server.url)) === 'first' && tries < 12_000; tries += 1) await sleep(5);
      expect(await subjectAt(server.url)).toBe('second');
      expect(server.logged()).not.toContain('PRIVATE KEY');
    } finally {
      await server.close();
    }
  });

  it('keys are forgotten and ciphers authenticate: no suite with static RSA or CBC is spoken, also after a renewal', async () => {
    await write(rsa);
    const server = await startTestServer(postgres, { ...files, tls: { renewalMs: 10 } });
    const { hostname, port } = new URL(server.url);
    /** The protocol and the suite of a handshake that offers nothing else, or undefined where the server refuses. */
    const spoken = (offer: ConnectionOptions): Promise<string | undefined> =>
      new Promise((resolve) => {
        const socket = connect({ host: hostname, port: Number(port), ca: [rsa.cert, first.cert], ...offer }, () => {
          resolve(`${socket.getProtocol()} ${socket.getCipher().name}`);
          socket.end();
        });
        socket.on('error', () => resolve(undefined));
      });
    const old = { maxVersion: 'TLSv1.2', minVersion: 'TLSv1.2' } as const;
    const refused = [
      'AES128-GCM-SHA256',
      'AES256-GCM-SHA384',
      'AES128-SHA',
      'AES256-SHA256',
      'ECDHE-RSA-AES128-SHA',
      'ECDHE-RSA-AES256-SHA384',
      'DHE-RSA-AES128-GCM-SHA256',
    ];
    const expectModern = async (kind: 'RSA' | 'ECDSA'): Promise<void> => {
      for (const ciphers of refused.map((name) => name.replace('ECDHE-RSA', `ECDHE-${kind}`)))
        expect(await spoken({ ...old, ciphers }), ciphers).toBeUndefined();
      const suite = `ECDHE-${kind}-AES128-GCM-SHA256`;
      expect(await spoken({ ...old, ciphers: suite })).toBe(`TLSv1.2 ${suite}`);
      expect(await spoken({ minVersion: 'TLSv1.3' })).toMatch(/^TLSv1\.3 TLS_/);
      expect(
        await spoken({ minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }),
      ).toBeUndefined();
    };
    try {
      await expectModern('RSA');
      await write(first);
      await expect.poll(() => subjectAt(server.url).catch(() => '')).toBe('first');
      await expectModern('ECDSA');
    } finally {
      await server.close();
    }
  });

  it('keys are exchanged in cheap groups only: a client that offers nothing but another group is refused', async () => {
    await write(rsa);
    const server = await startTestServer(postgres, { ...files, tls: { renewalMs: 10 } });
    const { hostname, port } = new URL(server.url);
    const isKnown = (ecdhCurve: string): boolean => {
      try {
        return createSecureContext({ ecdhCurve }) !== undefined;
      } catch {
        return false;
      }
    };
    const isSpoken = (offer: ConnectionOptions): Promise<boolean> =>
      new Promise((resolve) => {
        const options = { host: hostname, port: Number(port), ca: [rsa.cert, first.cert], ...offer };
        const socket = connect(options, () => {
          resolve(true);
          socket.end();
        });
        socket.on('error', () => resolve(false));
      });
    const curves = ['X25519', 'P-256', 'P-384', 'P-521', 'X448', 'secp224r1', 'secp256k1', 'brainpoolP256r1'];
    const others = ['brainpoolP512r1', 'sect571r1', 'brainpoolP256r1tls13', 'brainpoolP512r1tls13'];
    const finite = [2048, 3072, 4096, 6144, 8192].map((bits) => `ffdhe${bits}`);
    const hybrid = ['X25519MLKEM768', 'SecP256r1MLKEM768', 'SecP384r1MLKEM1024', 'MLKEM512', 'MLKEM768', 'MLKEM1024'];
    const groups = [...curves, ...others, ...finite, ...hybrid].filter(isKnown);
    const cheap = ['X25519', 'P-256', 'P-384'];
    const spokenIn = async (version: 'TLSv1.2' | 'TLSv1.3'): Promise<readonly string[]> => {
      const spoken: string[] = [];
      for (const ecdhCurve of groups)
        if (await isSpoken({ ecdhCurve, minVersion: version, maxVersion: version })) spoken.push(ecdhCurve);
      return spoken;
    };
    const expectCheap = async (inOld: readonly string[]): Promise<void> => {
      expect(await spokenIn('TLSv1.2')).toEqual(inOld);
      expect(await spokenIn('TLSv1.3')).toEqual([...cheap, ...['X25519MLKEM768'].filter(isKnown)]);
      // TLS 1.2 names the finite fields' suites apart. The client's own first choice costs nothing if the server knows the second.
      const dhe = { ciphers: 'DHE-RSA-AES128-GCM-SHA256:DHE-RSA-CHACHA20-POLY1305', maxVersion: 'TLSv1.2' } as const;
      expect(await isSpoken({ ...dhe, ecdhCurve: 'ffdhe8192:X25519' })).toBe(false);
      expect(await isSpoken({ ecdhCurve: 'ffdhe8192:X25519' })).toBe(true);
    };
    try {
      expect(groups).toEqual(expect.arrayContaining([...cheap, ...finite, 'P-521', 'X448']));
      await expectCheap(cheap);
      await write(first);
      await expect.poll(() => subjectAt(server.url).catch(() => '')).toBe('first');
      // A client of TLS 1.2 takes a certificate only if it speaks the certificate's own curve.
      await expectCheap(['P-256']);
    } finally {
      await server.close();
    }
  });

  it('browsers are told to come by HTTPS only, where that is how people reach the server', async () => {
    await write(first);
    const own = await startTestServer(postgres, files);
    const behind = await startTestServer(postgres, { publicUrl: 'https://ringfence.example' });
    const plain = await startTestServer(postgres, { publicUrl: 'http://localhost' });
    try {
      const headerOf = (url: string, path: string): Promise<string | undefined> =>
        new Promise((resolve, reject) => {
          const get = url.startsWith('https:') ? request : plainRequest;
          const asked = get(`${url}${path}`, { agent: false, ca: first.cert }, (answer) => {
            answer.resume();
            resolve(answer.headers['strict-transport-security']);
          });
          asked.on('error', reject).end();
        });
      for (const path of ['/healthz', '/ui/', '/api/users/me', '/nowhere']) {
        expect(await headerOf(own.url, path), path).toBe('max-age=31536000');
        expect(await headerOf(behind.url, path), path).toBe('max-age=31536000');
        expect(await headerOf(plain.url, path), path).toBeUndefined();
      }
    } finally {
      await Promise.all([own.close(), behind.close(), plain.close()]);
    }
  });

  it('a server whose key is of another certificate does not start, and says so', async () => {
    await write({ cert: first.cert, key: second.key });
    await expect(startTestServer(postgres, files)).rejects.toThrow(/cannot use the certificate .*tls\.crt/);
  });
});

describe('the address of a request', () => {
  const addressBehind = async (trustedProxy: readonly string[] | undefined, forwarded: string): Promise<string> => {
    const server = await startTestServer(postgres, trustedProxy === undefined ? {} : { trustedProxy });
    try {
      const { owner, base } = await newPlace(server);
      const body = { description: 'x' };
      await owner.api.ask('PATCH', base, { body, headers: { 'x-forwarded-for': forwarded } });
      const [entry] = await owner.api.expect(200, 'GET', `${base}/audit`);
      return entry.address;
    } finally {
      await server.close();
    }
  };

  it('is that of the connection, whatever a client claims, unless the connection is a trusted proxy', async () => {
    expect(await addressBehind(undefined, '192.0.2.7')).toBe('127.0.0.1');
    expect(await addressBehind(['10.0.0.0/8'], '192.0.2.7')).toBe('127.0.0.1');
  });

  it('is what the nearest trusted proxy saw, whatever a client put before it', async () => {
    expect(await addressBehind(['127.0.0.1'], '198.51.100.1, 192.0.2.7')).toBe('192.0.2.7');
    expect(await addressBehind(['127.0.0.0/8', '10.0.0.0/8'], '198.51.100.1, 192.0.2.7, 10.1.1.1')).toBe('192.0.2.7');
    expect(await addressBehind(['127.0.0.1'], 'no address')).toBe('127.0.0.1');
  });
});
