/** Proves trials against the real server: in force at once, on some devices or all, and taken back unless somebody confirms (reference 4.15). */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import type { Api, Json } from '../lib/http.ts';
import { newPlace, startTestServer } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

let later = 0;
const clock = (): number => Date.now() + later;
const stage = useServer(() => ({ clock }));
const tcp = (port: number) => ({ ip_protocol: 'tcp', from_port: port, to_port: port });

let serial = 0;
const device = (api: Api, base: string, more: object = {}): Promise<Json> =>
  api.expect(201, 'POST', `${base}/devices`, { public_key: `t${(serial += 1)}`, ...more });
const groupsOn = async (api: Api, base: string, { id }: Json): Promise<string[]> =>
  (await api.expect(200, 'GET', `${base}/devices/${id}/groups`)).map((one: Json) => `${one.by} ${one.group_id}`);

test('a trial with a scope concerns the devices in it, until it is widened and confirmed', async () => {
  const { owner, base } = await newPlace(stage.server);
  const { api } = owner;
  const rules = { inbound_rules: [tcp(22)] };
  const group = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'db', ...rules });
  const address = (n: number): object => ({ tunnel_ip: `100.64.0.${n}`, security_groups: [group.id] });
  const canary = await device(api, base, { ...address(1), labels: ['canary', 'edge'] });
  const other = await device(api, base, { ...address(2), labels: ['edge'] });
  const path = `${base}/security_groups/${group.id}`;
  const query = '?confirm_within=60&scope=label:canary,label:gate%2Bprod';
  const tried = await api.expect(200, 'PATCH', `${path}${query}`, { inbound_rules: [tcp(80)] });
  const { trial } = tried;
  expect(trial).toMatchObject({
    by: owner.id,
    scope: [{ labels: ['canary'] }, { labels: ['gate', 'prod'] }],
    before: { group_name: 'db', ...rules, outbound_rules: [], applies_to: [] },
  });
  expect(Date.parse(trial.ends_at) - Date.parse(trial.started_at)).toBe(60_000);
  const verdict = async (to: Json, port: number): Promise<string> =>
    (await api.expect(200, 'GET', `${base}/explain?from=100.64.9.9&to=${to.id}&port=${port}`)).verdict;
  expect([await verdict(canary, 80), await verdict(canary, 22)]).toEqual(['allowed', 'refused']);
  expect([await verdict(other, 80), await verdict(other, 22)]).toEqual(['refused', 'allowed']);
  const pending = await api.status('PATCH', path, { body: { group_name: 'x' } });
  const deleted = await api.status('DELETE', `${path}?detach=true`);
  const set = await api.status('POST', `${base}/changes`, {
    body: { security_groups: [{ id: group.id, group_name: 'y' }] },
  });
  expect([pending, deleted, set]).toEqual([409, 409, 409]);
  expect(await api.expect(409, 'PATCH', path, { group_name: 'x' })).toMatchObject({
    code: 'trial_pending',
    trial_id: trial.id,
  });

  const one = `${base}/trials/${trial.id}`;
  expect(await api.expect(200, 'GET', `${base}/trials`)).toMatchObject([
    {
      id: trial.id,
      state: 'pending',
      security_groups: [group.id],
      enforcement: { devices: 1, never_seen: 1, trouble: [] },
    },
  ]);
  const narrower = await api.expect(422, 'PATCH', one, { scope: [{ labels: ['canary', 'eu'] }] });
  expect(narrower.errors).toMatchObject([{ pointer: '/scope', code: 'not_wider' }]);
  await api.expect(200, 'PATCH', one, { scope: 'label:canary,label:edge,label:gate' });
  expect([await verdict(other, 80), await verdict(other, 22)]).toEqual(['allowed', 'refused']);
  expect(await api.expect(200, 'POST', `${one}/confirm`)).toMatchObject({ state: 'confirmed', ended_by: owner.id });
  expect(await api.expect(409, 'POST', `${one}/revert`)).toMatchObject({ code: 'trial_over' });
  const after = await api.expect(200, 'GET', path);
  expect([after.trial, after.inbound_rules[0].from_port]).toEqual([undefined, 80]);
  const audit: Json[] = await api.expect(200, 'GET', `${base}/audit`);
  expect(audit.slice(0, 2).map(({ operation, subject_id }) => [operation, subject_id])).toEqual([
    ['confirmTrial', trial.id],
    ['widenTrial', trial.id],
  ]);
});

test('a group that is tried by label applies in scope only, and the end by time is the work of any server', async () => {
  const { owner, base } = await newPlace(stage.server);
  const { api } = owner;
  const rest = await api.expect(200, 'GET', `${base}/security_groups`);
  const [canary, other] = [
    await device(api, base, { labels: ['a', 'canary'] }),
    await device(api, base, { labels: ['a'] }),
  ];
  const asked = { group_name: 'a', applies_to: [{ labels: ['a'] }] };
  const made = await api.expect(201, 'POST', `${base}/security_groups?confirm_within=10&scope=label:canary`, asked);
  expect(made.trial.before).toBeNull();
  expect(await groupsOn(api, base, canary)).toEqual([`label ${made.id}`]);
  expect(await groupsOn(api, base, other)).toEqual([`default ${rest[0].id}`]);
  const list = await api.expect(200, 'PATCH', `${base}/devices/${other.id}?confirm_within=10`, { security_groups: [] });
  expect(list).not.toHaveProperty('trial');
  const listed = await device(api, base, {});
  const group = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'listed' });
  const body = { security_groups: [group.id] };
  const tried = await api.expect(200, 'PATCH', `${base}/devices/${listed.id}?confirm_within=10`, body);
  expect(tried).toHaveProperty('trial');

  // The server that made it looks at its clock every few seconds; another one that starts now reverts it at once.
  later += 10_000;
  const second = await startTestServer(stage.postgres, { url: stage.server.databaseUrl, clock });
  try {
    await eventually(
      'the group is gone',
      async () => (await api.status('GET', `${base}/security_groups/${made.id}`)) === 404,
    );
  } finally {
    await second.close();
  }
  expect(await api.expect(200, 'GET', `${base}/trials/${made.trial.id}`)).toMatchObject({ state: 'expired' });
  expect(await groupsOn(api, base, canary)).toEqual([`default ${rest[0].id}`]);
  await eventually(
    'the list is what it was',
    async () => (await api.expect(200, 'GET', `${base}/devices/${listed.id}`)).security_groups === undefined,
  );
  const [entry] = await api.expect(200, 'GET', `${base}/audit`);
  expect(entry).toMatchObject({ operation: 'expireTrial', user_id: owner.id, credential: { kind: 'server' } });
  // The history names the same author as the log.
  const states = (path: string): Promise<Json[]> => api.expect(200, 'GET', `${base}/${path}/history`);
  const [back, begun] = await states(`devices/${listed.id}`);
  expect(back).toMatchObject({ by_server: true });
  expect(begun).toMatchObject({ user_id: owner.id, username: owner.username });
  expect(back).not.toHaveProperty('user_id');
  expect((await states(`security_groups/${made.id}`))[0]).toMatchObject({ type: 'delete', by_server: true });
});

test('a change set is tried as a whole: a new group and the list that names it go together', async () => {
  const { owner, base } = await newPlace(stage.server);
  const { api } = owner;
  const old = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'old' });
  const [canary, other] = [
    await device(api, base, { labels: ['canary'], security_groups: [old.id] }),
    await device(api, base, { security_groups: [old.id] }),
  ];
  const fresh = randomUUID();
  const body = {
    security_groups: [
      { id: fresh, group_name: 'fresh' },
      { id: old.id, group_name: 'renamed', inbound_rules: [tcp(1)] },
    ],
    devices: [canary, other].map(({ id }) => ({ id, security_groups: [fresh] })),
  };
  const refused = await api.expect(422, 'POST', `${base}/changes?confirm_within=60`, { delete: [old.id] });
  expect(refused.errors).toMatchObject([{ pointer: '/delete/0', code: 'list_only' }]);
  const written = await api.expect(200, 'POST', `${base}/changes?confirm_within=60&scope=label:canary`, body);
  const records: Json[] = [...written.security_groups, ...written.devices];
  const [id] = records.map(({ trial }) => trial.id as string);
  expect(records.map(({ trial }) => [trial.id, trial.before])).toMatchObject([
    [id, null],
    [id, { group_name: 'old', inbound_rules: [] }],
    [id, { security_groups: [old.id] }],
    [id, { security_groups: [old.id] }],
  ]);
  expect(await groupsOn(api, base, canary)).toEqual([`list ${fresh}`]);
  expect(await groupsOn(api, base, other)).toEqual([`list ${old.id}`]);
  expect(await api.status('POST', `${base}/changes/${written.change_id}/revert`)).toBe(409);
  await api.expect(200, 'POST', `${base}/trials/${id}/revert`);
  expect(await groupsOn(api, base, canary)).toEqual([`list ${old.id}`]);
  expect(await api.status('GET', `${base}/security_groups/${fresh}`)).toBe(404);
  expect((await api.expect(200, 'GET', `${base}/security_groups/${old.id}`)).group_name).toBe('old');
});

test('what cannot be tried is refused with its place', async () => {
  const { owner, base } = await newPlace(stage.server);
  const { api } = owner;
  const one = await device(api, base);
  const create = `${base}/security_groups`;
  const rows: readonly (readonly [string, string, object, string, string])[] = [
    ['POST', `${create}?confirm_within=9`, { group_name: 'x' }, '/confirm_within', 'out_of_range'],
    ['POST', `${create}?confirm_within=86401`, { group_name: 'x' }, '/confirm_within', 'out_of_range'],
    ['POST', `${create}?scope=label:a`, { group_name: 'x' }, '/scope', 'needs_confirm_within'],
    ['POST', `${create}?confirm_within=10&scope=canary`, { group_name: 'x' }, '/scope', 'not_a_selector'],
    ['PATCH', `${base}/devices/${one.id}?confirm_within=10`, { hostname: 'x' }, '/hostname', 'list_only'],
  ];
  for (const [method, path, body, pointer, code] of rows)
    expect((await api.expect(422, method, path, body)).errors, path).toMatchObject([{ pointer, code }]);
  expect(await api.expect(200, 'GET', `${base}/trials`)).toEqual([]);
});

test('what a trial does outside its scope is judged when it is widened or kept: tests that fail, devices that open', async () => {
  const { owner, member, base } = await newPlace(stage.server);
  const { api } = owner;
  const rules = { inbound_rules: [tcp(22)], applies_to: [{ labels: ['db'] }] };
  const group = await api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'db', ...rules });
  const path = `${base}/security_groups/${group.id}`;
  const expected = { name: 'ssh', from: { address: '100.64.9.9' }, to: { labels: ['db'] }, expect: 'allow' };
  const test22 = { ...expected, protocol: 'tcp', port: 22 };
  await api.expect(200, 'PUT', `${base}/policy_tests`, [test22]);
  const patch = { inbound_rules: [tcp(80)], applies_to: [{ labels: ['web'] }] };
  const tried = await api.expect(200, 'PATCH', `${path}?confirm_within=60&scope=label:canary`, patch);
  const late = await device(api, base, { labels: ['db'], tunnel_ip: '100.64.0.1' });
  const one = `${base}/trials/${tried.trial.id}`;
  const opened = { code: 'would_open', devices: [late.id] };
  expect(await api.expect(409, 'PATCH', one, { scope: null })).toMatchObject(opened);
  expect(await api.expect(409, 'POST', `${one}/confirm`)).toMatchObject(opened);
  const moved = { devices: [{ id: late.id, labels: ['canary', 'db'] }] };
  expect(await api.expect(409, 'POST', `${base}/changes`, moved)).toMatchObject(opened);
  expect(await groupsOn(api, base, late)).toEqual([`label ${group.id}`]);

  await api.expect(200, 'PATCH', `${base}/devices/${late.id}`, { labels: ['db', 'web'] });
  for (const [method, at, body] of [
    ['PATCH', one, { scope: null }],
    ['POST', `${one}/confirm`, undefined],
  ] as const) {
    const refused = await api.expect(422, method, at, body);
    expect(refused).toMatchObject({ code: 'policy_test_failed', tests: [{ name: 'ssh', state: 'failing' }] });
  }
  await member.api.expect(403, 'POST', `${one}/confirm?skip_tests=true`);
  await api.expect(200, 'POST', `${one}/confirm?skip_tests=true`);
  const [entry] = await api.expect(200, 'GET', `${base}/audit?limit=1`);
  expect(entry).toMatchObject({ operation: 'confirmTrial', fields: ['skip_tests'] });
});

test('a trial of a member does not lock the owners out: they take the list out of it or revert it, and cannot keep it', async () => {
  const { owner, member, base } = await newPlace(stage.server);
  const rules = { inbound_rules: [tcp(22)] };
  const closed = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'closed', ...rules });
  const box = await device(member.api, base, { security_groups: [closed.id] });
  const own = `${base.replace('/organizations/', '/user/')}/security_groups`;
  const wide = await member.api.expect(201, 'POST', own, { group_name: 'wide' });
  const list = (api: Api, groups: readonly string[]) =>
    api.status('PATCH', `${base}/devices/${box.id}`, { body: { security_groups: groups } });
  const lock = async (): Promise<Json> => {
    const body = {
      security_groups: [{ id: wide.id, inbound_rules: [tcp(1)] }],
      devices: [{ id: box.id, security_groups: [wide.id] }],
    };
    const { devices } = await member.api.expect(200, 'POST', `${base}/changes?confirm_within=86400`, body);
    return devices[0].trial;
  };

  const first = `${base}/trials/${(await lock()).id}`;
  expect(await list(owner.api, [closed.id])).toBe(409);
  expect(await owner.api.status('POST', `${first}/confirm`)).toBe(403);
  const unknown = await owner.api.expect(422, 'POST', `${first}/revert`, { records: [box.id, closed.id] });
  expect(unknown.errors).toMatchObject([{ pointer: '/records/1', code: 'unknown_record' }]);
  for (const body of [{ records: [] }, { records: ['x'] }, { records: [box.id, box.id] }, { record: box.id }])
    await owner.api.expect(422, 'POST', `${first}/revert`, body);
  expect(await owner.api.expect(200, 'POST', `${first}/revert`, { records: [box.id.toUpperCase()] })).toMatchObject({
    state: 'pending',
    devices: [],
    security_groups: [wide.id],
  });
  const [entry] = await owner.api.expect(200, 'GET', `${base}/audit`);
  expect(entry).toMatchObject({ operation: 'revertTrial', fields: ['records'], user_id: owner.id });
  expect(await groupsOn(owner.api, base, box)).toEqual([`list ${closed.id}`]);
  expect(await list(owner.api, [closed.id])).toBe(200);
  // The group is still the member's trial; the whole of another one an owner reverts at once.
  expect(await member.api.expect(200, 'POST', `${first}/confirm`)).toMatchObject({ state: 'confirmed' });
  const second = `${base}/trials/${(await lock()).id}`;
  expect(await owner.api.expect(200, 'POST', `${second}/revert`)).toMatchObject({ state: 'reverted' });
  expect(await groupsOn(owner.api, base, box)).toEqual([`list ${closed.id}`]);
});

test('a member who leaves takes nothing of an owner out of a trial: what the owner has closed stays closed', async () => {
  const { owner, member, base } = await newPlace(stage.server);
  const open = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'db',
    inbound_rules: [tcp(5432)],
  });
  const box = await device(member.api, base, { security_groups: [open.id] });
  const kept = await device(owner.api, base, { security_groups: [open.id] });
  const body = {
    security_groups: [{ id: open.id, inbound_rules: [] }],
    devices: [box, kept].map(({ id }) => ({ id, security_groups: [] })),
  };
  const written = await owner.api.expect(200, 'POST', `${base}/changes?confirm_within=600`, body);
  const { id } = written.security_groups[0].trial;
  await member.api.expect(200, 'DELETE', `${base}/members/${member.id}`);
  expect(await owner.api.expect(200, 'GET', `${base}/trials/${id}`)).toMatchObject({
    state: 'pending',
    security_groups: [open.id],
    devices: [kept.id],
  });
  const group = await owner.api.expect(200, 'GET', `${base}/security_groups/${open.id}`);
  expect([group.inbound_rules, group.trial.id]).toEqual([undefined, id]);
  expect(await owner.api.expect(200, 'POST', `${base}/trials/${id}/confirm`)).toMatchObject({ state: 'confirmed' });
});
