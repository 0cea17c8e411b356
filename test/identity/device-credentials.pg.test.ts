/** What device tokens and enrollment keys show of their user, and how groups that a key names stay closed; `docs/threat-model.md` names these by title. */
import { describe, expect, test } from 'vitest';
import type { Place } from '../lib/server.ts';
import { watching } from '../lib/watching.ts';

const world = watching();
const { watch } = world;

interface Group {
  readonly id: string;
}
const privateGroup = ({ member, org }: Place, group_name = 'private'): Promise<Group> =>
  member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name });
const organizationGroup = ({ owner, base }: Place, group_name: string): Promise<Group> =>
  owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name });
const ids = (list: readonly Group[]): string[] => list.map(({ id }) => id);

describe('a device token', () => {
  test('shows no group of its user that no device holds: no list, no read, no stream', async () => {
    const place = await world.place();
    const { owner, member, base, org, defaultGroup } = place;
    const group = await privateGroup(place);
    const common = await organizationGroup(place, 'common');
    // The owner registers a device for the member, and has its token.
    const asked = { public_key: 'planted', user_id: member.id };
    const { device_token } = await owner.api.expect(201, 'POST', `${base}/devices`, asked);
    const api = world.server.nobody.as(device_token);
    const everyone = [defaultGroup, common.id];
    expect(ids(await api.expect(200, 'GET', `${base}/security_groups`))).toEqual(everyone);
    expect(ids(await api.expect(200, 'GET', `/api/user/${org}/security_groups`))).toEqual([]);
    expect((await api.get(`${base}/security_groups/${group.id}`)).status).toBe(404);
    expect((await api.get(`/api/user/${org}/security_groups/${group.id}`)).status).toBe(404);
    const stream = await watch(place, [{ kind: 'security-groups' }], { token: device_token }).tail();
    expect(stream.documents.flatMap(({ value }) => value?.id ?? [])).toEqual(everyone);
    // Nor what becomes of it later.
    await member.api.expect(200, 'PATCH', `/api/user/${org}/security_groups/${group.id}`, { group_name: 'still' });
    const later = await organizationGroup(place, 'later');
    await stream.count(4);
    expect(stream.documents.at(-1)?.value?.id).toBe(later.id);
  });

  test('shows a group of its user while a device holds it, and streams see it come and go', async () => {
    const place = await world.place();
    const { member, base } = place;
    const group = await privateGroup(place);
    const device = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'own' });
    const api = world.server.nobody.as(device.device_token);
    const stream = await watch(place, [{ kind: 'security-groups' }], { token: device.device_token }).tail();
    await member.api.expect(200, 'PATCH', `${base}/devices/${device.id}`, { security_groups: [group.id] });
    await stream.count(3);
    expect(stream.documents.at(-1)).toMatchObject({ type: 'change', value: { id: group.id, group_name: 'private' } });
    expect((await api.get(`${base}/security_groups/${group.id}`)).status).toBe(200);
    await member.api.expect(200, 'PATCH', `${base}/devices/${device.id}`, { security_groups: [] });
    await stream.count(4);
    expect(stream.documents.at(-1)).toMatchObject({ type: 'delete', value: { id: group.id } });
    expect((await api.get(`${base}/security_groups/${group.id}`)).status).toBe(404);
  });

  test('and an enrollment key say who they are without the groups and the rank of their user', async () => {
    const place = await world.place();
    const { base, org } = place;
    const admin = world.server.admin;
    const { id: administrator } = await admin.expect(200, 'GET', '/api/users/me');
    await place.owner.api.expect(201, 'POST', `${base}/members`, { user_id: administrator });
    await admin.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
    const { device_token } = await admin.expect(201, 'POST', `${base}/devices`, { public_key: 'k' });
    const { key } = await admin.expect(201, 'POST', `${base}/enrollment_keys`, {});
    expect(await admin.expect(200, 'GET', '/api/users/me')).toMatchObject({
      is_administrator: true,
      security_groups: [expect.any(String)],
    });
    for (const secret of [device_token, key]) {
      const me = await world.server.nobody.as(secret).expect(200, 'GET', '/api/users/me');
      expect(me).toMatchObject({ id: administrator, organization_id: org });
      expect(Object.keys(me)).not.toContain('is_administrator');
      expect(Object.keys(me)).not.toContain('security_groups');
    }
  });
});

describe('an enrollment key', () => {
  test('holds the groups that it names: deleting one is 409 and names the key; with detach the key ends', async () => {
    const place = await world.place();
    const { owner, base } = place;
    const locked = await organizationGroup(place, 'locked');
    const asked = { uses: 5, name: 'fleet', security_groups: [locked.id] };
    const { id, key } = await owner.api.expect(201, 'POST', `${base}/enrollment_keys`, asked);
    const refused = await owner.api.delete(`${base}/security_groups/${locked.id}`);
    expect(refused.status).toBe(409);
    expect(refused.json).toMatchObject({ code: 'group_in_use', enrollment_keys: [id] });
    expect(refused.json.detail).toContain('fleet');
    await owner.api.expect(200, 'DELETE', `${base}/security_groups/${locked.id}?detach=true`);
    expect((await world.server.nobody.as(key).post(`${base}/devices`, { public_key: 'late' })).status).toBe(401);
    expect(await owner.api.expect(200, 'GET', `${base}/enrollment_keys`)).toEqual([]);
    expect(await owner.api.expect(200, 'GET', `${base}/devices`)).toEqual([]);
  });

  test('of the owner admits no device for another member', async () => {
    const place = await world.place();
    const { owner, member, base } = place;
    const { key } = await owner.api.expect(201, 'POST', `${base}/enrollment_keys`, { uses: 5 });
    const api = world.server.nobody.as(key);
    const foreign = await api.post(`${base}/devices`, { public_key: 'a', user_id: member.id });
    expect(foreign.status).toBe(422);
    expect(foreign.json.errors).toMatchObject([{ pointer: '/user_id' }]);
    const own = await api.expect(201, 'POST', `${base}/devices`, { public_key: 'a', user_id: owner.id });
    expect(own.user_id).toBe(owner.id);
  });
});

test('removing a user is an entry in the audit of each of its organizations, by the administrator', async () => {
  const place = await world.place();
  const { owner, member, base } = place;
  await world.server.admin.expect(200, 'DELETE', `/api/users/${member.id}`);
  const { id: administrator } = await world.server.admin.expect(200, 'GET', '/api/users/me');
  const [newest] = await owner.api.expect(200, 'GET', `${base}/audit`);
  expect(newest).toMatchObject({ operation: 'removeUser', subject_id: member.id, user_id: administrator });
});
