/**
 * Proves the history: it has every state that a recorder saw, the organization at every revision, the visibility of
 * each state, and the retention.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { Random } from '../../../../test/lib/random.ts';
import { rounds } from '../../../../test/lib/thorough.ts';
import { parseDeviceId, parseGroupId, type GroupId } from '../../../policy/ids.ts';
import { asServer, type Actor } from '../data/actor.ts';
import type { Entry } from '../data/change-log.ts';
import type { Page, Rows } from '../data/page.ts';
import type { GroupRecord } from '../data/records.ts';
import { brief, device, group, join, logOf, makeWorld, problemOf, query, ssh, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A thousand edits of groups and of devices' lists by three people, some together, each refused or done. */
async function editAtRandom({ store, org, owner, member }: World, random: Random, edits: number): Promise<void> {
  const third = await join(store, org, owner, 'third');
  const people: readonly Actor[] = [owner, member, third];
  const groups: { id: GroupId; by: Actor; owner: 'organization' | Actor['user_id'] }[] = [];
  const devices = await Promise.all(people.map((by) => store.devices.create(org, by, device(by.user_id))));
  const rule = () => ({ ...ssh, from_port: random.int(1, 9), to_port: random.int(10, 99) });
  const edit = async (): Promise<unknown> => {
    const way = groups.length < 6 ? 0 : random.int(0, 19);
    if (way === 0) {
      const by = random.pick(people);
      const owned = by === owner && random.chance(0.5) ? 'organization' : by.user_id;
      const made = await store.groups.create(org, by, owned, group({ group_name: `g${random.int(0, 99)}` }));
      return groups.push({ id: parseGroupId(made.id), by, owner: owned });
    }
    const { id, by, owner: owned } = random.pick(groups);
    if (way === 1) {
      await store.groups.delete(org, by, owned, id, { detach: random.chance(0.7) });
      return groups.splice(0, groups.length, ...groups.filter((known) => known.id !== id));
    }
    if (way < 6) {
      const [index, list] = [random.int(0, people.length - 1), random.chance(0.3) ? [] : [id]];
      const held = parseDeviceId(devices[index]?.id);
      return store.devices.update(org, people[index] ?? owner, held, { security_groups: list });
    }
    const inbound_rules = random.chance(0.1) ? [] : [rule(), rule()];
    return store.groups.update(org, by, owned, id, random.chance(0.2) ? { group_name: 'n' } : { inbound_rules });
  };
  for (let done = 0; done < edits; done += 5) await Promise.allSettled(Array.from({ length: 5 }, edit));
}

/** What a person writes of a group. */
const written = ({ group_name, group_description, inbound_rules = [], outbound_rules = [] }: GroupRecord) => ({
  group_name,
  group_description,
  inbound_rules,
  outbound_rules,
});

/** Makes each group what it was in each of its states, one after the other; those that are deleted come back first. */
async function restoreEach({ store, org, owner }: World, entries: readonly Entry[]): Promise<void> {
  const restoreStates = async (id: GroupId): Promise<void> => {
    const states = entries.filter((entry) => entry.id === id && entry.type === 'change');
    const standing = entries.findLast((entry) => entry.id === id)?.type === 'change';
    for (const [index, { revision, json }] of states.entries()) {
      const record = JSON.parse(json) as GroupRecord;
      const owned = record.user_id ?? 'organization';
      const by = record.user_id === undefined ? owner : { user_id: record.user_id, ...asServer };
      const past = await store.history.groupAt(org, revision, id, by.user_id);
      if (past === undefined) throw new Error(`no state of ${id} at ${revision}`);
      expect(past.record).toEqual(record);
      const fields = written(past.record);
      const restored =
        standing || index > 0
          ? await store.groups.update(org, by, owned, id, fields)
          : await store.groups.recreate(org, by, owned, id, fields);
      expect(written(restored.record)).toEqual(written(record));
    }
  };
  await Promise.all([...new Set(entries.map(({ id }) => parseGroupId(id)))].map(restoreStates));
}

const edits = rounds(200, 1_000);
test(`after ${edits} random edits, every state and the organization at every revision are what a recorder saw, and each state can be had back`, async () => {
  const world = await makeWorld(postgres);
  const { store, org, owner, member } = world;
  await editAtRandom(world, new Random(20_261_115), edits);
  const entries = (await logOf(store, org)).filter(({ kind }) => kind === 'security-groups');
  const head = (await store.organizations.get(org)).revision;
  expect(entries.length).toBeGreaterThan(edits / 2);

  const ids = [...new Set(entries.map(({ id }) => parseGroupId(id)))];
  for (const { user_id: reader } of [owner, member]) {
    const sees = ({ only_for }: Entry): boolean => only_for === undefined || only_for === reader;
    for (const id of ids) {
      const states = await store.history.ofGroup(org, id, { reader });
      const recorded = entries.filter((entry) => entry.id === id && sees(entry)).toReversed();
      expect(states.map(({ revision, type, record }) => [revision, type, record])).toEqual(
        recorded.map(({ revision, type, json }) => [revision, type, JSON.parse(json)]),
      );
    }
    const standing = new Map<string, Entry>();
    const checks: Promise<void>[] = [];
    let next = 0;
    for (let revision = 1; revision <= head; revision += 1) {
      for (; (entries[next]?.revision ?? head + 1) <= revision; next += 1) {
        const entry = entries[next] as Entry;
        if (entry.type === 'delete') standing.delete(entry.id);
        else standing.set(entry.id, entry);
      }
      const recorded = [...standing.values()].filter(sees).toSorted((a, b) => (a.id < b.id ? -1 : 1));
      const check = async (): Promise<void> => {
        const read = await store.history.groupsAt(org, revision, { reader });
        expect(read.map(({ json }) => json)).toEqual(recorded.map(({ json }) => json));
      };
      checks.push(check());
    }
    await Promise.all(checks);
    const now = await store.groups.list(org, { reader });
    expect((await store.history.groupsAt(org, head, { reader })).map(({ json }) => json)).toEqual(
      now.map(({ json }) => json),
    );
  }
  await restoreEach(world, entries);
  const after = (await logOf(store, org)).filter(({ kind }) => kind === 'security-groups');
  expect(after.slice(0, entries.length)).toEqual(entries);
  const last = new Map(after.map((entry) => [entry.id, entry]));
  expect([...last.values()].every(({ type }) => type === 'change')).toBe(true);
});

test('a revision that is yet to come, or that the history does not reach, is told apart from an empty answer', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
  const at = (revision: number) => store.history.groupsAt(org, revision, { reader: owner.user_id });
  expect(await problemOf(at(2))).toEqual({ code: 'revision_ahead', head: 1 });
  await query(url, 'UPDATE heads SET history_start = 1, revision = 5');
  expect(await problemOf(at(0))).toEqual({ code: 'revision_gone', oldest: 1 });
  expect((await at(4)).length).toBe(1);
});

test('pages of a past organization neither repeat nor skip, and narrow by owner and revision', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  for (let index = 0; index < 5; index += 1) {
    await store.groups.create(org, owner, 'organization', group({ group_name: `org ${index}` }));
    await store.groups.create(org, member, member.user_id, group({ group_name: `own ${index}` }));
  }
  const names = async (more: object) =>
    (await store.history.groupsAt(org, 9, { reader: member.user_id, ...more })).map((item) => item.record.group_name);
  expect(await names({ owner: member.user_id })).toEqual(['own 0', 'own 1', 'own 2', 'own 3']);
  expect(await names({ owner: 'organization', gt_revision: 4 })).toEqual(['org 2', 'org 3']);
  const paged: string[] = [];
  for (let after: string | undefined; ;) {
    const page = await store.history.groupsAt(org, 9, { reader: member.user_id, limit: 2, after });
    paged.push(...page.map(({ record }) => record.group_name));
    after = page.at(-1)?.id;
    if (page.length < 2) break;
  }
  expect(paged).toEqual(await names({}));
});

/** Somebody whose write the audit tells of. */
const by = (actor: Actor, operation: string): Actor => ({
  ...actor,
  audit: { operation, user_id: actor.user_id, credential: { kind: 'user_token' }, address: '::1', request_id: 'r' },
});

test('a page ends with its bytes, whatever its limit, and the next ones give the rest', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const { user_id: reader } = owner;
  const id = parseGroupId((await store.groups.create(org, owner, 'organization', group())).id);
  const [first, ...others] = [1, 2, 3, 4, 5].map((n) => ({ group_description: `${n}`.repeat(4_000) }));
  for (const large of others) {
    await store.groups.create(org, owner, 'organization', group(large));
    await store.groups.update(org, by(owner, 'updateSecurityGroup'), 'organization', id, large);
    await store.devices.create(org, owner, device(reader));
  }
  await store.groups.update(org, owner, 'organization', id, { ...first });
  const head = Math.max(...(await store.groups.list(org, { reader })).map(({ revision }) => revision));
  const held = await store.devices.create(org, owner, device(reader));
  for (const label of ['a', 'b', 'c']) await store.devices.update(org, owner, held.record.id, { labels: [label] });
  interface Row {
    readonly id?: string;
    readonly revision?: number | undefined;
  }
  const lists: Readonly<Record<string, (page: Page, last: Row) => Promise<Rows<Row>>>> = {
    groups: (page) => store.groups.list(org, { ...page, reader }),
    devices: (page) => store.devices.list(org, page),
    'devices of late': (page) => store.devices.list(org, { ...page, gt_revision: 2 }),
    'groups at a revision': (page) => store.history.groupsAt(org, head, { ...page, reader }),
    'devices at a revision': (page) => store.history.devicesAt(org, head, page),
    'states of a group': (page, { revision: below }) => store.history.ofGroup(org, id, { ...page, below, reader }),
    'states of a device': (page, { revision: below }) =>
      store.history.ofDevice(org, held.record.id, { ...page, below }),
    audit: (page) => store.audit.list(org, { ...page, reader }),
  };
  for (const [name, read] of Object.entries(lists)) {
    const all = await read({ limit: 100 }, {});
    expect(all.isCut, name).toBeUndefined();
    expect(all.length, name).toBeGreaterThan(3);
    const one = await read({ limit: 100, bytes: 1 }, {});
    expect([...one], name).toEqual(all.slice(0, 1));
    const walked: Row[] = [];
    for (let page: Rows<Row> | undefined; page === undefined || page.isCut === true;) {
      const last = walked.at(-1) ?? {};
      page = await read({ limit: 100, bytes: 5_000, ...(last.id !== undefined && { after: last.id }) }, last);
      walked.push(...page);
    }
    expect(walked, name).toEqual([...all]);
  }
  // Two of these groups fit into so many bytes.
  expect(await lists['states of a group']?.({ limit: 100, bytes: 5_000 }, {})).toHaveLength(2);
  // So does what streams and models follow.
  const log = (await store.log.readChanges(org, 0, 100)) ?? [];
  const parts: (typeof log)[] = [];
  for (let last = 0; last < log.length; last += parts.at(-1)?.length ?? 0)
    parts.push((await store.log.readChanges(org, last, 100, 5_000)) ?? []);
  expect(parts.flat()).toEqual(log);
  expect(parts.length).toBeGreaterThan(4);
});

test('each state is for whoever could see the group when it stood, also after its deletion', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const id = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const draft = (name: string) => store.groups.update(org, member, member.user_id, id, { group_name: name });
  await draft('draft');
  const held = await store.devices.create(org, member, device(member.user_id, { security_groups: [id] }));
  await draft('in force');
  await store.devices.update(org, member, held.record.id, { security_groups: [] });
  await draft('private again');
  await store.groups.delete(org, member, member.user_id, id);
  const names = async (reader: Actor['user_id'] | undefined) =>
    (await store.history.ofGroup(org, id, { reader })).map(({ type, record }) => `${type} ${record.group_name}`);
  expect(await names(member.user_id)).toEqual([
    'delete private again',
    'change private again',
    'change in force',
    'change in force',
    'change draft',
    'change draft',
    'change web',
  ]);
  expect(await names(owner.user_id)).toEqual(['change in force', 'change draft']);
  expect(await names(undefined)).toEqual(['change in force', 'change draft']);
  expect(await store.history.deletedGroup(org, id, owner.user_id)).toBeUndefined();
  expect((await store.history.deletedGroup(org, id, member.user_id))?.user_id).toBe(member.user_id);
});

test('a state tells who made it so and when; another organization has none of it', async () => {
  const { store, org, owner, member } = await makeWorld(postgres, {
    clock: () => Date.parse('2030-01-02T03:04:05.678Z'),
  });
  const id = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  expect(await store.history.ofGroup(org, id, { reader: member.user_id })).toMatchObject([
    { revision: 2, type: 'change', at: '2030-01-02T03:04:05.678Z', user_id: member.user_id, username: 'mark' },
  ]);
  const other = await store.organizations.create(owner.user_id, { name: 'other', description: '' }, asServer);
  expect(await store.history.ofGroup(other.id, id, { reader: member.user_id })).toEqual([]);
  await store.organizations.delete(org, owner);
  expect(await store.history.ofGroup(org, id, { reader: member.user_id })).toEqual([]);
});

test("what decides a device's policy is kept, to its deletion; where it is reached is not", async () => {
  const { url, store, org, owner, member } = await makeWorld(postgres);
  const web = parseGroupId((await store.groups.create(org, owner, 'organization', group())).id);
  const made = await store.devices.create(org, member, device(member.user_id, { fields: { tunnel_ip: '100.64.0.1' } }));
  const { id } = made.record;
  await store.devices.update(org, member, id, { local_ip: '10.0.0.1:51820', hostname: 'moved', symmetric_nat: true });
  await store.devices.update(org, member, id, { security_groups: [web] });
  await store.devices.update(org, owner, id, { tunnel_ip: '100.64.0.2' });
  await store.groups.delete(org, owner, 'organization', web, { detach: true });
  await store.devices.delete(org, member, id);
  const states = await store.history.ofDevice(org, id);
  expect(
    states.map(({ type, username, record: { tunnel_ip, security_groups, hostname } }) => [
      type,
      username,
      tunnel_ip,
      security_groups,
      hostname,
    ]),
  ).toEqual([
    ['delete', 'mark', '100.64.0.2', undefined, 'moved'],
    ['change', 'olga', '100.64.0.2', undefined, 'moved'],
    ['change', 'olga', '100.64.0.2', [web], 'moved'],
    ['change', 'mark', '100.64.0.1', [web], 'moved'],
    ['change', 'mark', '100.64.0.1', undefined, 'host'],
  ]);
  expect(states[0]?.record).not.toHaveProperty('public_key');
  expect(await store.history.ofDevice(org, id, { limit: 2, below: states[1]?.revision })).toEqual(states.slice(2, 4));
  expect(await query(url, `SELECT FROM history WHERE kind = 'device'`)).toHaveLength(5);
});

test("a removed member's devices and groups end in the history, and devices that are handed over go on", async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const mine = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const held = await store.devices.create(org, member, device(member.user_id, { security_groups: [mine] }));
  await store.members.remove(org, owner, member.user_id, { keepDevices: true, detach: true });
  const [last] = await store.history.ofDevice(org, held.record.id);
  expect(last).toMatchObject({ type: 'change', user_id: owner.user_id, record: { user_id: owner.user_id } });
  expect(last?.record).not.toHaveProperty('security_groups');
  const [gone] = await store.history.ofGroup(org, mine, { reader: owner.user_id });
  expect(gone).toMatchObject({ type: 'delete', user_id: owner.user_id });
});

test('states that were over before the retention are forgotten in batches; what stood then stays and is told', async () => {
  const day = 86_400_000;
  let now = Date.parse('2030-01-01Z');
  const { url, store, org, owner } = await makeWorld(postgres, { clock: () => now, historyRetentionMs: 10 * day });
  const make = async (name: string) =>
    parseGroupId((await store.groups.create(org, owner, 'organization', group({ group_name: name }))).id);
  const [stays, changes, goes] = [await make('stays'), await make('changes'), await make('goes')];
  const rename = (name: string) => store.groups.update(org, owner, 'organization', changes, { group_name: name });
  await rename('second');
  await store.groups.delete(org, owner, 'organization', goes);
  await query(
    url,
    `INSERT INTO history SELECT org_id, kind, id, -n, type, owner_id, only_for, user_id, at, body
     FROM history, generate_series(1, 2500) AS n WHERE id = '${changes}' AND revision = 3`,
  );
  now += 5 * day;
  const third = await rename('third');
  await store.history.forget();
  expect((await store.history.ofGroup(org, changes, { reader: owner.user_id })).length).toBe(2_503);

  now += 6 * day;
  await store.history.forget();
  const names = async (id: GroupId) =>
    (await store.history.ofGroup(org, id, { reader: owner.user_id })).map(({ record }) => record.group_name);
  expect([await names(stays), await names(changes), await names(goes)]).toEqual([['stays'], ['third', 'second'], []]);
  const at = (revision: number) => store.history.groupsAt(org, revision, { reader: owner.user_id });
  expect(await problemOf(at(5))).toEqual({ code: 'revision_gone', oldest: 6 });
  expect((await at(6)).map(({ record }) => record.group_name)).toEqual(['default', 'stays', 'second']);
  expect((await at(third.revision)).map(({ record }) => record.group_name)).toEqual(['default', 'stays', 'third']);
  expect(brief(await logOf(store, org)).length).toBe(third.revision);
});

test('the audit shows a record before and after, and no private state of somebody else', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const made = await store.groups.create(org, by(owner, 'createSecurityGroup'), 'organization', group());
  const id = parseGroupId(made.id);
  const update = () =>
    store.groups.update(org, by(owner, 'updateSecurityGroup'), 'organization', id, { group_name: 'b' });
  const changed = await update();
  await update();
  const gone = await store.groups.delete(org, by(owner, 'deleteSecurityGroup'), 'organization', id);
  const secret = await store.groups.create(org, by(member, 'createUserSecurityGroup'), member.user_id, group());
  const held = await store.devices.create(org, by(member, 'createDevice'), device(member.user_id));
  const entries = await store.audit.list(org, { reader: owner.user_id });
  expect(
    entries.toReversed().map(({ operation, unchanged, before, after }) => ({ operation, unchanged, before, after })),
  ).toEqual([
    { operation: 'createSecurityGroup', after: made.record },
    { operation: 'updateSecurityGroup', before: { group_name: 'web' }, after: { group_name: 'b' } },
    { operation: 'updateSecurityGroup', unchanged: true },
    { operation: 'deleteSecurityGroup', before: { ...changed.record, revision: gone.revision } },
    { operation: 'createUserSecurityGroup' },
    { operation: 'createDevice', after: held.record },
  ]);
  const own = await store.audit.list(org, { reader: member.user_id });
  expect(own.at(1)?.after).toEqual(secret.record);
});

test('a deleted group comes back under its id as its own creation, once', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const made = await store.groups.create(org, owner, 'organization', group());
  const id = parseGroupId(made.id);
  await store.groups.delete(org, owner, 'organization', id);
  const again = () => store.groups.recreate(org, owner, 'organization', id, group({ group_name: 'back' }));
  const [first, second] = await Promise.allSettled([again(), again()]);
  expect([first?.status, second?.status].toSorted()).toEqual(['fulfilled', 'rejected']);
  expect(await problemOf(again())).toEqual({ code: 'group_exists' });
  expect((await store.groups.get(org, id, { reader: owner.user_id })).record).toMatchObject({ id, group_name: 'back' });
  expect(await store.history.deletedGroup(org, id, owner.user_id)).toBeUndefined();
});
