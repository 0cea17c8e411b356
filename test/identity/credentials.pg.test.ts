/** What becomes of credentials when they are rotated, when their user goes, and when keys preset groups. */
import { expect, it } from 'vitest';
import { useProvider, useServer } from '../lib/stage.ts';
import { EventStream } from '../lib/stream.ts';
import { newPerson, newPlace, startTestServer } from '../lib/server.ts';

const identity = useProvider();
const stage = useServer(identity.options);

it('every credential is told what it is: its kind, its id, its scope and its end', async () => {
  const place = await newPlace(stage.server);
  const expires_at = '2100-01-01T00:00:00.000Z';
  const issued = await place.member.api.expect(201, 'POST', '/api/users/me/tokens', { scope: 'read-only', expires_at });
  const device = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'told' });
  const tokens = await place.member.api.expect(200, 'GET', '/api/users/me/tokens');
  const ofDevice = tokens.find(({ device_id }: { device_id?: string }) => device_id === device.id);
  const { id: key_id, key } = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, {});
  const { accessToken } = await identity.provider.signIn('told');
  const told = async (secret: string) => {
    const { scope, credential } = await stage.server.nobody.as(secret).expect(200, 'GET', '/api/users/me');
    return { scope, credential };
  };
  expect(await told(issued.token)).toEqual({
    scope: 'read-only',
    credential: { kind: 'user_token', id: issued.id, expires_at },
  });
  expect(await told(device.device_token)).toEqual({
    scope: 'full',
    credential: { kind: 'device_token', id: ofDevice.id },
  });
  expect(await told(key)).toEqual({ scope: undefined, credential: { kind: 'enrollment_key', id: key_id } });
  expect(await told(accessToken)).toEqual({
    scope: 'full',
    credential: { kind: 'access_token', expires_at: expect.any(String) },
  });
});

it('a rotated token has a new secret and is otherwise the same; the old secret and its stream end, also on another server', async () => {
  const place = await newPlace(stage.server);
  const replica = await startTestServer(stage.postgres, { url: stage.server.databaseUrl });
  const body = { name: 'laptop', scope: 'read-only', expires_at: '2100-01-01T00:00:00.000Z' };
  const { token: old, ...before } = await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', body);
  const streams = [stage.server, replica].map(({ url }) => new EventStream(url, old, place.org, [{ kind: 'device' }]));
  try {
    await Promise.all(streams.map((stream) => stream.tail()));
    const { token: secret, ...after } = await place.owner.api.expect(200, 'POST', `/api/tokens/${before.id}/rotate`);
    expect(after).toEqual(before);
    expect(secret).toMatch(/^rf_user_[\w-]{43}$/);
    expect(secret).not.toBe(old);
    await Promise.all(streams.map((stream) => stream.until('its end', ({ body: { ended } }) => ended)));
    expect((await stage.server.nobody.as(old).get('/api/users/me')).status).toBe(401);
    expect((await stage.server.nobody.as(secret).get('/api/users/me')).status).toBe(200);
    expect((await stage.server.nobody.as(secret).post('/api/organizations', { name: 'x' })).status).toBe(403);
  } finally {
    for (const stream of streams) stream.close();
    await replica.close();
  }
});

it('a rotated device token is a device token still', async () => {
  const place = await newPlace(stage.server);
  const device = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
  const tokens = await place.member.api.expect(200, 'GET', '/api/users/me/tokens');
  const { id } = tokens.find(({ device_id }: { device_id?: string }) => device_id === device.id);
  const { token } = await place.member.api.expect(200, 'POST', `/api/tokens/${id}/rotate`);
  expect(token).toMatch(/^rf_device_/);
  const api = stage.server.nobody.as(token);
  expect((await api.get('/api/users/me')).json.device_id).toBe(device.id);
  expect((await api.post(`${place.base}/security_groups`, { group_name: 'x' })).status).toBe(403);
  expect((await stage.server.nobody.as(device.device_token).get('/api/users/me')).status).toBe(401);
});

it('a removed user is out at once: tokens, devices, streams, sign-in', async () => {
  const place = await newPlace(stage.server);
  const { accessToken } = await identity.provider.signIn('removed');
  const person = stage.server.nobody.as(accessToken);
  const me = await person.expect(200, 'GET', '/api/users/me');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: me.id });
  const { token } = await person.expect(201, 'POST', '/api/users/me/tokens', {});
  const { key } = await person.expect(201, 'POST', `${place.base}/enrollment_keys`, {});
  const device = await person.expect(201, 'POST', `${place.base}/devices`, { public_key: 'gone' });
  const streams = [accessToken, token, device.device_token].map(
    (credential) => new EventStream(stage.server.url, credential, place.org, [{ kind: 'device' }]),
  );
  try {
    await Promise.all(streams.map((stream) => stream.tail()));
    expect((await stage.server.admin.expect(200, 'DELETE', `/api/users/${me.id}`)).id).toBe(me.id);
    await Promise.all(streams.map((stream) => stream.until('its end', ({ body }) => body.ended)));
    for (const credential of [accessToken, token, key, device.device_token]) {
      expect((await stage.server.nobody.as(credential).get('/api/users/me')).status).toBe(401);
    }
    const again = await stage.server.nobody
      .as((await identity.provider.signIn('removed')).accessToken)
      .get('/api/users/me');
    expect([again.status, again.json.detail]).toEqual([401, 'This user was removed from this server.']);
    expect((await place.owner.api.get(`${place.base}/devices/${device.id}`)).status).toBe(404);
    expect((await stage.server.admin.post('/api/users', { username: me.username })).status).toBe(409);
    expect((await stage.server.admin.post(`/api/users/${me.id}/tokens`, {})).status).toBe(404);
    expect((await place.owner.api.post(`${place.base}/members`, { user_id: me.id })).status).toBe(422);
    const users = await stage.server.admin.expect(200, 'GET', '/api/users');
    expect(users.map(({ id }: { id: string }) => id)).not.toContain(me.id);
  } finally {
    for (const stream of streams) stream.close();
  }
});

it('an owner of organizations is not removed, nor the administrator who asks', async () => {
  const place = await newPlace(stage.server);
  expect((await stage.server.admin.delete(`/api/users/${place.owner.id}`)).status).toBe(409);
  const me = await stage.server.admin.expect(200, 'GET', '/api/users/me');
  expect((await stage.server.admin.delete(`/api/users/${me.id}`)).status).toBe(409);
  const nobody = await newPerson(stage.server);
  expect((await stage.server.admin.delete(`/api/users/${nobody.id}`)).status).toBe(200);
  expect((await stage.server.admin.delete(`/api/users/${nobody.id}`)).status).toBe(404);
});

it('an enrollment key gives the devices it admits its groups, as often as it may be used', async () => {
  const place = await newPlace(stage.server);
  const group = await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
    group_name: 'g',
  });
  const body = { uses: 2, security_groups: [group.id] };
  const { key, id } = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, body);
  const enroll = stage.server.nobody.as(key);
  const first = await enroll.expect(201, 'POST', `${place.base}/devices`, { public_key: 'one' });
  expect(first).toMatchObject({ user_id: place.member.id, security_groups: [group.id] });
  const [listed] = await place.member.api.expect(200, 'GET', `${place.base}/enrollment_keys`);
  expect(listed).toMatchObject({ id, uses_left: 1 });
  expect(JSON.stringify(listed)).not.toContain(key);
  await enroll.expect(201, 'POST', `${place.base}/devices`, { public_key: 'two' });
  expect((await enroll.post(`${place.base}/devices`, { public_key: 'three' })).status).toBe(401);
});
