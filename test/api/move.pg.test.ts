/** Proves the move of a device to another member (reference 4.4 (9)): what goes along, what is refused, and that the new user is a member at the commit. */
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import type { Json } from '../lib/http.ts';
import { newPerson, newPlace, startTestServer, type Person, type Place } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

const stage = useServer();
/** A second server on the same database, so that writes race in PostgreSQL and not only in one process. */
const sibling = lasting(
  () => startTestServer(stage.postgres, { url: stage.server.databaseUrl }),
  (server) => server.close(),
);

let serial = 0;
const unique = (): string => `move-${(serial += 1)}`;
const tcp = (port: number): Json => ({ ip_protocol: 'tcp', from_port: port, to_port: port });

async function newMember({ owner, base }: Place): Promise<Person> {
  const person = await newPerson(stage.server, 'receiver');
  await owner.api.expect(201, 'POST', `${base}/members`, { user_id: person.id });
  return person;
}

/** A device of the member with a group of the organization and one of the member's own, and another member. */
async function settle(groups: 'both' | 'own' = 'both') {
  const place = await newPlace(stage.server);
  const { owner, member, base } = place;
  const shared = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'shared' });
  const users = base.replace('/organizations/', '/user/');
  const own = await member.api.expect(201, 'POST', `${users}/security_groups`, {
    group_name: 'own',
    inbound_rules: [tcp(80)],
  });
  const device = await owner.api.expect(201, 'POST', `${base}/devices`, {
    public_key: unique(),
    hostname: 'box',
    tunnel_ip: '100.64.0.1',
    labels: ['app'],
    user_id: member.id,
    security_groups: groups === 'both' ? [own.id, shared.id] : [own.id],
  });
  const path = `${base}/devices/${device.id}`;
  const read = (): Promise<Json> => owner.api.expect(200, 'GET', path);
  const move = (status: number, user_id: string, query = ''): Promise<Json> =>
    owner.api.expect(status, 'POST', `${path}/move${query}`, { user_id });
  return { place, shared, own, device, path, read, move, receiver: await newMember(place) };
}

test('a device goes to another member with its token, labels and isolation, without the groups of the old user', async () => {
  const { place, shared, own, device, path, read, move, receiver } = await settle();
  const { owner, member, base } = place;
  await owner.api.expect(200, 'POST', `${path}/isolate`, { reason: 'odd logins' });
  await receiver.api.expect(200, 'GET', `${base}/security_groups/${own.id}`);
  const moved = await move(200, receiver.id);
  expect(moved).toMatchObject({
    id: device.id,
    user_id: receiver.id,
    labels: ['app'],
    isolated: { reason: 'odd logins' },
    security_groups: [shared.id],
  });
  expect(await read()).toEqual(moved);

  // The token goes on, and is the new user's to rotate.
  const agent = stage.server.nobody.as(device.device_token);
  expect(await agent.expect(200, 'GET', '/api/users/me')).toMatchObject({ id: receiver.id, device_id: device.id });
  await agent.expect(200, 'PATCH', path, { symmetric_nat: true });
  const [token] = await receiver.api.expect(200, 'GET', '/api/users/me/tokens?kind=device');
  expect(await member.api.expect(200, 'GET', '/api/users/me/tokens?kind=device')).toEqual([]);
  await member.api.expect(404, 'POST', `/api/tokens/${token.id}/rotate`);
  await receiver.api.expect(200, 'POST', `/api/tokens/${token.id}/rotate`);
  await agent.expect(401, 'GET', path);

  // The old user has no right to the device, and a group of its own that no device has.
  await member.api.expect(403, 'PATCH', path, { hostname: 'mine' });
  await receiver.api.expect(200, 'PATCH', path, { hostname: 'theirs' });
  await receiver.api.expect(404, 'GET', `${base}/security_groups/${own.id}`);
  await member.api.expect(200, 'DELETE', `${base}/security_groups/${own.id}`);
  await owner.api.expect(409, 'DELETE', `${base}/security_groups/${shared.id}`);

  const audit: Json[] = await owner.api.expect(200, 'GET', `${base}/audit`);
  expect(audit.filter(({ operation }) => operation === 'moveDevice')).toMatchObject([
    {
      subject_id: device.id,
      subject: { name: 'box' },
      user_id: owner.id,
      revision: expect.any(Number),
      fields: ['user_id'],
      before: { user_id: member.id, security_groups: [own.id, shared.id] },
      after: { user_id: receiver.id, security_groups: [shared.id] },
    },
  ]);
});

test('a move to the user that the device has changes nothing, and the audit says so', async () => {
  const { place, path, read, move } = await settle();
  const before = await read();
  expect(await move(200, place.member.id)).toEqual(before);
  const [entry] = await place.owner.api.expect(200, 'GET', `${place.base}/audit?limit=1`);
  expect(entry).toMatchObject({ operation: 'moveDevice', unchanged: true, revision: before.revision });
  const ifMatch = { 'if-match': `"${before.revision - 1}"` };
  const stale = await place.owner.api.ask('POST', `${path}/move`, {
    body: { user_id: place.owner.id },
    headers: ifMatch,
  });
  expect(stale.status).toBe(412);
});

test('only a member of the organization receives a device, and PATCH does not move it', async () => {
  const { place, path, read, move, receiver } = await settle();
  const before = await read();
  for (const user of [place.stranger.id, '00000000-0000-4000-8000-000000000000']) {
    const { errors } = await move(422, user);
    expect(errors).toMatchObject([{ pointer: '/user_id', code: 'not_a_member' }]);
  }
  await place.owner.api.expect(422, 'POST', `${path}/move`, {});
  await place.owner.api.expect(422, 'POST', `${path}/move`, { user_id: 'kim' });
  await place.owner.api.expect(422, 'PATCH', path, { user_id: receiver.id });
  await place.member.api.expect(403, 'POST', `${path}/move`, { user_id: receiver.id });
  expect(await read()).toEqual(before);
});

test('a move that leaves the device with the default group is 409 would_open, unless detach is given', async () => {
  const { device, read, move, receiver } = await settle('own');
  const before = await read();
  expect(await move(409, receiver.id)).toMatchObject({ code: 'would_open', devices: [device.id] });
  expect(await read()).toEqual(before);
  const moved = await move(200, receiver.id, '?detach=true');
  expect(moved.user_id).toBe(receiver.id);
  expect(moved).not.toHaveProperty('security_groups');
});

test('a move that breaks a policy test is 422, unless an owner skips the tests', async () => {
  const { place, device, read, move, receiver } = await settle();
  const { owner, base } = place;
  const from = await owner.api.expect(201, 'POST', `${base}/devices`, {
    public_key: unique(),
    tunnel_ip: '100.64.0.2',
  });
  const kept = { name: 'web', from: { device_id: from.id }, to: { device_id: device.id }, protocol: 'tcp', port: 80 };
  await owner.api.expect(200, 'PUT', `${base}/policy_tests`, [{ ...kept, expect: 'allow' }]);
  const before = await read();
  expect(await move(422, receiver.id)).toMatchObject({ code: 'policy_test_failed' });
  expect(await read()).toEqual(before);
  expect(await move(200, receiver.id, '?skip_tests=true')).toMatchObject({ user_id: receiver.id });
});

const newClient = (): Client => new Client({ connectionString: stage.server.databaseUrl });

/** The exact moment: the guard has admitted the move, and the membership of the receiver ends before the move has the lock. */
test('a receiver who is removed between the request and the write does not get the device', async () => {
  const { place, read, move, receiver } = await settle();
  const before = await read();
  const [removal, watcher] = [newClient(), newClient()];
  await Promise.all([removal.connect(), watcher.connect()]);
  try {
    await removal.query('BEGIN');
    await removal.query('SELECT FROM heads WHERE org_id = $1 FOR UPDATE', [place.org]);
    await removal.query('DELETE FROM members WHERE org_id = $1 AND user_id = $2', [place.org, receiver.id]);
    const refused = move(422, receiver.id);
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await eventually('the move waits for the lock', async () => ((await watcher.query(waiting)).rowCount ?? 0) > 0);
    await removal.query('COMMIT');
    expect((await refused).errors).toMatchObject([{ pointer: '/user_id', code: 'not_a_member' }]);
  } finally {
    await Promise.all([removal.end(), watcher.end()]);
  }
  expect(await read()).toEqual(before);
});

test('a move that races with the removal of the receiver leaves no device with a user who is not a member', async () => {
  const { place, move, path } = await settle();
  const { owner, member, base } = place;
  const second = sibling().nobody.as(owner.token);
  for (let round = 0; round < 5; round += 1) {
    const receiver = await newMember(place);
    const device = await owner.api.expect(201, 'POST', `${base}/devices`, {
      public_key: unique(),
      user_id: member.id,
    });
    const at = `${base}/devices/${device.id}`;
    const [moved, removed] = await Promise.all([
      second.ask('POST', `${at}/move`, { body: { user_id: receiver.id } }),
      owner.api.ask('DELETE', `${base}/members/${receiver.id}`),
    ]);
    expect(removed.status).toBe(200);
    const now = await owner.api.ask('GET', at);
    if (moved.status === 200) {
      expect(removed.json.deleted_devices).toEqual([device.id]);
      expect(now.status).toBe(404);
    } else {
      expect(moved.status).toBe(422);
      expect(now.json.user_id).toBe(member.id);
    }
  }
  expect(await move(200, owner.id)).toMatchObject({ user_id: owner.id });
  await owner.api.expect(200, 'GET', path);
});
