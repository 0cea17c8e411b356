/** Proves that an organization has one owner or several, who counts as one, and what goes along with a member who is removed (reference 4.4 (2), (5), (6), (10)). */
import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import { newPerson, newPlace, startTestServer, type Person, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';
import { rounds } from '../lib/thorough.ts';

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

/** Another server on the same database, at which users may own this many organizations. */
const openWithQuota = (maxOwnedOrganizations: number) =>
  startTestServer(stage.postgres, { url: stage.server.databaseUrl, maxOwnedOrganizations });

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
    await second.api.expect(200, 'POST', `${place.base}/members/${second.id}/accept`);
    await stage.server.admin.expect(200, 'DELETE', `/api/users/${place.owner.id}`);
    expect(await ownerOf(place)).toBe(second.id);
    expect(codeOf(await stage.server.admin.expect(409, 'DELETE', `/api/users/${second.id}`))).toBe('last_owner');
  });
});

describe('an owner made by somebody else', () => {
  const memberOf = (place: Place, person: { readonly id: string }) =>
    place.member.api.expect(200, 'GET', `${place.base}/members/${person.id}`);
  const accept = (place: Place, person: Person) => `${place.base}/members/${person.id}/accept`;

  test('has the rights at once, and does not count until it accepts: nobody leaves an organization to it', async () => {
    const place = await newPlace(stage.server);
    const second = await join(place, 'owner');
    expect(await memberOf(place, second)).toMatchObject({ role: 'owner', accepted: false });
    await second.api.expect(200, 'GET', `${place.base}/audit`);
    const own = `${place.base}/members/${place.owner.id}`;
    expect(codeOf(await place.owner.api.expect(409, 'DELETE', own))).toBe('last_owner');
    expect(codeOf(await place.owner.api.expect(409, 'PATCH', own, { role: 'member' }))).toBe('last_owner');
    // Only the person itself accepts.
    await place.owner.api.expect(403, 'POST', accept(place, second));
    await place.member.api.expect(403, 'POST', accept(place, second));
    await place.member.api.expect(409, 'POST', accept(place, place.member));
    const stranger = await newPerson(stage.server, `stranger-${newKey()}`);
    await stranger.api.expect(404, 'POST', accept(place, stranger));
    const accepted = await second.api.expect(200, 'POST', accept(place, second));
    expect(accepted).toMatchObject({ user_id: second.id, role: 'owner' });
    expect(accepted.accepted).toBeUndefined();
    await second.api.expect(200, 'POST', accept(place, second));
    await place.owner.api.expect(200, 'DELETE', own);
    expect(await ownerOf(place)).toBe(second.id);
    const audit = await second.api.expect(200, 'GET', `${place.base}/audit`);
    const entries = audit.filter(({ operation }: { operation: string }) => operation === 'acceptMember');
    expect(entries.map(({ user_id }: { user_id: string }) => user_id)).toEqual([second.id, second.id]);
  });

  test('accepts by its first write as an owner, and by none that it may do as a member', async () => {
    const asMember = async (place: Place, { api, id }: Person): Promise<void> => {
      const device = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: newKey() });
      await api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { hostname: 'mine' });
      const own = `/api/user/${place.org}/security_groups`;
      const group = await api.expect(201, 'POST', own, { group_name: newKey() });
      await api.expect(200, 'POST', `${place.base}/changes`, {
        security_groups: [{ id: group.id, group_description: 'of its own' }],
      });
      const tried = await api.expect(201, 'POST', `${own}?confirm_within=600`, { group_name: newKey() });
      await api.expect(200, 'POST', `${place.base}/trials/${tried.trial.id}/confirm`);
      await api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { security_groups: [group.id] });
      await api.expect(422, 'PATCH', place.base, { name: '' });
      expect(await memberOf(place, { id })).toMatchObject({ accepted: false });
    };
    const writes: Record<string, (place: Place, person: Person) => Promise<unknown>> = {
      organization: ({ base }, { api }) => api.expect(200, 'PATCH', base, { description: 'by the second' }),
      group: ({ base }, { api }) => api.expect(201, 'POST', `${base}/security_groups`, { group_name: newKey() }),
      'group by a change': ({ base }, { api }) =>
        api.expect(200, 'POST', `${base}/changes`, { security_groups: [{ group_name: newKey() }] }),
      "somebody else's device": async ({ base, member }, { api }) => {
        const { id } = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: newKey() });
        await api.expect(200, 'PATCH', `${base}/devices/${id}`, { hostname: 'theirs' });
      },
      'labels on its own device': ({ base }, { api }) =>
        api.expect(201, 'POST', `${base}/devices`, { public_key: newKey(), labels: ['db'] }),
      'a key with labels': ({ base }, { api }) =>
        api.expect(201, 'POST', `${base}/enrollment_keys`, { labels: ['db'] }),
      "a trial of the organization's group": async ({ base, owner }, { api }) => {
        const body = { group_name: newKey() };
        const made = await owner.api.expect(201, 'POST', `${base}/security_groups?confirm_within=600`, body);
        await api.expect(200, 'POST', `${base}/trials/${made.trial.id}/revert`);
      },
      'the removal of the other owner': ({ base, owner }, { api }) =>
        api.expect(200, 'DELETE', `${base}/members/${owner.id}`),
    };
    for (const [what, write] of Object.entries(writes)) {
      const place = await newPlace(stage.server);
      const second = await join(place, 'owner');
      await asMember(place, second);
      await write(place, second);
      expect((await memberOf(place, second)).accepted, what).toBeUndefined();
    }
  });

  test('accepts in an organization with policy tests too, where single writes run in transactions', async () => {
    const place = await newPlace(stage.server);
    const tests = [
      { name: 'closed', from: { labels: ['x'] }, to: { labels: ['y'] }, protocol: 'tcp', port: 1, expect: 'refuse' },
    ];
    await place.owner.api.expect(200, 'PUT', `${place.base}/policy_tests`, tests);
    const second = await join(place, 'owner');
    await second.api.expect(201, 'POST', `${place.base}/devices`, { public_key: newKey() });
    expect(await memberOf(place, second)).toMatchObject({ accepted: false });
    await second.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: newKey() });
    expect((await memberOf(place, second)).accepted).toBeUndefined();
  });

  test('uses up nothing of its own quota, so nobody is kept from owning what it makes itself', async () => {
    const victim = await newPerson(stage.server, `victim-${newKey()}`);
    const owner = await newPerson(stage.server, `giver-${newKey()}`);
    const places: string[] = [];
    for (let n = 0; n < 3; n += 1) {
      const { id } = await owner.api.expect(201, 'POST', '/api/organizations', { name: newKey() });
      places.push(`/api/organizations/${id}/members/${victim.id}`);
      await owner.api.expect(201, 'POST', `/api/organizations/${id}/members`, { user_id: victim.id });
      await owner.api.expect(200, 'PATCH', `/api/organizations/${id}/members/${victim.id}`, { role: 'owner' });
    }
    const limited = await openWithQuota(2);
    try {
      const as = limited.nobody.as(victim.token);
      for (let n = 0; n < 2; n += 1) await as.expect(201, 'POST', '/api/organizations', { name: newKey() });
      expect(codeOf(await as.expect(409, 'POST', '/api/organizations', { name: newKey() }))).toBe('limit_reached');
      expect(codeOf(await as.expect(409, 'POST', `${places[0]}/accept`))).toBe('limit_reached');
      // The rights are there all the same, and what stays pending does not count.
      const base = places[0]?.split('/members')[0] ?? '';
      await as.expect(200, 'PATCH', base, { description: 'by the victim' });
      expect(await as.expect(200, 'GET', places[0] ?? '')).toMatchObject({ role: 'owner', accepted: false });
    } finally {
      await limited.close();
    }
  });

  test('keeps an owner who agreed, however acceptance, leaving and removal race', async () => {
    for (let round = 0; round < rounds(8, 40); round += 1) {
      const place = await newPlace(stage.server);
      const second = await join(place, 'owner');
      const own = `${place.base}/members/${place.owner.id}`;
      const statuses = await Promise.all([
        second.api.status('POST', accept(place, second)),
        place.owner.api.status('DELETE', own),
        place.owner.api.status('DELETE', `${place.base}/members/${second.id}`),
        second.api.status('DELETE', `${place.base}/members/${second.id}`),
      ]);
      for (const status of statuses) expect([200, 403, 404, 409]).toContain(status);
      const all: { role: string; accepted?: false }[] = await place.member.api.expect(
        200,
        'GET',
        `${place.base}/members`,
      );
      const agreed = all.filter(({ role, accepted }) => role === 'owner' && accepted === undefined);
      expect(agreed.length, statuses.join(' ')).toBeGreaterThan(0);
    }
  });
});

describe('a user who owns organizations alone', () => {
  const admin = () => stage.server.admin;
  const remove = (status: number, { id }: { readonly id: string }, query = '') =>
    admin().expect(status, 'DELETE', `/api/users/${id}${query}`);
  const named = async (...places: Place[]) =>
    Promise.all(
      places.map(async ({ org, base, member }) => ({
        id: org,
        name: (await member.api.expect(200, 'GET', base)).name as string,
      })),
    );

  test('stays while nobody says what becomes of them: 409 names them, also where the other owner has not accepted', async () => {
    const place = await newPlace(stage.server);
    await join(place, 'owner');
    const refused = await remove(409, place.owner);
    expect(refused).toMatchObject({ code: 'last_owner', organizations: await named(place) });
    expect(refused.detail).toContain('?organizations=delete');
    await place.owner.api.expect(200, 'PATCH', place.base, { description: 'still here' });
    for (const word of ['keep', 'to', 'to:', 'to:nobody-of-this-name', `to:${place.owner.id}`, `to:${place.org}`]) {
      const { errors } = await remove(422, place.owner, `?organizations=${encodeURIComponent(word)}`);
      expect(errors[0].pointer, word).toBe('/organizations');
    }
    await place.owner.api.expect(200, 'GET', place.base);
  });

  test('is removed with organizations=delete: those that it owns alone go, and others go on', async () => {
    const [own, shared] = [await newPlace(stage.server), await newPlace(stage.server)];
    await shared.owner.api.expect(201, 'POST', `${shared.base}/members`, { user_id: own.owner.id });
    await setRole(shared, own.owner, 'owner');
    const device = await own.owner.api.expect(201, 'POST', `${own.base}/devices`, { public_key: newKey() });
    const organizations = await named(own);
    expect(await remove(200, own.owner, '?organizations=delete')).toMatchObject({
      id: own.owner.id,
      deleted_organizations: organizations,
    });
    await own.member.api.expect(404, 'GET', own.base);
    await stage.server.nobody.as(device.device_token).expect(401, 'GET', `${own.base}/devices/${device.id}`);
    await own.owner.api.expect(401, 'GET', '/api/users/me');
    await shared.owner.api.expect(404, 'GET', `${shared.base}/members/${own.owner.id}`);
    await shared.owner.api.expect(200, 'PATCH', shared.base, { description: 'goes on' });
    await remove(404, own.owner, '?organizations=delete');
  });

  test('is removed with organizations=to:USER: who gets them owns them at once, with the devices, and has to accept', async () => {
    for (const by of ['id', 'username'] as const) {
      const place = await newPlace(stage.server);
      const heir = by === 'id' ? place.member : await newPerson(stage.server, `heir-${newKey()}`);
      const device = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: newKey() });
      const organizations = await named(place);
      expect(await remove(200, place.owner, `?organizations=to:${heir[by]}`)).toMatchObject({
        handed_over_organizations: organizations,
      });
      expect(await ownerOf(place)).toBe(heir.id);
      const member = await heir.api.expect(200, 'GET', `${place.base}/members/${heir.id}`);
      expect(member).toMatchObject({ role: 'owner', accepted: false });
      await heir.api.expect(404, 'GET', `${place.base}/members/${place.owner.id}`);
      const kept = await stage.server.nobody
        .as(device.device_token)
        .expect(200, 'GET', `${place.base}/devices/${device.id}`);
      expect(kept.user_id).toBe(heir.id);
      await place.owner.api.expect(401, 'GET', place.base);
      const audit = await heir.api.expect(200, 'GET', `${place.base}/audit?limit=3`);
      const { id: administrator } = await admin().expect(200, 'GET', '/api/users/me');
      expect(audit).toMatchObject([
        { operation: 'removeUser', subject_id: place.owner.id, user_id: administrator },
        { operation: 'updateDevice', subject_id: device.id, user_id: administrator },
        {
          operation: by === 'id' ? 'updateMember' : 'addMember',
          subject_id: heir.id,
          user_id: administrator,
          after: { role: 'owner', accepted: false },
        },
      ]);
      await heir.api.expect(200, 'PATCH', place.base, { description: 'accepted by a write' });
      expect(await heir.api.expect(200, 'GET', `${place.base}/members/${heir.id}`)).not.toHaveProperty('accepted');
    }
  });

  test('uses up nothing of the quota of who gets them', async () => {
    const giver = await newPerson(stage.server, `giver-${newKey()}`);
    const heir = await newPerson(stage.server, `heir-${newKey()}`);
    for (let n = 0; n < 3; n += 1) await giver.api.expect(201, 'POST', '/api/organizations', { name: newKey() });
    await remove(200, giver, `?organizations=to:${heir.id}`);
    const limited = await openWithQuota(1);
    try {
      const status = await limited.nobody
        .as(heir.token)
        .status('POST', '/api/organizations', { body: { name: newKey() } });
      expect(status).toBe(201);
    } finally {
      await limited.close();
    }
  });

  test('hands over no device that would be open by that, unless detach=true says so; and before that nothing ends', async () => {
    const place = await newPlace(stage.server);
    const own = `/api/user/${place.org}/security_groups`;
    const group = await place.owner.api.expect(201, 'POST', own, { group_name: newKey() });
    const body = { public_key: newKey(), security_groups: [group.id] };
    const device = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, body);
    const query = `?organizations=to:${place.member.id}`;
    expect(await remove(409, place.owner, query)).toMatchObject({ code: 'would_open', devices: [device.id] });
    await place.owner.api.expect(200, 'GET', place.base);
    await remove(200, place.owner, `${query}&detach=true`);
    expect(await place.member.api.expect(200, 'GET', `${place.base}/devices/${device.id}`)).toMatchObject({
      user_id: place.member.id,
    });
  });

  test('writes and signs in no more from the first moment on, however long its organizations take', async () => {
    const place = await newPlace(stage.server);
    const blocking = new Client({ connectionString: stage.server.databaseUrl });
    await blocking.connect();
    try {
      await blocking.query('BEGIN');
      await blocking.query('SELECT FROM heads WHERE org_id = $1 FOR UPDATE', [place.org]);
      const removal = remove(200, place.owner, '?organizations=delete');
      await eventually(
        'its token has ended',
        async () => (await place.owner.api.status('GET', '/api/users/me')) === 401,
      );
      const { rows } = await blocking.query('SELECT removed_at IS NOT NULL AS gone FROM users WHERE id = $1', [
        place.owner.id,
      ]);
      expect(rows).toEqual([{ gone: true }]);
      await place.member.api.expect(200, 'GET', place.base);
      await blocking.query('ROLLBACK');
      await removal;
      await place.member.api.expect(404, 'GET', place.base);
    } finally {
      await blocking.end();
    }
  });

  test('that was removed half-way is removed to the end by the same request', async () => {
    const place = await newPlace(stage.server);
    const database = new Client({ connectionString: stage.server.databaseUrl });
    await database.connect();
    try {
      await database.query('UPDATE users SET removed_at = now() WHERE id = $1', [place.owner.id]);
      await remove(409, place.owner);
      await remove(200, place.owner, `?organizations=to:${place.member.id}`);
      expect(await ownerOf(place)).toBe(place.member.id);
      await remove(404, place.owner);
    } finally {
      await database.end();
    }
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
