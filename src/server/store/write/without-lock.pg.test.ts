/** Proves that a server which knows an organization, and so takes no lock, never writes by what another server has changed since. */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { rightRoles } from '../../../organization/decide/caller.ts';
import { parseDeviceId, parseGroupId, type GroupId } from '../../../policy/ids.ts';
import { asServer, type Actor } from '../data/actor.ts';
import type { Store } from '../open.ts';
import { device, group, logOf, makeWorld, openTestStore, problemOf, someDigest, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const outcomeOf = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'done',
    () => problemOf(promise).then(({ code }) => code),
  );

/** Two servers of one organization. The first has written by the token of a member, and knows all that this looks at. */
async function known() {
  const world = await makeWorld(postgres);
  const { store: here, org, owner, member } = world;
  const there = await openTestStore(world.url);
  const digest = someDigest();
  const token = await here.tokens.issue(member.user_id, { digest, name: '', scope: 'full' }, asServer);
  const credential = { kind: 'token', digest: digest.toString('hex') } as const;
  const roles = rightRoles.ownerOfOwn | rightRoles.owningUser;
  const mark: Actor = { user_id: member.user_id, right: { user_id: member.user_id, credential, roles } };
  const own = parseGroupId((await here.groups.create(org, mark, mark.user_id, group({ group_name: 'own' }))).id);
  const shared = parseGroupId((await here.groups.create(org, owner, 'organization', group())).id);
  let serial = 0;
  const rename = (id: GroupId, of: 'organization' | 'mark' = 'mark', if_match?: number) =>
    here.groups.update(
      org,
      mark,
      of === 'mark' ? mark.user_id : 'organization',
      id,
      { group_name: `name ${(serial += 1)}` },
      { if_match },
    );
  for (let n = 0; n < 3; n += 1) await rename(own);
  return { ...world, here, there, mark, token, own, shared, rename };
}

type Known = Awaited<ReturnType<typeof known>>;
const cases: readonly (readonly [string, (world: Known) => Promise<unknown>, string])[] = [
  ['nothing has changed', async () => {}, 'done'],
  [
    'the member has gone',
    ({ there, org, owner, mark }) => there.members.remove(org, owner, mark.user_id),
    'not_a_member',
  ],
  ['the token has ended', ({ there, token }) => there.tokens.revoke(token.id, asServer), 'credential_ended'],
  [
    'the group has gone',
    ({ there, org, owner, mark, own }) => there.groups.delete(org, owner, mark.user_id, own),
    'not_found',
  ],
  ['the user has gone', ({ there, mark }) => there.users.remove(mark.user_id, asServer), 'credential_ended'],
  ['the organization has gone', ({ there, org, owner }) => there.organizations.delete(org, owner), 'not_found'],
];
test.each(cases)('%s: %#', async (_, change, outcome) => {
  const world = await known();
  await change(world);
  expect(await outcomeOf(world.rename(world.own))).toBe(outcome);
});

test('a write that has to wait for another server holds up no other organization on its connection', async () => {
  const { store, url, org, owner } = await makeWorld(postgres, { writeConnections: 1 });
  const id = parseDeviceId((await store.devices.create(org, owner, device(owner.user_id))).id);
  const other = await store.organizations.create(owner.user_id, { name: 'other', description: '' }, asServer);
  const one = { rename: (hostname: string) => store.devices.update(org, owner, id, { hostname }) };
  await one.rename('known');
  const elsewhere = new Client({ connectionString: url });
  await elsewhere.connect();
  onTestFinished(() => elsewhere.end());
  await elsewhere.query('BEGIN');
  await elsewhere.query('SELECT FROM heads WHERE org_id = $1 FOR NO KEY UPDATE', [org]);
  const waiting = one.rename('waiting');
  await store.groups.create(other.id, owner, 'organization', group());
  await elsewhere.query('COMMIT');
  expect((await waiting).record.hostname).toBe('waiting');
});

test('what was refused by what is known is refused only while it is so', async () => {
  const { there, org, owner, mark, shared, rename } = await known();
  expect(await outcomeOf(rename(shared, 'organization'))).toBe('forbidden');
  await there.members.setRole(org, owner, mark.user_id, 'owner');
  expect(await outcomeOf(rename(shared, 'organization'))).toBe('done');
  await there.members.setRole(org, owner, mark.user_id, 'member');
  expect(await outcomeOf(rename(shared, 'organization'))).toBe('forbidden');
});

test('a record that another server has changed is written as it is now', async () => {
  const { here, there, org, owner, mark, own, rename } = await known();
  const seen = await rename(own);
  await there.groups.update(org, mark, mark.user_id, own, { group_description: 'of another' });
  expect(await outcomeOf(rename(own, 'mark', seen.revision))).toBe('precondition_failed');
  expect((await rename(own)).record.group_description).toBe('of another');
  const made = parseDeviceId((await there.devices.create(org, owner, device(owner.user_id))).id);
  expect((await here.devices.update(org, owner, made, { hostname: 'new' })).record.hostname).toBe('new');
});

test('policy tests, labels and lists are judged by what another server has left', async () => {
  const { store: here, url, org, owner: server } = await makeWorld(postgres);
  const there = await openTestStore(url);
  const digest = someDigest();
  await here.tokens.issue(server.user_id, { digest, name: '', scope: 'full' }, asServer);
  const credential = { kind: 'token', digest: digest.toString('hex') } as const;
  const olga: Actor = { ...server, right: { user_id: server.user_id, credential, roles: rightRoles.owner } };
  const web = group({ group_name: 'web', applies_to: [{ labels: ['web'] }] });
  const id = parseGroupId((await here.groups.create(org, olga, 'organization', web)).id);
  const made = device(olga.user_id, { fields: { tunnel_ip: '100.64.0.1', labels: ['web'] } });
  const host = parseDeviceId((await here.devices.create(org, olga, made)).id);
  const close = (store: Store, if_match?: number) =>
    store.groups.update(org, olga, 'organization', id, { inbound_rules: [] }, { if_match });
  const relabel = (labels: readonly string[]) => here.devices.update(org, olga, host, { labels });
  expect(await outcomeOf(relabel([]))).toBe('would_open');
  expect(await outcomeOf(relabel(['web', 'x']))).toBe('done');
  const reach = {
    name: 'ssh',
    from: { address: '10.0.0.9' },
    to: { device_id: host },
    protocol: 'tcp',
    port: 22,
  } as const;
  await there.policyTests.replace(org, olga, [{ ...reach, expect: 'allow' }]);
  expect(await outcomeOf(close(here))).toBe('policy_test_failed');
  expect(await outcomeOf(relabel(['x']))).toBe('would_open');
  await there.policyTests.replace(org, olga, []);
  expect(await outcomeOf(close(here))).toBe('done');
  const other = parseGroupId((await there.groups.create(org, olga, 'organization', group())).id);
  expect((await here.devices.update(org, olga, host, { security_groups: [other] })).record.security_groups).toEqual([
    other,
  ]);
  expect(await outcomeOf(relabel(['y']))).toBe('done');
  await there.groups.delete(org, olga, 'organization', other, { detach: true });
  expect(await outcomeOf(here.devices.update(org, olga, host, { security_groups: [other] }))).toBe(
    'group_list_invalid',
  );
  const log = await logOf(here, org);
  expect(log.map(({ revision }) => revision)).toEqual(log.map((_, index) => index + 1));
});

test('three servers with 16 writers each at one organization: gap-free, each write once, nobody waits for ever', async () => {
  const world: World = await makeWorld(postgres);
  const { store, org, owner } = world;
  const stores = [store, await openTestStore(world.url), await openTestStore(world.url)];
  const ids = await Promise.all(
    Array.from({ length: 16 }, async () =>
      parseDeviceId((await store.devices.create(org, owner, device(owner.user_id))).id),
    ),
  );
  const start = (await logOf(store, org)).length;
  const writes = 12;
  await Promise.all(
    stores.flatMap((one, server) =>
      ids.map(async (id) => {
        for (let n = 0; n < writes; n += 1) await one.devices.update(org, owner, id, { local_ip: `${server} ${n}` });
      }),
    ),
  );
  const log = await logOf(store, org);
  expect(log).toHaveLength(start + stores.length * ids.length * writes);
  expect(log.map(({ revision }) => revision)).toEqual(log.map((_, index) => index + 1));
});
