/** Proves that an organization has one owner or several, and what goes along with a member who is removed (reference 4.4 (2), (5), (6)). */
import { describe, expect, test } from 'vitest';
import { newPerson, newPlace, type Person, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let keys = 0;
const newKey = (): string => `owners-${(keys += 1)}`;

async function join(place: Place, role: 'owner' | 'member' = 'member'): Promise<Person> {
  const person = await newPerson(stage.server, `joins-${newKey()}`);
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: person.id });
  if (role === 'owner') await setRole(place, person, 'owner');
  return person;
}

const setRole = (place: Place, person: Person, role: string, by: Person = place.owner) =>
  by.api.expect(200, 'PATCH', `${place.base}/members/${person.id}`, { role });

const ownerOf = async (place: Place): Promise<string> =>
  (await place.member.api.expect(200, 'GET', place.base)).owner_id as string;

const codeOf = (problem: { readonly type: string }): string => problem.type.split('#error-')[1] ?? '';

describe('owners', () => {
  test('may be several, and each may do what an owner may', async () => {
    const place = await newPlace(stage.server);
    const second = await join(place);
    await second.api.expect(403, 'PATCH', place.base, { description: 'no' });
    expect(await setRole(place, second, 'owner')).toMatchObject({ user_id: second.id, role: 'owner' });
    await second.api.expect(200, 'PATCH', place.base, { description: 'by the second owner' });
    await second.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'theirs' });
    const device = { public_key: newKey(), user_id: place.member.id };
    await second.api.expect(201, 'POST', `${place.base}/devices`, device);
    const roles = (await second.api.expect(200, 'GET', `${place.base}/members`)).map(
      (one: { role: string }) => one.role,
    );
    expect(roles.toSorted()).toEqual(['member', 'owner', 'owner']);
  });

  test('are made and ended by owners only, and by no credential of a device', async () => {
    const place = await newPlace(stage.server);
    const made = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: newKey() });
    const token = stage.server.nobody.as(made.device_token);
    for (const api of [place.member.api, token]) {
      await api.expect(403, 'PATCH', `${place.base}/members/${place.member.id}`, { role: 'owner' });
      await api.expect(403, 'PATCH', `${place.base}/members/${place.owner.id}`, { role: 'member' });
    }
    const stranger = await newPerson(stage.server, `stranger-${newKey()}`);
    await stranger.api.expect(404, 'PATCH', `${place.base}/members/${stranger.id}`, { role: 'owner' });
    await place.owner.api.expect(404, 'PATCH', `${place.base}/members/${stranger.id}`, { role: 'owner' });
    for (const role of ['admin', null, 1]) {
      await place.owner.api.expect(422, 'PATCH', `${place.base}/members/${place.member.id}`, { role });
    }
    await place.owner.api.expect(422, 'PATCH', `${place.base}/members/${place.member.id}`, {});
    const member = await place.owner.api.expect(200, 'GET', `${place.base}/members/${place.member.id}`);
    expect(member.role).toBe('member');
  });

  test('are named by the one of longest standing, and a hand-over is a change of the organization', async () => {
    const place = await newPlace(stage.server);
    const second = await join(place, 'owner');
    expect(await ownerOf(place)).toBe(place.owner.id);
    const before = (await place.member.api.expect(200, 'GET', place.base)).revision as number;
    await setRole(place, place.owner, 'member', second);
    expect(await ownerOf(place)).toBe(second.id);
    expect((await place.member.api.expect(200, 'GET', place.base)).revision).toBe(before + 1);
    await setRole(place, place.owner, 'owner', second);
    expect(await ownerOf(place)).toBe(second.id);
  });

  test('are never none: the last one cannot leave, be demoted or be removed (409 last_owner)', async () => {
    const place = await newPlace(stage.server);
    const path = `${place.base}/members/${place.owner.id}`;
    expect(codeOf(await place.owner.api.expect(409, 'PATCH', path, { role: 'member' }))).toBe('last_owner');
    expect(codeOf(await place.owner.api.expect(409, 'DELETE', path))).toBe('last_owner');
    const second = await join(place, 'owner');
    const both = await Promise.all([
      place.owner.api.patch(`${place.base}/members/${second.id}`, { role: 'member' }),
      second.api.patch(path, { role: 'member' }),
    ]);
    expect(both.every(({ status }) => status === 200)).toBe(false);
    const owners = (await place.member.api.expect(200, 'GET', `${place.base}/members`)).filter(
      (one: { role: string }) => one.role === 'owner',
    );
    expect(owners).toHaveLength(1);
  });

  test('may leave while another stays, and a user who is the last owner somewhere cannot be removed', async () => {
    const place = await newPlace(stage.server);
    const second = await join(place, 'owner');
    await stage.server.admin.expect(200, 'DELETE', `/api/users/${place.owner.id}`);
    expect(await ownerOf(place)).toBe(second.id);
    expect(codeOf(await stage.server.admin.expect(409, 'DELETE', `/api/users/${second.id}`))).toBe('last_owner');
  });
});

describe('removing a member', () => {
  /** A member with a device of the organization's group, one of the member's own group and one of both. */
  async function settle() {
    const place = await newPlace(stage.server);
    const { api } = place.member;
    const shared = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'shared' });
    const own = await api.expect(201, 'POST', `${place.base.replace('/organizations/', '/user/')}/security_groups`, {
      group_name: 'own',
    });
    const device = (security_groups: readonly string[]) =>
      api.expect(201, 'POST', `${place.base}/devices`, { public_key: newKey(), hostname: 'box', security_groups });
    const [byShared, byOwn, byBoth, byDefault] = [
      await device([shared.id]),
      await device([own.id]),
      await device([own.id, shared.id]),
      await device([]),
    ];
    return { place, path: `${place.base}/members/${place.member.id}`, shared, own, byShared, byOwn, byBoth, byDefault };
  }

  test('tells what went along, and each of it is in the audit', async () => {
    const { place, path, own, byShared, byOwn, byBoth, byDefault } = await settle();
    const gone = await place.owner.api.expect(200, 'DELETE', path);
    const devices = [byShared, byOwn, byBoth, byDefault].map(({ id }) => id as string).toSorted();
    expect(gone).toMatchObject({ user_id: place.member.id, role: 'member', kept_devices: [] });
    expect(gone.deleted_devices.toSorted()).toEqual(devices);
    expect(gone.deleted_groups).toEqual([own.id]);
    const audit = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    const subjects = (operation: string): string[] =>
      audit
        .filter((entry: { operation: string }) => entry.operation === operation)
        .map((entry: { subject_id: string }) => entry.subject_id)
        .toSorted();
    expect(subjects('deleteDevice')).toEqual(devices);
    expect(subjects('deleteUserSecurityGroup')).toEqual([own.id]);
    expect(subjects('removeMember')).toEqual([place.member.id]);
  });

  test('with keep=devices names the devices that would open (409 would_open), and changes nothing then', async () => {
    const { place, path, byOwn } = await settle();
    const refused = await place.owner.api.expect(409, 'DELETE', `${path}?keep=devices`);
    expect(codeOf(refused)).toBe('would_open');
    expect(refused.devices).toEqual([byOwn.id]);
    expect(refused.detail).toContain('box');
    expect(await place.owner.api.expect(200, 'GET', `${place.base}/devices/${byOwn.id}`)).toMatchObject({
      user_id: place.member.id,
    });
    await place.owner.api.expect(200, 'GET', path);
  });

  test('with keep=devices and detach hands the devices over, without the groups that go, and their tokens go on', async () => {
    const { place, path, own, shared, byShared, byOwn, byBoth, byDefault } = await settle();
    const gone = await place.owner.api.expect(200, 'DELETE', `${path}?keep=devices&detach=true`);
    expect(gone.deleted_devices).toEqual([]);
    expect(gone.deleted_groups).toEqual([own.id]);
    expect(gone.kept_devices.toSorted()).toEqual(
      [byShared, byOwn, byBoth, byDefault].map(({ id }) => id as string).toSorted(),
    );
    const lists: Record<string, unknown> = {};
    for (const { id, device_token } of [byShared, byOwn, byBoth, byDefault]) {
      const device = await stage.server.nobody.as(device_token).expect(200, 'GET', `${place.base}/devices/${id}`);
      expect(device.user_id).toBe(place.owner.id);
      lists[id] = device.security_groups;
    }
    expect(lists).toEqual({
      [byShared.id]: [shared.id],
      [byOwn.id]: undefined,
      [byBoth.id]: [shared.id],
      [byDefault.id]: undefined,
    });
    // Rotating ends the secret that the member may have kept.
    const tokens = await place.owner.api.expect(200, 'GET', '/api/users/me/tokens?kind=device');
    const old = tokens.find(({ device_id }: { device_id: string }) => device_id === byOwn.id);
    await place.owner.api.expect(200, 'POST', `/api/tokens/${old.id}/rotate`);
    await stage.server.nobody.as(byOwn.device_token).expect(401, 'GET', `${place.base}/devices/${byOwn.id}`);
    // The group that is left is in use by the devices that were kept.
    await place.owner.api.expect(409, 'DELETE', `${place.base}/security_groups/${shared.id}`);
    const audit = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    const moved = audit.filter((entry: { operation: string }) => entry.operation === 'updateDevice');
    expect(moved).toHaveLength(4);
    expect(moved[0]).toMatchObject({ fields: ['user_id', 'security_groups'], user_id: place.owner.id });
  });

  test('is refused for oneself with keep=devices, and other words than devices are 422', async () => {
    const { place, path } = await settle();
    await place.member.api.expect(422, 'DELETE', `${path}?keep=devices`);
    await place.owner.api.expect(422, 'DELETE', `${path}?keep=groups`);
    expect(await place.owner.api.expect(200, 'GET', path)).toMatchObject({ role: 'member' });
  });

  test('of an owner hands ownership on and ends it', async () => {
    const place = await newPlace(stage.server);
    const second = await join(place, 'owner');
    const gone = await second.api.expect(200, 'DELETE', `${place.base}/members/${place.owner.id}`);
    expect(gone).toMatchObject({ user_id: place.owner.id, deleted_devices: [], deleted_groups: [] });
    expect(await ownerOf(place)).toBe(second.id);
    await place.owner.api.expect(404, 'GET', place.base);
  });
});
