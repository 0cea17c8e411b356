/** Proves the history operations against the real server: pages, the past, the way back, and who may do what (reference 4.8). */
import { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { Random } from '../lib/random.ts';
import { newPerson, newPlace, startTestServer } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

const ssh = { ip_protocol: 'tcp', from_port: 22, to_port: 22 };
/** What a person writes of a group. */
const written = ({ group_name, group_description, inbound_rules, outbound_rules }: Json) => ({
  group_name,
  group_description,
  inbound_rules,
  outbound_rules,
});

describe('restoring', () => {
  test('each of many states makes the group what it was then, as a new revision', async () => {
    const { owner, base } = stage.place;
    const random = new Random(7);
    const { id } = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'start' });
    const path = `${base}/security_groups/${id}`;
    for (let edit = 0; edit < 60; edit += 1) {
      const rules = Array.from({ length: random.int(0, 3) }, () => ({ ...ssh, to_port: random.int(22, 99) }));
      const [field, value] = random.pick([
        ['group_name', `name ${edit}`],
        ['group_description', `text ${edit}`],
        ['inbound_rules', rules],
        ['outbound_rules', rules],
      ] as const);
      await owner.api.expect(200, 'PATCH', path, { [field]: value });
    }
    const states: Json[] = await owner.api.expect(200, 'GET', `${path}/history`);
    expect(states.length).toBeGreaterThan(40);
    for (const { revision, record } of states) {
      const before = await owner.api.expect(200, 'GET', path);
      const answer = await owner.api.ask('POST', `${path}/restore`, {
        body: { revision },
        headers: { 'if-match': `"${before.revision}"` },
      });
      expect(answer.status).toBe(200);
      expect(written(answer.json)).toEqual(written(record));
      const same = JSON.stringify(written(before)) === JSON.stringify(written(record));
      expect(answer.json.revision).toBe(same ? before.revision : before.revision + 1);
      expect(answer.headers.etag).toBe(`"${answer.json.revision}"`);
    }
    const [entry] = await owner.api.expect(200, 'GET', `${base}/audit?limit=1`);
    expect(entry).toMatchObject({ operation: 'restoreSecurityGroup', subject_id: id, fields: ['revision'] });
    // The entry holds the fields that the last restore changed, from what to what, and no others.
    const [from, to] = [written(states.at(-2).record), written(states.at(-1).record)] as Json[];
    const changed = Object.keys(to).filter((field) => JSON.stringify(from[field]) !== JSON.stringify(to[field]));
    expect(Object.keys({ ...entry.before, ...entry.after })).toEqual(changed);
    for (const field of changed)
      expect([entry.before?.[field], entry.after?.[field]]).toEqual([from[field], to[field]]);
  });

  test('is refused for another revision than If-Match names, and writes nothing then', async () => {
    const { owner, base } = stage.place;
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'a' });
    const path = `${base}/security_groups/${made.id}`;
    const { revision } = await owner.api.expect(200, 'PATCH', path, { group_name: 'b' });
    const restore = (ifMatch: number) =>
      owner.api.status('POST', `${path}/restore`, {
        body: { revision: made.revision },
        headers: { 'if-match': `"${ifMatch}"` },
      });
    expect(await restore(made.revision)).toBe(412);
    expect((await owner.api.expect(200, 'GET', path)).group_name).toBe('b');
    expect(await restore(revision)).toBe(200);
    expect((await owner.api.expect(200, 'GET', path)).group_name).toBe('a');
  });

  test('tells what is wrong with a revision', async () => {
    const { owner, base } = stage.place;
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'a' });
    const path = `${base}/security_groups/${made.id}/restore`;
    for (const [body, code] of [
      [{}, 'missing_field'],
      [{ revision: 'x' }, 'not_an_integer'],
      [{ revision: 0 }, 'out_of_range'],
      [{ revision: 1 }, 'no_such_state'],
      [{ revision: 9_999_999 }, 'out_of_range'],
    ] as const) {
      const problem = await owner.api.expect(422, 'POST', path, body);
      expect([problem.errors[0].pointer, problem.errors[0].code]).toEqual(['/revision', code]);
    }
  });

  test('brings a deleted group back under its id; the default group, once reset, stays reset', async () => {
    const { owner, member, base, defaultGroup } = await newPlace(stage.server);
    const body = { group_name: 'web', inbound_rules: [ssh] };
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, body);
    const path = `${base}/security_groups/${made.id}`;
    const gone = await owner.api.expect(200, 'DELETE', path);
    expect(await member.api.status('POST', `${path}/restore`, { body: { revision: made.revision } })).toBe(403);
    expect((await owner.api.expect(422, 'POST', `${path}/restore`, { revision: gone.revision })).errors[0].code).toBe(
      'no_such_state',
    );
    const back = await owner.api.expect(200, 'POST', `${path}/restore`, { revision: made.revision });
    expect(back).toMatchObject({ id: made.id, ...body, revision: gone.revision + 1 });
    expect(await owner.api.expect(200, 'GET', path)).toEqual(back);
    const states: Json[] = await member.api.expect(200, 'GET', `${path}/history`);
    expect(states.map(({ type, username }) => [type, username])).toEqual(
      ['change', 'delete', 'change'].map((type) => [type, owner.username]),
    );

    await owner.api.expect(200, 'DELETE', `${base}/security_groups/${defaultGroup}`);
    const problem = await owner.api.expect(409, 'POST', `${base}/security_groups/${defaultGroup}/restore`, {
      revision: 1,
    });
    expect(problem.code).toBe('conflict');
  });

  test("a user's group is restored by its owner alone, also when it is deleted", async () => {
    const { owner, member, org, base } = stage.place;
    const made = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
    const restore = `${base}/security_groups/${made.id}/restore`;
    const body = { revision: made.revision };
    expect(await owner.api.status('POST', restore, { body })).toBe(404);
    await member.api.expect(200, 'DELETE', `/api/user/${org}/security_groups/${made.id}`);
    expect(await owner.api.status('POST', restore, { body })).toBe(404);
    expect(await member.api.expect(200, 'POST', restore, body)).toMatchObject({ id: made.id, user_id: member.id });
  });

  test('brings a guardrail back with the devices it applies to; one that forbids everything only when forced', async () => {
    const { owner, base } = await newPlace(stage.server);
    const everything = ['ipv4', 'ipv6'].map((ip_protocol) => ({ ip_protocol, from_port: 0, to_port: 0 }));
    const body = {
      group_name: 'never',
      guardrail: 'forbid',
      applies_to: [{ all_devices: true }],
      inbound_rules: [ssh],
    };
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, body);
    const path = `${base}/security_groups/${made.id}`;
    const closed = await owner.api.expect(200, 'PATCH', `${path}?force=true`, { inbound_rules: everything });
    await owner.api.expect(200, 'PATCH', path, { inbound_rules: [ssh] });
    const problem = await owner.api.expect(422, 'POST', `${path}/restore`, { revision: closed.revision });
    expect(problem.errors[0].code).toBe('forbids_everything');
    await owner.api.expect(200, 'POST', `${path}/restore?force=true`, { revision: closed.revision });
    await owner.api.expect(200, 'DELETE', path);
    expect(await owner.api.expect(200, 'POST', `${path}/restore`, { revision: made.revision })).toMatchObject(body);
    // The rules of another group that it makes void are reported when that group is restored, as for every write.
    const web = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'web',
      inbound_rules: [ssh],
    });
    const warnings = [{ pointer: '/inbound_rules/0', code: 'void_by_guardrail', guardrail_ids: [made.id] }];
    expect(web).toMatchObject({ warnings });
    const there = `${base}/security_groups/${web.id}`;
    await owner.api.expect(200, 'PATCH', there, { inbound_rules: [] });
    expect(await owner.api.expect(200, 'POST', `${there}/restore`, { revision: web.revision })).toMatchObject({
      inbound_rules: [ssh],
      warnings,
    });
    await owner.api.expect(200, 'DELETE', there);
    expect(await owner.api.expect(200, 'POST', `${there}/restore`, { revision: web.revision })).toMatchObject({
      warnings,
    });
  });

  test('brings back rules that name a device which is gone by now, where an ordinary write is refused', async () => {
    const { owner, base } = await newPlace(stage.server);
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'gone soon' });
    const body = { group_name: 'web', inbound_rules: [{ ...ssh, peers: [{ device_id: device.id }] }] };
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, body);
    const path = `${base}/security_groups/${made.id}`;
    await owner.api.expect(200, 'PATCH', path, { inbound_rules: [] });
    await owner.api.expect(200, 'DELETE', `${base}/devices/${device.id}`);
    const refused = await owner.api.expect(422, 'PATCH', path, { inbound_rules: body.inbound_rules });
    expect(refused.errors[0].code).toBe('device_unknown');
    const restore = () => owner.api.expect(200, 'POST', `${path}/restore`, { revision: made.revision });
    expect(await restore()).toMatchObject(body);
    await owner.api.expect(200, 'DELETE', path);
    expect(await restore()).toMatchObject(body);
  });

  test('brings back rules that have expired by now, of a group that is there and of a deleted one', async () => {
    const { owner, base } = await newPlace(stage.server);
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    const rules = [{ ...ssh, expires_at }];
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'a',
      inbound_rules: rules,
    });
    const path = `${base}/security_groups/${made.id}`;
    await owner.api.expect(200, 'PATCH', path, { inbound_rules: [] });
    const clock = (): number => Date.now() + 120_000;
    const later = await startTestServer(stage.postgres, { url: stage.server.databaseUrl, clock });
    onTestFinished(() => later.close());
    const api = later.nobody.as(owner.token);
    const { errors } = await api.expect(422, 'PATCH', path, { inbound_rules: rules });
    expect(errors[0].code).toBe('expiry_past');
    const { revision } = made;
    expect((await api.expect(200, 'POST', `${path}/restore`, { revision })).inbound_rules).toEqual(rules);
    await api.expect(200, 'DELETE', path);
    expect((await api.expect(200, 'POST', `${path}/restore`, { revision })).inbound_rules).toEqual(rules);
  });

  test('makes every check of an ordinary write again', async () => {
    const { server } = stage;
    const { owner, base, org } = await newPlace(server);
    const ip_ranges = ['10.0.0.1', '10.0.0.2'];
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'a',
      inbound_rules: [{ ...ssh, ip_ranges }],
    });
    await owner.api.expect(200, 'PATCH', `${base}/security_groups/${made.id}`, { inbound_rules: [] });
    const strict = await startTestServer(stage.postgres, { url: server.databaseUrl, maxRanges: 1 });
    onTestFinished(() => strict.close());
    const problem = await strict.nobody
      .as(owner.token)
      .expect(422, 'POST', `/api/organizations/${org}/security_groups/${made.id}/restore`, { revision: made.revision });
    expect(problem.errors[0].code).toBe('too_many_ranges');
  });
});

describe('the past', () => {
  test('of the organization is read by at_revision, in pages too', async () => {
    const { owner, member, base } = await newPlace(stage.server);
    const seen: Json[] = [];
    for (let index = 0; index < 5; index += 1) {
      await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: `g${index}` });
      seen.push(await member.api.expect(200, 'GET', `${base}/security_groups`));
    }
    for (const [index, groups] of seen.entries()) {
      expect(await member.api.expect(200, 'GET', `${base}/security_groups?at_revision=${index + 2}`)).toEqual(groups);
    }
    const paged: Json[] = [];
    for (let path: string | undefined = `${base}/security_groups?at_revision=4&limit=2`; path !== undefined;) {
      const answer = await owner.api.ask('GET', path);
      paged.push(...answer.json);
      path = /<([^>]+)>/.exec((answer.headers.link as string | undefined) ?? '')?.[1];
    }
    expect(paged).toEqual(seen[2]);
    for (const revision of ['7', 'x', '0', '']) {
      const problem = await owner.api.expect(422, 'GET', `${base}/security_groups?at_revision=${revision}`);
      expect(problem.errors[0].pointer).toBe('/at_revision');
    }
  });

  test('of a group comes in pages, newest first, and is 404 for whoever never saw it', async () => {
    const { owner, member, org, base } = stage.place;
    const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'n0' });
    const path = `${base}/security_groups/${made.id}`;
    for (let index = 1; index < 7; index += 1) await owner.api.expect(200, 'PATCH', path, { group_name: `n${index}` });
    const names: string[] = [];
    for (let next: string | undefined = `${path}/history?limit=3`; next !== undefined;) {
      const answer = await member.api.ask('GET', next);
      expect(answer.status).toBe(200);
      names.push(...answer.json.map(({ record }: Json) => record.group_name));
      next = /<([^>]+)>/.exec((answer.headers.link as string | undefined) ?? '')?.[1];
    }
    expect(names).toEqual(['n6', 'n5', 'n4', 'n3', 'n2', 'n1', 'n0']);
    const mine = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
    expect(await owner.api.status('GET', `${base}/security_groups/${mine.id}/history`)).toBe(404);
    expect(await member.api.status('GET', `${base}/security_groups/${mine.id}/history`)).toBe(200);
    const stranger = await newPerson(stage.server);
    expect(await stranger.api.status('GET', `${path}/history`)).toBe(404);
  });

  test('is not read by a device token', async () => {
    const { owner, base } = stage.place;
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, { public_key: 'reads no history' });
    const agent = stage.server.nobody.as(device.device_token);
    expect(await agent.status('GET', `${base}/security_groups`)).toBe(200);
    expect(await agent.status('GET', `${base}/security_groups?at_revision=1`)).toBe(403);
    expect(await agent.status('GET', `${base}/devices/${device.id}/history`)).toBe(403);
  });
});

test('namesakes are the other devices that have or had the name of a device, the deleted ones too, in pages', async () => {
  const place = await newPlace(stage.server);
  const other = await newPlace(stage.server);
  const make = async ({ owner, base }: typeof place, hostname: string): Promise<string> =>
    (await owner.api.expect(201, 'POST', `${base}/devices`, { hostname, public_key: `key ${Math.random()}` })).id;
  const [gone, renamed] = [await make(place, 'db "1"'), await make(place, 'db "1"')];
  await make(other, 'db "1"');
  await make(place, 'DB "1"');
  await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${gone}`);
  await place.owner.api.expect(200, 'PATCH', `${place.base}/devices/${renamed}`, { hostname: 'x' });
  const path = `${place.base}/devices/${await make(place, 'db "1"')}/namesakes`;
  const all: Json[] = await place.member.api.expect(200, 'GET', path);
  expect(all.map(({ type, record }) => [type, record.id, record.hostname])).toEqual([
    ['delete', gone, 'db "1"'],
    ['change', renamed, 'db "1"'],
  ]);
  const first = await place.member.api.get(`${path}?limit=1`);
  expect(first.json).toEqual(all.slice(0, 1));
  const next = /<([^>]+)>; rel="next"/.exec(String(first.headers.link))?.[1] ?? '';
  expect(await place.member.api.expect(200, 'GET', next)).toEqual(all.slice(1));
  const nameless = await make(place, '');
  await make(place, '');
  expect(await place.member.api.expect(200, 'GET', `${place.base}/devices/${nameless}/namesakes`)).toEqual([]);
});

describe('reference 4.5 (6): a record with a field of a later version', () => {
  /** As a later server would. */
  const write = async (table: string, id: string, from: string, to: string): Promise<void> => {
    const column = table === 'change_sets' ? 'changes' : 'body';
    const client = new Client({ connectionString: stage.server.databaseUrl });
    await client.connect();
    try {
      const { rowCount } = await client.query(
        `UPDATE ${table} SET ${column} = replace(${column}, $2, $3) WHERE id = $1 AND ${column} LIKE '%' || $2 || '%'`,
        [id, from, to],
      );
      expect(rowCount).toBe(1);
      // Whatever writes look at moves the version of its organization.
      await client.query('UPDATE heads SET version = version + 1');
    } finally {
      await client.end();
    }
  };
  const newer = { status: 409, json: { code: 'newer_record' } };
  const rule = { ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ all_devices: true }] };
  const newGroup = async (): Promise<string> => {
    const body = { group_name: 'g', group_description: '', inbound_rules: [rule] };
    return (await stage.place.owner.api.expect(201, 'POST', `${stage.place.base}/security_groups`, body)).id;
  };

  test.each([
    ['of the group', '"group_name":', '"colour":{"of":"roses"},"group_name":', false],
    ['of a rule', '"ip_protocol":', '"weight":7,"ip_protocol":', true],
    ['of a peer', '"all_devices":', '"planet":"mars","all_devices":', true],
  ])('%s: no write touches it, and reads show all of it', async (_title, from, to, isInRule) => {
    const id = await newGroup();
    const path = `${stage.place.base}/security_groups/${id}`;
    const { api } = stage.place.owner;
    const { revision } = await api.expect(200, 'GET', path);
    await write('security_groups', id, from, to);
    const { text: before } = await api.get(path);
    expect(before).toContain(to);
    for (const change of [{ group_name: 'h' }, { inbound_rules: [] }]) {
      expect(await api.patch(path, change)).toMatchObject(newer);
    }
    // The state before is the state now, but for what a rule has more.
    expect((await api.post(`${path}/restore`, { revision })).status).toBe(isInRule ? 409 : 200);
    expect((await api.get(path)).text).toBe(before);
    expect((await api.get(`${stage.place.base}/security_groups`)).text).toContain(to);
    await api.expect(200, 'DELETE', path);
  });

  test('of a device: owner, member and device may not change it, and it is not handed over', async () => {
    const place = await newPlace(stage.server);
    const { owner, member } = place;
    const device = await member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'later' });
    const path = `${place.base}/devices/${device.id}`;
    const field = '"colour":"red","hostname":';
    await write('devices', device.id, '"hostname":', field);
    const { text: before } = await member.api.get(path);
    expect(before).toContain(field);
    const own = stage.server.nobody.as(device.device_token);
    const writes = [
      () => owner.api.patch(path, { labels: ['db'] }),
      () => member.api.patch(path, { hostname: 'x' }),
      () => own.patch(path, { local_ip: '10.0.0.1:1' }),
      () => owner.api.delete(`${place.base}/members/${member.id}?keep=devices`),
    ];
    for (const attempt of writes) expect(await attempt()).toMatchObject(newer);
    expect((await member.api.get(path)).text).toBe(before);
  });

  test('a state of the past with such a field is not restored without it', async () => {
    const id = await newGroup();
    const path = `${stage.place.base}/security_groups/${id}`;
    const { api } = stage.place.owner;
    const { revision } = await api.expect(200, 'GET', path);
    await write('history', id, '"group_name":', '"colour":1,"group_name":');
    await api.expect(200, 'PATCH', path, { group_name: 'h' });
    expect(await api.post(`${path}/restore`, { revision })).toMatchObject(newer);
  });

  test.each([
    ['of the group', 'security_groups', '"group_name":"tried"', '"colour":1,"group_name":"tried"'],
    ['of the group before', 'security_groups', '"group_name":"g"', '"colour":1,"group_name":"g"'],
    ['of the device', 'devices', '"hostname":', '"colour":1,"hostname":'],
  ])('%s: a server of an earlier version does not end the trial', async (_title, table, from, to) => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const make = { group_name: 'g', inbound_rules: [rule] };
    const group = await api.expect(201, 'POST', `${base}/security_groups`, make);
    const device = await api.expect(201, 'POST', `${base}/devices`, { public_key: 'tries' });
    const { security_groups: groups } = await api.expect(
      200,
      'POST',
      `${base}/changes?confirm_within=86400&scope=label:a`,
      {
        security_groups: [{ id: group.id, group_name: 'tried' }],
        devices: [{ id: device.id, security_groups: [group.id] }],
      },
    );
    const paths = [`${base}/security_groups/${group.id}`, `${base}/devices/${device.id}`];
    await write(table, table === 'devices' ? device.id : group.id, from, to);
    const read = async (): Promise<string[]> => Promise.all(paths.map(async (path) => (await api.get(path)).text));
    const before = await read();
    const trial = `${base}/trials/${groups[0].trial.id}`;
    for (const attempt of [
      () => api.patch(trial, { scope: null }),
      () => api.post(`${trial}/confirm`),
      () => api.post(`${trial}/revert`),
    ])
      expect(await attempt()).toMatchObject(newer);
    expect(await read()).toEqual(before);
    expect(await api.expect(200, 'GET', trial)).toMatchObject({ state: 'pending' });
  });

  test('of a device: the group of its list is not deleted from under it', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const group = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'held' });
    const held = { public_key: 'holds', security_groups: [group.id] };
    const device = await api.expect(201, 'POST', `${base}/devices`, held);
    await write('devices', device.id, '"hostname":', '"colour":1,"hostname":');
    const path = `${base}/security_groups/${group.id}`;
    const before = (await api.get(`${base}/devices/${device.id}`)).text;
    expect(await api.delete(`${path}?detach=true`)).toMatchObject(newer);
    const set = { delete: [group.id] };
    expect(await api.post(`${base}/changes?detach=true`, set)).toMatchObject(newer);
    expect((await api.get(`${base}/devices/${device.id}`)).text).toBe(before);
    expect((await api.get(path)).status).toBe(200);
  });

  test('a change set that deleted or changed such a group is not reverted without the field', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const make = { group_name: 'g', inbound_rules: [rule] };
    const [gone, changed] = [
      await api.expect(201, 'POST', `${base}/security_groups`, make),
      await api.expect(201, 'POST', `${base}/security_groups`, make),
    ];
    await write('security_groups', gone.id, '"group_name":', '"colour":1,"group_name":');
    const deletion = await api.expect(200, 'POST', `${base}/changes`, { delete: [gone.id] });
    expect(await api.post(`${base}/changes/${deletion.change_id}/revert`)).toMatchObject(newer);
    expect((await api.get(`${base}/security_groups/${gone.id}`)).status).toBe(404);
    // A later server changed the field, and another took it away.
    const change = await api.expect(200, 'POST', `${base}/changes`, {
      security_groups: [{ id: changed.id, inbound_rules: [] }],
    });
    await write('change_sets', change.change_id, '"ip_protocol":', '"weight":7,"ip_protocol":');
    expect(await api.post(`${base}/changes/${change.change_id}/revert`)).toMatchObject(newer);
  });
});
