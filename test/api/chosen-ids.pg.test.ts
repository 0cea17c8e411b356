/** Proves which id the body of a change set may choose for a new group: one that means no other record to anybody (reference 4.13 (1)). */
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();
let serial = 0;

const createdWith = ({ owner, base }: Place, id: string, path = 'changes'): Promise<Json> =>
  owner.api.ask('POST', `${base}/${path}`, { body: { security_groups: [{ id, group_name: 'chosen' }] } });
const problemOf = ({ status, json }: Json): unknown => [status, json.errors?.[0]?.pointer, json.errors?.[0]?.code];
const isUsed = [422, '/security_groups/0/id', 'unknown_record'];

const newGroup = ({ owner, base }: Place): Promise<Json> =>
  owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: `g${(serial += 1)}` });
const newDevice = ({ owner, base }: Place): Promise<Json> =>
  owner.api.expect(201, 'POST', `${base}/devices`, { public_key: `chosen-${(serial += 1)}` });

/** Gives a group an id that no request can give it. */
async function renumber(from: string, to: string): Promise<void> {
  const client = new Client({ connectionString: stage.server.databaseUrl });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(
    `UPDATE security_groups SET id = $2::uuid, body = replace(body, $1::uuid::text, $2::uuid::text) WHERE id = $1::uuid`,
    [from, to],
  );
}

test.each([
  ['the nil UUID, with which every list begins', '00000000-0000-0000-0000-000000000000'],
  ['one that a preview gives to a group without', '00000000-0000-0000-0000-000000000001'],
  ['the greatest of all', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  ['that of the group which refuses isolated devices', 'ffffffff-ffff-8fff-bfff-000000000001'],
  ['that of the group which isolates one', 'FFFFFFFF-ffff-8fff-bfff-000000000002'],
  ['one of no version', 'a987fbc9-4bed-0078-8f07-9141ba07c9f3'],
  ['one of another variant', 'a987fbc9-4bed-4078-cf07-9141ba07c9f3'],
])('%s is no id of a new group, written or simulated', async (_what, id) => {
  const place = await newPlace(stage.server);
  for (const path of ['changes', 'simulate'])
    expect(problemOf(await createdWith(place, id, path))).toEqual([422, '/security_groups/0/id', 'not_an_id']);
});

test.each([1, 4, 7, 8])('a UUID of version %i is the id of a new group', async (version) => {
  const place = await newPlace(stage.server);
  const id = randomUUID().replace(/^(.{14})./, `$1${version}`);
  for (const path of ['simulate', 'changes'])
    expect((await createdWith(place, id.toUpperCase(), path)).status).toBe(200);
  await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${id}`);
});

test('the id of a group that another organization has deleted is not given to a new group, so that the deleted one can come back', async () => {
  const [place, other] = [await newPlace(stage.server), await newPlace(stage.server)];
  const { owner, base } = place;
  const [restored, reverted] = [await newGroup(place), await newGroup(place)];
  await owner.api.expect(200, 'DELETE', `${base}/security_groups/${restored.id}`);
  const { change_id } = await owner.api.expect(200, 'POST', `${base}/changes`, { delete: [reverted.id] });
  for (const { id } of [restored, reverted]) expect(problemOf(await createdWith(other, id))).toEqual(isUsed);
  const { revision } = restored;
  await owner.api.expect(200, 'POST', `${base}/security_groups/${restored.id}/restore`, { revision });
  await owner.api.expect(200, 'POST', `${base}/changes/${change_id}/revert`);
});

test('a deleted group does not come back while another organization has its id: that is a conflict and no failure', async () => {
  const [place, other] = [await newPlace(stage.server), await newPlace(stage.server)];
  const { owner, base } = place;
  const [restored, reverted] = [await newGroup(place), await newGroup(place)];
  await owner.api.expect(200, 'DELETE', `${base}/security_groups/${restored.id}`);
  const { change_id } = await owner.api.expect(200, 'POST', `${base}/changes`, { delete: [reverted.id] });
  for (const { id } of [restored, reverted]) await renumber((await newGroup(other)).id, id);
  const { revision } = restored;
  const path = `${base}/security_groups/${restored.id}/restore`;
  expect(await owner.api.expect(409, 'POST', path, { revision })).toMatchObject({ code: 'conflict' });
  expect(await owner.api.expect(409, 'POST', `${base}/changes/${change_id}/revert`)).toMatchObject({
    code: 'conflict',
  });
});

test('the id of a device, also of one that is gone, is no id of a new group', async () => {
  const place = await newPlace(stage.server);
  const [device, gone] = [await newDevice(place), await newDevice(place)];
  await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${gone.id}`);
  for (const { id } of [device, gone]) expect(problemOf(await createdWith(place, id))).toEqual(isUsed);
});

test('an id that means a group and a device is deleted by neither name in a change set', async () => {
  const place = await newPlace(stage.server);
  const { owner, base } = place;
  const device = await newDevice(place);
  await renumber((await newGroup(place)).id, device.id);
  const refused = await owner.api.ask('POST', `${base}/changes`, { body: { delete: [device.id] } });
  expect(problemOf(refused)).toEqual([422, '/delete/0', 'duplicate']);
  await owner.api.expect(200, 'DELETE', `${base}/devices/${device.id}`);
  await owner.api.expect(200, 'DELETE', `${base}/security_groups/${device.id}`);
});

test('the refusal of an id is the same whoever has or had the group, and a preview does not look at others', async () => {
  const [place, other] = [await newPlace(stage.server), await newPlace(stage.server)];
  const own = await newGroup(place);
  await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${own.id}`);
  const [theirs, gone] = [await newGroup(other), await newGroup(other)];
  await other.owner.api.expect(200, 'DELETE', `${other.base}/security_groups/${gone.id}`);
  const hidden = await other.member.api.expect(201, 'POST', `/api/user/${other.org}/security_groups`, {
    group_name: 'x',
  });
  const answers = new Set<string>();
  for (const { id } of [own, theirs, gone, hidden]) {
    const { status, json } = await createdWith(place, id);
    const { request_id: _id, instance: _path, ...problem } = json;
    answers.add(JSON.stringify([status, problem]));
    expect((await createdWith(place, id, 'simulate')).status).toBe(200);
  }
  expect(answers.size).toBe(1);
  expect([...answers][0]).not.toContain(theirs.id);
});
