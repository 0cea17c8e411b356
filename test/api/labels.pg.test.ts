/**
 * Proves labels and further addresses of devices, and that only an owner can obtain or give a label (reference 2.12, 5
 * (14)).
 */
import { describe, expect, test } from 'vitest';
import type { Api, Json } from '../lib/http.ts';
import { newPerson, newPlace, type Person, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let serial = 0;
const unique = (): string => `labels-${(serial += 1)}`;

async function join(place: Place, role: 'owner' | 'member'): Promise<Person> {
  const person = await newPerson(stage.server, unique());
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: person.id });
  if (role === 'owner') await setRole(place, person, 'owner');
  return person;
}
const setRole = (place: Place, person: Person, role: string): Promise<Json> =>
  place.owner.api.expect(200, 'PATCH', `${place.base}/members/${person.id}`, { role });

const add = (place: Place, by: Api, fields: object = {}): Promise<Json> =>
  by.expect(201, 'POST', `${place.base}/devices`, { public_key: unique(), ...fields });

/** A device of the member's that an owner has labelled. */
const labelled = (place: Place, fields: object = {}): Promise<Json> =>
  add(place, place.owner.api, {
    user_id: place.member.id,
    labels: ['db'],
    tunnel_ip: '100.64.0.9',
    addresses: ['10.1.0.9'],
    ...fields,
  });

const codeOf = (problem: Json): string => problem.code as string;
const faults = (problem: Json): readonly string[] =>
  (problem.errors as { pointer: string; code: string }[]).map(({ pointer, code }) => `${pointer} ${code}`);

describe('labels (reference 2.12 (1))', () => {
  test('are kept sorted, omitted when empty, and in every answer: create, read, list, change, delete', async () => {
    const place = await newPlace(stage.server);
    const { owner, base } = place;
    const made = await add(place, owner.api, { labels: ['prod', 'a/b.c_d-e', 'db'] });
    expect(made.labels).toEqual(['a/b.c_d-e', 'db', 'prod']);
    const path = `${base}/devices/${made.id}`;
    expect((await place.member.api.expect(200, 'GET', path)).labels).toEqual(made.labels);
    expect((await place.member.api.expect(200, 'GET', `${base}/devices`))[0].labels).toEqual(made.labels);
    const changed = await owner.api.expect(200, 'PATCH', path, { labels: ['9'] });
    expect(changed).toMatchObject({ labels: ['9'], revision: made.revision + 1 });
    const same = await owner.api.expect(200, 'PATCH', path, { labels: ['9'] });
    expect(same.revision).toBe(changed.revision);
    const bare = await owner.api.expect(200, 'PATCH', path, { labels: [] });
    expect(bare).not.toHaveProperty('labels');
    await owner.api.expect(200, 'PATCH', path, { labels: ['last'] });
    expect((await owner.api.expect(200, 'DELETE', path)).labels).toEqual(['last']);
  });

  test('have one form: 1–63 of a-z 0-9 . _ / -, a letter or digit at both ends, up to 32, none twice', async () => {
    const place = await newPlace(stage.server);
    const wrong = ['', 'Db', 'a b', '-a', 'a-', '.a', 'a/', 'ä', 'a\n', 'a'.repeat(64), 'a:b', 'a\u0000'];
    const body = { public_key: unique(), labels: wrong };
    const refused = await place.owner.api.expect(422, 'POST', `${place.base}/devices`, body);
    expect(faults(refused)).toEqual(wrong.map((_, index) => `/labels/${index} label_invalid`));
    const post = (labels: unknown): Promise<Json> =>
      place.owner.api.expect(422, 'POST', `${place.base}/devices`, { public_key: unique(), labels });
    expect(faults(await post(['db', 'app', 'db']))).toEqual(['/labels/2 duplicate']);
    const many = Array.from({ length: 33 }, (_, n) => `l${n}`);
    expect(faults(await post(many))).toEqual(['/labels too_many_items']);
    expect(faults(await post('db'))).toEqual(['/labels not_an_array']);
    expect(faults(await post([7]))).toEqual(['/labels/0 not_a_string']);
    expect(faults(await post(null))).toEqual(['/labels null_not_allowed']);
    await add(place, place.owner.api, { labels: many.slice(1) });
    await add(place, place.owner.api, { labels: ['a'.repeat(63), '0'] });
  });

  test('change nothing of what applies: the groups of a device are those of its list, or the default', async () => {
    const place = await newPlace(stage.server);
    const { owner, base } = place;
    const device = await labelled(place);
    const groups = await owner.api.expect(200, 'GET', `${base}/security_groups`);
    const path = `${base}/devices/${device.id}`;
    expect(await place.member.api.expect(200, 'GET', `${path}/groups`)).toEqual([
      { group_id: groups[0].id, by: 'default' },
    ]);
    const [a, b] = [
      await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'a' }),
      await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'b' }),
    ];
    await owner.api.expect(200, 'PATCH', path, { security_groups: [b.id, a.id] });
    expect(await place.member.api.expect(200, 'GET', `${path}/groups`)).toEqual([
      { group_id: b.id, by: 'list' },
      { group_id: a.id, by: 'list' },
    ]);
    await place.member.api.expect(404, 'GET', `${base}/devices/${a.id}/groups`);
  });
});

describe('addresses (reference 2.12 (2))', () => {
  test('are up to 16 single addresses of both families, printed in one way, omitted when empty', async () => {
    const place = await newPlace(stage.server);
    const addresses = ['10.0.0.1', 'FD00:0:0::1', '2001:db8:0:0:0:0:0:a', '::ffff:1.2.3.4'];
    const made = await add(place, place.member.api, { addresses });
    expect(made.addresses).toEqual(['10.0.0.1', 'fd00::1', '2001:db8::a', expect.stringContaining('::ffff:')]);
    const path = `${place.base}/devices/${made.id}`;
    const most = Array.from({ length: 16 }, (_, n) => `10.0.1.${n}`);
    expect(await place.member.api.expect(200, 'PATCH', path, { addresses: most })).toMatchObject({ addresses: most });
    expect(await place.member.api.expect(200, 'PATCH', path, { addresses: [] })).not.toHaveProperty('addresses');
  });

  test('of any other form are 422 with pointer and code', async () => {
    const place = await newPlace(stage.server);
    const path = `${place.base}/devices/${(await add(place, place.member.api)).id}`;
    const patch = async (addresses: unknown): Promise<readonly string[]> =>
      faults(await place.member.api.expect(422, 'PATCH', path, { addresses }));
    const given = ['10.0.0.0/24', '10.0.0.1-10.0.0.2', 'fe80::1%eth0', '010.0.0.1', '1.2.3', 'host', '', '10.0.0.1:80'];
    expect(await patch(given)).toEqual([
      '/addresses/0 address_invalid',
      '/addresses/1 address_invalid',
      '/addresses/2 address_zone',
      '/addresses/3 address_octal',
      '/addresses/4 address_short',
      '/addresses/5 address_invalid',
      '/addresses/6 address_invalid',
      '/addresses/7 address_invalid',
    ]);
    expect(await patch(['fd00::1', '10.0.0.1', 'fd00:0::1'])).toEqual(['/addresses/2 duplicate']);
    expect(await patch(Array.from({ length: 17 }, (_, n) => `10.0.0.${n}`))).toEqual(['/addresses too_many_items']);
    expect(await patch(null)).toEqual(['/addresses null_not_allowed']);
  });
});

/** What may be tried with a device that is the member's and has labels. */
const tries: Readonly<Record<string, object>> = {
  'set labels': { labels: ['db', 'prod'] },
  'take labels': { labels: [] },
  'move tunnel_ip': { tunnel_ip: '100.64.0.10' },
  'spell tunnel_ip otherwise': { tunnel_ip: '100.64.0.9/32' },
  'add an address': { addresses: ['10.1.0.9', '10.1.0.10'] },
  'take the addresses': { addresses: [] },
  'say again what stands': { labels: ['db'], tunnel_ip: '100.64.0.9', addresses: ['10.1.0.9'] },
  rename: { hostname: 'other' },
  'move its endpoint': { reflexive_ip4: '9.9.9.9' },
};

/** What each gets for each: a status, and the code of a refusal. */
// oxfmt-ignore
const rights: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'second owner': Object.fromEntries(Object.keys(tries).map((what) => [what, '200'])),
  'device user': {
    'set labels': '403 labels_by_owner', 'take labels': '403 labels_by_owner', 'move tunnel_ip': '403 address_by_owner',
    'spell tunnel_ip otherwise': '403 address_by_owner', 'add an address': '403 address_by_owner', 'take the addresses': '403 address_by_owner',
    'say again what stands': '200', rename: '200', 'move its endpoint': '200',
  },
  'other member': Object.fromEntries(Object.keys(tries).map((what) => [what, '403 forbidden'])),
  'device token': {
    'set labels': '403 labels_by_owner', 'take labels': '403 labels_by_owner', 'move tunnel_ip': '403 address_by_owner',
    'spell tunnel_ip otherwise': '403 address_by_owner', 'add an address': '403 address_by_owner', 'take the addresses': '403 address_by_owner',
    'say again what stands': '403 labels_by_owner', rename: '403 forbidden', 'move its endpoint': '200',
  },
  'enrollment key': Object.fromEntries(Object.keys(tries).map((what) => [what, '403 forbidden'])),
  stranger: Object.fromEntries(Object.keys(tries).map((what) => [what, '404 not_found'])),
};

describe('a member wants a label (reference 5 (14))', () => {
  test('every right to a labelled device: second owner, its user, another member, its token, a key, a stranger', async () => {
    const place = await newPlace(stage.server);
    const [second, other] = [await join(place, 'owner'), await join(place, 'member')];
    const stranger = await newPerson(stage.server, unique());
    const key = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`);
    const got: Record<string, Record<string, string>> = {};
    for (const who of Object.keys(rights)) {
      for (const [what, body] of Object.entries(tries)) {
        const device = await labelled(place);
        const api = {
          'second owner': second.api,
          'device user': place.member.api,
          'other member': other.api,
          'device token': stage.server.nobody.as(device.device_token),
          'enrollment key': stage.server.nobody.as(key.key),
          stranger: stranger.api,
        }[who];
        if (api === undefined) throw new Error(`nobody is ${who}`);
        const answer = await api.patch(`${place.base}/devices/${device.id}`, body);
        (got[who] ??= {})[what] = answer.status === 200 ? '200' : `${answer.status} ${codeOf(answer.json)}`;
        if (answer.status === 200) continue;
        const now = await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`);
        expect(now.revision, `${who}: ${what}`).toBe(device.revision);
      }
    }
    expect(got).toEqual(rights);
  });

  test('a member sets no label: on create, on a device of its own, by a key, or by whatever stands beside it in the body', async () => {
    const place = await newPlace(stage.server);
    const { base, member } = place;
    const create = { public_key: unique(), labels: ['db'] };
    expect(codeOf(await member.api.expect(403, 'POST', `${base}/devices`, create))).toBe('labels_by_owner');
    const own = await add(place, member.api, { labels: [] });
    const path = `${base}/devices/${own.id}`;
    const tried = [{ labels: ['db'] }, { labels: ['db'], hostname: 'x' }, { labels: ['db'], security_groups: [] }];
    for (const body of tried) {
      expect(codeOf(await member.api.expect(403, 'PATCH', path, body))).toBe('labels_by_owner');
    }
    const key = { labels: ['db'] };
    expect(codeOf(await member.api.expect(403, 'POST', `${base}/enrollment_keys`, key))).toBe('labels_by_owner');
    expect(await member.api.expect(201, 'POST', `${base}/enrollment_keys`, { labels: [] })).not.toHaveProperty(
      'labels',
    );
    expect((await member.api.expect(200, 'GET', path)).revision).toBe(own.revision);
  });

  test('a key of an owner gives its labels, and whoever holds it chooses none', async () => {
    const place = await newPlace(stage.server);
    const { base, owner } = place;
    const asked = { labels: ['prod', 'db'], uses: 5 };
    const issued = await owner.api.expect(201, 'POST', `${base}/enrollment_keys`, asked);
    expect(issued.labels).toEqual(['db', 'prod']);
    const read = await owner.api.expect(200, 'GET', `${base}/enrollment_keys/${issued.id}`);
    expect(read).toMatchObject({ labels: ['db', 'prod'], uses_left: 5 });
    const key = stage.server.nobody.as(issued.key);
    const made = await add(place, key, { tunnel_ip: '100.64.0.1' });
    expect(made).toMatchObject({ labels: ['db', 'prod'], user_id: owner.id, tunnel_ip: '100.64.0.1' });
    const choosing = await key.expect(403, 'POST', `${base}/devices`, { public_key: unique(), labels: ['root'] });
    expect(codeOf(choosing)).toBe('labels_by_owner');
    const plain = await owner.api.expect(201, 'POST', `${base}/enrollment_keys`);
    const byPlain = await stage.server.nobody
      .as(plain.key)
      .expect(403, 'POST', `${base}/devices`, { public_key: unique(), labels: ['db'] });
    expect(codeOf(byPlain)).toBe('labels_by_owner');
    const bad = await owner.api.expect(422, 'POST', `${base}/enrollment_keys`, { labels: ['Db', 'x', 'x'] });
    expect(faults(bad)).toEqual(['/labels/0 label_invalid', '/labels/2 duplicate']);
  });

  test('whoever is no owner any more gives no label by a key that was made before, and the use is not spent', async () => {
    const place = await newPlace(stage.server);
    const second = await join(place, 'owner');
    const issued = await second.api.expect(201, 'POST', `${place.base}/enrollment_keys`, { labels: ['db'] });
    await setRole(place, second, 'member');
    const key = stage.server.nobody.as(issued.key);
    const refused = await key.expect(403, 'POST', `${place.base}/devices`, { public_key: unique() });
    expect(codeOf(refused)).toBe('labels_by_owner');
    await setRole(place, second, 'owner');
    expect(await add(place, key)).toMatchObject({ labels: ['db'], user_id: second.id });
    await setRole(place, second, 'member');
    const device = await labelled(place, { user_id: second.id });
    const moved = await second.api.expect(403, 'PATCH', `${place.base}/devices/${device.id}`, {
      tunnel_ip: '100.64.9.9',
    });
    expect(codeOf(moved)).toBe('address_by_owner');
  });

  test('a device that is deleted and registered again, by the same key and name, has no label', async () => {
    const place = await newPlace(stage.server);
    const first = await labelled(place, { public_key: unique(), hostname: 'db-1' });
    await place.member.api.expect(200, 'DELETE', `${place.base}/devices/${first.id}`);
    const { public_key, hostname, tunnel_ip, addresses } = first;
    const again = await place.member.api.expect(201, 'POST', `${place.base}/devices`, {
      public_key,
      hostname,
      tunnel_ip,
      addresses,
    });
    expect(again).not.toHaveProperty('labels');
    expect(again.id).not.toBe(first.id);
  });

  test('a labelled device changes hands only by an owner, with its labels', async () => {
    const place = await newPlace(stage.server);
    const device = await labelled(place);
    const path = `${place.base}/devices/${device.id}`;
    const other = await join(place, 'member');
    expect(faults(await place.member.api.expect(422, 'PATCH', path, { user_id: other.id }))).toEqual([
      '/user_id contradiction',
    ]);
    await place.member.api.expect(403, 'POST', `${path}/move`, { user_id: other.id });
    await other.api.expect(403, 'POST', `${path}/move`, { user_id: other.id });
    await place.member.api.expect(422, 'DELETE', `${place.base}/members/${place.member.id}?keep=devices`);
    await other.api.expect(403, 'DELETE', `${place.base}/members/${place.member.id}?keep=devices`);
    await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}?keep=devices`);
    expect(await other.api.expect(200, 'GET', path)).toMatchObject({ labels: ['db'], user_id: place.owner.id });
    const token = stage.server.nobody.as(device.device_token);
    await token.expect(403, 'PATCH', path, { tunnel_ip: '100.64.7.7' });
    await token.expect(403, 'PATCH', path, { labels: [] });
  });

  test('a label that comes while a member moves the address: one of them happens first, and the address stays afterwards', async () => {
    const place = await newPlace(stage.server);
    for (let round = 0; round < 10; round += 1) {
      const own = await add(place, place.member.api, { tunnel_ip: '100.64.1.1' });
      const path = `${place.base}/devices/${own.id}`;
      const [moved, given] = await Promise.all([
        place.member.api.patch(path, { tunnel_ip: '100.64.1.2' }),
        place.owner.api.patch(path, { labels: ['db'] }),
      ]);
      expect(given.status).toBe(200);
      // Moved before it was labelled, or refused after.
      if (moved.status === 200) expect(moved.json.revision).toBeLessThan(given.json.revision);
      else expect(`${moved.status} ${codeOf(moved.json)}`).toBe('403 address_by_owner');
    }
  });

  test('a device with the address of a labelled one has no label, and takes none away', async () => {
    const place = await newPlace(stage.server);
    const device = await labelled(place);
    const copy = await add(place, place.member.api, { tunnel_ip: device.tunnel_ip, addresses: device.addresses });
    expect(copy).not.toHaveProperty('labels');
    await place.member.api.expect(200, 'DELETE', `${place.base}/devices/${copy.id}`);
    const now = await place.owner.api.expect(200, 'GET', `${place.base}/devices/${device.id}`);
    expect(now).toMatchObject({ labels: ['db'], revision: device.revision });
  });

  test('a rule by label admits the address in the record, whoever has it now, also while the device is away', async () => {
    const place = await newPlace(stage.server);
    const device = await labelled(place);
    const body = {
      group_name: 'by label',
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['db'] }] }],
    };
    const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, body);
    const target = await add(place, place.owner.api, { tunnel_ip: '100.64.0.77', security_groups: [group.id] });
    const statuses = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
    expect(statuses).toContainEqual(expect.objectContaining({ device_id: device.id, online: false }));
    const address = (device.tunnel_ip as string).split('/')[0];
    const sides = async (): Promise<Json> =>
      (await place.owner.api.expect(200, 'GET', `${place.base}/explain?from=${address}&to=${target.id}&port=22`)).sides;
    expect((await sides()).at(-1)).toMatchObject({ verdict: 'allowed' });
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { labels: [] });
    expect((await sides()).at(-1)).toMatchObject({ verdict: 'refused' });
  });

  test('the audit tells who labelled which device', async () => {
    const place = await newPlace(stage.server);
    const device = await labelled(place);
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { labels: ['web'] });
    const [entry] = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
    expect(entry).toMatchObject({ operation: 'updateDevice', subject_id: device.id, fields: ['labels'] });
  });
});
