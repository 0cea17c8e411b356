/**
 * Proves that the revert of a change set deletes nothing that the set did not create, although lists show and hide the groups of members, and brings back
 * no guardrail that forbids everything (reference 4.13 (7)).
 */
import { expect, test } from 'vitest';
import type { Api, Json } from '../lib/http.ts';
import { newPlace } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();
let serial = 0;

/** A device of the member with a group of the organization, and with `own`, a group of the member, where that is asked. */
async function settle(holdsOwn: boolean) {
  const { owner, member, base, org } = await newPlace(stage.server);
  const shared = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'shared' });
  const own = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'own' });
  const device = await member.api.expect(201, 'POST', `${base}/devices`, {
    public_key: `revert-${(serial += 1)}`,
    security_groups: holdsOwn ? [shared.id, own.id] : [shared.id],
  });
  const write = (body: Json): Promise<Json> => member.api.expect(200, 'POST', `${base}/changes`, body);
  const list = async (api: Api): Promise<Json> =>
    (await api.expect(200, 'GET', `${base}/devices/${device.id}`)).security_groups;
  const groupOf = (): Promise<Json> => member.api.expect(200, 'GET', `/api/user/${org}/security_groups/${own.id}`);
  return { owner, member, base, shared, own, device, write, list, groupOf };
}

const kindsOf = ({ records }: Json): unknown => records.map(({ kind, type }: Json) => `${kind} ${type}`);

test.each([
  ['the member', ''],
  ['the member', '?detach=true'],
  ['an owner', ''],
])('%s takes a group of the member off its first device again, and the group stays (%s)', async (who, query) => {
  const { owner, member, base, shared, own, device, write, list, groupOf } = await settle(false);
  const before = await groupOf();
  const { change_id } = await write({ devices: [{ id: device.id, security_groups: [shared.id, own.id] }] });
  const path = `${base}/changes/${change_id}`;
  expect(kindsOf(await member.api.expect(200, 'GET', path))).toEqual(['device changed']);
  const { api } = who === 'an owner' ? owner : member;
  expect(await api.expect(200, 'POST', `${path}/revert${query}`)).toMatchObject({ deleted: [] });
  expect(await list(member.api)).toEqual([shared.id]);
  expect(await groupOf()).toEqual({ ...before, revision: expect.any(Number) });
});

test.each([
  ['the member', ''],
  ['the member', '?detach=true'],
  ['an owner', ''],
])('%s puts a group of the member back on its last device, and the group stays (%s)', async (who, query) => {
  const { owner, member, base, shared, own, device, write, list, groupOf } = await settle(true);
  const before = await groupOf();
  const { change_id } = await write({ devices: [{ id: device.id, security_groups: [shared.id] }] });
  const path = `${base}/changes/${change_id}`;
  expect(kindsOf(await member.api.expect(200, 'GET', path))).toEqual(['device changed']);
  const { api } = who === 'an owner' ? owner : member;
  expect(await api.expect(200, 'POST', `${path}/revert${query}`)).toMatchObject({ deleted: [] });
  expect(await list(member.api)).toEqual([shared.id, own.id]);
  expect(await groupOf()).toEqual({ ...before, revision: expect.any(Number) });
});

test('a group of a member stays when the deletion of its last device is reverted as far as it can be', async () => {
  const { member, base, device, write, groupOf } = await settle(true);
  const { change_id } = await write({ delete: [device.id] });
  const path = `${base}/changes/${change_id}`;
  expect(kindsOf(await member.api.expect(200, 'GET', path))).toEqual(['device deleted']);
  await member.api.expect(200, 'POST', `${path}/revert?force=true&detach=true`);
  expect(await groupOf()).toMatchObject({ group_name: 'own' });
});

test('a group that the set creates and lists is deleted by the revert', async () => {
  const { member, base, shared, device, write, list } = await settle(false);
  const id = globalThis.crypto.randomUUID();
  const { change_id } = await write({
    security_groups: [{ id, group_name: 'new', user_id: member.id }],
    devices: [{ id: device.id, security_groups: [shared.id, id] }],
  });
  const path = `${base}/changes/${change_id}`;
  expect(kindsOf(await member.api.expect(200, 'GET', path))).toEqual(['security-groups created', 'device changed']);
  expect(await member.api.expect(200, 'POST', `${path}/revert`)).toMatchObject({ deleted: [id] });
  expect(await list(member.api)).toEqual([shared.id]);
});

test('a guardrail that forbids everything comes back only with force, deleted or changed', async () => {
  const { owner, base } = await newPlace(stage.server);
  const { api } = owner;
  const everything = [{ ip_protocol: 'ip', from_port: 0, to_port: 0 }];
  const harmless = [{ ip_protocol: 'tcp', from_port: 1, to_port: 1 }];
  const forbid = { guardrail: 'forbid', applies_to: [{ all_devices: true }], inbound_rules: everything };
  const make = (group_name: string): Promise<Json> =>
    api.expect(201, 'POST', `${base}/security_groups?force=true`, { ...forbid, group_name });
  const [deleted, changed] = [await make('deleted'), await make('changed')];
  for (const set of [
    { delete: [deleted.id] },
    { security_groups: [{ id: changed.id, inbound_rules: harmless }] },
    { security_groups: [{ group_name: 'before it' }], delete: [changed.id] },
  ]) {
    const { change_id } = await api.expect(200, 'POST', `${base}/changes`, set);
    const path = `${base}/changes/${change_id}/revert`;
    const { errors } = await api.expect(422, 'POST', path);
    expect(errors).toMatchObject([{ pointer: '/security_groups/0/inbound_rules', code: 'forbids_everything' }]);
    await api.expect(200, 'POST', `${path}?force=true`);
  }
  for (const { id, inbound_rules } of [deleted, changed])
    expect(await api.expect(200, 'GET', `${base}/security_groups/${id}`)).toMatchObject({
      guardrail: 'forbid',
      inbound_rules,
    });
});
