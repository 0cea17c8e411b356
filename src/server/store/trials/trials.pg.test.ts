/** Proves the store's promises for trials: each ends once and in time, and a revert restores exactly the earlier state. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId, parseTrialId, type GroupId, type TrialId } from '../../../policy/ids.ts';
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
