/** Proves that the token of a device is renewed when it is due and only then, and that the old one ends with the first use of the new one. */
import { createHash, randomBytes } from 'node:crypto';
import { expect, onTestFinished, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, startTestServer } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';
import { EventStream } from '../lib/stream.ts';

const day = 86_400_000;
let now = Date.now();
const stage = useServer(() => ({ clock: () => now, tokenMaxAge: 30 * 86_400 }));

function mint() {
  const secret = `rf_device_${randomBytes(32).toString('base64url')}`;
  return { secret, next_token_digest: createHash('sha256').update(secret).digest('hex') };
}

async function setUp() {
  const place = await newPlace(stage.server);
  const { api } = place.owner;
  const device = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const path = `${place.base}/devices/${device.id}/status`;
  const report = (token: string, more: object = {}): Promise<Json> =>
    stage.server.nobody.as(token).expect(200, 'PUT', path, { state: 'starting', ...more });
  const works = async (token: string): Promise<boolean> =>
    (await stage.server.nobody.as(token).get('/api/users/me')).status === 200;
  const token = (await api.expect(200, 'GET', '/api/users/me/tokens')).find((one: Json) => one.kind === 'device');
  return { place, api, device, report, works, token };
}

test('before a token is 30 days old the server asks for another; the old one ends, with its streams, when the new one is first used', async () => {
  const { place, api, device, report, works, token } = await setUp();
  const old = device.device_token;
  const next = mint();
  expect(await report(old)).not.toHaveProperty('renew_token');
  // Offered without being asked: it is not taken, so that a stolen token cannot be taken over at any time.
  expect(await report(old, { next_token_digest: next.next_token_digest })).not.toHaveProperty(
    'status.next_token_digest',
  );
  expect(await works(next.secret)).toBe(false);

  now += 23 * day;
  expect(await report(old)).not.toHaveProperty('renew_token');
  now += 2 * day;
  expect(await report(old)).toMatchObject({ renew_token: true });
  const stream = new EventStream(stage.server.url, old, place.org, [{ kind: 'device' }]);
  onTestFinished(() => stream.close());
  await stream.tail();
  const replaced = mint();
  await report(old, { next_token_digest: replaced.next_token_digest });
  await report(old, { next_token_digest: next.next_token_digest });
  // Only the last one that was offered counts, and until it is used the old one works.
  expect(await works(replaced.secret)).toBe(false);
  expect(await works(old)).toBe(true);
  expect(await works(next.secret)).toBe(true);
  expect(await works(old)).toBe(false);
  await stream.end();
  expect(await report(next.secret)).not.toHaveProperty('renew_token');
  // It is the same token: it keeps its id, and nothing of it is told twice.
  expect(await api.expect(200, 'GET', `/api/tokens/${token.id}`)).toMatchObject({ device_id: device.id });
  const statuses = await api.get(`${place.base}/device_statuses`);
  expect(statuses.text).not.toContain(next.next_token_digest);
});

test('an owner asks for it at any time; a user token cannot, a rotation ends what was offered, and with an age of 0 it is never due', async () => {
  const { api, device, report, works, token, place } = await setUp();
  const old = device.device_token;
  const stream = new EventStream(stage.server.url, old, place.org, [{ kind: 'device' }], {
    headers: { Prefer: 'report-lines' },
  });
  onTestFinished(() => stream.close());
  await stream.tail();
  const asked = await api.expect(200, 'POST', `/api/tokens/${token.id}/rotate?by_device=true`);
  expect(asked).toMatchObject({ id: token.id });
  expect(asked).not.toHaveProperty('token');
  await expect.poll(() => stream.documents.some(({ type }: Json) => type === 'report'), { timeout: 60_000 }).toBe(true);
  expect(await report(old)).toMatchObject({ renew_token: true });
  const next = mint();
  await report(old, { next_token_digest: next.next_token_digest });
  const rotated = await api.expect(200, 'POST', `/api/tokens/${token.id}/rotate`);
  expect([await works(next.secret), await works(old), await works(rotated.token)]).toEqual([false, false, true]);
  expect(await report(rotated.token)).not.toHaveProperty('renew_token');

  const mine = await api.expect(201, 'POST', '/api/users/me/tokens', {});
  expect(await api.post(`/api/tokens/${mine.id}/rotate?by_device=true`)).toMatchObject({
    status: 422,
    json: { errors: [{ pointer: '/by_device', code: 'contradiction' }] },
  });

  const never = await startTestServer(stage.postgres, {
    url: stage.server.databaseUrl,
    clock: () => now + 1_000 * day,
    tokenMaxAge: 0,
  });
  onTestFinished(() => never.close());
  const path = `${place.base}/devices/${device.id}/status`;
  expect(await never.nobody.as(rotated.token).expect(200, 'PUT', path, { state: 'starting' })).not.toHaveProperty(
    'renew_token',
  );
});
