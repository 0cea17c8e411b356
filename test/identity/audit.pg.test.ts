/** The audit by its clauses (reference 4.7), against the real server. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { operations } from '../../src/api/operations.ts';
import { operationIds } from '../../src/api/paths.ts';
import type { Json } from '../lib/http.ts';
import { audience, startProvider, type TestProvider } from '../lib/provider.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
const day = 86_400_000;
let ahead = 0;
beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  server = await startTestServer(postgres, {
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    clock: () => Date.now() + ahead,
    keepAudit: 10,
  });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

describe('reference 4.7', () => {
  it('(1) tells who changed what, when, from where and with which credential', async () => {
    const place = await newPlace(server);
    const body = { group_name: 'web', inbound_rules: [{ ip_protocol: 'tcp', from_port: 80, to_port: 80 }] };
    const headers = { 'x-request-id': 'my-request' };
    const group = (await place.owner.api.post(`${place.base}/security_groups`, body, headers)).json;
    await place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}`, { group_name: 'www' });
    const { id: keyId, key } = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, {});
    const device = await server.nobody.as(key).expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
    const own = server.nobody.as(device.device_token);
    await own.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { reflexive_ip4: '192.0.2.1' });
    await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}`);

    const entries: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    const told = entries.toReversed();
    expect(told.map(({ operation }) => operation)).toEqual([
      'createOrganization',
      'addMember',
      'createSecurityGroup',
      'updateSecurityGroup',
      'createEnrollmentKey',
      'createDevice',
      'updateDevice',
      // What goes with a member is recorded too.
      'deleteDevice',
      'removeMember',
    ]);
    const [made, , created, updated, , enrolled, reported, , removed] = told;
    expect(made).toMatchObject({ organization_id: place.org, subject_id: place.org, fields: ['name'] });
    expect(created).toEqual({
      id: created.id,
      at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      operation: 'createSecurityGroup',
      organization_id: place.org,
      subject_id: group.id,
      subject: { name: 'web' },
      revision: group.revision,
      fields: ['group_name', 'inbound_rules'],
      user_id: place.owner.id,
      username: place.owner.username,
      credential: { kind: 'user_token', id: expect.any(String) },
      address: '127.0.0.1',
      request_id: 'my-request',
      after: group,
    });
    expect(updated).toMatchObject({ subject_id: group.id, fields: ['group_name'], revision: group.revision + 1 });
    expect(enrolled).toMatchObject({
      user_id: place.member.id,
      subject_id: device.id,
      credential: { kind: 'enrollment_key', id: keyId },
    });
    expect(reported).toMatchObject({ credential: { kind: 'device_token' }, fields: ['reflexive_ip4'] });
    expect(removed).toMatchObject({ user_id: place.owner.id, subject_id: place.member.id });
    // What a device reports of itself is named, not kept; the record of a device that goes is.
    expect(JSON.stringify(reported)).not.toContain('192.0.2.1');
  });

  it('(1) knows every operation that writes, and no refused one', async () => {
    const silent = operationIds.filter((id) => operations[id].effect !== 'write');
    expect(silent.filter((id) => operations[id].method !== 'GET')).toEqual([
      'reportDeviceStatus',
      'reportFlows',
      'simulateChanges',
      'proposeRules',
      'watchEvents',
    ]);

    const place = await newPlace(server);
    const before = (await place.owner.api.expect(200, 'GET', `${place.base}/audit`)).length;
    await place.member.api.expect(403, 'POST', `${place.base}/security_groups`, { group_name: 'x' });
    await place.owner.api.expect(422, 'POST', `${place.base}/security_groups`, { group_name: '' });
    expect(await place.owner.api.expect(200, 'GET', `${place.base}/audit`)).toHaveLength(before);
  });

  it('(2) tells a sign-in once for each access token', async () => {
    const { accessToken } = await provider.signIn('alice');
    const api = server.nobody.as(accessToken);
    const me = await api.expect(200, 'GET', '/api/users/me');
    await api.expect(200, 'GET', '/api/users/me');
    await server.nobody.as((await provider.signIn('alice')).accessToken).expect(200, 'GET', '/api/users/me');
    const entries: Json[] = await server.admin.expect(200, 'GET', '/api/audit');
    const mine = entries.filter(({ operation, user_id }) => operation === 'signIn' && user_id === me.id);
    expect(mine).toHaveLength(2);
    expect(mine[0]).toMatchObject({ credential: { kind: 'access_token' }, address: '127.0.0.1' });
    expect(mine[0]).not.toHaveProperty('organization_id');
  });

  it('(4) is for the owner; what concerns the server is for its administrator, the end of organizations included', async () => {
    const place = await newPlace(server);
    expect((await place.member.api.get(`${place.base}/audit`)).status).toBe(403);
    expect((await place.stranger.api.get(`${place.base}/audit`)).status).toBe(404);
    expect((await server.admin.get(`${place.base}/audit`)).status).toBe(404);
    expect((await place.owner.api.get('/api/audit')).status).toBe(403);
    const { id } = await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', { name: 'x' });
    await place.owner.api.expect(200, 'DELETE', place.base);
    const [ended, issued] = await server.admin.expect(200, 'GET', '/api/audit');
    expect(ended).toMatchObject({ operation: 'deleteOrganization', subject_id: place.org, user_id: place.owner.id });
    expect(issued).toMatchObject({ operation: 'createMyToken', subject_id: id });
  });

  it('(4) comes in pages, newest first', async () => {
    const place = await newPlace(server);
    for (let n = 0; n < 5; n += 1) await place.owner.api.expect(200, 'PATCH', place.base, { description: `${n}` });
    const whole: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    const ids: string[] = whole.map(({ id }) => id as string);
    expect(ids.every((id, index) => index === 0 || id < (ids[index - 1] ?? ''))).toBe(true);
    const paged: Json[] = [];
    for (let path: string | undefined = `${place.base}/audit?limit=3`; path !== undefined;) {
      const answer = await place.owner.api.get(path);
      paged.push(...answer.json);
      path = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link))?.[1];
    }
    expect(paged).toEqual(whole);
  });

  it('(5) forgets what is older than the retention', async () => {
    const place = await newPlace(server);
    ahead = 9 * day;
    await place.owner.api.expect(200, 'PATCH', place.base, { description: 'later' });
    ahead = 11 * day;
    await server.store.audit.forget();
    const left: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    expect(left.map(({ operation }) => operation)).toEqual(['updateOrganization']);
    ahead = 0;
  });
});
