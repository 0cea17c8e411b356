/** Proves the security group operations and the promises about groups, against the real server and PostgreSQL. */
import { describe, expect, test } from 'vitest';
import { useServer } from '../lib/stage.ts';
import { newPerson, newPlace } from '../lib/server.ts';

const stage = useServer();

const ssh = { ip_protocol: 'tcp', from_port: 22, to_port: 22 };
const device = (key: string, more: object = {}) => ({ public_key: key, ...more });
let keys = 0;
const newKey = (): string => `key-${(keys += 1)}`;

describe('the default group', () => {
  test('is made with its organization and has the four open rules (reference 1.2 (11))', async () => {
    const group = await stage.place.owner.api.expect(
      200,
      'GET',
      `${stage.place.base}/security_groups/${stage.place.defaultGroup}`,
    );
    expect(group).toMatchObject({ id: stage.place.defaultGroup, org_id: stage.place.org, is_default: true });
    expect(group.inbound_rules).toEqual(
      ['ipv4', 'ipv6', 'icmp', 'icmpv6'].map((ip_protocol) => ({
        ip_protocol,
        from_port: 0,
        to_port: 0,
        ip_ranges: [],
      })),
    );
    expect(group).not.toHaveProperty('outbound_rules');
    expect(group).not.toHaveProperty('user_id');
  });

  test('is reset by a delete: it goes, and a fresh one takes its place', async () => {
    const { owner, base, defaultGroup } = await newPlace(stage.server);
    await owner.api.expect(200, 'PATCH', `${base}/security_groups/${defaultGroup}`, { inbound_rules: [ssh] });
    const gone = await owner.api.expect(200, 'DELETE', `${base}/security_groups/${defaultGroup}`);
    expect(gone).toMatchObject({ id: defaultGroup, is_default: true, inbound_rules: [ssh] });
    const groups = await owner.api.expect(200, 'GET', `${base}/security_groups`);
    expect(groups).toHaveLength(1);
    expect(groups[0]).toMatchObject({ is_default: true, revision: gone.revision + 1 });
    expect(groups[0].id).not.toBe(defaultGroup);
    expect(groups[0].inbound_rules).toHaveLength(4);
    const organization = await owner.api.expect(200, 'GET', base);
    expect(organization.security_groups).toEqual([groups[0].id]);
  });
});

describe('creating', () => {
  test('answers 201 with the record, Location and ETag', async () => {
    const answer = await stage.place.owner.api.post(`${stage.place.base}/security_groups`, {
      group_name: 'web',
      group_description: 'web servers',
      org_id: stage.place.org,
      inbound_rules: [ssh],
    });
    expect(answer.status).toBe(201);
    const group = answer.json;
    expect(answer.headers.location).toBe(`${stage.place.base}/security_groups/${group.id}`);
    expect(answer.headers.etag).toBe(`"${group.revision}"`);
    expect(group).toEqual({
      id: group.id,
      group_name: 'web',
      group_description: 'web servers',
      org_id: stage.place.org,
      inbound_rules: [ssh],
      revision: expect.any(Number),
      created_at: expect.stringMatching(/^\d{4}-.*Z$/),
      updated_at: group.created_at,
    });
    const read = await stage.place.member.api.get(answer.headers.location ?? '');
    expect(read.json).toEqual(group);
    expect(read.headers.etag).toBe(answer.headers.etag);
  });

  test('an absent description is stored as the empty text, and empty rules are left out', async () => {
    const group = await stage.place.member.api.expect(201, 'POST', `/api/user/${stage.place.org}/security_groups`, {
      group_name: 'mine',
      inbound_rules: [],
    });
    expect(group).toMatchObject({ group_description: '', user_id: stage.place.member.id });
    expect(group).not.toHaveProperty('inbound_rules');
    expect(group).not.toHaveProperty('outbound_rules');
    expect(group).not.toHaveProperty('is_default');
  });

  test('an org_id that contradicts the path is 422', async () => {
    const answer = await stage.place.owner.api.post(`${stage.place.base}/security_groups`, {
      group_name: 'x',
      org_id: '00000000-0000-4000-8000-000000000000',
    });
    expect(answer.status).toBe(422);
    expect(answer.json.errors).toMatchObject([{ pointer: '/org_id', code: 'contradiction' }]);
  });

  test('rules are normalized before they are stored (reference 1.2 (15))', async () => {
    const group = await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/security_groups`, {
      group_name: 'normal',
      inbound_rules: [
        { ip_protocol: 'ICMPv4', from_port: 0, to_port: 0 },
        { ip_protocol: 'ip', from_port: 80, to_port: 81, ip_ranges: [' 10.0.0.0/8 '] },
        { ip_protocol: 'ip', from_port: 0, to_port: 0, ip_ranges: ['fd00::/8'] },
      ],
      outbound_rules: [{ ip_protocol: 'icmp', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.1', 'fd00::1 - fd00::9'] }],
    });
    expect(group.inbound_rules).toEqual([
      { ip_protocol: 'icmp', from_port: 0, to_port: 0 },
      { ip_protocol: 'tcp', from_port: 80, to_port: 81, ip_ranges: ['10.0.0.0/8'] },
      { ip_protocol: 'udp', from_port: 80, to_port: 81, ip_ranges: ['10.0.0.0/8'] },
      { ip_protocol: 'ipv6', from_port: 0, to_port: 0, ip_ranges: ['fd00::/8'] },
    ]);
    expect(group.outbound_rules).toEqual([
      { ip_protocol: 'icmp', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.1'] },
      { ip_protocol: 'icmpv6', from_port: 0, to_port: 0, ip_ranges: ['fd00::1 - fd00::9'] },
    ]);
  });

  test('every problem of a body comes back at once, each with pointer, code and sentence', async () => {
    const answer = await stage.place.owner.api.post(`${stage.place.base}/security_groups`, {
      group_name: '',
      colour: 'red',
      inbound_rules: [
        { ip_protocol: 'gre', from_port: 0, to_port: 0 },
        {
          ip_protocol: 'tcp',
          from_port: 90,
          to_port: 80,
          ip_ranges: ['10.0.0.9-10.0.0.1', '010.0.0.1', '1.2.3', 'fe80::1%eth0'],
        },
        { ip_protocol: 'icmp', from_port: 1, to_port: 1 },
        { ip_protocol: 'udp', from_port: 0, to_port: 7 },
        { ip_protocol: 'ipv4', from_port: 0, to_port: 0, ip_ranges: ['fd00::1'] },
      ],
      outbound_rules: [{ ip_protocol: 'tcp', from_port: -1, to_port: 70000 }, 5],
    });
    expect(answer.status).toBe(422);
    expect(answer.headers['content-type']).toBe('application/problem+json');
    expect(
      answer.json.errors.map((e: { pointer: string; code: string }) => `${e.pointer} ${e.code}`).toSorted(),
    ).toEqual(
      [
        '/colour unknown_field',
        '/group_name text_too_short',
        '/inbound_rules/0/ip_protocol unknown_protocol',
        '/inbound_rules/1/from_port port_reversed',
        '/inbound_rules/1/ip_ranges/0 range_reversed',
        '/inbound_rules/1/ip_ranges/1 address_octal',
        '/inbound_rules/1/ip_ranges/2 address_short',
        '/inbound_rules/1/ip_ranges/3 address_zone',
        '/inbound_rules/2/from_port port_on_icmp',
        '/inbound_rules/3/from_port port_half_any',
        '/inbound_rules/4/ip_ranges/0 family_contradiction',
        '/outbound_rules/0/from_port port_out_of_range',
        '/outbound_rules/0/to_port port_out_of_range',
        '/outbound_rules/1 not_an_object',
      ].toSorted(),
    );
    for (const { detail } of answer.json.errors) expect(detail).toMatch(/\.$/);
  });

  test('limits: 1,000 rules a direction, 10,000 ranges a group, names of 255 and descriptions of 4,096 characters', async () => {
    const create = (body: object) =>
      stage.place.owner.api.post(`${stage.place.base}/security_groups`, { group_name: 'big', ...body });
    const rules = (count: number, ranges: number) =>
      Array.from({ length: count }, () => ({
        ...ssh,
        ip_ranges: Array.from({ length: ranges }, (_, i) => `10.0.${i}.0/24`),
      }));
    expect((await create({ inbound_rules: rules(1000, 5), outbound_rules: rules(1000, 5) })).status).toBe(201);
    expect((await create({ inbound_rules: rules(1001, 0) })).json.errors).toMatchObject([{ code: 'too_many_rules' }]);
    expect((await create({ inbound_rules: rules(100, 101) })).json.errors).toMatchObject([{ code: 'too_many_ranges' }]);
    expect((await create({ group_name: 'n'.repeat(255), group_description: 'd'.repeat(4096) })).status).toBe(201);
    const codes = (await create({ group_name: 'n'.repeat(256), group_description: 'd'.repeat(4097) })).json.errors;
    expect(codes).toMatchObject([{ code: 'text_too_long' }, { code: 'text_too_long' }]);
  });
});

describe('updating', () => {
  test('an absent field stays, and null is 422', async () => {
    const path = `${stage.place.base}/security_groups`;
    const group = await stage.place.owner.api.expect(201, 'POST', path, {
      group_name: 'a',
      group_description: 'b',
      inbound_rules: [ssh],
    });
    const updated = await stage.place.owner.api.expect(200, 'PATCH', `${path}/${group.id}`, { group_name: 'c' });
    expect(updated).toEqual({
      ...group,
      group_name: 'c',
      revision: expect.any(Number),
      updated_at: expect.any(String),
    });
    expect(updated.revision).toBeGreaterThan(group.revision);
    const nulls = { group_name: null, group_description: null, inbound_rules: null, outbound_rules: null };
    const answer = await stage.place.owner.api.patch(`${path}/${group.id}`, nulls);
    expect(answer.status).toBe(422);
    expect(answer.json.errors).toHaveLength(4);
    const emptied = await stage.place.owner.api.expect(200, 'PATCH', `${path}/${group.id}`, { inbound_rules: [] });
    expect(emptied).not.toHaveProperty('inbound_rules');
  });

  test('two editors never overwrite each other unseen: If-Match, 412 on a mismatch', async () => {
    const group = await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/security_groups`, {
      group_name: 'edited',
    });
    const path = `${stage.place.base}/security_groups/${group.id}`;
    const first = await stage.place.owner.api.patch(path, { group_name: 'one' }, { 'if-match': `"${group.revision}"` });
    expect(first.status).toBe(200);
    const second = await stage.place.owner.api.patch(
      path,
      { group_name: 'two' },
      { 'if-match': `"${group.revision}"` },
    );
    expect(second.status).toBe(412);
    expect(second.json).toMatchObject({ status: 412, code: 'precondition_failed' });
    expect(second.headers.etag).toBe(first.headers.etag);
    const match = (header: string) =>
      stage.place.owner.api.patch(path, { group_description: header }, { 'if-match': header });
    expect((await match('*')).status).toBe(200);
    const { revision } = await stage.place.owner.api.expect(200, 'GET', path);
    expect((await match(`"1", "${revision}", "x"`)).status).toBe(200);
    expect((await match(`W/"${revision + 1}"`)).status).toBe(412);
    expect((await match('"nonsense"')).status).toBe(412);
    expect((await match('nonsense')).status).toBe(412);
    const removal = await stage.place.owner.api.delete(path, { 'if-match': '"1"' });
    expect(removal.status).toBe(412);
    expect((await stage.place.owner.api.delete(path, { 'if-match': `"${revision + 1}"` })).status).toBe(200);
  });
});

describe('deleting', () => {
  test('answers the record as last known, with the revision of the deletion', async () => {
    const group = await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/security_groups`, {
      group_name: 'short',
    });
    const answer = await stage.place.owner.api.delete(`${stage.place.base}/security_groups/${group.id}`);
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({ ...group, revision: answer.json.revision });
    expect(answer.json.revision).toBeGreaterThan(group.revision);
    expect(answer.headers.etag).toBe(`"${answer.json.revision}"`);
    expect((await stage.place.owner.api.get(`${stage.place.base}/security_groups/${group.id}`)).status).toBe(404);
  });

  test('a group that devices still use is 409 naming the devices; detach takes it off them', async () => {
    const { owner, base } = await newPlace(stage.server);
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'used' });
    const used = await owner.api.expect(
      201,
      'POST',
      `${base}/devices`,
      device(newKey(), { hostname: 'db1', security_groups: [group.id] }),
    );
    const refused = await owner.api.delete(`${base}/security_groups/${group.id}`);
    expect(refused.status).toBe(409);
    expect(refused.json).toMatchObject({ code: 'group_in_use', devices: [used.id] });
    expect(refused.json.detail).toContain('db1');
    const gone = await owner.api.ask('DELETE', `${base}/security_groups/${group.id}?detach=true`);
    expect(gone.status).toBe(200);
    const after = await owner.api.expect(200, 'GET', `${base}/devices/${used.id}`);
    expect(after).not.toHaveProperty('security_groups');
    expect(after.revision).toBeGreaterThan(used.revision);
  });
});

describe('reading', () => {
  test("a user-owned group is its owner's alone until it is applied to a device, then every member's", async () => {
    const { member, owner, base, org } = await newPlace(stage.server);
    const group = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'private' });
    const seenBy = async (api: typeof owner.api) => ({
      one: (await api.get(`${base}/security_groups/${group.id}`)).status,
      scoped: (await api.get(`/api/user/${org}/security_groups/${group.id}`)).status,
      listed: (await api.expect(200, 'GET', `${base}/security_groups`)).some((g: { id: string }) => g.id === group.id),
    });
    expect(await seenBy(member.api)).toEqual({ one: 200, scoped: 200, listed: true });
    expect(await seenBy(owner.api)).toEqual({ one: 404, scoped: 404, listed: false });
    const applied = await member.api.expect(
      201,
      'POST',
      `${base}/devices`,
      device(newKey(), { security_groups: [group.id] }),
    );
    expect(await seenBy(owner.api)).toEqual({ one: 200, scoped: 200, listed: true });
    expect((await owner.api.patch(`${base}/security_groups/${group.id}`, { group_name: 'x' })).status).toBe(403);
    await member.api.expect(200, 'PATCH', `${base}/devices/${applied.id}`, { security_groups: [] });
    expect(await seenBy(owner.api)).toEqual({ one: 404, scoped: 404, listed: false });
  });

  test('the user-scoped list holds the groups that the caller owns', async () => {
    const { member, owner, org } = await newPlace(stage.server);
    const mine = await member.api.expect(201, 'POST', `/api/users/${org}/security_groups`, { group_name: 'mine' });
    expect(await member.api.expect(200, 'GET', `/api/user/${org}/security_groups`)).toEqual([mine]);
    expect(await owner.api.expect(200, 'GET', `/api/user/${org}/security_groups`)).toEqual([]);
    const me = await member.api.expect(200, 'GET', '/api/users/me');
    expect(me.security_groups).toEqual([mine.id]);
  });

  test('a group of another organization is 404 under this one', async () => {
    const other = await newPlace(stage.server);
    const answer = await other.owner.api.get(`${other.base}/security_groups/${stage.place.defaultGroup}`);
    expect(answer.status).toBe(404);
  });
});

test("a device's list holds groups of its user or of the organization, never the default, never a foreign one, no duplicates", async () => {
  const { owner, member, base, org, defaultGroup } = await newPlace(stage.server);
  const elsewhere = await newPlace(stage.server);
  const mine = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
  const theirs = await owner.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'theirs' });
  const common = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'common' });
  const foreign = await elsewhere.owner.api.expect(201, 'POST', `${elsewhere.base}/security_groups`, {
    group_name: 'foreign',
  });
  const made = await member.api.expect(
    201,
    'POST',
    `${base}/devices`,
    device(newKey(), { security_groups: [common.id, mine.id] }),
  );
  expect(made.security_groups).toEqual([common.id, mine.id]);
  const set = (security_groups: string[]) => member.api.patch(`${base}/devices/${made.id}`, { security_groups });
  const bad = await set([mine.id, defaultGroup, theirs.id, foreign.id]);
  expect(bad.status).toBe(422);
  expect(bad.json.errors).toMatchObject([
    { pointer: '/security_groups/1', code: 'default_group' },
    { pointer: '/security_groups/2', code: 'unknown_group' },
    { pointer: '/security_groups/3', code: 'unknown_group' },
  ]);
  expect((await set([mine.id, mine.id])).json.errors).toMatchObject([
    { pointer: '/security_groups/1', code: 'duplicate' },
  ]);
  const many = await set(
    Array.from({ length: 65 }, (_, i) => `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`),
  );
  expect(many.json.errors).toMatchObject([{ pointer: '/security_groups', code: 'too_many_items' }]);
});

test("a member's removal deletes that member's devices and groups in that organization", async () => {
  const { owner, member, base, org } = await newPlace(stage.server);
  const group = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
  const gone = await member.api.expect(
    201,
    'POST',
    `${base}/devices`,
    device(newKey(), { security_groups: [group.id] }),
  );
  const removed = await owner.api.expect(200, 'DELETE', `${base}/members/${member.id}`);
  expect(removed).toMatchObject({ user_id: member.id, role: 'member' });
  expect((await owner.api.get(`${base}/devices/${gone.id}`)).status).toBe(404);
  expect((await owner.api.get(`${base}/security_groups/${group.id}`)).status).toBe(404);
  expect((await member.api.get(base)).status).toBe(404);
  expect((await stage.server.nobody.as(gone.device_token).get(`${base}/devices`)).status).toBe(401);
});

test('a newcomer sees nothing of an organization', async () => {
  const someone = await newPerson(stage.server);
  expect((await someone.api.get(`${stage.place.base}/security_groups`)).status).toBe(404);
  expect((await someone.api.post(`/api/user/${stage.place.org}/security_groups`, { group_name: 'x' })).status).toBe(
    404,
  );
});

test('a rule has a description: kept for people in records, history, audit and trials, and not given to agents', async () => {
  const { owner, base } = await newPlace(stage.server);
  const described = { ...ssh, description: 'on call' };
  const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'ops',
    inbound_rules: [described, { ...described, description: 'again' }, ssh],
    outbound_rules: [{ ...ssh, description: '' }],
  });
  expect([group.inbound_rules, group.outbound_rules]).toEqual([[described], [ssh]]);
  const path = `${base}/security_groups/${group.id}`;
  const changed = await owner.api.expect(200, 'PATCH', path, {
    inbound_rules: [{ ...ssh, description: 'ü'.repeat(255) }],
  });
  expect(changed.revision).toBe(group.revision + 1);
  for (const [description, code] of [
    ['x'.repeat(256), 'text_too_long'],
    ['two\nlines', 'text_invalid'],
    [null, 'null_not_allowed'],
    [7, 'not_a_string'],
  ]) {
    const refused = await owner.api.patch(path, { inbound_rules: [ssh, { ...ssh, to_port: 23, description }] });
    expect([refused.status, refused.json.errors]).toEqual([
      422,
      [expect.objectContaining({ pointer: '/inbound_rules/1/description', code })],
    ]);
  }
  const restored = await owner.api.expect(200, 'POST', `${path}/restore`, { revision: group.revision });
  expect(restored.inbound_rules).toEqual([described]);
  const [{ before, after }] = await owner.api.expect(200, 'GET', `${base}/audit?subject_id=${group.id}`);
  expect([before.inbound_rules[0].description, after.inbound_rules[0].description]).toEqual([
    'ü'.repeat(255),
    'on call',
  ]);
  await owner.api.expect(200, 'PATCH', `${path}?confirm_within=600`, { inbound_rules: [ssh] });
  const agent = stage.server.nobody.as(
    (await owner.api.expect(201, 'POST', `${base}/devices`, device(newKey(), { security_groups: [group.id] })))
      .device_token,
  );
  const [shown, forAgent] = [await owner.api.expect(200, 'GET', path), await agent.expect(200, 'GET', path)];
  expect(shown.trial.before.inbound_rules).toEqual([described]);
  expect(forAgent).toEqual({
    ...shown,
    trial: { ...shown.trial, before: { ...shown.trial.before, inbound_rules: [ssh] } },
  });
  const listed = await agent.expect(200, 'GET', `${base}/security_groups`);
  expect(JSON.stringify(listed)).not.toContain('on call');
});

test('a rule that expires is stored as written, must end in the future, and may stay when it is over', async () => {
  const { owner, base } = await newPlace(stage.server);
  const soon = new Date(Date.now() + 4_000).toISOString();
  const both = { ip_protocol: 'ip', from_port: 0, to_port: 0, ip_ranges: ['10.0.0.1', 'fd00::1'], expires_at: soon };
  const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'guests',
    inbound_rules: [ssh, both],
  });
  expect(group.inbound_rules.map((rule: { expires_at?: string }) => rule.expires_at)).toEqual([undefined, soon, soon]);
  await expect.poll(() => Date.now() > Date.parse(soon)).toBe(true);
  const path = `${base}/security_groups/${group.id}`;
  for (const inbound_rules of [group.inbound_rules, [both], group.inbound_rules.slice(1)]) {
    await owner.api.expect(200, 'PATCH', path, { inbound_rules });
  }
  for (const rule of [
    { ...both, ip_ranges: ['10.0.0.2'] },
    { ...ssh, expires_at: soon },
  ]) {
    const refused = await owner.api.patch(path, { inbound_rules: [ssh, rule] });
    expect([refused.status, refused.json.errors[0]]).toEqual([
      422,
      expect.objectContaining({ pointer: '/inbound_rules/1/expires_at', code: 'expiry_past' }),
    ]);
  }
  const moved = await owner.api.patch(path, { outbound_rules: [both] });
  expect(moved.status).toBe(422);
  const restored = await owner.api.expect(200, 'POST', `${path}/restore`, { revision: group.revision });
  expect(restored.inbound_rules).toEqual(group.inbound_rules);
});
