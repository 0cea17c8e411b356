/** Proves the records and management operations: devices, organizations, members, users, tokens, enrollment keys, lists. */
import { describe, expect, test } from 'vitest';
import { useServer } from '../lib/stage.ts';
import type { Api } from '../lib/http.ts';
import { newPerson, newPlace } from '../lib/server.ts';

const stage = useServer(() => ({ clock: () => now }));
let now = Date.parse('2030-01-01T00:00:00Z');

const uuid = expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/);

describe('devices', () => {
  test('a create needs public_key; every other field has the zero value of its type when absent', async () => {
    const answer = await stage.place.member.api.post(`${stage.place.base}/devices`, { public_key: 'zero' });
    expect(answer.status).toBe(201);
    const { device_token, ...device } = answer.json;
    expect(device_token).toMatch(/^rf_device_[A-Za-z0-9_-]{43}$/);
    expect(device).toEqual({
      id: uuid,
      user_id: stage.place.member.id,
      organization_id: stage.place.org,
      public_key: 'zero',
      local_ip: '',
      tunnel_ip: '',
      child_prefix: null,
      relay: false,
      discovery: false,
      reflexive_ip4: '',
      endpoint_local_address_ip4: '',
      symmetric_nat: false,
      hostname: '',
      revision: expect.any(Number),
      created_at: time,
      updated_at: time,
    });
    expect(answer.headers.location).toBe(`${stage.place.base}/devices/${device.id}`);
    expect(answer.headers.etag).toBe(`"${device.revision}"`);
    const read = await stage.place.owner.api.get(`${stage.place.base}/devices/${device.id}`);
    expect(read.json).toEqual(device);
    const missing = await stage.place.member.api.post(`${stage.place.base}/devices`, {});
    expect(missing.json.errors).toMatchObject([{ pointer: '/public_key', code: 'missing_field' }]);
  });

  test('every field is stored as given, and child_prefix alone may be null', async () => {
    const fields = {
      public_key: 'full',
      local_ip: '172.17.0.3:58664',
      tunnel_ip: '100.100.0.1',
      child_prefix: ['10.1.0.0/16', 'fd00::/64'],
      relay: true,
      discovery: true,
      reflexive_ip4: '47.196.141.165',
      endpoint_local_address_ip4: '172.17.0.3',
      symmetric_nat: true,
      hostname: 'bastion',
    };
    const device = await stage.place.member.api.expect(201, 'POST', `${stage.place.base}/devices`, {
      ...fields,
      organization_id: stage.place.org,
      user_id: stage.place.member.id,
    });
    expect(device).toMatchObject(fields);
    const path = `${stage.place.base}/devices/${device.id}`;
    const patched = await stage.place.member.api.expect(200, 'PATCH', path, { child_prefix: null, relay: false });
    expect(patched).toMatchObject({ ...fields, child_prefix: null, relay: false });
    const nulls = await stage.place.member.api.patch(path, { hostname: null, relay: null, security_groups: null });
    expect(nulls.json.errors).toHaveLength(3);
    const gone = await stage.place.member.api.expect(200, 'DELETE', path);
    expect(gone).toEqual({ ...patched, revision: gone.revision });
    expect(gone.revision).toBeGreaterThan(patched.revision);
  });

  test('public_key is unique within an organization (409), and free in another', async () => {
    const other = await newPlace(stage.server);
    await stage.place.member.api.expect(201, 'POST', `${stage.place.base}/devices`, { public_key: 'unique' });
    const second = await stage.place.owner.api.post(`${stage.place.base}/devices`, { public_key: 'unique' });
    expect(second.status).toBe(409);
    expect(second.json.code).toBe('public_key_taken');
    await other.owner.api.expect(201, 'POST', `${other.base}/devices`, { public_key: 'unique' });
    const another = await stage.place.member.api.expect(201, 'POST', `${stage.place.base}/devices`, {
      public_key: 'another',
    });
    const renamed = await stage.place.member.api.patch(`${stage.place.base}/devices/${another.id}`, {
      public_key: 'unique',
    });
    expect(renamed.status).toBe(409);
  });

  test('an owner may register a device for another member; a member for itself only; contradictions are 422', async () => {
    const register = (api: typeof stage.place.owner.api, body: object) =>
      api.post(`${stage.place.base}/devices`, { public_key: `for-${Math.random()}`, ...body });
    const forMember = await register(stage.place.owner.api, { user_id: stage.place.member.id });
    expect(forMember.json.user_id).toBe(stage.place.member.id);
    const forOwner = await register(stage.place.member.api, { user_id: stage.place.owner.id });
    expect(forOwner.json.errors).toMatchObject([{ pointer: '/user_id', code: 'contradiction' }]);
    const forStranger = await register(stage.place.owner.api, { user_id: stage.place.stranger.id });
    expect(forStranger.status).toBe(422);
    expect(forStranger.json.errors).toMatchObject([{ pointer: '/user_id', code: 'not_a_member' }]);
    const elsewhere = await register(stage.place.member.api, { organization_id: stage.place.member.id });
    expect(elsewhere.json.errors).toMatchObject([{ pointer: '/organization_id', code: 'contradiction' }]);
  });

  test('addresses that are none are refused, all at once', async () => {
    const answer = await stage.place.member.api.post(`${stage.place.base}/devices`, {
      public_key: 'p',
      local_ip: '10.0.0.1:99999',
      tunnel_ip: 'x',
      reflexive_ip4: 'fd00::1',
      endpoint_local_address_ip4: '1.2.3',
      child_prefix: ['10.0.0.0/8', '10.0.0.1', 'x/8'],
    });
    expect(answer.status).toBe(422);
    expect(answer.json.errors.map((e: { pointer: string }) => e.pointer)).toEqual([
      '/local_ip',
      '/tunnel_ip',
      '/reflexive_ip4',
      '/endpoint_local_address_ip4',
      '/child_prefix/1',
      '/child_prefix/2',
    ]);
  });

  test('a device reports its status, which members read; it takes no revision', async () => {
    const device = await stage.place.member.api.expect(201, 'POST', `${stage.place.base}/devices`, {
      public_key: 'reporting',
    });
    const itself = stage.server.nobody.as(device.device_token);
    const status = { state: 'applied', revision: device.revision, agent_version: '1' };
    const report = await itself.expect(200, 'PUT', `${stage.place.base}/devices/${device.id}/status`, status);
    const settings = { observe: 'counters', refuse_with: 'drop' };
    expect(report).toEqual({ device_id: device.id, reported_at: time, status, settings });
    const all = await stage.place.owner.api.expect(200, 'GET', `${stage.place.base}/device_statuses`);
    const listed = all.find((one: { device_id: string }) => one.device_id === device.id);
    expect(listed).toMatchObject({
      device_id: device.id,
      in_force: 'offline',
      online: false,
      reported_at: time,
      status,
    });
    expect((await itself.put(`${stage.place.base}/devices/${device.id}/status`, { state: 'fine' })).status).toBe(422);
    expect(await itself.expect(200, 'GET', `${stage.place.base}/devices/${device.id}`)).toMatchObject({
      revision: device.revision,
    });
  });
});

test('a report that races with the deletion of its device is 200, 401 or 404', async () => {
  const { owner, base } = await newPlace(stage.server);
  for (let round = 0; round < 20; round += 1) {
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: `race ${round}` });
    const path = `${base}/devices/${device.id}`;
    const itself = stage.server.nobody.as(device.device_token);
    const reports = Array.from({ length: 4 }, () => itself.put(`${path}/status`, { state: 'applied' }));
    const [removal, ...answers] = await Promise.all([owner.api.delete(path), ...reports]);
    expect(removal.status).toBe(200);
    for (const answer of answers) expect([200, 401, 404]).toContain(answer.status);
  }
});

describe('organizations', () => {
  test('any user creates one and becomes its owner; members read it; the owner changes and deletes it', async () => {
    const owner = await newPerson(stage.server);
    const answer = await owner.api.post('/api/organizations', { name: 'new', description: 'of mine' });
    expect(answer.status).toBe(201);
    expect(answer.json).toEqual({
      id: uuid,
      name: 'new',
      description: 'of mine',
      owner_id: owner.id,
      observe: 'counters',
      refuse_with: 'drop',
      security_groups: [uuid],
      revision: expect.any(Number),
      created_at: time,
      updated_at: time,
    });
    const path = `/api/organizations/${answer.json.id}`;
    expect(answer.headers.location).toBe(path);
    expect(answer.headers.etag).toBe(`"${answer.json.revision}"`);
    expect((await owner.api.get(path)).json).toEqual(answer.json);
    const changed = await owner.api.patch(path, { name: 'renamed' }, { 'if-match': answer.headers.etag ?? '' });
    expect(changed.json).toMatchObject({ name: 'renamed', description: 'of mine' });
    expect((await owner.api.patch(path, { name: 'again' }, { 'if-match': '"0"' })).status).toBe(412);
    expect((await owner.api.delete(path, { 'if-match': '"0"' })).status).toBe(412);
    const gone = await owner.api.expect(200, 'DELETE', path);
    expect(gone).toMatchObject({ id: answer.json.id, name: 'renamed' });
    expect((await owner.api.get(path)).status).toBe(404);
  });

  test("the record's security_groups are the organization's own, the default first; revision is the head", async () => {
    const { owner, base, defaultGroup } = await newPlace(stage.server);
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'more' });
    const organization = await owner.api.expect(200, 'GET', base);
    expect(organization.security_groups).toEqual([defaultGroup, group.id]);
    expect(organization.revision).toBe(group.revision);
  });

  test('revision is one counter for all kinds, without gaps', async () => {
    const { owner, base } = await newPlace(stage.server);
    const start = (await owner.api.expect(200, 'GET', base)).revision;
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'a' });
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'a' });
    const patched = await owner.api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, { group_name: 'b' });
    const gone = await owner.api.expect(200, 'DELETE', `${base}/devices/${device.id}`);
    expect([group, device, patched, gone].map((record) => record.revision)).toEqual([1, 2, 3, 4].map((n) => start + n));
  });

  test('a list holds those one belongs to; a device token sees its own', async () => {
    const { owner, member, org, base } = await newPlace(stage.server);
    const second = await member.api.expect(201, 'POST', '/api/organizations', { name: 'second' });
    const ids = async (api: typeof owner.api) =>
      (await api.expect(200, 'GET', '/api/organizations')).map((o: { id: string }) => o.id);
    expect(await ids(owner.api)).toEqual([org]);
    expect(new Set(await ids(member.api))).toEqual(new Set([org, second.id]));
    const device = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'k' });
    expect(await ids(stage.server.nobody.as(device.device_token))).toEqual([org]);
  });
});

test('reference 4.5 (2): whatever is created can be read where its Location says, without its secret', async () => {
  const { owner, base, org, stranger } = await newPlace(stage.server);
  const made: [Api, string, object][] = [
    [stage.server.admin, '/api/users', { username: `located ${org}` }],
    [stage.server.admin, `/api/users/${owner.id}/tokens`, {}],
    [owner.api, '/api/users/me/tokens', { name: 'mine' }],
    [owner.api, '/api/organizations', { name: 'located' }],
    [owner.api, `${base}/members`, { user_id: stranger.id }],
    [owner.api, `${base}/devices`, { public_key: 'located' }],
    [owner.api, `${base}/enrollment_keys`, {}],
    [owner.api, `${base}/security_groups`, { group_name: 'located' }],
    [owner.api, `/api/user/${org}/security_groups`, { group_name: 'located' }],
  ];
  for (const [api, path, body] of made) {
    const { status, headers, json } = await api.post(path, body);
    const { token: _token, key: _key, device_token: _deviceToken, ...shown } = json;
    const read = await api.get(headers.location ?? '');
    expect([path, status, read.status, read.json]).toEqual([path, 201, 200, shown]);
  }
});

describe('members', () => {
  test('come by user_id or username, are listed with their role, and may leave; the owner stays', async () => {
    const { owner, member, stranger, base } = await newPlace(stage.server);
    const added = await owner.api.post(`${base}/members`, { username: stranger.username });
    expect(added.status).toBe(201);
    expect(added.json).toEqual({ user_id: stranger.id, username: stranger.username, role: 'member', created_at: time });
    expect(added.headers.location).toBe(`${base}/members/${stranger.id}`);
    const roles = (await member.api.expect(200, 'GET', `${base}/members`)).map(
      (m: { user_id: string; role: string }) => `${m.user_id} ${m.role}`,
    );
    expect(roles.toSorted()).toEqual([`${owner.id} owner`, `${member.id} member`, `${stranger.id} member`].toSorted());
    expect((await owner.api.post(`${base}/members`, { user_id: member.id })).status).toBe(409);
    expect((await owner.api.post(`${base}/members`, { username: 'nobody at all' })).json.errors).toMatchObject([
      { pointer: '/username', code: 'unknown_user' },
    ]);
    for (const body of [{}, { user_id: member.id, username: member.username }]) {
      expect((await owner.api.post(`${base}/members`, body)).status).toBe(422);
    }
    await member.api.expect(200, 'DELETE', `${base}/members/${member.id}`);
    expect((await stranger.api.delete(`${base}/members/${owner.id}`)).status).toBe(403);
    expect((await owner.api.delete(`${base}/members/${owner.id}`)).status).toBe(409);
    expect((await owner.api.delete(`${base}/members/${member.id}`)).status).toBe(404);
  });
});

describe('users and tokens', () => {
  test('the administrator creates and lists users; a name is taken once', async () => {
    const answer = await stage.server.admin.post('/api/users', { username: 'ada' });
    expect(answer.status).toBe(201);
    expect(answer.json).toEqual({ id: uuid, username: 'ada', created_at: time });
    expect((await stage.server.admin.post('/api/users', { username: 'ada' })).status).toBe(409);
    const users = await stage.server.admin.expect(200, 'GET', '/api/users');
    expect(users).toContainEqual(answer.json);
    for (const username of ['Ada', ' ADA ', '\uff41da', '\u0430\u0501\u0430']) {
      expect((await stage.server.admin.post('/api/users', { username })).json.code).toBe('username_taken');
    }
    for (const username of ['a\u200bda', '\u202eada', 'a\u0000da', '\u0430da', ' ']) {
      const refused = await stage.server.admin.post('/api/users', { username });
      expect([refused.status, refused.json.errors?.[0]?.pointer]).toEqual([422, '/username']);
    }
    expect((await stage.place.owner.api.get('/api/users')).status).toBe(403);
    expect((await stage.place.owner.api.post('/api/users', { username: 'x' })).status).toBe(403);
  });

  test("a token's secret is shown once, works, is listed without it, and ends when revoked", async () => {
    const { member } = await newPlace(stage.server);
    const answer = await member.api.post('/api/users/me/tokens', { name: 'laptop' });
    expect(answer.status).toBe(201);
    const { token, ...shown } = answer.json;
    expect(token).toMatch(/^rf_user_[A-Za-z0-9_-]{43}$/);
    expect(shown).toEqual({
      id: uuid,
      kind: 'user',
      user_id: member.id,
      name: 'laptop',
      scope: 'full',
      created_at: time,
    });
    const mine = await stage.server.nobody.as(token).expect(200, 'GET', '/api/users/me/tokens');
    expect(mine.map((t: { id: string }) => t.id)).toContain(shown.id);
    expect(JSON.stringify(mine)).not.toContain(token);
    await member.api.expect(200, 'DELETE', `/api/tokens/${shown.id}`);
    expect((await stage.server.nobody.as(token).get('/api/users/me')).status).toBe(401);
    expect((await member.api.delete(`/api/tokens/${shown.id}`)).status).toBe(404);
  });

  test("another's token is 404, but the administrator revokes it", async () => {
    const { member, owner } = await newPlace(stage.server);
    const issued = await member.api.expect(201, 'POST', '/api/users/me/tokens');
    expect((await owner.api.delete(`/api/tokens/${issued.id}`)).status).toBe(404);
    await stage.server.admin.expect(200, 'DELETE', `/api/tokens/${issued.id}`);
    expect((await stage.server.nobody.as(issued.token).get('/api/users/me')).status).toBe(401);
    expect((await stage.server.admin.post(`/api/users/${issued.id}/tokens`, {})).status).toBe(404);
  });

  test('a token ends at its expiry; one in the past is 422', async () => {
    const { member } = await newPlace(stage.server);
    const expires_at = new Date(now + 60_000).toISOString();
    const issued = await member.api.expect(201, 'POST', '/api/users/me/tokens', { expires_at });
    expect(issued.expires_at).toBe(expires_at);
    expect((await stage.server.nobody.as(issued.token).get('/api/users/me')).status).toBe(200);
    now += 60_001;
    expect((await stage.server.nobody.as(issued.token).get('/api/users/me')).status).toBe(401);
    const past = await member.api.post('/api/users/me/tokens', { expires_at });
    expect(past.json.errors).toMatchObject([{ pointer: '/expires_at', code: 'expiry_past' }]);
  });

  test('a read-only token reads and may not write', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { token } = await owner.api.expect(201, 'POST', '/api/users/me/tokens', { scope: 'read-only' });
    const reader = stage.server.nobody.as(token);
    await reader.expect(200, 'GET', base);
    expect((await reader.patch(base, { name: 'x' })).status).toBe(403);
    expect((await reader.post('/api/users/me/tokens', {})).status).toBe(403);
    expect((await reader.post('/api/organizations', { name: 'x' })).status).toBe(403);
  });

  test('who am I: any credential; a device token gets its user and device_id', async () => {
    const me = await stage.place.member.api.expect(200, 'GET', '/api/users/me');
    expect(me).toMatchObject({ id: stage.place.member.id, username: stage.place.member.username });
    expect(me).not.toHaveProperty('device_id');
    const { scope, credential, ...user } = me;
    expect({ scope, credential }).toMatchObject({ scope: 'full', credential: { kind: 'user_token' } });
    expect(await stage.server.admin.expect(200, 'GET', '/api/users/me')).toMatchObject({
      username: 'admin',
      is_administrator: true,
    });
    const device = await stage.place.member.api.expect(201, 'POST', `${stage.place.base}/devices`, {
      public_key: 'who',
    });
    expect(await stage.server.nobody.as(device.device_token).expect(200, 'GET', '/api/users/me')).toEqual({
      ...user,
      device_id: device.id,
      organization_id: stage.place.org,
      scope: 'full',
      credential: { kind: 'device_token', id: expect.any(String) },
    });
    const { key } = await stage.place.member.api.expect(201, 'POST', `${stage.place.base}/enrollment_keys`);
    expect(await stage.server.nobody.as(key).expect(200, 'GET', '/api/users/me')).toEqual({
      ...user,
      organization_id: stage.place.org,
      credential: { kind: 'enrollment_key', id: expect.any(String) },
    });
  });
});

test('my tokens are listed by kind, also page by page: my own, or those of my devices', async () => {
  const { member, base } = await newPlace(stage.server);
  for (const name of ['a', 'b', 'c']) {
    await member.api.expect(201, 'POST', '/api/users/me/tokens', { name });
    await member.api.expect(201, 'POST', `${base}/devices`, { public_key: name });
  }
  const list = (query: string) => member.api.get(`/api/users/me/tokens?${query}`);
  const kinds = ({ json }: Awaited<ReturnType<typeof list>>) => json.map(({ kind }: { kind: string }) => kind);
  expect(kinds(await list('kind=device'))).toEqual(['device', 'device', 'device']);
  const own = kinds(await list('kind=user'));
  expect([own.length > 3, new Set(own)]).toEqual([true, new Set(['user'])]);
  const page = await list('kind=device&limit=2');
  expect(page.headers['link']).toContain('&kind=device');
  expect((await list('kind=other')).json.errors).toMatchObject([{ pointer: '/kind' }]);
});

describe('enrollment keys', () => {
  test('admit a device of their maker, as often as they say, until they expire', async () => {
    const { member, owner, base } = await newPlace(stage.server);
    const answer = await member.api.post(`${base}/enrollment_keys`, { uses: 2 });
    expect(answer.status).toBe(201);
    expect(answer.json).toMatchObject({
      id: uuid,
      key: expect.stringMatching(/^rf_enroll_/),
      expires_at: time,
      uses_left: 2,
    });
    const agent = stage.server.nobody.as(answer.json.key);
    const device = await agent.expect(201, 'POST', `${base}/devices`, { public_key: 'e1', hostname: 'h' });
    expect(device).toMatchObject({
      user_id: member.id,
      hostname: 'h',
      device_token: expect.stringMatching(/^rf_device_/),
    });
    const listed = await member.api.expect(200, 'GET', `${base}/enrollment_keys`);
    expect(listed).toMatchObject([{ id: answer.json.id, uses_left: 1 }]);
    expect(JSON.stringify(listed)).not.toContain(answer.json.key);
    await agent.expect(201, 'POST', `${base}/devices`, { public_key: 'e2' });
    expect((await agent.post(`${base}/devices`, { public_key: 'e3' })).status).toBe(401);
    const single = await owner.api.expect(201, 'POST', `${base}/enrollment_keys`);
    expect(single.uses_left).toBe(1);
    now += 25 * 3600 * 1000;
    expect((await stage.server.nobody.as(single.key).post(`${base}/devices`, { public_key: 'e4' })).status).toBe(401);
  });

  test('a spent key admits nobody, however many ask at once', async () => {
    const { member, base } = await newPlace(stage.server);
    const { key } = await member.api.expect(201, 'POST', `${base}/enrollment_keys`, { uses: 3 });
    const agent = stage.server.nobody.as(key);
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => (await agent.post(`${base}/devices`, { public_key: `r${i}` })).status),
    );
    expect(statuses.filter((status) => status === 201)).toHaveLength(3);
    expect(statuses.filter((status) => status === 401)).toHaveLength(9);
  });

  test('do nothing else, choose no groups, and end when revoked; only their maker and the owner see them', async () => {
    const { member, owner, stranger, base, org } = await newPlace(stage.server);
    await owner.api.expect(201, 'POST', `${base}/members`, { user_id: stranger.id });
    const group = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'preset' });
    const key = await member.api.expect(201, 'POST', `${base}/enrollment_keys`, {
      uses: 5,
      security_groups: [group.id],
    });
    const agent = stage.server.nobody.as(key.key);
    expect((await agent.get(`${base}/devices`)).status).toBe(403);
    expect((await agent.post(`${base}/devices`, { public_key: 'x', security_groups: [group.id] })).status).toBe(403);
    const device = await agent.expect(201, 'POST', `${base}/devices`, { public_key: 'x' });
    expect(device.security_groups).toEqual([group.id]);
    expect((await stranger.api.delete(`${base}/enrollment_keys/${key.id}`)).status).toBe(404);
    expect(await stranger.api.expect(200, 'GET', `${base}/enrollment_keys`)).toEqual([]);
    expect(await owner.api.expect(200, 'GET', `${base}/enrollment_keys`)).toHaveLength(1);
    await owner.api.expect(200, 'DELETE', `${base}/enrollment_keys/${key.id}`);
    expect((await agent.post(`${base}/devices`, { public_key: 'y' })).status).toBe(401);
  });
});

describe('device tokens', () => {
  test('read their organization, change the endpoint fields of their own device, and write nothing else', async () => {
    const { member, owner, base, org, defaultGroup } = await newPlace(stage.server);
    const own = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'own' });
    const other = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'other' });
    const itself = stage.server.nobody.as(own.device_token);
    for (const path of [
      '/devices',
      `/devices/${other.id}`,
      '/security_groups',
      `/security_groups/${defaultGroup}`,
      '',
    ]) {
      await itself.expect(200, 'GET', `${base}${path}`);
    }
    const endpoint = {
      local_ip: '10.0.0.1:51820',
      reflexive_ip4: '1.2.3.4',
      endpoint_local_address_ip4: '10.0.0.1',
      symmetric_nat: true,
    };
    expect(await itself.expect(200, 'PATCH', `${base}/devices/${own.id}`, endpoint)).toMatchObject(endpoint);
    expect((await itself.patch(`${base}/devices/${other.id}`, endpoint)).status).toBe(403);
    for (const body of [
      { hostname: 'x' },
      { security_groups: [] },
      { public_key: 'x' },
      { relay: true },
      { tunnel_ip: '' },
    ]) {
      expect((await itself.patch(`${base}/devices/${own.id}`, { ...endpoint, ...body })).status).toBe(403);
    }
    const refused = [
      itself.delete(`${base}/devices/${own.id}`),
      itself.post(`${base}/devices`, { public_key: 'n' }),
      itself.post(`${base}/security_groups`, { group_name: 'n' }),
      itself.post(`/api/user/${org}/security_groups`, { group_name: 'n' }),
      itself.patch(`${base}/security_groups/${defaultGroup}`, { inbound_rules: [] }),
      itself.delete(`${base}/security_groups/${defaultGroup}`),
      itself.post('/api/users/me/tokens', {}),
      itself.post('/api/organizations', { name: 'n' }),
      itself.post(`${base}/enrollment_keys`, {}),
      itself.post(`${base}/members`, { user_id: owner.id }),
    ];
    for (const answer of await Promise.all(refused)) expect(answer.status).toBe(403);
  });
});

describe('lists', () => {
  test('page by limit and after with a Link to the next, come whole without, and filter by gt_revision', async () => {
    const { owner, base } = await newPlace(stage.server);
    const made = [];
    for (let i = 0; i < 7; i += 1)
      made.push(await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: `p${i}` }));
    const ids = made.map((device) => device.id);
    const whole = await owner.api.get(`${base}/devices`);
    expect(whole.json.map((d: { id: string }) => d.id)).toEqual(ids);
    expect(whole.headers.link).toBeUndefined();
    const seen: string[] = [];
    let next: string | undefined = `${base}/devices?limit=3`;
    let pages = 0;
    while (next !== undefined) {
      const page = await owner.api.get(next);
      pages += 1;
      seen.push(...page.json.map((d: { id: string }) => d.id));
      next = /^<([^>]+)>; rel="next"$/.exec(String(page.headers.link ?? ''))?.[1];
    }
    expect(pages).toBe(3);
    expect(seen).toEqual(ids);
    const later = await owner.api.expect(200, 'GET', `${base}/devices?gt_revision=${made[4].revision}`);
    expect(later.map((d: { id: string }) => d.id)).toEqual(ids.slice(5));
    const cut = await owner.api.get(`${base}/devices?gt_revision=${made[1].revision}&limit=2`);
    expect(cut.headers.link).toContain(`gt_revision=${made[1].revision}`);
    const exact = await owner.api.get(`${base}/devices?limit=7`);
    expect(exact.headers.link).toBeUndefined();
  });

  test('a query that makes no sense is 422, with the parameter as pointer; a read ignores unknown ones, a write refuses them', async () => {
    for (const [query, pointer] of [
      ['limit=0', '/limit'],
      ['limit=x', '/limit'],
      ['limit=1&limit=2', '/limit'],
      ['limit=10001', '/limit'],
      ['after=x', '/after'],
      ['gt_revision=-1', '/gt_revision'],
      ['gt_revision=99999999999999999999', '/gt_revision'],
    ]) {
      const answer = await stage.place.owner.api.get(`${stage.place.base}/devices?${query}`);
      expect([answer.status, answer.json.errors?.[0]?.pointer], query).toEqual([422, pointer]);
    }
    await stage.place.owner.api.expect(200, 'GET', `${stage.place.base}/devices?colour=red`);
    const groups = `${stage.place.base}/security_groups?colour=red`;
    const refused = await stage.place.owner.api.expect(422, 'POST', groups, { group_name: 'red' });
    expect(refused.errors).toMatchObject([{ pointer: '/colour', code: 'unknown_field' }]);
  });

  test('every list pages', async () => {
    const paths = ['/api/users', '/api/users/me/tokens', '/api/organizations', `${stage.place.base}/members`];
    for (const path of paths) {
      const api = path === '/api/users' ? stage.server.admin : stage.place.owner.api;
      const all = await api.expect(200, 'GET', path);
      const first = await api.get(`${path}?limit=1`);
      expect(first.json).toHaveLength(1);
      expect(first.headers.link !== undefined).toBe(all.length > 1);
    }
  });
});
