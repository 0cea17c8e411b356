/** Proves what a watch request may say and what refuses it (reference 4.3 (9) to (14)), against the real server and PostgreSQL. */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { openStore } from '../../src/server/store/open.ts';
import { newPerson } from '../lib/server.ts';
import { watching } from '../lib/watching.ts';
import { exchange, rows, type Sending, type Target } from './raw-requests.ts';

const world = watching({ watch: { heartbeatMs: 300 } });
const { watch, newDevice, change, remove } = world;
const both = [{ kind: 'device' }, { kind: 'security-groups' }];

describe('documents (reference 4.3 (9))', () => {
  test('are one line each, and a lone line feed comes after silence', async () => {
    const place = await world.place();
    await newDevice(place);
    const stream = await watch(place, [{ kind: 'device' }]).tail();
    await stream.until('two heartbeats', () => stream.body.text.endsWith('}\n\n\n'));
    const { revision } = await newDevice(place);
    await stream.count(3);
    expect(stream.body.text).toMatch(/^\{[^\n]*\}\n\{"type":"tail"\}\n\n+\{[^\n]*\}\n/);
    expect(stream.told.at(-1)).toBe(`change ${revision}`);
  });

  test('carry their kind when more than one kind is watched, and only then', async () => {
    const place = await world.place();
    await newDevice(place);
    const [one, two] = [watch(place, [{ kind: 'device' }]), watch(place, both)];
    expect((await one.tail()).documents.every((document) => !('kind' in document))).toBe(true);
    expect((await two.tail(2)).documents.map((document) => document.kind)).toEqual([
      'device',
      'device',
      'security-groups',
      'security-groups',
    ]);
  });
});

describe('listings (reference 4.3 (10))', () => {
  test('come kind by kind in the order of the request, each followed by its tail; later changes merged', async () => {
    const place = await world.place();
    const first = await newDevice(place);
    const stream = await watch(place, both.toReversed()).tail(2);
    expect(stream.told).toEqual([
      'security-groups change 1',
      'security-groups tail',
      `device change ${first.revision}`,
      'device tail',
    ]);
    const { owner, base } = place;
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'a' });
    const device = await newDevice(place);
    const again = await owner.api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, { group_name: 'b' });
    await stream.count(7);
    expect(stream.told.slice(4)).toEqual([
      `security-groups change ${group.revision}`,
      `device change ${device.revision}`,
      `security-groups change ${again.revision}`,
    ]);
  });

  test('of kinds resumed at different revisions repeat nothing and skip nothing', async () => {
    const place = await world.place();
    const { owner, base } = place;
    const device = await newDevice(place);
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'a' });
    const last = await newDevice(place);
    const items = [
      { kind: 'device', gt_revision: device.revision, at_tail: true },
      { kind: 'security-groups', gt_revision: 1 },
    ];
    const stream = await watch(place, items).count(3);
    expect(stream.told).toEqual([
      `device change ${last.revision}`,
      `security-groups change ${group.revision}`,
      'security-groups tail',
    ]);
  });
});

describe('gt_revision (reference 4.3 (11), (12))', () => {
  test('0 is the same as absent', async () => {
    const place = await world.place();
    const kept = await newDevice(place);
    await remove(place, (await newDevice(place)).id);
    const [absent, zero] = [
      await watch(place, [{ kind: 'device' }]).tail(),
      await watch(place, [{ kind: 'device', gt_revision: 0 }]).tail(),
    ];
    expect(zero.told).toEqual([`change ${kept.revision}`, 'tail']);
    // Heartbeats may follow.
    expect(zero.body.text.trimEnd()).toBe(absent.body.text.trimEnd());
  });

  test('a resume sends the newest state of each resource changed since, ascending, and deletions', async () => {
    const place = await world.place();
    const [a, b, c] = [await newDevice(place), await newDevice(place), await newDevice(place)];
    await change(place, a.id, 'one');
    const gone = await remove(place, b.id);
    const newest = await change(place, a.id, 'two');
    const stream = await watch(place, [{ kind: 'device', gt_revision: c.revision }]).tail();
    expect(stream.told.at(-3)).toBe(`delete ${gone.revision}`);
    expect(stream.told.slice(-2)).toEqual([`change ${newest.revision}`, 'tail']);
    expect(stream.documents.filter((one) => one.value?.id === b.id)).toHaveLength(1);
  });

  test('revisions beyond 32 bits are revisions like others', async () => {
    const place = await world.place();
    for (const gt_revision of [2 ** 40, Number.MAX_SAFE_INTEGER, 2 ** 63, 1e30]) {
      const far = await watch(place, [{ kind: 'device', gt_revision }]).answered();
      expect(far.status, String(gt_revision)).toBe(410);
    }
  });
});

describe('410 (reference 4.3 (13))', () => {
  test('answers a revision newer than the head', async () => {
    const place = await world.place();
    const { revision } = await newDevice(place);
    const stream = await watch(place, [{ kind: 'device', gt_revision: revision + 1 }]).answered();
    expect(stream.status).toBe(410);
    expect(stream.header('content-type')).toContain('application/problem+json');
    await stream.until('the problem', () => stream.raw.includes('revision_gone'));
  });

  test('is not given for a revision that another server has just written: the head is looked up', async () => {
    const [place, replica] = [await world.place(), await world.replica()];
    await watch(place, [{ kind: 'device' }], { on: replica }).tail();
    for (let i = 0; i < 20; i += 1) {
      const { revision } = await newDevice(place);
      const stream = await watch(place, [{ kind: 'device', gt_revision: revision }], { on: replica }).tail();
      expect(stream.told).toEqual(['tail']);
    }
  });

  test('answers a revision older than the kept deletions, and afresh works', async () => {
    const place = await world.place();
    const [old, gone] = [await newDevice(place), await newDevice(place)];
    const deleted = await remove(place, gone.id);
    // A server with a short memory shares the database.
    const forgetful = await openStore({
      url: world.server.databaseUrl,
      phase: 3,
      deletionRetentionMs: 0,
      logRetentionMs: 0,
    });
    await sleep(20);
    await forgetful.log.compact();
    await forgetful.close();
    const stream = await watch(place, [{ kind: 'device', gt_revision: gone.revision }]).answered();
    expect(stream.status).toBe(410);
    const edge = await watch(place, [{ kind: 'device', gt_revision: deleted.revision }]).tail();
    expect(edge.told).toEqual(['tail']);
    const afresh = await watch(place, [{ kind: 'device' }]).tail();
    expect(afresh.told).toEqual([`change ${old.revision}`, 'tail']);
  });
});

describe('422 before the stream begins (reference 4.3 (14))', () => {
  test.each<[string, unknown, string, string]>([
    ['an empty array', [], '', 'too_few_items'],
    ['no array', { kind: 'device' }, '', 'not_an_array'],
    ['a number', 7, '', 'not_an_array'],
    ['an unknown kind', [{ kind: 'user' }], '/0/kind', 'not_one_of'],
    ['a kind beside an unknown one', [{ kind: 'device' }, { kind: 'devices' }], '/1/kind', 'not_one_of'],
    ['no kind', [{}], '/0/kind', 'missing_field'],
    ['the same kind twice', [{ kind: 'device' }, { kind: 'device', at_tail: true }], '/1/kind', 'duplicate'],
    ['a kind that is no text', [{ kind: 3 }], '/0/kind', 'not_one_of'],
    ['a revision as text', [{ kind: 'device', gt_revision: '5' }], '/0/gt_revision', 'not_an_integer'],
    ['a revision below zero', [{ kind: 'device', gt_revision: -1 }], '/0/gt_revision', 'out_of_range'],
    ['half a revision', [{ kind: 'device', gt_revision: 1.5 }], '/0/gt_revision', 'not_an_integer'],
    ['a null revision', [{ kind: 'device', gt_revision: null }], '/0/gt_revision', 'null_not_allowed'],
    ['at_tail as text', [{ kind: 'device', at_tail: 'yes' }], '/0/at_tail', 'not_a_boolean'],
    ['an unknown field', [{ kind: 'device', since: 4 }], '/0/since', 'unknown_field'],
    ['an item that is no object', ['device'], '/0', 'not_an_object'],
    ['null', [null], '/0', 'null_not_allowed'],
  ])('answers %s', async (_, body, pointer, code) => {
    const place = await world.place();
    const answer = await place.member.api.post(`${place.base}/events`, body);
    expect(answer.status).toBe(422);
    expect(answer.headers['content-type']).toContain('application/problem+json');
    expect(answer.json.errors).toContainEqual(expect.objectContaining({ pointer, code }));
  });

  test('answers every problem at once', async () => {
    const place = await world.place();
    const body = [
      { kind: 'x', gt_revision: -1 },
      { kind: 'device', at_tail: 1, more: true },
    ];
    const answer = await place.member.api.post(`${place.base}/events`, body);
    expect(answer.status).toBe(422);
    expect(answer.json.errors).toHaveLength(4);
  });

  test('comes before 410 and after rights', async () => {
    const place = await world.place();
    const body = [{ kind: 'device', gt_revision: 999 }, { kind: 'device' }];
    expect((await place.member.api.post(`${place.base}/events`, body)).status).toBe(422);
    expect((await place.stranger.api.post(`${place.base}/events`, body)).status).toBe(404);
  });
});

describe('rights (reference 4.3 (14), 5)', () => {
  test('no credential and a wrong one are 401, an enrollment key 403, another organization 404', async () => {
    const place = await world.place();
    const ask = async (token: string | undefined): Promise<number> =>
      (await watch(place, [{ kind: 'device' }], { token }).answered()).status;
    const key = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, {});
    expect(await ask(undefined)).toBe(401);
    expect(await ask('rf_user_wrong')).toBe(401);
    expect(await ask(key.key)).toBe(403);
    expect(await ask(place.stranger.token)).toBe(404);
    expect(await ask(world.server.adminToken)).toBe(404);
    expect(await ask(place.owner.token)).toBe(200);
  });

  test("a device token of one organization does not read another's", async () => {
    const [mine, other] = [await world.place(), await world.place()];
    const { device_token } = await newDevice(mine);
    expect((await watch(other, [{ kind: 'device' }], { token: device_token }).answered()).status).toBe(404);
  });

  test('a read-only token reads', async () => {
    const place = await world.place();
    const { token } = await place.member.api.expect(201, 'POST', '/api/users/me/tokens', { scope: 'read-only' });
    expect((await watch(place, [{ kind: 'device' }], { token }).answered()).status).toBe(200);
  });

  test('an organization that does not exist, a path that is none, and other methods are refused as everywhere', async () => {
    const { api } = await newPerson(world.server);
    const none = '00000000-0000-4000-8000-000000000000';
    expect((await api.post(`/api/organizations/${none}/events`, [{ kind: 'device' }])).status).toBe(404);
    expect((await api.post('/api/organizations/nowhere/events', [{ kind: 'device' }])).status).toBe(400);
    expect((await api.get(`/api/organizations/${none}/events`)).status).toBe(405);
    const place = await world.place();
    const ask = (raw: string, type: string) =>
      place.member.api.ask('POST', `${place.base}/events`, { raw, headers: { 'content-type': type } });
    expect((await ask('[{"kind"', 'application/json')).status).toBe(400);
    expect((await ask('kind=device', 'text/plain')).status).toBe(415);
  });
});

describe('devices by identity (reference 2.5 (1))', () => {
  const named = [{ kind: 'device', view: 'identity' }];

  test('hold seven fields at most, come when one of them changed, and a resume skips the rest', async () => {
    const place = await world.place();
    const { owner, base } = place;
    const groups = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'web' });
    const fields = { hostname: 'db-1', tunnel_ip: '100.64.0.1', addresses: ['10.0.0.1'], labels: ['db'] };
    const given = { ...fields, public_key: 'identity', security_groups: [groups.id] };
    const made = await owner.api.expect(201, 'POST', `${base}/devices`, given);
    const stream = await watch(place, named).tail();
    const identity = { id: made.id, ...fields, security_groups: [groups.id] };
    expect(stream.documents[0]).toEqual({ type: 'change', value: { ...identity, revision: made.revision } });

    const path = `${base}/devices/${made.id}`;
    await owner.api.expect(200, 'PATCH', path, { reflexive_ip4: '9.9.9.9', relay: true, public_key: 'another' });
    const bare = await owner.api.expect(200, 'PATCH', path, { labels: [], addresses: [], security_groups: [] });
    await owner.api.expect(200, 'PATCH', path, { local_ip: '10.0.0.1:1' });
    const renamed = { id: made.id, hostname: 'db-1', tunnel_ip: '100.64.0.1', revision: bare.revision };
    await stream.count(3);
    expect(stream.documents[2]).toEqual({ type: 'change', value: renamed });

    const resumed = await watch(place, [{ ...named[0], gt_revision: made.revision }]).tail();
    expect(resumed.documents.slice(0, -1)).toEqual([{ type: 'change', value: renamed }]);
    const nothing = await watch(place, [{ ...named[0], gt_revision: bare.revision }]).tail();
    expect(nothing.told).toEqual(['tail']);
    const gone = await owner.api.expect(200, 'DELETE', path);
    await stream.count(4);
    expect(stream.documents[3]).toEqual({ type: 'delete', value: { ...renamed, revision: gone.revision } });
    const later = await watch(place, [{ ...named[0], gt_revision: bare.revision }]).tail();
    expect(later.told).toEqual([`delete ${gone.revision}`, 'tail']);
  });

  test('are a view of devices alone: another word, another type, another kind are 422 with a pointer', async () => {
    const place = await world.place();
    const ask = async (items: unknown): Promise<readonly string[]> => {
      const answer = await place.owner.api.expect(422, 'POST', `${place.base}/events`, items);
      return (answer.errors as { pointer: string; code: string }[]).map(({ pointer, code }) => `${pointer} ${code}`);
    };
    expect(await ask([{ kind: 'device', view: 'names' }])).toEqual(['/0/view not_one_of']);
    expect(await ask([{ kind: 'device', view: null }])).toEqual(['/0/view null_not_allowed']);
    const views = [
      { kind: 'device', view: 'full' },
      { kind: 'security-groups', view: 'identity' },
    ];
    expect(await ask(views)).toEqual(['/1/view view_of_device']);
    expect(await ask([{ kind: 'security-groups', view: 'full' }])).toEqual(['/0/view view_of_device']);
    expect(await ask([...named, { kind: 'device' }])).toContain('/1/kind duplicate');
  });
});

describe('requests as bytes', () => {
  const target = async (): Promise<Target> => {
    const { org, member } = await world.place();
    return { url: world.server.url, org, token: member.token };
  };
  const common = [
    'x-request-id',
    'x-content-type-options: nosniff',
    'referrer-policy: no-referrer',
    'cache-control: no-store',
  ];
  const json = 'Content-Type: application/json';
  const body = '[{"kind":"device"}]';

  test.each<Sending>(['at once', 'in two'])(
    'are answered alike however they are written, and a stream reads nothing that follows it, sent %s',
    async (sending) => {
      const to = await target();
      const answered = rows.map(async ([title, requests, answers]) => {
        const { short } = await exchange(to, requests, answers.length, sending);
        return [title, short] as const;
      });
      expect(Object.fromEntries(await Promise.all(answered))).toEqual(
        Object.fromEntries(rows.map(([title, , answers]) => [title, answers])),
      );
    },
  );

  test.each<Sending>(['at once', 'in two'])(
    'have the headers of every other answer, in a stream and in a refusal, sent %s',
    async (sending) => {
      const to = await target();
      const given = await exchange(to, [{ headers: [json, 'X-Request-Id: mine'], body }], 1, sending);
      expect(given.text).toMatch(/^x-request-id: mine\r$/m);
      const own = [
        'Content-Type: application/json;stream=watch',
        'X-Accel-Buffering: no',
        'Transfer-Encoding: chunked',
        'Heartbeat-Interval: 0.3',
      ];
      const stream = ['HTTP/1.1 200 OK', 'Date', 'Connection: close', ...common, ...own];
      expect(given.heads[0]?.toSorted()).toEqual(stream.toSorted());
      const refused = await exchange(
        to,
        [{ headers: [json, 'X-Request-Id: <mine>'], body, isAnonymous: true }],
        1,
        sending,
      );
      expect(refused.text).not.toContain('<mine>');
      expect(refused.heads[0]).toEqual([
        'HTTP/1.1 401 Unauthorized',
        ...common,
        'www-authenticate: Bearer realm="ringfence"',
        'content-type: application/problem+json',
        'content-length',
        'Date',
        'Connection: keep-alive',
        'Keep-Alive: timeout=72',
      ]);
    },
  );

  test('end with their connection when the client half closes it at once', async () => {
    const { text } = await exchange(await target(), [{ headers: [json], body }], 0);
    expect(text).not.toContain('HTTP/1.1 5');
  });

  test('are counted once each, by status, whichever way they came', async () => {
    const to = await target();
    const counts = async (): Promise<Record<string, number>> => {
      const { text } = await world.server.nobody.get('/metrics');
      const lines = text.matchAll(/^ringfence_http_requests_total\{operation="watchEvents",status="(\d+)"\} (\d+)$/gm);
      return Object.fromEntries([...lines].map(([, status = '', count]) => [status, Number(count)]));
    };
    const before = await counts();
    for (const path of [`/api/organizations/${to.org}/events`, `/api/organizations/${to.org}/%65vents`]) {
      await exchange(to, [{ headers: [json], body, path }], 1);
      await exchange(to, [{ headers: [json], body, path, isAnonymous: true }], 1);
      await exchange(to, [{ headers: [json], body: '[]', path }], 1);
    }
    const after = await counts();
    const more = Object.entries(after).map(([status, count]) => [status, count - (before[status] ?? 0)] as const);
    expect(Object.fromEntries(more.filter(([, count]) => count > 0))).toEqual({ 200: 2, 401: 2, 422: 2 });
  });
});
