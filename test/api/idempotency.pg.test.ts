/** Proves `Idempotency-Key` against the real server: a create that is repeated gets its first answer again, on every server (reference 4.5 (10)). */
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { IdempotentId } from '../../src/client/calls.ts';
import type { Answered, Api } from '../lib/http.ts';
import { newPlace, startTestServer, type TestServerOptions } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

const day = 86_400_000;
let ahead = 0;
const options: TestServerOptions = {
  clock: () => Date.now() + ahead,
  webhookHosts: [{ kind: 'exact', scheme: 'http:', host: '127.0.0.1', port: '9' }],
  oidcIssuer: ['https://login.example.org'],
};
const stage = useServer(() => options);

const second = lasting(
  () => startTestServer(stage.postgres, { ...options, url: stage.server.databaseUrl }),
  (one) => one.close(),
);

const post = (api: Api, path: string, body: unknown, key: string): Promise<Answered> =>
  api.post(path, body, { 'idempotency-key': key });

/** The path of a create in an organization; `own`: of groups of the user's own. */
const pathOf = (base: string, path: string): string =>
  path === 'own' ? `${base.replace('/organizations/', '/user/')}/security_groups` : `${base}${path}`;

const seen = ({ status, text, headers: { etag, location } }: Answered) => ({ status, text, etag, location });

async function rowsOf(text: string, values: readonly unknown[] = []): Promise<readonly Record<string, unknown>[]> {
  const client = new Client({ connectionString: stage.server.databaseUrl });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}

const newUser = (): Promise<string> =>
  stage.server.admin.expect(201, 'POST', '/api/users', { username: randomUUID() }).then(({ id }) => String(id));

interface Create {
  readonly path: () => string;
  /** Of one create: it can be used once. */
  readonly body: () => object | Promise<object>;
  readonly by?: 'administrator';
}
const inOrganization = (path: string, body: Create['body']): Create => ({
  path: () => pathOf(stage.place.base, path),
  body,
});

/** Every operation that honours the header. */
const creates: Readonly<Record<IdempotentId, Create>> = {
  createSecurityGroup: inOrganization('/security_groups', () => ({
    group_name: randomUUID(),
    applies_to: [{ labels: [`l-${randomUUID().slice(0, 8)}`] }],
  })),
  createUserSecurityGroup: inOrganization('own', () => ({ group_name: randomUUID() })),
  createDevice: inOrganization('/devices', () => ({ public_key: randomUUID(), hostname: 'h' })),
  createEnrollmentKey: inOrganization('/enrollment_keys', () => ({ name: 'ci', uses: 3 })),
  createWebhook: inOrganization('/webhooks', () => ({ url: 'http://127.0.0.1:9/x', events: ['device.offline'] })),
  createInvitation: inOrganization('/invitations', () => ({ email: `${randomUUID()}@example.org` })),
  addMember: inOrganization('/members', async () => ({ user_id: await newUser() })),
  applyChanges: inOrganization('/changes', () => ({ security_groups: [{ group_name: randomUUID() }] })),
  createOrganization: { path: () => '/api/organizations', body: () => ({ name: randomUUID(), description: 'd' }) },
  createMyToken: { path: () => '/api/users/me/tokens', body: () => ({ name: 'ci', scope: 'read-only' }) },
  createUser: { path: () => '/api/users', body: () => ({ username: randomUUID() }), by: 'administrator' },
  createUserToken: {
    path: () => `/api/users/${stage.place.member.id}/tokens`,
    body: () => ({ name: 'ci', scope: 'read-only' }),
    by: 'administrator',
  },
};
const cases = Object.entries(creates);
const tokenOf = ({ by }: Create): string => (by === undefined ? stage.place.owner.token : stage.server.adminToken);

/** Every write leaves an entry in the audit. */
const countWrites = async (): Promise<unknown> => (await rowsOf('SELECT count(*) FROM audit'))[0]?.['count'];

describe('a create with an Idempotency-Key', () => {
  test.each(cases)(
    'that is repeated gets the first answer again, from another server too, and nothing is written twice: %s',
    async (id, create) => {
      const [path, asked, key, token] = [create.path(), await create.body(), randomUUID(), tokenOf(create)];
      const api = stage.server.nobody.as(token);
      const before = await countWrites();
      const first = await post(api, path, asked, key);
      expect(first.status, first.text).toBe(id === 'applyChanges' ? 200 : 201);
      const after = await countWrites();
      expect(after).not.toBe(before);
      // The order of fields does not matter.
      const reversed = Object.fromEntries(Object.entries(asked).toReversed());
      expect(seen(await post(api, path, reversed, key))).toEqual(seen(first));
      expect(seen(await post(second().nobody.as(token), path, asked, key))).toEqual(seen(first));
      expect(await countWrites()).toBe(after);
    },
  );

  test.each(cases)('that is sent ten times at once, to two servers, is made once: %s', async (_id, create) => {
    const [path, asked, key, token] = [create.path(), await create.body(), randomUUID(), tokenOf(create)];
    const apis = [stage.server.nobody.as(token), second().nobody.as(token)];
    const sent = Array.from({ length: 5 }, () => apis.map((api) => post(api, path, asked, key)));
    const answers = await Promise.all(sent.flat());
    expect(new Set(answers.map(({ text }) => text)).size, answers.map(({ text }) => text).join('\n')).toBe(1);
    expect(answers[0]?.status).toBeLessThan(300);
  });

  test('for another body, query or operation is 422 idempotency_key_reused, and nothing is written', async () => {
    const { base, owner } = stage.place;
    const [key, asked] = [randomUUID(), { group_name: 'first' }];
    expect((await post(owner.api, `${base}/security_groups`, asked, key)).status).toBe(201);
    const head = (await owner.api.expect(200, 'GET', base)).revision;
    for (const [path, body] of [
      ['/security_groups', { group_name: 'other' }],
      ['/security_groups?force=true', asked],
      ['own', asked],
      ['/changes', { security_groups: [asked] }],
    ] as const) {
      const { status, json } = await post(owner.api, pathOf(base, path), body, key);
      expect([status, json.code], path).toEqual([422, 'idempotency_key_reused']);
      expect(json.errors, path).toEqual([{ pointer: '', code: 'idempotency_key_reused', detail: json.detail }]);
    }
    expect((await owner.api.expect(200, 'GET', base)).revision).toBe(head);
  });

  test('is 422 idempotency_key_reused for another user in the path, and for another create outside of organizations', async () => {
    const { admin } = stage.server;
    const { member, owner } = stage.place;
    const [key, asked] = [randomUUID(), { name: 'ci' }];
    expect((await post(admin, `/api/users/${member.id}/tokens`, asked, key)).status).toBe(201);
    for (const path of [`/api/users/${owner.id}/tokens`, '/api/users/me/tokens', '/api/organizations']) {
      const { status, json } = await post(admin, path, asked, key);
      expect([status, json.code], path).toEqual([422, 'idempotency_key_reused']);
    }
  });

  test('does not meet the same key of the same user in an organization when it is made outside of them', async () => {
    const { base, owner } = stage.place;
    const key = randomUUID();
    expect((await post(owner.api, '/api/organizations', { name: 'one' }, key)).status).toBe(201);
    expect((await post(owner.api, `${base}/security_groups`, { group_name: 'one' }, key)).status).toBe(201);
  });

  test('does not meet the same key of another user or in another organization', async () => {
    const { base, owner, member } = stage.place;
    const other = await newPlace(stage.server);
    const [key, asked] = [randomUUID(), { group_name: 'mine' }];
    const answers = [
      await post(owner.api, pathOf(base, 'own'), asked, key),
      await post(member.api, pathOf(base, 'own'), asked, key),
      await post(other.owner.api, pathOf(other.base, 'own'), asked, key),
    ];
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(3);
    const organizations = [owner, member].map(({ api }) => post(api, '/api/organizations', { name: 'same' }, key));
    expect(new Set((await Promise.all(organizations)).map(({ json }) => json.id)).size).toBe(2);
  });

  test('that was refused is judged again', async () => {
    const { base, owner } = stage.place;
    const [key, asked] = [randomUUID(), { public_key: randomUUID() }];
    const holder = await owner.api.expect(201, 'POST', `${base}/devices`, asked);
    expect((await post(owner.api, `${base}/devices`, asked, key)).json.code).toBe('public_key_taken');
    await owner.api.expect(200, 'DELETE', `${base}/devices/${holder.id}`);
    expect((await post(owner.api, `${base}/devices`, asked, key)).status).toBe(201);
  });

  test('that was refused outside of organizations is judged again', async () => {
    const { admin } = stage.server;
    const [key, username] = [randomUUID(), randomUUID()];
    const { id } = await admin.expect(201, 'POST', '/api/users', { username: `${username}-other` });
    const path = `/api/users/${id}/tokens`;
    const tooEarly = { expires_at: new Date(Date.now() - 1_000).toISOString() };
    expect((await post(admin, path, tooEarly, key)).status).toBe(422);
    expect((await post(admin, path, {}, key)).status).toBe(201);
    await admin.expect(201, 'POST', '/api/users', { username });
    const taken = randomUUID();
    expect((await post(admin, '/api/users', { username }, taken)).json.code).toBe('username_taken');
    expect((await post(admin, '/api/users', { username: `${username}-2` }, taken)).status).toBe(201);
  });

  test('gets its answer again although what it wrote has changed or makes the same request impossible since', async () => {
    const { base, owner } = stage.place;
    const gone = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'gone' });
    const [key, asked] = [randomUUID(), { delete: [gone.id], security_groups: [{ group_name: 'instead' }] }];
    const first = await post(owner.api, `${base}/changes`, asked, key);
    expect(first.status, first.text).toBe(200);
    expect(seen(await post(owner.api, `${base}/changes`, asked, key))).toEqual(seen(first));
    expect((await owner.api.post(`${base}/changes`, asked)).status).toBe(422);
  });

  test('repeats its warnings word for word', async () => {
    const { base, owner } = stage.place;
    const name = randomUUID();
    await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: name });
    const [key, asked] = [randomUUID(), { group_name: name }];
    const first = await post(owner.api, `${base}/security_groups`, asked, key);
    expect(first.json.warnings).toMatchObject([{ code: 'same_name' }]);
    await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: name });
    expect(seen(await post(owner.api, `${base}/security_groups`, asked, key))).toEqual(seen(first));
  });

  test.each(['', 'two words', 'x'.repeat(256), 'ümlaut'])(
    'must be 1 to 255 visible ASCII characters: %j',
    async (key) => {
      const { base, owner } = stage.place;
      const { status, json } = await post(owner.api, `${base}/security_groups`, { group_name: 'g' }, key);
      expect([status, json.code]).toEqual([400, 'malformed_request']);
    },
  );

  test('is not answered for a user who has lost the right meanwhile', async () => {
    const { base, owner, member } = await newPlace(stage.server);
    const [key, asked] = [randomUUID(), { group_name: 'mine' }];
    expect((await post(member.api, pathOf(base, 'own'), asked, key)).status).toBe(201);
    await owner.api.expect(200, 'DELETE', `${base}/members/${member.id}`);
    expect((await post(member.api, pathOf(base, 'own'), asked, key)).status).toBe(404);
  });

  test('is not answered for an administrator who is none any more, nor for a token that was revoked', async () => {
    const { admin } = stage.server;
    const id = await newUser();
    await rowsOf('UPDATE users SET is_admin = true WHERE id = $1', [id]);
    const { id: token, token: secret } = await admin.expect(201, 'POST', `/api/users/${id}/tokens`, {});
    const api = stage.server.nobody.as(secret);
    const [key, asked] = [randomUUID(), { username: randomUUID() }];
    expect((await post(api, '/api/users', asked, key)).status).toBe(201);
    await rowsOf('UPDATE users SET is_admin = false WHERE id = $1', [id]);
    expect((await post(api, '/api/users', asked, key)).status).toBe(403);
    const mine = await post(api, '/api/organizations', { name: 'mine' }, key);
    expect(mine.json.code, mine.text).toBe('idempotency_key_reused');
    await admin.expect(200, 'DELETE', `/api/tokens/${token}`);
    expect((await post(api, '/api/users', asked, key)).status).toBe(401);
  });

  test('is forgotten with its organization', async () => {
    const { org, base, owner } = await newPlace(stage.server);
    expect((await post(owner.api, `${base}/security_groups`, { group_name: 'g' }, randomUUID())).status).toBe(201);
    const known = (): Promise<unknown> => rowsOf('SELECT FROM idempotency_keys WHERE org_id = $1', [org]);
    expect(await known()).toHaveLength(1);
    await owner.api.expect(200, 'DELETE', base);
    expect(await known()).toEqual([]);
  });

  test('is forgotten after a day: then the same request is a new one', async () => {
    const { base, owner } = stage.place;
    const [key, asked] = [randomUUID(), { group_name: 'daily' }];
    const first = await post(owner.api, `${base}/security_groups`, asked, key);
    onTestFinished(() => void (ahead = 0));
    ahead = day - 60_000;
    expect(seen(await post(owner.api, `${base}/security_groups`, asked, key))).toEqual(seen(first));
    ahead = day + 60_000;
    const again = await post(owner.api, `${base}/security_groups`, asked, key);
    expect(again.status).toBe(201);
    expect(again.json.id).not.toBe(first.json.id);
    const user = { username: randomUUID() };
    expect((await post(stage.server.admin, '/api/users', user, key)).status).toBe(201);
    ahead = 2 * day + 120_000;
    expect((await post(stage.server.admin, '/api/users', user, key)).json.code).toBe('username_taken');
  });
});

describe('an answer that holds a secret', () => {
  test('is stored encrypted: the database holds neither the secret nor the key of the request', async () => {
    const { base, owner } = stage.place;
    const key = `visible-${randomUUID()}`;
    const { json: device } = await post(owner.api, `${base}/devices`, { public_key: randomUUID() }, key);
    const { json: enrollment } = await post(owner.api, `${base}/enrollment_keys`, { name: 'sealed' }, `${key}-2`);
    const { json: token } = await post(owner.api, '/api/users/me/tokens', { name: 'sealed' }, `${key}-3`);
    const hook = await post(owner.api, `${base}/webhooks`, await creates.createWebhook.body(), `${key}-4`);
    const rows = await rowsOf(`SELECT encode(answer, 'escape') || encode(key, 'escape') AS text FROM idempotency_keys`);
    const stored = rows.map(({ text }) => String(text)).join('\n');
    expect(rows.length).toBeGreaterThan(1);
    expect(stored).toContain('group_name');
    const secrets = [device.device_token, enrollment.key, token.token, hook.json.secret, key];
    for (const secret of secrets) {
      expect(String(secret).length).toBeGreaterThan(40);
      expect(stored).not.toContain(secret);
    }
    expect(stored).not.toMatch(/rf_(device|enroll|user)_|whsec_/);
  });

  test('is not shown to another credential of the same user, and the device is not made twice', async () => {
    const { base, owner } = stage.place;
    const [key, asked] = [randomUUID(), { public_key: randomUUID() }];
    expect((await post(owner.api, `${base}/devices`, asked, key)).status).toBe(201);
    const { token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'second' });
    const { status, json } = await post(stage.server.nobody.as(token), `${base}/devices`, asked, key);
    expect([status, json.code]).toEqual([409, 'idempotency_answer_sealed']);
  });

  test('is not shown to the token that it made, nor after the token of the request was rotated', async () => {
    const { owner } = stage.place;
    const { id, token: secret } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'first' });
    const [key, asked, path] = [randomUUID(), { name: 'second' }, '/api/users/me/tokens'];
    const first = stage.server.nobody.as(secret);
    const { json: made } = await post(first, path, asked, key);
    const rotated = await first.expect(200, 'POST', `/api/tokens/${id}/rotate`);
    for (const [token, answer] of [
      [made.token, [409, 'idempotency_answer_sealed']],
      [rotated.token, [409, 'idempotency_answer_sealed']],
      [secret, [401, 'unauthenticated']],
    ] as const) {
      const { status, json } = await post(stage.server.nobody.as(token), path, asked, key);
      expect([status, json.code]).toEqual(answer);
    }
  });

  test('reaches a device that enrolls again with a key whose last use it took, and no other device', async () => {
    const { base, owner } = stage.place;
    const { key: secret } = await owner.api.expect(201, 'POST', `${base}/enrollment_keys`, { uses: 1 });
    const device = stage.server.nobody.as(secret);
    const [key, asked] = [randomUUID(), { public_key: randomUUID(), hostname: 'new' }];
    const first = await post(device, `${base}/devices`, asked, key);
    expect(first.status, first.text).toBe(201);
    expect(seen(await post(device, `${base}/devices`, asked, key))).toEqual(seen(first));
    const other = await post(device, `${base}/devices`, { public_key: randomUUID() }, randomUUID());
    expect([other.status, other.json.code]).toEqual([401, 'unauthenticated']);
    expect((await device.post(`${base}/devices`, { public_key: randomUUID() })).status).toBe(401);
    const token = stage.server.nobody.as(first.json.device_token);
    expect((await token.get(`${base}/devices/${first.json.id}`)).status).toBe(200);
  });
});
