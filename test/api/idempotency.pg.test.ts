/** Proves `Idempotency-Key` against the real server: a create that is repeated gets its first answer again, on every server (reference 4.5 (10)). */
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Answered, Api } from '../lib/http.ts';
import { newPlace, startTestServer } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

const day = 86_400_000;
let ahead = 0;
const stage = useServer(() => ({ clock: () => Date.now() + ahead }));

const second = lasting(
  () => startTestServer(stage.postgres, { url: stage.server.databaseUrl }),
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

/** Every create, with a body that can be used once. */
const creates: readonly (readonly [string, string, () => object])[] = [
  ['a group', '/security_groups', () => ({ group_name: randomUUID() })],
  [
    'a group by label',
    '/security_groups',
    () => ({ group_name: randomUUID(), applies_to: [{ labels: [`l-${randomUUID().slice(0, 8)}`] }] }),
  ],
  ['a group of a user', 'own', () => ({ group_name: randomUUID() })],
  ['a device', '/devices', () => ({ public_key: randomUUID(), hostname: 'h' })],
  ['an enrollment key', '/enrollment_keys', () => ({ name: 'ci', uses: 3 })],
  ['a change set', '/changes', () => ({ security_groups: [{ group_name: randomUUID() }] })],
];

describe('a create with an Idempotency-Key', () => {
  test.each(creates)(
    'that is repeated gets the first answer again, from another server too, and %s is made once',
    async (_what, path, body) => {
      const { base, owner } = stage.place;
      const [asked, key] = [body(), randomUUID()];
      const before = await owner.api.expect(200, 'GET', base);
      const first = await post(owner.api, pathOf(base, path), asked, key);
      expect(first.status, first.text).toBe(path === '/changes' ? 200 : 201);
      const after = await owner.api.expect(200, 'GET', base);
      if (path !== '/enrollment_keys') expect(after.revision).toBe(Number(before.revision) + 1);
      // The order of fields does not matter.
      const reversed = Object.fromEntries(Object.entries(asked).toReversed());
      expect(seen(await post(owner.api, pathOf(base, path), reversed, key))).toEqual(seen(first));
      expect(seen(await post(second().nobody.as(owner.token), pathOf(base, path), asked, key))).toEqual(seen(first));
      expect((await owner.api.expect(200, 'GET', base)).revision).toBe(after.revision);
    },
  );

  test.each(creates)('that is sent ten times at once makes %s once', async (_what, path, body) => {
    const { base, owner } = stage.place;
    const [asked, key] = [body(), randomUUID()];
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post(owner.api, pathOf(base, path), asked, key)),
    );
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
    }
    expect((await owner.api.expect(200, 'GET', base)).revision).toBe(head);
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
  });

  test('that was refused is judged again', async () => {
    const { base, owner } = stage.place;
    const [key, asked] = [randomUUID(), { public_key: randomUUID() }];
    const holder = await owner.api.expect(201, 'POST', `${base}/devices`, asked);
    expect((await post(owner.api, `${base}/devices`, asked, key)).json.code).toBe('public_key_taken');
    await owner.api.expect(200, 'DELETE', `${base}/devices/${holder.id}`);
    expect((await post(owner.api, `${base}/devices`, asked, key)).status).toBe(201);
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
  });
});

describe('an answer that holds a secret', () => {
  test('is stored encrypted: the database holds neither the secret nor the key of the request', async () => {
    const { base, owner } = stage.place;
    const key = `visible-${randomUUID()}`;
    const { json: device } = await post(owner.api, `${base}/devices`, { public_key: randomUUID() }, key);
    const { json: enrollment } = await post(owner.api, `${base}/enrollment_keys`, { name: 'sealed' }, `${key}-2`);
    const rows = await rowsOf(`SELECT encode(answer, 'escape') || encode(key, 'escape') AS text FROM idempotency_keys`);
    const stored = rows.map(({ text }) => String(text)).join('\n');
    expect(rows.length).toBeGreaterThan(1);
    expect(stored).toContain('group_name');
    for (const secret of [device.device_token, enrollment.key, key]) expect(stored).not.toContain(secret);
    expect(stored).not.toMatch(/rf_(device|enroll)_/);
  });

  test('is not shown to another credential of the same user, and the device is not made twice', async () => {
    const { base, owner } = stage.place;
    const [key, asked] = [randomUUID(), { public_key: randomUUID() }];
    expect((await post(owner.api, `${base}/devices`, asked, key)).status).toBe(201);
    const { token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'second' });
    const { status, json } = await post(stage.server.nobody.as(token), `${base}/devices`, asked, key);
    expect([status, json.code]).toEqual([409, 'idempotency_answer_sealed']);
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
