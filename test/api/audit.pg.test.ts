/**
 * Proves that the audit is correct: who changed which fields of which record, from what to what, for every kind of
 * record.
 */
import { expect, test, vi } from 'vitest';
import { Client } from '../../src/client/http.ts';
import { defaultInboundRules } from '../../src/policy/rule.ts';
import type { Json } from '../lib/http.ts';
import { Random } from '../lib/random.ts';
import { newPerson, newPlace, type Person, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer(() => ({
  webhookHosts: [{ kind: 'exact', scheme: 'http:', host: '127.0.0.1', port: '9' }],
}));

let serial = 0;
const unique = (): string => `audit-${(serial += 1)}`;

async function secondOwner(place: Place): Promise<Person> {
  const other = await newPerson(stage.server, 'other');
  await place.owner.api.expect(201, 'POST', `${place.base}/members`, { user_id: other.id });
  await place.owner.api.expect(200, 'PATCH', `${place.base}/members/${other.id}`, { role: 'owner' });
  return other;
}

/** Oldest first. */
const auditOf = async (place: Place, person: Person = place.owner): Promise<Json[]> =>
  (await person.api.expect(200, 'GET', `${place.base}/audit?limit=10000`)).toReversed();

test('a field that somebody else changed before is not told of whoever changes the next one', async () => {
  const place = await newPlace(stage.server);
  const other = await secondOwner(place);
  const made = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, {
    public_key: unique(),
    hostname: 'device-2',
    labels: ['app', 'old'],
  });
  const path = `${place.base}/devices/${made.id}`;
  await place.owner.api.expect(200, 'PATCH', path, { hostname: 'app-1', relay: true });
  await other.api.expect(200, 'PATCH', path, { labels: ['app'] });
  await place.owner.api.expect(200, 'PATCH', path, { local_ip: '10.0.0.1:1' });
  const entries = (await auditOf(place)).filter(({ operation }) => operation === 'updateDevice');
  expect(entries.map(({ username, before, after, subject }) => ({ username, before, after, subject }))).toEqual([
    {
      username: place.owner.username,
      before: { hostname: 'device-2', relay: false },
      after: { hostname: 'app-1', relay: true },
      subject: { name: 'device-2' },
    },
    {
      username: other.username,
      before: { labels: ['app', 'old'] },
      after: { labels: ['app'] },
      subject: { name: 'app-1' },
    },
    {
      username: place.owner.username,
      before: { local_ip: '' },
      after: { local_ip: '10.0.0.1:1' },
      subject: { name: 'app-1' },
    },
  ]);
});

test('a list can be of some time only, and its pages stay in it', async () => {
  const place = await newPlace(stage.server);
  for (let count = 0; count < 6; count += 1) {
    await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique() });
    // Times are whole milliseconds.
    const created = Date.now();
    await vi.waitFor(() => expect(Date.now()).toBeGreaterThan(created), { timeout: 60_000, interval: 1 });
  }
  const all = await place.owner.api.expect(200, 'GET', `${place.base}/audit`);
  const [since, until] = [all[4].at, all[1].at];
  const query = `since=${since}&until=${until.toLowerCase()}`;
  expect(await place.owner.api.expect(200, 'GET', `${place.base}/audit?${query}`)).toEqual(all.slice(1, 5));
  expect(await place.owner.api.expect(200, 'GET', `${place.base}/audit?until=${until}`)).toEqual(all.slice(1));
  const client = new Client({ url: stage.server.url, token: place.owner.token });
  const walked: unknown[] = [];
  for await (const entry of client.audit.each(place.org, { since, until, limit: 3 })) walked.push(entry);
  expect(walked).toEqual(all.slice(1, 5));
  const server = await stage.server.admin.expect(200, 'GET', '/api/audit?limit=3');
  expect(await stage.server.admin.expect(200, 'GET', `/api/audit?limit=3&until=${server[0].at}`)).toEqual(server);
  expect(await stage.server.admin.expect(200, 'GET', `/api/audit?since=${server[0].at}`)).toContainEqual(server[0]);
  expect(await stage.server.admin.expect(200, 'GET', '/api/audit?until=2001-01-01T00:00:00Z')).toEqual([]);
  await place.owner.api.expect(422, 'GET', `${place.base}/audit?since=yesterday`);
});

test('changes of roles, names, keys and webhooks have before and after, and no secret', async () => {
  const place = await newPlace(stage.server);
  const { api } = place.owner;
  await api.expect(200, 'PATCH', `${place.base}/members/${place.member.id}`, { role: 'owner' });
  await api.expect(200, 'PATCH', place.base, { name: 'renamed' });
  const key = await api.expect(201, 'POST', `${place.base}/enrollment_keys`, { name: 'ci', uses: 3 });
  await api.expect(200, 'DELETE', `${place.base}/enrollment_keys/${key.id}`);
  const hook = await api.expect(201, 'POST', `${place.base}/webhooks`, {
    name: 'alerts',
    url: 'http://127.0.0.1:9/',
    events: ['device.offline'],
  });
  await api.expect(200, 'PATCH', `${place.base}/webhooks/${hook.id}`, { name: 'pager' });
  await api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}`);
  const entries = await auditOf(place);
  const told = (operation: string): Json[] =>
    entries
      .filter((entry) => entry.operation === operation)
      .map(({ before, after, subject }) => ({ before, after, name: subject?.name }));
  expect(told('updateMember')).toEqual([
    {
      before: { role: 'member', accepted: null },
      after: { role: 'owner', accepted: false },
      name: place.member.username,
    },
  ]);
  expect(told('updateOrganization')).toEqual([{ before: { name: 'acme' }, after: { name: 'renamed' }, name: 'acme' }]);
  expect(told('createEnrollmentKey')[0]).toMatchObject({ after: { name: 'ci', uses_left: 3 }, name: 'ci' });
  expect(told('revokeEnrollmentKey')[0]).toMatchObject({ before: { name: 'ci', uses_left: 3 } });
  expect(told('updateWebhook')).toEqual([{ before: { name: 'alerts' }, after: { name: 'pager' }, name: 'alerts' }]);
  expect(told('removeMember')).toEqual([
    { before: { user_id: place.member.id, role: 'owner' }, after: undefined, name: place.member.username },
  ]);
  const { secret } = hook as { secret: string };
  expect(typeof secret).toBe('string');
  const server = await stage.server.admin.expect(200, 'GET', '/api/audit?limit=1000');
  for (const hidden of [key.key as string, secret, place.owner.token]) {
    expect(JSON.stringify([entries, server])).not.toContain(hidden);
  }
});

/** The fields of a record that people write; what is empty and what is absent is the same. */
function fieldsOf(record: Json): Json {
  const { revision: _r, created_at: _c, updated_at: _u, id: _i, org_id: _o, organization_id: _n, ...fields } = record;
  return Object.fromEntries(
    Object.entries(fields as Record<string, unknown>).filter(
      ([, value]) => value !== null && value !== undefined && !(Array.isArray(value) && value.length === 0),
    ),
  );
}

/** What the entries make of nothing. Fails where an entry says that something stood which did not. */
function replay(entries: readonly Json[]): Json {
  const kinds = {
    Device: new Map(),
    SecurityGroup: new Map(),
    Member: new Map(),
    EnrollmentKey: new Map(),
    Webhook: new Map(),
  };
  const records: Record<string, Map<string, Json>> = kinds;
  const organization: Json = {};
  for (const entry of entries) {
    const { operation, subject_id: id, before, after, unchanged, user_id, credential } = entry;
    if (unchanged === true || operation === 'testWebhook') continue;
    if (operation.endsWith('Organization')) {
      expect({ ...organization, ...before }).toEqual(organization);
      const { name = organization.name, description = organization.description } = after;
      Object.assign(organization, { name, description });
      if (operation !== 'createOrganization') continue;
      kinds.Member.set(user_id, { user_id, role: 'owner' });
      const fresh = { group_name: 'default', inbound_rules: defaultInboundRules, is_default: true };
      kinds.SecurityGroup.set(after.security_groups[0], {
        ...fresh,
        group_description: 'Applies to every device that has no group of its own',
      });
      continue;
    }
    const [, kind = ''] = /(Device|SecurityGroup|Member|EnrollmentKey|Webhook)$/.exec(operation) ?? [];
    const known = records[kind];
    if (known === undefined) throw new Error(`an entry of another kind: ${operation}`);
    const standing = known.get(id) ?? {};
    if (before !== undefined) expect(fieldsOf({ ...standing, ...before }), operation).toEqual(fieldsOf(standing));
    if (after === undefined) known.delete(id);
    else if (before === undefined) known.set(id, after);
    else if (operation.startsWith('delete')) {
      known.delete(id);
      known.set(after.id, after);
    } else known.set(id, { ...standing, ...after });
    if (operation === 'createDevice' && credential.kind === 'enrollment_key') {
      kinds.EnrollmentKey.get(credential.id).uses_left -= 1;
    }
    if (operation === 'removeMember') {
      for (const [one, key] of kinds.EnrollmentKey) if (key.user_id === id) kinds.EnrollmentKey.delete(one);
    }
  }
  return { organization, ...kinds };
}

test('replaying the audit of an organization reproduces its records, whatever was done to them', async () => {
  const random = new Random(20_261_117);
  const place = await newPlace(stage.server);
  const other = await secondOwner(place);
  const { base } = place;
  const own = base.replace('/organizations/', '/user/');
  const people = [place.owner, other];
  const labels = (): string[] => ['app', 'db', 'prod'].filter(() => random.chance(0.4));
  const rules = (): object[] => [{ ip_protocol: 'tcp', from_port: random.int(1, 9), to_port: random.int(10, 99) }];
  const list = async (person: Person, path: string): Promise<Json[]> =>
    person.api.expect(200, 'GET', `${base}/${path}`);
  const members: Person[] = [place.member];
  const paths = ['devices', 'security_groups', 'enrollment_keys', 'webhooks'];
  const look = (): Promise<Json[][]> => Promise.all(paths.map((path) => list(place.owner, path)));
  const step = async ([devices, groups, keys, hooks]: readonly Json[][]): Promise<unknown> => {
    const by = random.pick(people);
    const ask = (method: string, path: string, body?: object) => by.api.ask(method, path, body && { body });
    const some = (records: Json[] = []): string => (records.length === 0 ? base.slice(-36) : random.pick(records).id);
    const groupIds = (groups ?? []).filter(
      ({ guardrail, is_default }) => guardrail === undefined && is_default !== true,
    );
    const [device, group] = [`${base}/devices/${some(devices)}`, `${base}/security_groups/${some(groups)}`];
    const member = random.pick(members);
    const deeds: readonly (() => Promise<unknown>)[] = [
      () =>
        ask('POST', `${base}/devices`, {
          public_key: unique(),
          hostname: unique(),
          labels: labels(),
          security_groups: random.chance(0.5) ? [some(groupIds)] : [],
        }),
      () => member.api.ask('POST', `${base}/devices`, { body: { public_key: unique(), hostname: unique() } }),
      () => ask('PATCH', `${device}?detach=true`, { labels: labels() }),
      () => ask('PATCH', device, { hostname: unique(), relay: random.chance(0.5) }),
      () => ask('PATCH', device, { security_groups: random.chance(0.4) ? [] : [some(groupIds)] }),
      () =>
        ask('PATCH', device, {
          tunnel_ip: `100.64.0.${random.int(1, 99)}`,
          child_prefix: random.pick([null, ['10.0.0.0/8']]),
        }),
      () => ask('PATCH', device, { public_key: unique(), addresses: random.pick([[], ['10.9.0.1']]) }),
      () => ask('DELETE', device),
      () => ask('POST', `${base}/security_groups`, { group_name: unique(), inbound_rules: rules() }),
      () => ask('POST', `${base}/security_groups`, { group_name: unique(), applies_to: [{ labels: ['db'] }] }),
      () =>
        ask('PATCH', `${group}?detach=true`, {
          group_name: unique(),
          applies_to: random.pick([[], [{ labels: ['app'] }]]),
        }),
      () => ask('PATCH', group, { inbound_rules: rules(), group_description: unique() }),
      () => ask('DELETE', `${group}?detach=${random.chance(0.6)}`),
      () => ask('POST', `${group}/restore?detach=true`, { revision: random.int(1, 90) }),
      () =>
        ask('POST', `${base}/enrollment_keys`, {
          name: unique(),
          uses: 3,
          security_groups: random.chance(0.5) ? [some(groupIds)] : [],
        }),
      () => ask('DELETE', `${base}/enrollment_keys/${some(keys)}`),
      async () => {
        const key = await by.api.expect(201, 'POST', `${base}/enrollment_keys`, { uses: 2, labels: ['db'] });
        return stage.server.nobody.as(key.key).ask('POST', `${base}/devices`, { body: { public_key: unique() } });
      },
      () => ask('POST', `${base}/webhooks`, { name: unique(), url: 'http://127.0.0.1:9/', events: ['device.offline'] }),
      () => ask('PATCH', `${base}/webhooks/${some(hooks)}`, { name: unique() }),
      () => ask('DELETE', `${base}/webhooks/${some(hooks)}`),
      () => ask('PATCH', base, { name: unique() }),
      () => ask('PATCH', `${base}/members/${member.id}`, { role: random.pick(['owner', 'member']) }),
      async () => {
        const person = await newPerson(stage.server, 'more');
        members.push(person);
        return ask('POST', `${base}/members`, { user_id: person.id });
      },
      () => ask('DELETE', `${base}/members/${member.id}?${random.pick(['', 'keep=devices&'])}detach=true`),
      // A member's private changes are in no other user's audit.
      () => member.api.ask('POST', `${own}/security_groups`, { body: { group_name: 'private thoughts' } }),
    ];
    return random.pick(deeds)();
  };
  for (let round = 0; round < 30; round += 1) {
    const seen = await look();
    for (let done = 0; done < 3; done += 1) await Promise.allSettled([step(seen), step(seen)]);
  }

  const entries = await auditOf(place);
  expect(JSON.stringify(entries)).not.toContain('private thoughts');
  const hidden = entries.filter(
    ({ operation, after, before }) => operation.endsWith('UserSecurityGroup') && !after && !before,
  );
  const ids = new Set(hidden.map(({ subject_id }) => subject_id as string));
  const { organization, ...kinds } = replay(entries.filter(({ subject_id }) => !ids.has(subject_id)));
  const { name, description } = await place.owner.api.expect(200, 'GET', base);
  expect(organization).toEqual({ name, description });
  for (const [kind, path] of [
    ['Device', 'devices'],
    ['SecurityGroup', 'security_groups'],
    ['Member', 'members'],
    ['EnrollmentKey', 'enrollment_keys'],
    ['Webhook', 'webhooks'],
  ] as const) {
    const truth = (await list(place.owner, path)).map((record) => {
      const { username: _name, ...fields } = fieldsOf(record);
      return [record.id ?? record.user_id, fields] as const;
    });
    const replayed = [...(kinds[kind] as Map<string, Json>)].map(([id, record]) => [id, fieldsOf(record)] as const);
    expect(new Map(replayed), kind).toEqual(new Map(truth));
  }
  expect(new Set(entries.map(({ operation }) => operation as string)).size).toBeGreaterThan(16);
});
