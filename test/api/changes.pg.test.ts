/** Proves change sets against the real server: all or nothing, judged as a whole, each part by its own right, and undone as one (reference 4.13). */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Api, Json } from '../lib/http.ts';
import { newPlace } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();
const tcp = (port: number, more: object = {}) => ({ ip_protocol: 'tcp', from_port: port, to_port: port, ...more });

let serial = 0;
const device = (api: Api, base: string, more: object = {}): Promise<Json> =>
  api.expect(201, 'POST', `${base}/devices`, { public_key: `k${(serial += 1)}`, hostname: `h${serial}`, ...more });
const group = (api: Api, base: string, more: object = {}): Promise<Json> =>
  api.expect(201, 'POST', `${base}/security_groups`, { group_name: `g${(serial += 1)}`, ...more });
const headOf = async (api: Api, base: string): Promise<number> => (await api.expect(200, 'GET', base)).revision;

describe('a change set', () => {
  test('writes groups, devices and deletions with consecutive revisions, and groups them in the audit', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const old = await group(api, base, { group_description: 'stays' });
    const gone = await group(api, base);
    const one = await device(api, base, { security_groups: [gone.id] });
    const spare = await device(api, base);
    const fresh = randomUUID();
    const head = await headOf(api, base);
    const answer = await api.expect(200, 'POST', `${base}/changes`, {
      security_groups: [
        { id: old.id, group_name: 'renamed', inbound_rules: [tcp(80)] },
        { id: fresh, group_name: 'fresh', outbound_rules: [tcp(443)] },
        { group_name: 'by itself' },
      ],
      devices: [{ id: one.id, security_groups: [fresh], labels: ['web'] }],
      delete: [gone.id, spare.id],
    });
    expect(answer).toMatchObject({
      security_groups: [
        { id: old.id, group_name: 'renamed', group_description: 'stays', inbound_rules: [{ from_port: 80 }] },
        { id: fresh, group_name: 'fresh' },
        { group_name: 'by itself' },
      ],
      devices: [{ id: one.id, security_groups: [fresh], labels: ['web'] }],
      deleted: [gone.id, spare.id],
      warnings: [],
      revision: head + 6,
    });
    expect(await headOf(api, base)).toBe(head + 6);
    expect(await api.expect(200, 'GET', `${base}/devices/${one.id}`)).toEqual(answer.devices[0]);
    expect(await api.status('GET', `${base}/security_groups/${gone.id}`)).toBe(404);
    expect(await api.status('GET', `${base}/devices/${spare.id}`)).toBe(404);
    const audit: Json[] = await api.expect(200, 'GET', `${base}/audit?limit=7`);
    expect(audit.map(({ change_id }) => change_id)).toEqual(audit.map(() => answer.change_id));
    expect(audit.map(({ operation }) => String(operation)).toSorted((a, b) => (a < b ? -1 : 1))).toEqual([
      'applyChanges',
      'createSecurityGroup',
      'createSecurityGroup',
      'deleteDevice',
      'deleteSecurityGroup',
      'updateDevice',
      'updateSecurityGroup',
    ]);
    const revisions = audit.filter(({ operation }) => operation !== 'applyChanges').map(({ revision }) => revision);
    expect(revisions.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6].map((step) => head + step));
    expect(await api.expect(200, 'GET', `${base}/changes/${answer.change_id}`)).toMatchObject({
      change_id: answer.change_id,
      user_id: owner.id,
      first_revision: head + 1,
      revision: head + 6,
    });
  });

  test('writes nothing at all when one part is refused, and says which', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const [a, b] = [await group(api, base), await device(api, base)];
    const head = await headOf(api, base);
    const bad: readonly (readonly [object, string, string])[] = [
      [
        {
          security_groups: [
            { id: a.id, group_name: 'x' },
            { group_name: 'y', inbound_rules: [tcp(1), tcp(70_000)] },
          ],
        },
        '/security_groups/1/inbound_rules/1/from_port',
        'port_out_of_range',
      ],
      [
        { security_groups: [{ id: a.id, group_name: 'x' }], devices: [{ id: b.id, security_groups: [randomUUID()] }] },
        '/devices/0/security_groups/0',
        'unknown_group',
      ],
      [{ security_groups: [{ id: a.id, group_name: 'x' }], delete: [randomUUID()] }, '/delete/0', 'unknown_record'],
      [
        { security_groups: [{ id: a.id, group_name: 'x' }], devices: [{ id: randomUUID(), labels: [] }] },
        '/devices/0/id',
        'device_unknown',
      ],
      [{ devices: [{ labels: [] }] }, '/devices/0/id', 'missing_field'],
      [{ security_groups: [{ id: a.id, group_name: 'x' }], delete: [a.id] }, '/delete/0', 'duplicate'],
      [
        { security_groups: [{ group_name: 'x', inbound_rules: [tcp(1, { peers: [{ device_id: randomUUID() }] })] }] },
        '/security_groups/0/inbound_rules/0/peers/0/device_id',
        'device_unknown',
      ],
      [
        {
          security_groups: [{ group_name: 'x', inbound_rules: [tcp(1, { peers: [{ device_id: b.id }] })] }],
          delete: [b.id],
        },
        '/security_groups/0/inbound_rules/0/peers/0/device_id',
        'device_unknown',
      ],
      [
        { security_groups: [{ id: a.id, created_at: '2020-01-01T00:00:00.000Z' }] },
        '/security_groups/0/created_at',
        'contradiction',
      ],
      [{ security_groups: [{ id: a.id, gruop_name: 'x' }] }, '/security_groups/0/gruop_name', 'unknown_field'],
      [{ security_groups: {} }, '/security_groups', 'not_an_array'],
      [{ groups: [] }, '/groups', 'unknown_field'],
      [{}, '', 'too_few_items'],
    ];
    for (const [body, pointer, code] of bad) {
      const { status, json } = await api.ask('POST', `${base}/changes`, { body });
      expect([status, json.errors?.[0]?.pointer, json.errors?.[0]?.code], JSON.stringify(body)).toEqual([
        422,
        pointer,
        code,
      ]);
    }
    const many = Array.from({ length: 1_001 }, (_, index) => ({ group_name: `n${index}` }));
    expect(await api.status('POST', `${base}/changes`, { body: { security_groups: many } })).toBe(422);
    const stale = {
      security_groups: [{ group_name: 'x' }],
      devices: [{ id: b.id, revision: b.revision - 1, labels: ['x'] }],
    };
    expect(await api.status('POST', `${base}/changes`, { body: stale })).toBe(412);
    expect(await headOf(api, base)).toBe(head);
    const whole = await api.expect(200, 'GET', `${base}/security_groups/${a.id}`);
    await api.expect(200, 'POST', `${base}/changes`, { security_groups: [{ ...whole, group_name: 'as read' }] });
  });

  test('takes a record as it was read, an isolated device and one on trial too, and no other isolation', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const [made, listed] = [await device(api, base), await group(api, base)];
    const path = `${base}/devices/${made.id}`;
    const allow = [{ labels: ['forensics'] }];
    await api.expect(200, 'POST', `${path}/isolate`, { reason: 'odd', allow });
    await api.expect(200, 'PATCH', `${path}?confirm_within=60`, { security_groups: [listed.id] });
    const { security_groups: _list, ...read } = await api.expect(200, 'GET', path);
    const isolated = Object.fromEntries(Object.entries(read.isolated).toReversed());
    const send = (status: number, more: object): Promise<Json> =>
      api.expect(status, 'POST', `${base}/changes`, { devices: [{ ...read, ...more }] });
    const answer = await send(200, { hostname: 'renamed', isolated });
    expect(answer.devices).toMatchObject([{ hostname: 'renamed', isolated: { reason: 'odd', allow } }]);
    const { updated_at: _at, revision: _revision, ...rest } = read;
    for (const other of [null, { ...read.isolated, reason: 'x' }, { ...read.isolated, allow: [] }]) {
      const { errors } = await api.expect(422, 'POST', `${base}/changes`, { devices: [{ ...rest, isolated: other }] });
      expect(errors).toMatchObject([{ pointer: '/devices/0/isolated', code: 'contradiction' }]);
    }
  });

  test('takes a thousand records', async () => {
    const { owner, base } = await newPlace(stage.server);
    const many = Array.from({ length: 1_000 }, (_, index) => ({ group_name: `n${index}` }));
    const { security_groups } = await owner.api.expect(200, 'POST', `${base}/changes`, { security_groups: many });
    expect(security_groups.map(({ group_name }: Json) => group_name)).toEqual(many.map(({ group_name }) => group_name));
  });

  test('a label is renamed on devices and in groups at once, and only the state after the whole set is judged', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const db = await device(api, base, { labels: ['db'] });
    const admits = await group(api, base, { applies_to: [{ labels: ['db'] }], inbound_rules: [tcp(5_432)] });
    const devices = [{ id: db.id, labels: ['database'] }];
    const groups = [{ id: admits.id, applies_to: [{ labels: ['database'] }] }];
    // Each half alone would leave the device with the default group.
    const half = await api.ask('POST', `${base}/changes`, { body: { devices } });
    expect([half.status, half.json.code, half.json.devices]).toEqual([409, 'would_open', [db.id]]);
    expect(await api.status('POST', `${base}/changes`, { body: { security_groups: groups } })).toBe(409);
    await api.expect(200, 'POST', `${base}/changes`, { devices, security_groups: groups });
    expect(await api.expect(200, 'GET', `${base}/devices/${db.id}/groups`)).toEqual([
      { group_id: admits.id, by: 'label' },
    ]);
    const used = await api.ask('POST', `${base}/changes`, { body: { delete: [admits.id] } });
    expect([used.status, used.json.code]).toEqual([409, 'group_in_use']);
    // In the state after this set no device has the group any more, and the device has another one.
    const other = await group(api, base);
    await api.expect(200, 'POST', `${base}/changes`, {
      devices: [{ id: db.id, labels: [], security_groups: [other.id] }],
      delete: [admits.id],
    });
  });

  test('is written only by who may write each part of it', async () => {
    const place = await newPlace(stage.server);
    const { owner, member, base } = place;
    const [own, foreign] = [await device(member.api, base), await device(owner.api, base)];
    const shared = await group(owner.api, base);
    const head = await headOf(owner.api, base);
    const parts: readonly (readonly [object, number])[] = [
      [
        {
          devices: [
            { id: own.id, hostname: 'mine' },
            { id: foreign.id, hostname: 'theirs' },
          ],
        },
        403,
      ],
      [{ devices: [{ id: own.id, labels: ['db'] }] }, 403],
      [{ devices: [{ id: own.id, hostname: 'mine' }], security_groups: [{ id: shared.id, group_name: 'x' }] }, 403],
      [{ devices: [{ id: own.id, hostname: 'mine' }], security_groups: [{ group_name: 'x' }] }, 403],
      [{ devices: [{ id: own.id, hostname: 'mine' }], delete: [shared.id] }, 403],
      [{ devices: [{ id: own.id, hostname: 'mine' }], delete: [foreign.id] }, 403],
    ];
    for (const [body, status] of parts)
      expect(await member.api.status('POST', `${base}/changes`, { body }), JSON.stringify(body)).toBe(status);
    expect(await headOf(owner.api, base)).toBe(head);
    const mine = { group_name: 'mine', user_id: member.id };
    const { change_id } = await member.api.expect(200, 'POST', `${base}/changes`, {
      security_groups: [mine],
      devices: [{ id: own.id, hostname: 'mine' }],
    });
    expect(await member.api.status('GET', `${base}/changes/${change_id}`)).toBe(200);
    const { change_id: owners } = await owner.api.expect(200, 'POST', `${base}/changes`, { delete: [shared.id] });
    expect(await member.api.status('GET', `${base}/changes/${owners}`)).toBe(404);
    expect(await member.api.status('POST', `${base}/changes/${owners}/revert`)).toBe(404);
  });

  test('of a member tells an owner no name of a group that only the member sees, also not by a revert', async () => {
    const { owner, member, base, org } = await newPlace(stage.server);
    const mine = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'diary' });
    const shared = await group(owner.api, base);
    const write = async (body: object): Promise<string> =>
      (await member.api.expect(200, 'POST', `${base}/changes`, body)).change_id;
    const nameIn = async (api: Api, id: string): Promise<string> =>
      (await api.expect(200, 'GET', `${base}/changes/${id}`)).records[0].name;
    const changed = await write({ security_groups: [{ id: mine.id, group_description: 'x' }] });
    expect([await nameIn(member.api, changed), await nameIn(owner.api, changed)]).toEqual(['diary', '']);
    await member.api.expect(200, 'PATCH', `/api/user/${org}/security_groups/${mine.id}`, { group_description: 'y' });
    const refused = await owner.api.expect(409, 'POST', `${base}/changes/${changed}/revert`);
    expect(refused).toMatchObject({ code: 'changed_since', records: [mine.id] });
    expect(JSON.stringify(refused)).not.toContain('diary');
    const deleted = await write({ delete: [mine.id] });
    expect([await nameIn(member.api, deleted), await nameIn(owner.api, deleted)]).toEqual(['diary', '']);
    // What the owner could see then is told, also where it is gone.
    const seen = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'seen' });
    await device(member.api, base, { security_groups: [seen.id] });
    const taken = await write({ security_groups: [{ id: seen.id, group_name: 'seen by all' }] });
    await member.api.expect(200, 'DELETE', `/api/user/${org}/security_groups/${seen.id}?detach=true`);
    expect(await nameIn(owner.api, taken)).toBe('seen');
    const { change_id } = await owner.api.expect(200, 'POST', `${base}/changes`, { delete: [shared.id] });
    expect(await nameIn(owner.api, change_id)).toBe(shared.group_name);
  });

  test('an id that a group had before is not given to another group', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const gone = await group(api, base);
    await api.expect(200, 'DELETE', `${base}/security_groups/${gone.id}`);
    const { status, json } = await api.ask('POST', `${base}/changes`, {
      body: { security_groups: [{ id: gone.id, group_name: 'x' }] },
    });
    expect([status, json.errors?.[0]]).toMatchObject([
      422,
      { pointer: '/security_groups/0/id', code: 'unknown_record' },
    ]);
  });
});

describe('reverting a change set', () => {
  test('undoes the creation of a group that applies by label as one, and asks only where a device opens', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const lasting = await api.expect(201, 'POST', `${base}/security_groups`, {
      group_name: 'lasting',
      applies_to: [{ labels: ['closed'] }],
    });
    const labelled = (label: string): Promise<Json> =>
      api.expect(201, 'POST', `${base}/devices`, { public_key: label, hostname: label, labels: [label] });
    const [closed, open] = [await labelled('closed'), await labelled('open')];
    const create = (label: string): Promise<Json> =>
      api.expect(200, 'POST', `${base}/changes`, {
        security_groups: [{ group_name: `of ${label}`, applies_to: [{ labels: [label] }] }],
      });
    const revert = (set: Json, query = ''): string => `${base}/changes/${set.change_id}/revert${query}`;
    await api.expect(200, 'POST', revert(await create('closed')));
    const groupsOn = (one: Json): Promise<Json> => api.expect(200, 'GET', `${base}/devices/${one.id}/groups`);
    expect(await groupsOn(closed)).toMatchObject([{ group_id: lasting.id, by: 'label' }]);
    const opening = await create('open');
    expect(await api.expect(409, 'POST', revert(opening))).toMatchObject({ code: 'would_open', devices: [open.id] });
    await api.expect(200, 'POST', revert(opening, '?detach=true'));
    expect(await groupsOn(open)).toMatchObject([{ by: 'default' }]);
  });

  test('asks where a device gives back the only list that it had', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const listed = await group(api, base, { inbound_rules: [tcp(22)] });
    const one = await device(api, base, {});
    const set = { devices: [{ id: one.id, security_groups: [listed.id] }] };
    const { change_id } = await api.expect(200, 'POST', `${base}/changes`, set);
    const path = `${base}/changes/${change_id}/revert`;
    expect(await api.expect(409, 'POST', path)).toMatchObject({ code: 'would_open', devices: [one.id] });
    await api.expect(200, 'POST', `${path}?detach=true`);
    expect(await api.expect(200, 'GET', `${base}/devices/${one.id}/groups`)).toMatchObject([{ by: 'default' }]);
  });

  test('makes every record what it was, as one change set; deleted groups come back under their ids', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const kept = await group(api, base, { applies_to: [{ labels: ['web'] }], inbound_rules: [tcp(80)] });
    const gone = await group(api, base, { inbound_rules: [tcp(22)] });
    const one = await device(api, base, { labels: ['web'], security_groups: [gone.id] });
    const holder = await device(api, base, { security_groups: [gone.id] });
    const change = await api.expect(200, 'POST', `${base}/changes?detach=true`, {
      security_groups: [{ id: kept.id, applies_to: [], inbound_rules: [tcp(81)] }, { group_name: 'new' }],
      devices: [{ id: one.id, labels: ['www'], security_groups: [], hostname: 'renamed' }],
      delete: [gone.id],
    });
    expect(change.devices.map(({ id }: Json) => id)).toEqual([one.id, holder.id]);
    // What devices report of themselves is no change that a revert could lose.
    await api.expect(200, 'PATCH', `${base}/devices/${one.id}`, { local_ip: '10.0.0.1:1' });
    const path = `${base}/changes/${change.change_id}/revert`;
    const back = await api.expect(200, 'POST', path);
    const policyOf = ({ labels, security_groups, hostname, group_name, inbound_rules, applies_to }: Json) => ({
      labels,
      security_groups,
      hostname,
      group_name,
      inbound_rules,
      applies_to,
    });
    for (const [path_, before] of [
      [`security_groups/${kept.id}`, kept],
      [`security_groups/${gone.id}`, gone],
      [`devices/${one.id}`, one],
      [`devices/${holder.id}`, holder],
    ] as const)
      expect(policyOf(await api.expect(200, 'GET', `${base}/${path_}`))).toEqual(policyOf(before));
    expect(back.deleted).toEqual([change.security_groups[1].id]);
    expect(await api.expect(200, 'GET', `${base}/changes/${change.change_id}`)).toMatchObject({
      reverted_by: back.change_id,
    });
    expect(await api.expect(200, 'GET', `${base}/changes/${back.change_id}`)).toMatchObject({
      reverts: change.change_id,
    });
    const again = await api.ask('POST', path);
    expect([again.status, again.json.code]).toEqual([409, 'changed_since']);
    // And the way forward again.
    await api.expect(200, 'POST', `${base}/changes/${back.change_id}/revert?detach=true`);
    expect((await api.expect(200, 'GET', `${base}/devices/${one.id}`)).labels).toEqual(['www']);
  });

  test('is refused where a record has changed since, and names it; force overwrites the later change', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const [a, b] = [await group(api, base), await group(api, base)];
    const { change_id } = await api.expect(200, 'POST', `${base}/changes`, {
      security_groups: [
        { id: a.id, group_name: 'a2' },
        { id: b.id, group_name: 'b2' },
      ],
    });
    await api.expect(200, 'PATCH', `${base}/security_groups/${b.id}`, { group_description: 'another field' });
    await api.expect(200, 'PATCH', `${base}/security_groups/${a.id}`, { group_name: 'a3' });
    const refused = await api.ask('POST', `${base}/changes/${change_id}/revert`);
    expect([refused.status, refused.json.code, refused.json.records]).toEqual([409, 'changed_since', [a.id]]);
    expect((await api.expect(200, 'GET', `${base}/security_groups/${b.id}`)).group_name).toBe('b2');
    await api.expect(200, 'POST', `${base}/changes/${change_id}/revert?force=true`);
    expect((await api.expect(200, 'GET', `${base}/security_groups/${a.id}`)).group_name).toBe(a.group_name);
    expect(await api.expect(200, 'GET', `${base}/security_groups/${b.id}`)).toMatchObject({
      group_name: b.group_name,
      group_description: 'another field',
    });
  });

  test('a deleted device does not come back: that is said, and with force the rest is undone', async () => {
    const { owner, base } = await newPlace(stage.server);
    const { api } = owner;
    const [one, two] = [await device(api, base), await device(api, base)];
    const { change_id } = await api.expect(200, 'POST', `${base}/changes`, {
      devices: [{ id: one.id, hostname: 'x' }],
      delete: [two.id],
    });
    const refused = await api.ask('POST', `${base}/changes/${change_id}/revert`);
    expect([refused.status, refused.json.records]).toEqual([409, [two.id]]);
    expect(refused.json.detail).toContain('enrolled again');
    await api.expect(200, 'POST', `${base}/changes/${change_id}/revert?force=true`);
    expect((await api.expect(200, 'GET', `${base}/devices/${one.id}`)).hostname).toBe(one.hostname);
  });
});
