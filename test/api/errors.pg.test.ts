/** Proves the error contract: problem+json with a request id for everything that can go wrong, and no secret anywhere. */
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { useServer } from '../lib/stage.ts';
import type { Answered } from '../lib/http.ts';
import { startTestServer } from '../lib/server.ts';

const stage = useServer();

/** A problem in the right form, of this status and code. */
function expectProblem(answer: Answered, status: number, code: string): void {
  expect([answer.status, answer.json?.code], answer.text).toEqual([status, code]);
  expect(answer.headers['content-type']).toBe('application/problem+json');
  expect(answer.json).toMatchObject({
    type: `/api/docs#error-${code}`,
    title: expect.any(String),
    status,
    detail: expect.stringMatching(/\.$/),
    instance: expect.stringMatching(/^\//),
    request_id: answer.headers['x-request-id'],
  });
}

const missing = '00000000-0000-4000-8000-000000000000';

describe('each status', () => {
  test('400: malformed JSON, malformed path ids, broken percent encodings', async () => {
    const post = (raw: string | Buffer) => stage.place.owner.api.ask('POST', '/api/organizations', { raw });
    for (const raw of ['{', '{"name":}', "{'name':'x'}", '[1,2', 'nonsense', Buffer.from([0x22, 0xff, 0x22])]) {
      expectProblem(await post(raw), 400, 'malformed_json');
    }
    const where = await post('{\n  "name": "secret",\n}');
    expect(where.json.detail).toMatch(/line 3, column 1/);
    expect(where.text).not.toContain('secret');
    for (const path of [
      '/api/organizations/x',
      '/api/organizations/1/devices',
      `${stage.place.base}/devices/${stage.place.org}x`,
      `/api/user/x/security_groups`,
      '/api/tokens/-',
    ]) {
      const method = path.startsWith('/api/tokens') ? 'DELETE' : 'GET';
      expectProblem(await stage.place.owner.api.ask(method, path), 400, 'malformed_path');
      // A request without a credential learns nothing else.
      expectProblem(await stage.server.nobody.ask(method, path), 401, 'unauthenticated');
    }
    expectProblem(await stage.place.owner.api.get('/api/organizations/%zz'), 400, 'malformed_path');
  });

  test('401: no credential, a wrong one, another scheme; with a challenge', async () => {
    const given = [
      undefined,
      'Bearer',
      'Bearer x',
      `Bearer rf_user_${'b'.repeat(43)}`,
      'Bearer rf_enroll_x',
      'Basic YTpi',
      `Bearer ${'x'.repeat(9000)}`,
    ];
    for (const authorization of given) {
      const answer = await stage.server.nobody.get(
        stage.place.base,
        authorization === undefined ? {} : { authorization },
      );
      expectProblem(answer, 401, 'unauthenticated');
      expect(answer.headers['www-authenticate']).toBe('Bearer realm="ringfence"');
    }
    expect(
      (await stage.server.nobody.get('/api/users/me', { authorization: `bearer  ${stage.place.owner.token}` })).status,
    ).toBe(200);
  });

  test('403: known but not allowed', async () => {
    expectProblem(await stage.place.member.api.patch(stage.place.base, { name: 'x' }), 403, 'forbidden');
  });

  test('404: absent, of another organization, or no path at all', async () => {
    expectProblem(await stage.place.owner.api.get(`/api/organizations/${missing}`), 404, 'not_found');
    expectProblem(await stage.place.stranger.api.get(stage.place.base), 404, 'not_found');
    expectProblem(await stage.server.admin.get(stage.place.base), 404, 'not_found');
    expectProblem(await stage.place.owner.api.get(`${stage.place.base}/devices/${missing}`), 404, 'not_found');
    expectProblem(await stage.place.owner.api.get('/api/nowhere'), 404, 'not_found');
    expectProblem(await stage.server.nobody.get('/nowhere'), 404, 'not_found');
    expectProblem(await stage.server.nobody.post('/api/nowhere', { a: 1 }), 404, 'not_found');
  });

  test('405: a path that knows other methods, and says which', async () => {
    const put = await stage.place.owner.api.put(stage.place.base, {});
    expectProblem(put, 405, 'method_not_allowed');
    expect(put.headers.allow).toBe('GET, HEAD, PATCH, DELETE');
    const get = await stage.place.owner.api.get(`${stage.place.base}/events`);
    expectProblem(get, 405, 'method_not_allowed');
    expect(get.headers.allow).toBe('POST');
    expect((await stage.server.nobody.ask('OPTIONS', '/user/me/tokens')).headers.allow).toBe('POST, GET, HEAD');
    expect((await stage.server.nobody.ask('DELETE', '/healthz')).status).toBe(405);
  });

  test('406: an Accept that JSON does not satisfy', async () => {
    const accepting = (accept: string) => stage.place.owner.api.get(stage.place.base, { accept });
    expectProblem(await accepting('text/html'), 406, 'not_acceptable');
    expectProblem(await accepting('application/json;q=0, */*'), 406, 'not_acceptable');
    for (const accept of [
      '*/*',
      'application/*',
      'text/html, */*;q=0.1',
      'application/json;charset=utf-8',
      'application/problem+json',
    ]) {
      expect((await accepting(accept)).status, accept).toBe(200);
    }
  });

  test('409: conflict', async () => {
    await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/devices`, { public_key: 'taken' });
    expectProblem(
      await stage.place.owner.api.post(`${stage.place.base}/devices`, { public_key: 'taken' }),
      409,
      'public_key_taken',
    );
  });

  test('412: If-Match', async () => {
    for (const tag of ['"999"', '999', '"1", "999"', 'W/"999"', 'nonsense', '""', '']) {
      const answer = await stage.place.owner.api.patch(stage.place.base, { name: 'x' }, { 'if-match': tag });
      expectProblem(answer, 412, 'precondition_failed');
    }
    for (const form of ['"#"', '#', '*', '"1", "#"', ' "#" ,']) {
      const { revision } = await stage.place.owner.api.expect(200, 'GET', stage.place.base);
      const tag = form.replace('#', String(revision));
      const answer = await stage.place.owner.api.patch(stage.place.base, { description: tag }, { 'if-match': tag });
      expect(answer.status, tag).toBe(200);
    }
  });

  test('413: a body with rules above 4 MiB, any other above 64 KiB; just below it is read', async () => {
    for (const [path, field, most] of [
      [`${stage.place.base}/security_groups`, 'group_name', 4 * 1024 * 1024],
      ['/api/organizations', 'name', 64 * 1024],
    ] as const) {
      const text = 'n'.repeat(most - 20);
      expectProblem(await stage.place.owner.api.post(path, { [field]: text }), 422, 'invalid');
      for (const more of [20, 1_000_000, 20_000_000]) {
        const answer = await stage.place.owner.api.post(path, { [field]: `${text}${'n'.repeat(more)}` });
        expectProblem(answer, 413, 'payload_too_large');
      }
    }
  });

  test('415: a body that is not JSON by its type', async () => {
    const typed = (type: string) =>
      stage.place.owner.api.ask('POST', '/api/organizations', {
        raw: '{"name":"x"}',
        headers: { 'content-type': type },
      });
    for (const type of ['text/plain', 'application/xml', 'application/x-www-form-urlencoded', 'nonsense']) {
      expectProblem(await typed(type), 415, 'unsupported_media_type');
    }
    const coded = (coding: string) =>
      stage.place.owner.api.ask('POST', '/api/organizations', {
        raw: '{"name":"x"}',
        headers: { 'content-type': 'application/json', 'content-encoding': coding },
      });
    expectProblem(await coded('gzip'), 415, 'unsupported_media_type');
    expect((await coded('identity')).status).toBe(201);
    expect((await typed('application/json; charset=utf-8')).status).toBe(201);
    expect((await typed('APPLICATION/JSON')).status).toBe(201);
  });

  test('422: every problem at once; nothing is coerced', async () => {
    const answer = await stage.place.owner.api.post('/api/organizations', { name: 5, description: ['x'], more: null });
    expectProblem(answer, 422, 'invalid');
    expect(answer.json.errors).toEqual([
      { pointer: '/more', code: 'unknown_field', detail: expect.any(String) },
      { pointer: '/name', code: 'not_a_string', detail: expect.any(String) },
      { pointer: '/description', code: 'not_a_string', detail: expect.any(String) },
    ]);
    for (const raw of ['null', '5', '"x"', '[]', 'true']) {
      expectProblem(await stage.place.owner.api.ask('POST', '/api/organizations', { raw }), 422, 'invalid');
    }
    expectProblem(await stage.place.owner.api.post('/api/organizations'), 422, 'invalid');
  });

  test('429: too many requests of one credential, with Retry-After; others are not slowed', async () => {
    let now = 1_900_000_000_000;
    const limited = await startTestServer(stage.postgres, { rateLimit: 2, rateBurst: 5, clock: () => now });
    try {
      const statuses = await Promise.all(Array.from({ length: 8 }, () => limited.admin.get('/api/users/me')));
      const refused = statuses.filter((answer) => answer.status === 429);
      expect(refused).toHaveLength(3);
      for (const answer of refused) {
        expectProblem(answer, 429, 'rate_limited');
        expect(answer.headers['retry-after']).toBe('1');
      }
      expect((await limited.nobody.get('/api/users/me')).status).toBe(401);
      now += 1000;
      expect((await limited.admin.get('/api/users/me')).status).toBe(200);
    } finally {
      await limited.close();
    }
  });

  test('400 and 431 of requests that are no HTTP are problems too', async () => {
    const { hostname, port } = new URL(stage.server.url);
    const exchange = (bytes: string): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = connect(Number(port), hostname, () => socket.write(bytes));
        let text = '';
        socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
        socket.on('close', () => resolve(text));
        socket.on('error', reject);
      });
    const broken = await exchange('NONSENSE\r\n\r\n');
    expect(broken).toMatch(/^HTTP\/1\.1 400 /);
    expect(JSON.parse(broken.split('\r\n\r\n')[1] ?? '')).toMatchObject({ status: 400, code: 'malformed_request' });
    const large = await exchange(`GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(20_000)}\r\n\r\n`);
    expect(large).toMatch(/^HTTP\/1\.1 431 /);
  });
});

describe('harmless', () => {
  test('duplicate keys, __proto__, deep JSON and huge numbers change nothing but their own request', async () => {
    const post = (raw: string) => stage.place.owner.api.ask('POST', '/api/organizations', { raw });
    const twice = await post('{"name":"first","name":"second"}');
    expect([twice.status, twice.json.name]).toEqual([201, 'second']);
    const proto = await post('{"name":"x","__proto__":{"description":"polluted"},"constructor":{"prototype":{"a":1}}}');
    expect(proto.status).toBe(422);
    expect(proto.json.errors.map((e: { pointer: string }) => e.pointer)).toEqual(['/__proto__', '/constructor']);
    expect(({} as { description?: string }).description).toBeUndefined();
    const deep = await stage.place.owner.api.ask('POST', `${stage.place.base}/security_groups`, {
      raw: `{"group_name":${'['.repeat(500_000)}${']'.repeat(500_000)}}`,
    });
    expect(deep.status).toBe(422);
    const huge = await stage.place.owner.api.ask('POST', `${stage.place.base}/security_groups`, {
      raw: '{"group_name":"x","inbound_rules":[{"ip_protocol":"tcp","from_port":1e400,"to_port":9007199254740993}]}',
    });
    expect(huge.status).toBe(422);
    expect((await post('{"name":"null \\u0000 byte"}')).status).toBe(422);
    expect((await post('{"name":"half \\ud800 pair"}')).status).toBe(422);
    expect((await post('{"name":"ok \\ud83d\\udc18 \\u2028"}')).status).toBe(201);
  });

  test('a method override, a fragment or a second slash does not lead around the guard', async () => {
    const paths = [
      `/${stage.place.base}`,
      `${stage.place.base}/`,
      `${stage.place.base}//devices`,
      `${stage.place.base}/../${stage.place.org}`,
      `/API/users/me`,
    ];
    for (const path of paths) expect((await stage.server.nobody.get(path)).status, path).toBe(404);
    expect((await stage.server.nobody.post(stage.place.base, {}, { 'x-http-method-override': 'PATCH' })).status).toBe(
      405,
    );
  });
});

describe('what an answer carries', () => {
  test('a request id that the log has too: given by the caller if it is a plain one, else made', async () => {
    const made = await stage.place.owner.api.get('/api/users/me');
    expect(made.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    const given = await stage.place.owner.api.get('/api/users/me', { 'x-request-id': 'trace-1' });
    expect(given.headers['x-request-id']).toBe('trace-1');
    const bad = await stage.place.owner.api.get('/api/users/me', { 'x-request-id': 'a b"c' });
    expect(bad.headers['x-request-id']).not.toContain('"');
    expect(stage.server.logged()).toContain('"req":"trace-1"');
  });

  test('headers that keep browsers and caches from doing more than asked', async () => {
    for (const answer of [
      await stage.place.owner.api.get('/api/users/me'),
      await stage.server.nobody.get('/nowhere'),
    ]) {
      expect(answer.headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
      });
      expect(answer.headers['x-powered-by']).toBeUndefined();
    }
  });

  test('no secret reaches a log line or an error', async () => {
    const { token } = await stage.place.owner.api.expect(201, 'POST', '/api/users/me/tokens', {});
    const { key } = await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/enrollment_keys`, {});
    const api = stage.server.nobody.as(token);
    const answers = [
      await api.get('/api/users/me'),
      await api.get(`/api/organizations/${token}`),
      await api.ask('POST', '/api/organizations', { raw: `{"name": ${token}` }),
      await stage.server.nobody.as(key).get(`${stage.place.base}/devices`),
      await stage.server.nobody.get('/api/users/me', { authorization: `Basic ${token}` }),
    ];
    for (const answer of answers) expect(answer.text.replace(/rf_user_\.\.\./, '')).not.toContain(key);
    expect(answers[2]?.text).not.toContain(token);
    for (const secret of [token, key, stage.place.owner.token, stage.server.adminToken]) {
      expect(stage.server.logged().includes(secret), 'the log holds a secret').toBe(false);
    }
  });
});
