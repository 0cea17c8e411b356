/** What thieves of credentials can and cannot do, where no other test proves it; `docs/threat-model.md` names these by title. */
import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { useProvider, useServer } from '../lib/stage.ts';
import { newPlace } from '../lib/server.ts';

const identity = useProvider();
const stage = useServer(identity.options);

it('a full token can issue tokens that outlive it, and all of them are listed and can be revoked', async () => {
  const { owner } = await newPlace(stage.server);
  const stolen = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'stolen' });
  const planted = await stage.server.nobody
    .as(stolen.token)
    .expect(201, 'POST', '/api/users/me/tokens', { name: 'planted' });
  await owner.api.expect(200, 'DELETE', `/api/tokens/${stolen.id}`);
  expect((await stage.server.nobody.as(stolen.token).get('/api/users/me')).status).toBe(401);
  expect((await stage.server.nobody.as(planted.token).get('/api/users/me')).status).toBe(200);
  const listed = await owner.api.expect(200, 'GET', '/api/users/me/tokens');
  expect(listed.map(({ id }: { id: string }) => id)).toContain(planted.id);
  await owner.api.expect(200, 'DELETE', `/api/tokens/${planted.id}`);
  expect((await stage.server.nobody.as(planted.token).get('/api/users/me')).status).toBe(401);
});

it('a read-only token changes nothing and issues no token', async () => {
  const { owner, base, org } = await newPlace(stage.server);
  const { token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { scope: 'read-only' });
  const api = stage.server.nobody.as(token);
  const attempts: readonly [string, string, unknown][] = [
    ['POST', '/api/users/me/tokens', {}],
    ['POST', '/api/organizations', { name: 'x' }],
    ['PATCH', base, { name: 'x' }],
    ['DELETE', base, undefined],
    ['POST', `${base}/devices`, { public_key: 'x' }],
    ['POST', `${base}/enrollment_keys`, {}],
    ['POST', `${base}/security_groups`, { group_name: 'x' }],
    ['POST', `/api/user/${org}/security_groups`, { group_name: 'x' }],
  ];
  for (const [method, path, body] of attempts) expect((await api.ask(method, path, { body })).status, path).toBe(403);
  expect((await api.get(base)).status).toBe(200);
});

it('a device token changes the endpoint fields of its own device and nothing else of it', async () => {
  const { member, base } = await newPlace(stage.server);
  const own = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'own' });
  const other = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'other' });
  const api = stage.server.nobody.as(own.device_token);
  const patches = [
    { security_groups: [] },
    { public_key: 'x' },
    { hostname: 'x' },
    { tunnel_ip: '10.0.0.1' },
    { child_prefix: ['10.0.0.0/8'] },
    { relay: true },
    { discovery: true },
  ];
  for (const body of patches) {
    expect((await api.patch(`${base}/devices/${own.id}`, body)).status, JSON.stringify(body)).toBe(403);
  }
  expect((await api.patch(`${base}/devices/${other.id}`, { reflexive_ip4: '192.0.2.1' })).status).toBe(403);
  expect((await api.put(`${base}/devices/${other.id}/status`, { state: 'applied' })).status).toBe(403);
  expect((await api.delete(`${base}/devices/${own.id}`)).status).toBe(403);
  expect((await api.patch(`${base}/devices/${own.id}`, { reflexive_ip4: '192.0.2.1' })).status).toBe(200);
});

it('a device token is of no use once its device is deleted', async () => {
  const { member, base } = await newPlace(stage.server);
  const device = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'k' });
  await member.api.expect(200, 'DELETE', `${base}/devices/${device.id}`);
  expect((await stage.server.nobody.as(device.device_token).get(`${base}/devices`)).status).toBe(401);
});

it('an enrollment key admits no more devices than its uses, however many come at once', async () => {
  const { member, base } = await newPlace(stage.server);
  const { key } = await member.api.expect(201, 'POST', `${base}/enrollment_keys`, { uses: 3 });
  const api = stage.server.nobody.as(key);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, n) => api.post(`${base}/devices`, { public_key: `key-${n}` })),
  );
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(3);
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(17);
});

it('an enrollment key admits devices of its own user only, and its revocation ends it', async () => {
  const { member, owner, base } = await newPlace(stage.server);
  const { id, key } = await member.api.expect(201, 'POST', `${base}/enrollment_keys`, { uses: 5 });
  const api = stage.server.nobody.as(key);
  const foreign = await api.post(`${base}/devices`, { public_key: 'a', user_id: owner.id });
  expect(foreign.status).toBe(422);
  const device = await api.expect(201, 'POST', `${base}/devices`, { public_key: 'b' });
  expect(device.user_id).toBe(member.id);
  await owner.api.expect(200, 'DELETE', `${base}/enrollment_keys/${id}`);
  expect((await api.post(`${base}/devices`, { public_key: 'c' })).status).toBe(401);
});

it('what the database keeps of a token opens nothing', async () => {
  const { owner } = await newPlace(stage.server);
  const digest = createHash('sha256').update(owner.token).digest();
  for (const spelled of [
    digest.toString('hex'),
    digest.toString('base64url'),
    `rf_user_${digest.toString('base64url')}`,
  ]) {
    expect((await stage.server.nobody.as(spelled).get('/api/users/me')).status).toBe(401);
  }
});

it('an access token can issue tokens that outlive it; removing its user ends them too', async () => {
  const { accessToken } = await identity.provider.signIn('mallory');
  const api = stage.server.nobody.as(accessToken);
  const { id } = await api.expect(200, 'GET', '/api/users/me');
  const { token } = await api.expect(201, 'POST', '/api/users/me/tokens', {});
  expect((await stage.server.nobody.as(token).get('/api/users/me')).status).toBe(200);
  await stage.server.admin.expect(200, 'DELETE', `/api/users/${id}`);
  expect((await stage.server.nobody.as(token).get('/api/users/me')).status).toBe(401);
  expect((await api.get('/api/users/me')).status).toBe(401);
});
