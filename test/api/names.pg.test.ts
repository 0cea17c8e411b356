/** Proves rules that name devices, groups that apply by label, and guardrails on the server (reference 1.3, 1.4, 2.13). */
import { describe, expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let serial = 0;
const unique = (): string => `names-${(serial += 1)}`;

const tcp = (port: number, more: object = {}): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const all = [{ all_devices: true }];

const device = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique(), ...fields });
const group = (place: Place, fields: object, query = ''): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups${query}`, { group_name: unique(), ...fields });
const patch = (place: Place, id: string, fields: object, query = ''): Promise<Json> =>
  place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${id}${query}`, fields);
const groupsOf = async (place: Place, id: string): Promise<readonly string[]> =>
  (await place.member.api.expect(200, 'GET', `${place.base}/devices/${id}/groups`)).map(
    (one: { group_id: string; by: string }) => `${one.by} ${one.group_id}`,
  );
const faults = (problem: Json): readonly string[] =>
  (problem.errors as { pointer: string; code: string }[]).map(({ pointer, code }) => `${pointer} ${code}`);
const refused = async (place: Place, fields: object, query = ''): Promise<readonly string[]> => {
  const body = { group_name: unique(), ...fields };
  return faults(await place.owner.api.expect(422, 'POST', `${place.base}/security_groups${query}`, body));
};

describe('peers of a rule', () => {
  test('are stored and answered as they were written, on both parts where the protocol is split', async () => {
    const place = await newPlace(stage.server);
    const { id } = await device(place);
    const peers = [{ labels: ['prod', 'db'] }, { device_id: id }, { all_devices: true }];
    const made = await group(place, { inbound_rules: [tcp(5432, { peers })], outbound_rules: [] });
    expect(made.inbound_rules).toEqual([tcp(5432, { peers })]);
    expect(await place.member.api.expect(200, 'GET', `${place.base}/security_groups/${made.id}`)).toMatchObject(made);
    const split = await patch(place, made.id, {
      inbound_rules: [{ ip_protocol: 'ip', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.0/8'], peers }],
    });
    expect(split.inbound_rules.map((rule: Json) => [rule.ip_protocol, rule.ip_ranges, rule.peers])).toEqual([
      ['ipv4', ['10.0.0.0/8'], peers],
      ['ipv6', [], peers],
    ]);
  });

  test('of any other form are 422 with a pointer: none, two keys, unknown ones, labels of wrong form, doubles, too many', async () => {
    const place = await newPlace(stage.server);
    const ask = (peers: unknown) => refused(place, { inbound_rules: [tcp(1, { peers })] });
    const at = '/inbound_rules/0/peers';
    expect(await ask([])).toEqual([`${at} too_few_items`]);
    expect(await ask([{}])).toEqual([`${at}/0 one_key_only`]);
    expect(await ask([{ labels: ['a'], all_devices: true }])).toEqual([`${at}/0 one_key_only`]);
    expect(await ask([{ name: 'x' }])).toEqual([`${at}/0/name unknown_field`]);
    expect(await ask([{ labels: ['A'] }, { labels: [] }])).toEqual([
      `${at}/0/labels/0 label_invalid`,
      `${at}/1/labels too_few_items`,
    ]);
    expect(await ask([{ labels: ['a', 'b'] }, { labels: ['b', 'a'] }])).toEqual([`${at}/1 duplicate`]);
    expect(await ask(Array.from({ length: 65 }, (_, n) => ({ labels: [`l${n}`] })))).toEqual([`${at} too_many_items`]);
    expect(await ask([{ labels: Array.from({ length: 9 }, (_, n) => `l${n}`) }])).toEqual([
      `${at}/0/labels too_many_items`,
    ]);
    expect(await ask([{ device_id: 'x' }])).toEqual([`${at}/0/device_id not_an_id`]);
    expect(await ask([{ all_devices: false }])).toEqual([`${at}/0/all_devices not_one_of`]);
    expect(await ask(null)).toEqual([`${at} null_not_allowed`]);
  });

  test('name devices of the organization at the moment of the write; one that is deleted later stays, and may be said again', async () => {
    const [place, elsewhere] = [await newPlace(stage.server), await newPlace(stage.server)];
    const { id } = await device(place);
    const foreign = await device(elsewhere);
    const rules = [tcp(1), tcp(2, { peers: [{ device_id: id }, { device_id: foreign.id }] })];
    expect(await refused(place, { outbound_rules: rules })).toEqual([
      '/outbound_rules/1/peers/1/device_id device_unknown',
    ]);
    const named = { inbound_rules: [tcp(2, { peers: [{ device_id: id }] })] };
    const made = await group(place, named);
    await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${id}`);
    const after = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${made.id}`);
    expect(after).toMatchObject({ ...named, revision: made.revision });
    const more = await patch(place, made.id, { inbound_rules: [...named.inbound_rules, tcp(3)] });
    expect(more.inbound_rules).toHaveLength(2);
    expect(await refused(place, named)).toEqual(['/inbound_rules/0/peers/0/device_id device_unknown']);
  });

  test('stay at their revision while devices join, leave and go', async () => {
    const place = await newPlace(stage.server);
    const made = await group(place, { inbound_rules: [tcp(1, { peers: [{ labels: ['app'] }] })] });
    const { id } = await device(place, { labels: ['app'], tunnel_ip: '100.64.0.7' });
    const path = `${place.base}/devices/${id}`;
    for (const change of [{ labels: [] }, { labels: ['app'] }, { tunnel_ip: '100.64.0.8' }]) {
      await place.owner.api.expect(200, 'PATCH', path, change);
    }
    await place.owner.api.expect(200, 'DELETE', path);
    const after = await place.member.api.expect(200, 'GET', `${place.base}/security_groups/${made.id}`);
    expect(after.revision).toBe(made.revision);
  });

  test('may be in groups of users too, and name any device that its members may read', async () => {
    const place = await newPlace(stage.server);
    const { id } = await device(place);
    const body = { group_name: 'mine', inbound_rules: [tcp(1, { peers: [{ device_id: id }] })] };
    const made = await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, body);
    expect(made).toMatchObject(body);
  });
});

describe('groups that apply by label', () => {
  test('stand behind those of the list in the order of their ids, and replace the default group', async () => {
    const place = await newPlace(stage.server);
    const [first, second, listed] = [
      await group(place, { applies_to: [{ labels: ['db', 'prod'] }, { labels: ['web'] }] }),
      await group(place, { applies_to: all }),
      await group(place, {}),
    ];
    expect(first.applies_to).toEqual([{ labels: ['db', 'prod'] }, { labels: ['web'] }]);
    const [plain, db] = [await device(place), await device(place, { labels: ['db', 'prod', 'x'] })];
    expect(await groupsOf(place, plain.id)).toEqual([`label ${second.id}`]);
    expect(await groupsOf(place, db.id)).toEqual([`label ${first.id}`, `label ${second.id}`]);
    const list = { security_groups: [second.id, listed.id] };
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${db.id}`, list);
    expect(await groupsOf(place, db.id)).toEqual([`list ${second.id}`, `list ${listed.id}`, `label ${first.id}`]);
    await patch(place, second.id, { applies_to: [] }, '?detach=true');
    expect((await groupsOf(place, plain.id))[0]).toMatch(/^default /);
    const bare = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${second.id}`);
    expect(bare).not.toHaveProperty('applies_to');
  });

  test('are the organization’s own, never the default group, and have selectors of one form', async () => {
    const place = await newPlace(stage.server);
    const mine = { group_name: 'mine', applies_to: all };
    const byMember = await place.member.api.expect(422, 'POST', `/api/user/${place.org}/security_groups`, mine);
    expect(faults(byMember)).toEqual(['/applies_to organization_only']);
    const groups = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups`);
    const path = `${place.base}/security_groups/${groups[0].id}`;
    expect(faults(await place.owner.api.expect(422, 'PATCH', path, { applies_to: all }))).toEqual([
      '/applies_to default_group',
    ]);
    await place.owner.api.expect(200, 'PATCH', path, { applies_to: [] });
    expect(await refused(place, { applies_to: [{ device_id: groups[0].id }] })).toEqual([
      '/applies_to/0/device_id unknown_field',
    ]);
    expect(await refused(place, { applies_to: [{ labels: ['a'] }, { labels: ['a'] }] })).toEqual([
      '/applies_to/1 duplicate',
    ]);
    expect(await refused(place, { applies_to: Array.from({ length: 65 }, (_, n) => ({ labels: [`l${n}`] })) })).toEqual(
      ['/applies_to too_many_items'],
    );
  });

  test('in use by label are not deleted, which names the devices, unless they are detached', async () => {
    const place = await newPlace(stage.server);
    const made = await group(place, { applies_to: [{ labels: ['db'] }] });
    const path = `${place.base}/security_groups/${made.id}`;
    const held = await device(place, { labels: ['db'], hostname: 'db-1' });
    const inUse = await place.owner.api.expect(409, 'DELETE', path);
    expect(inUse).toMatchObject({ code: 'group_in_use', devices: [held.id] });
    // The advice is what helps: no list has the group, and no key.
    expect(inUse.detail).toContain('Empty what it applies to by label (applies_to) first, or repeat this');
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${held.id}`, { security_groups: [made.id] });
    const both = await place.owner.api.expect(409, 'DELETE', path);
    expect(both.detail).toContain('Remove it from the lists of the devices and empty what it applies to by label');
    await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${held.id}`, { security_groups: [] });
    await place.owner.api.expect(200, 'DELETE', `${path}?detach=true`);
    expect((await groupsOf(place, held.id))[0]).toMatch(/^default /);
    const unused = await group(place, { applies_to: [{ labels: ['nobody'] }] });
    await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${unused.id}`);
  });
});

describe('guardrails', () => {
  const forbid = { guardrail: 'forbid', applies_to: all, inbound_rules: [tcp(23)] };

  test('are made by owners, read by members, and never change their kind or lose their selectors', async () => {
    const place = await newPlace(stage.server);
    const made = await group(place, forbid);
    expect(made).toMatchObject({ guardrail: 'forbid', applies_to: all });
    const path = `${place.base}/security_groups/${made.id}`;
    expect(await place.member.api.expect(200, 'GET', path)).toMatchObject({ guardrail: 'forbid' });
    await place.member.api.expect(403, 'PATCH', path, { inbound_rules: [] });
    await place.member.api.expect(403, 'DELETE', path);
    await place.member.api.expect(403, 'POST', `${place.base}/security_groups`, { group_name: 'no', ...forbid });
    const own = await place.member.api.expect(422, 'POST', `/api/user/${place.org}/security_groups`, {
      group_name: 'no',
      ...forbid,
    });
    expect(faults(own)).toEqual(['/applies_to organization_only', '/guardrail organization_only']);
    const change = async (body: object): Promise<readonly string[]> =>
      faults(await place.owner.api.expect(422, 'PATCH', path, body));
    expect(await change({ guardrail: 'require' })).toEqual(['/guardrail guardrail_fixed']);
    expect(await change({ applies_to: [] })).toEqual(['/applies_to too_few_items']);
    expect(await refused(place, { guardrail: 'forbid' })).toEqual(['/applies_to too_few_items']);
    expect(await refused(place, { guardrail: 'deny', applies_to: all })).toEqual(['/guardrail not_one_of']);
    await patch(place, made.id, { guardrail: 'forbid', inbound_rules: [tcp(24)] });
    const plain = await group(place, {});
    const turned = await place.owner.api.expect(422, 'PATCH', `${place.base}/security_groups/${plain.id}`, forbid);
    expect(faults(turned)).toEqual(['/guardrail guardrail_fixed']);
  });

  test('are never in a list, of a device or of a key, are no substitute for the default group, and go at any time', async () => {
    const place = await newPlace(stage.server);
    const [no, yes] = [await group(place, forbid), await group(place, { ...forbid, guardrail: 'require' })];
    const list = { public_key: unique(), security_groups: [no.id] };
    const listed = await place.owner.api.expect(422, 'POST', `${place.base}/devices`, list);
    expect(faults(listed)).toEqual(['/security_groups/0 guardrail_listed']);
    const key = { security_groups: [yes.id] };
    const keyed = await place.owner.api.expect(422, 'POST', `${place.base}/enrollment_keys`, key);
    expect(faults(keyed)).toEqual(['/security_groups/0 guardrail_listed']);
    const { id } = await device(place);
    expect(await groupsOf(place, id)).toEqual([
      `guardrail ${no.id}`,
      `guardrail ${yes.id}`,
      expect.stringMatching(/^default /),
    ]);
    for (const one of [no, yes]) await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${one.id}`);
    expect(await groupsOf(place, id)).toHaveLength(1);
  });

  test('that leave nothing of a direction are 422, unless they are forced', async () => {
    const place = await newPlace(stage.server);
    const every = [{ ip_protocol: 'ip', from_port: 0, to_port: 0 }];
    const nothing = { ...forbid, inbound_rules: every, outbound_rules: every };
    const both = ['/inbound_rules forbids_everything', '/outbound_rules forbids_everything'];
    expect(await refused(place, nothing)).toEqual(both);
    const halves = ['0.0.0.0-127.255.255.255', '128.0.0.0/1', '::/1', '8000::/1'];
    const split = [{ ip_protocol: 'ip', from_port: 0, to_port: 0, ip_ranges: halves }];
    expect(await refused(place, { ...forbid, inbound_rules: split })).toEqual(['/inbound_rules forbids_everything']);
    const made = await group(place, nothing, '?force=true');
    const path = `${place.base}/security_groups/${made.id}`;
    expect(faults(await place.owner.api.expect(422, 'PATCH', path, { group_name: 'x' }))).toEqual(both);
    await patch(place, made.id, { group_name: 'x' }, '?force=true');
    await patch(place, made.id, { inbound_rules: [tcp(1)], outbound_rules: [] });
    await group(place, { ...nothing, guardrail: 'require' });
    await group(place, { ...forbid, inbound_rules: [{ ip_protocol: 'ipv4', from_port: 0, to_port: 0 }] });
  });

  test('that make a rule of a group void are named in the warnings of its answer, and it is saved', async () => {
    const place = await newPlace(stage.server);
    const no = await group(place, { ...forbid, applies_to: [{ labels: ['db'] }], inbound_rules: [tcp(23), tcp(80)] });
    await device(place, { labels: ['db'] });
    const rules = [tcp(22), tcp(23, { ip_ranges: ['10.0.0.0/8'] }), { ip_protocol: 'tcp', from_port: 79, to_port: 80 }];
    const made = await group(place, { applies_to: [{ labels: ['db'] }], inbound_rules: rules });
    expect(made.inbound_rules).toHaveLength(3);
    expect(made.warnings).toEqual([
      {
        pointer: '/inbound_rules/1',
        code: 'void_by_guardrail',
        detail: expect.stringContaining('one device'),
        guardrail_ids: [no.id],
      },
    ]);
    const read = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${made.id}`);
    expect(read).not.toHaveProperty('warnings');
    const elsewhere = await group(place, { applies_to: [{ labels: ['web'] }], inbound_rules: rules });
    expect(elsewhere).not.toHaveProperty('warnings');
    const again = await patch(place, made.id, { inbound_rules: [tcp(22)] });
    expect(again).not.toHaveProperty('warnings');
    // When a restore writes it again, the warning is repeated.
    const path = `${place.base}/security_groups/${made.id}/restore`;
    const restored = await place.owner.api.expect(200, 'POST', path, { revision: made.revision });
    expect(restored.warnings).toEqual(made.warnings);
  });
});

describe('bounds', () => {
  test('count a peer as a range, and the groups that a device has by label with those of its list', async () => {
    const place = await newPlace(stage.server);
    const peers = Array.from({ length: 64 }, (_, n) => ({ labels: [`l${n}`] }));
    const rules = Array.from({ length: 157 }, (_, n) => tcp(n + 1, { peers }));
    expect(await refused(place, { inbound_rules: rules })).toEqual([' too_many_ranges']);
    const ranges = Array.from({ length: 9_999 }, (_, n) => `10.${n >> 8}.${n & 255}.1`);
    const large = (labels: string[]) => ({ applies_to: [{ labels }], inbound_rules: [tcp(1, { ip_ranges: ranges })] });
    for (let n = 0; n < 5; n += 1) await group(place, large(['big']));
    const sixth = await group(place, large(['more']));
    const body = { public_key: unique(), labels: ['big', 'more'] };
    const both = await place.owner.api.expect(422, 'POST', `${place.base}/devices`, body);
    expect(faults(both)).toEqual(['/security_groups too_many_ranges']);
    const { id } = await device(place, { labels: ['big'] });
    const path = `${place.base}/devices/${id}`;
    await place.owner.api.expect(422, 'PATCH', path, { labels: ['big', 'more'] });
    await place.owner.api.expect(422, 'PATCH', path, { security_groups: [sixth.id] });
    const widened = await place.owner.api.expect(422, 'PATCH', `${place.base}/security_groups/${sixth.id}`, {
      applies_to: [{ labels: ['big'] }],
    });
    expect(widened).toMatchObject({ devices: [id] });
    expect(faults(widened)).toEqual([' too_many_ranges']);
  });
});

test('a second group with the name and owner of another is saved with a warning that names the other', async () => {
  const place = await newPlace(stage.server);
  const first = await group(place, { group_name: 'web' });
  expect(first).not.toHaveProperty('warnings');
  const warnings = [
    {
      pointer: '/group_name',
      code: 'same_name',
      detail: expect.stringContaining('already has a group with the name web'),
      guardrail_ids: [],
      group_ids: [first.id],
    },
  ];
  const second = await group(place, { group_name: 'web' });
  expect(second.warnings).toEqual(warnings);
  const other = await group(place, {});
  expect(await patch(place, other.id, { group_description: 'x' })).not.toHaveProperty('warnings');
  expect(await patch(place, second.id, { group_name: 'web' })).not.toHaveProperty('warnings');
  await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${second.id}`);
  expect((await patch(place, other.id, { group_name: 'web' })).warnings).toEqual(warnings);
  await patch(place, other.id, { group_name: 'other' });
  const path = `${place.base}/security_groups/${second.id}/restore`;
  const restored = await place.owner.api.expect(200, 'POST', path, { revision: second.revision });
  expect(restored.warnings).toEqual(warnings);
  // Another owner may use the name.
  const mine = await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
    group_name: 'web',
  });
  expect(mine).not.toHaveProperty('warnings');
});
