/** Proves the store's promises for trials: each ends once and in time, and a revert restores exactly the earlier state. */
import { rightRoles } from '../../../organization/decide/caller.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId, parseTrialId, type GroupId, type TrialId } from '../../../policy/ids.ts';
import { type Actor } from '../data/actor.ts';
import type { ChangeSetActor } from '../data/change-sets.ts';
import type { Stored, GroupRecord } from '../data/records.ts';
import { device, group, logOf, makeWorld, openTestStore, problemOf, ssh, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A world whose clock the test moves. */
async function timedWorld(): Promise<World & { pass: (ms: number) => void; clock: () => number }> {
  let now = Date.now();
  const clock = (): number => now;
  return { ...(await makeWorld(postgres, { clock })), clock, pass: (ms) => void (now += ms) };
}

/** With the rights of a person, who is judged in the transaction. */
const person = ({ user_id }: Actor): Actor => ({
  user_id,
  right: { user_id, credential: { kind: 'access_token' }, roles: rightRoles.member },
});

const trialIdOf = ({ record }: Stored<{ readonly trial?: { readonly id: string } }>): TrialId =>
  parseTrialId(record.trial?.id);
const idOf = ({ id }: Stored<GroupRecord>): GroupId => parseGroupId(id);
const web = { ...ssh, from_port: 80, to_port: 80 };
const minute = { confirm_within: 60 };

test('a change on trial is in force at once, and its end brings back every field with a new revision', async () => {
  const { store, org, owner, pass } = await timedWorld();
  const made = await store.groups.create(org, owner, 'organization', group({ applies_to: [{ labels: ['db'] }] }));
  const patch = { group_name: 'other', inbound_rules: [web], outbound_rules: [ssh], applies_to: [{ labels: ['web'] }] };
  const tried = await store.groups.update(org, owner, 'organization', idOf(made), patch, { trial: minute });
  const { created_at: _c, updated_at: _u, revision: _r, id: _i, org_id: _o, ...fields } = made.record;
  expect(tried.record).toMatchObject({
    ...patch,
    trial: { by: owner.user_id, before: { ...fields, outbound_rules: [] } },
  });
  const trial = { org, id: trialIdOf(tried) };
  expect(await store.trials.expire(trial)).toBe(false);
  pass(60_000);
  expect(await store.trials.expire(trial)).toBe(true);
  const after = await store.groups.get(org, idOf(made), { reader: undefined });
  expect(after).toMatchObject({ revision: tried.revision + 1, record: fields });
  expect(after.record).not.toHaveProperty('trial');
  expect(await store.trials.get(org, trial.id)).toMatchObject({ state: 'expired', revision: after.revision });
  expect((await logOf(store, org)).at(-1)?.json).toBe(after.json);
});

test('of a confirmation and the end of time one wins, whichever servers they come to', async () => {
  const { store, org, owner, url, clock, pass } = await timedWorld();
  const other = await openTestStore(url, { clock });
  for (const late of [false, true]) {
    const tried = await store.groups.create(org, owner, 'organization', group(), { trial: minute });
    const id = trialIdOf(tried);
    pass(late ? 60_000 : 59_999);
    const confirmed = store.trials.confirm(org, owner, id).then(
      () => true,
      () => false,
    );
    const ended = [store, other, other].map((each) => each.trials.expire({ org, id }));
    const [isConfirmed, ...expired] = await Promise.all([confirmed, ...ended]);
    expect([isConfirmed, ...expired].filter(Boolean)).toHaveLength(1);
    const { state } = await other.trials.get(org, id);
    expect(state).toBe(isConfirmed ? 'confirmed' : 'expired');
    expect(state).toBe(late ? 'expired' : 'confirmed');
    const found = await store.groups.find(org, [idOf(tried)]);
    expect(found.map(({ record }) => record.trial)).toEqual(isConfirmed ? [undefined] : []);
  }
});

test('no other write touches what is on trial, and none confirms it', async () => {
  const { store, org, owner } = await timedWorld();
  const [old, fresh] = [
    await store.groups.create(org, owner, 'organization', group()),
    await store.groups.create(org, owner, 'organization', group()),
  ];
  const made = await store.devices.create(org, owner, device(owner.user_id, { security_groups: [idOf(old)] }));
  const id = parseDeviceId(made.id);
  const pending = { code: 'trial_pending' };
  const tried = await store.devices.update(org, owner, id, { security_groups: [idOf(fresh)] }, { trial: minute });
  expect(tried.record.trial?.before).toEqual({ security_groups: [old.id] });
  expect(await problemOf(store.devices.update(org, owner, id, { security_groups: [] }))).toMatchObject(pending);
  // Neither the group of the list nor the one that the end brings back can go.
  for (const each of [old, fresh]) {
    const gone = store.groups.delete(org, owner, 'organization', idOf(each), { detach: true });
    expect(await problemOf(gone)).toMatchObject(pending);
  }
  // Where the device is reached is not on trial.
  const moved = await store.devices.update(org, owner, id, { local_ip: '10.0.0.1:1', labels: ['x'] });
  expect(moved.record.trial).toEqual(tried.record.trial);

  const rules = await store.groups.update(
    org,
    owner,
    'organization',
    idOf(fresh),
    { inbound_rules: [web] },
    { trial: minute },
  );
  const write = store.groups.update(org, owner, 'organization', idOf(fresh), { group_name: 'x' });
  expect(await problemOf(write)).toMatchObject({ ...pending, trial: rules.record.trial?.id });
  const existence = await store.groups.create(org, owner, 'organization', group(), { trial: minute });
  const listed = device(owner.user_id, { security_groups: [idOf(existence)] });
  expect(await problemOf(store.devices.create(org, owner, listed))).toMatchObject(pending);
  expect(await store.trials.list(org)).toHaveLength(3);

  await store.trials.revert(org, owner, trialIdOf(tried));
  expect((await store.devices.get(org, id)).record.security_groups).toEqual([old.id]);
  await store.groups.delete(org, owner, 'organization', idOf(old), { detach: true });
  await store.trials.confirm(org, owner, trialIdOf(existence));
  expect(await store.devices.create(org, owner, listed)).toBeDefined();
});

test('a revert works when the devices that its rules name are gone, and skips a device that was deleted', async () => {
  const { store, org, owner } = await timedWorld();
  const named = await store.devices.create(org, owner, device(owner.user_id));
  const rule = { ...ssh, ip_ranges: [], peers: [{ device_id: named.id }] };
  const made = await store.groups.create(org, owner, 'organization', group({ inbound_rules: [rule] }));
  const tried = await store.groups.update(
    org,
    owner,
    'organization',
    idOf(made),
    { inbound_rules: [] },
    { trial: minute },
  );
  const holder = await store.devices.create(org, owner, device(owner.user_id));
  const [id] = [parseDeviceId(holder.id)];
  const list = await store.devices.update(org, owner, id, { security_groups: [idOf(made)] }, { trial: minute });
  await store.devices.delete(org, owner, parseDeviceId(named.id));
  await store.devices.delete(org, owner, id);
  expect(await store.trials.revert(org, owner, trialIdOf(tried))).toMatchObject({ state: 'reverted' });
  expect(await store.trials.revert(org, owner, trialIdOf(list))).toMatchObject({ state: 'reverted' });
  const after = await store.groups.get(org, idOf(made), { reader: undefined });
  expect(after.record.inbound_rules).toEqual([rule]);
});

test('an owner who is demoted can no longer confirm, and the trial still ends in time', async () => {
  const { store, org, owner, member, pass } = await timedWorld();
  await store.members.setRole(org, owner, member.user_id, 'owner');
  const made = await store.groups.create(org, person(member), 'organization', group(), { trial: minute });
  const id = trialIdOf(made);
  await store.members.setRole(org, owner, member.user_id, 'member');
  for (const end of ['confirm', 'revert'] as const)
    expect(await problemOf(store.trials[end](org, person(member), id))).toEqual({ code: 'forbidden' });
  pass(60_000);
  expect((await store.ends.next(0)).map((due) => due.id)).toEqual([id]);
  expect(await store.trials.expire({ org, id })).toBe(true);
  expect(await store.groups.find(org, [idOf(made)])).toEqual([]);
});

test('a trial can be widened twice and never narrowed', async () => {
  const { store, org, owner } = await timedWorld();
  const scope = [{ labels: ['edge', 'prod'] }];
  const made = await store.groups.create(org, owner, 'organization', group(), { trial: { ...minute, scope } });
  const id = trialIdOf(made);
  const narrower = [{ labels: ['edge', 'prod', 'eu'] }];
  expect(await problemOf(store.trials.widen(org, owner, id, narrower))).toEqual({ code: 'not_wider' });
  const wider = [{ labels: ['edge'] }, { labels: ['canary'] }];
  expect(await store.trials.widen(org, owner, id, wider)).toMatchObject({ scope: wider });
  expect((await store.groups.find(org, [idOf(made)]))[0]?.record.trial).toMatchObject({ scope: wider, before: null });
  expect(await store.trials.widen(org, owner, id, undefined)).not.toHaveProperty('scope');
  expect(await problemOf(store.trials.widen(org, owner, id, wider))).toEqual({ code: 'not_wider' });
  const after = await store.groups.find(org, [idOf(made)]);
  expect(after).toMatchObject([{ revision: made.revision + 2 }]);
  expect(after[0]?.record.trial).not.toHaveProperty('scope');
});

test('a member who leaves takes out of a trial only what is its own: what an owner tries stays pending', async () => {
  const { store, org, owner, member } = await timedWorld();
  const own = await store.groups.create(org, member, member.user_id, group());
  const made = await store.devices.create(org, member, device(member.user_id, { security_groups: [idOf(own)] }));
  const open = await store.groups.create(org, owner, 'organization', group({ inbound_rules: [ssh] }));
  const id = parseDeviceId(made.id);
  const actor: ChangeSetActor = { ...owner, rolesFor: () => owner.right.roles };
  const set = {
    groups: [{ type: 'update' as const, id: idOf(open), patch: { inbound_rules: [] }, fields: ['inbound_rules'] }],
    devices: [{ id, patch: { security_groups: [idOf(open)] }, fields: ['security_groups'] }],
    deletes: [],
  };
  const tried = await store.changeSets.apply(org, actor, set, { trial: minute });
  const trial = parseTrialId(tried.groups[0]?.record.trial?.id);
  await store.members.remove(org, owner, member.user_id, { keepDevices: true, detach: true });
  expect(await store.trials.get(org, trial)).toMatchObject({
    state: 'pending',
    security_groups: [open.id],
    devices: [],
  });
  const closed = (await store.groups.find(org, [idOf(open)]))[0]?.record;
  expect([closed?.inbound_rules, closed?.trial?.id]).toEqual([undefined, trial]);
  const { record } = await store.devices.get(org, id);
  expect(record).toMatchObject({ user_id: owner.user_id });
  expect([record.trial, record.security_groups]).toEqual([undefined, undefined]);
  expect(await store.trials.confirm(org, person(owner), trial)).toMatchObject({ state: 'confirmed' });
});

test('whoever may write a record takes it out of a trial, an owner reverts every trial, and the last record ends it', async () => {
  const { store, org, owner, member } = await timedWorld();
  const old = await store.groups.create(org, owner, 'organization', group());
  const made = await store.devices.create(org, member, device(member.user_id, { security_groups: [idOf(old)] }));
  const id = parseDeviceId(made.id);
  const mine: ChangeSetActor = { ...member, rolesFor: () => rightRoles.member };
  const fresh = parseGroupId('0199aaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa');
  const lock = async (list: readonly GroupId[]): Promise<TrialId> => {
    const create = {
      type: 'create' as const,
      id: undefined,
      owner: member.user_id,
      group: group(),
      fields: ['group_name'],
    };
    const set = {
      groups: list.includes(fresh) ? [{ ...create, id: fresh }] : [create],
      devices: [{ id, patch: { security_groups: list }, fields: ['security_groups'] }],
      deletes: [],
    };
    const written = await store.changeSets.apply(org, mine, set, { trial: minute });
    return parseTrialId(written.devices[0]?.record.trial?.id);
  };

  const first = await lock([]);
  expect(await problemOf(store.trials.confirm(org, person(owner), first))).toEqual({ code: 'forbidden' });
  const left = await store.trials.revert(org, person(owner), first, { records: [id] });
  expect(left).toMatchObject({ state: 'pending', devices: [], security_groups: [expect.any(String)] });
  expect((await store.devices.get(org, id)).record.security_groups).toEqual([old.id]);
  // The list is free again: the owner's write goes through while the member's group is still tried.
  await store.devices.update(org, person(owner), id, { security_groups: [] });
  await store.devices.update(org, person(owner), id, { security_groups: [idOf(old)] });
  const again = store.trials.revert(org, person(owner), first, { records: [id] });
  expect(await problemOf(again)).toEqual({ code: 'not_on_trial', indexes: [0] });
  expect(await store.trials.revert(org, person(owner), first)).toMatchObject({ state: 'reverted' });

  // A group that the trial created goes with its end: the list that names it goes back with it, and no device opens.
  const second = await lock([fresh]);
  const ended = await store.trials.revert(org, person(member), second, { records: [fresh] });
  expect(ended).toMatchObject({ state: 'reverted', ended_by: member.user_id });
  expect((await store.devices.get(org, id)).record.security_groups).toEqual([old.id]);
  expect(await store.groups.find(org, [fresh])).toEqual([]);

  // A member takes its own device out of an owner's trial, and nothing else.
  const rules = { type: 'update' as const, id: idOf(old), patch: { inbound_rules: [web] }, fields: ['inbound_rules'] };
  const list = { id, patch: { security_groups: [] }, fields: ['security_groups'] };
  const set = { groups: [rules], devices: [list], deletes: [] };
  const actor: ChangeSetActor = { ...owner, rolesFor: () => owner.right.roles };
  const tried = await store.changeSets.apply(org, actor, set, { trial: minute });
  const third = parseTrialId(tried.devices[0]?.record.trial?.id);
  for (const records of [undefined, [old.id], [id, old.id]])
    expect(await problemOf(store.trials.revert(org, person(member), third, { records }))).toEqual({
      code: 'forbidden',
    });
  expect(await store.trials.revert(org, person(member), third, { records: [id] })).toMatchObject({ state: 'pending' });
  expect((await store.groups.find(org, [idOf(old)]))[0]?.record).toMatchObject({ inbound_rules: [web] });
});

test('a group that is only tried keeps no device closed: a write that would open it at the end of the trial is refused', async () => {
  const { store, org, owner, pass } = await timedWorld();
  const byLabel = (label: string) => group({ applies_to: [{ labels: [label] }] });
  const lasting = await store.groups.create(org, owner, 'organization', byLabel('old'));
  const made = await store.devices.create(
    org,
    owner,
    device(owner.user_id, { fields: { labels: ['new', 'old'], hostname: 'db' } }),
  );
  const id = parseDeviceId(made.id);
  const tried = await store.groups.create(org, owner, 'organization', byLabel('new'), { trial: minute });
  const opened = { code: 'would_open', devices: [{ id, hostname: 'db' }] };
  const unlabelled = { labels: ['new'] };
  expect(await problemOf(store.devices.update(org, owner, id, unlabelled))).toMatchObject(opened);
  const moved = { applies_to: [{ labels: ['else'] }] };
  expect(await problemOf(store.groups.update(org, owner, 'organization', idOf(lasting), moved))).toMatchObject(opened);
  // The same write as a trial of its own brings the selectors back, too.
  const both = await store.groups.update(org, owner, 'organization', idOf(lasting), moved, { trial: minute });
  await store.trials.revert(org, owner, trialIdOf(both));
  // Asked for, it is done; and the end of the trial works all the same.
  await store.devices.update(org, owner, id, unlabelled, { detach: true });
  pass(60_000);
  expect(await store.trials.expire({ org, id: trialIdOf(tried) })).toBe(true);
});

test('no device opens unasked by the scope of a trial: when its labels move it in or out, or when the trial is widened or kept', async () => {
  const { store, org, owner } = await timedWorld();
  const scoped = { ...minute, scope: [{ labels: ['canary'] }] };
  const labels = (...names: string[]) =>
    device(owner.user_id, { fields: { labels: names.toSorted(), hostname: 'db' } });
  const byLabel = (label: string) => group({ applies_to: [{ labels: [label] }] });
  const relabel = (id: string, ...names: string[]) =>
    problemOf(store.devices.update(org, owner, parseDeviceId(id), { labels: names.toSorted() }));

  // The group moves on; a device that came later has what the group was before.
  const moving = await store.groups.create(org, owner, 'organization', byLabel('old'));
  const patch = { applies_to: [{ labels: ['new'] }] };
  const tried = await store.groups.update(org, owner, 'organization', idOf(moving), patch, { trial: scoped });
  const late = await store.devices.create(org, owner, labels('old'));
  const opened = { code: 'would_open', devices: [{ id: late.id, hostname: 'db' }] };
  expect(await relabel(late.id, 'old', 'canary')).toMatchObject(opened);
  expect(await problemOf(store.trials.widen(org, owner, trialIdOf(tried), undefined))).toMatchObject(opened);
  expect(await problemOf(store.trials.confirm(org, owner, trialIdOf(tried)))).toMatchObject(opened);
  // Asked for, it is done.
  const kept = await store.trials.confirm(org, owner, trialIdOf(tried), { detach: true });
  expect(kept).toMatchObject({ state: 'confirmed' });

  // A device in the scope has the new group, and would lose it outside.
  const added = await store.groups.create(org, owner, 'organization', byLabel('web'), { trial: scoped });
  const inside = await store.devices.create(org, owner, labels('web', 'canary'));
  expect(await relabel(inside.id, 'web')).toMatchObject({ code: 'would_open', devices: [{ id: inside.id }] });
  await store.trials.confirm(org, owner, trialIdOf(added));
  expect(await store.devices.update(org, owner, parseDeviceId(inside.id), { labels: ['web'] })).toBeDefined();

  // A list that is tried empty asks for it; labels that put the device in its scope do not.
  const listed = await store.groups.create(org, owner, 'organization', group());
  const holder = device(owner.user_id, { security_groups: [idOf(listed)] });
  const { id } = await store.devices.create(org, owner, holder);
  const emptied = await store.devices.update(org, owner, parseDeviceId(id), { security_groups: [] }, { trial: scoped });
  expect(await relabel(id, 'canary')).toMatchObject({ code: 'would_open', devices: [{ id }] });
  expect(await store.trials.confirm(org, owner, trialIdOf(emptied))).toMatchObject({ state: 'confirmed' });
});
