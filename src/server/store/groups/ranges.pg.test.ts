/** Proves the limits on address ranges (reference 8): of a group and over all groups of a device, exact under concurrent writes. */
import type { NewGroup } from '../../../organization/decide/group.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, type DeviceId, type GroupId } from '../../../policy/ids.ts';
import type { StoredRule } from '../../../policy/rule.ts';
import { device, group, makeWorld, problemOf, query, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A rule with so many ranges. */
const rules = (count: number): StoredRule[] =>
  count === 0
    ? []
    : [
        {
          ip_protocol: 'tcp',
          from_port: 22,
          to_port: 22,
          ip_ranges: Array.from({ length: count }, (_, n) => `10.0.${n >> 8}.${n & 255}`),
        },
      ];
const make = async ({ store, org, owner }: World, given: Partial<NewGroup>): Promise<GroupId> =>
  (await store.groups.create(org, owner, 'organization', group({ inbound_rules: [], ...given }))).record.id;

test('two writes, one a direction, that fit alone and not together: one of them is refused, always', async () => {
  const world = await makeWorld(postgres, { quotas: { group_ranges: 10 } });
  const { store, org, owner } = world;
  for (let round = 0; round < 20; round += 1) {
    const id = await make(world, {});
    const outcomes = await Promise.allSettled([
      store.groups.update(org, owner, 'organization', id, { inbound_rules: rules(6) }),
      store.groups.update(org, owner, 'organization', id, { outbound_rules: rules(6) }),
    ]);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    const [refused] = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    expect(refused).toMatchObject({ problem: { code: 'too_many_ranges', limit: 10 } });
  }
  const tooMany = store.groups.create(org, owner, 'organization', group({ inbound_rules: rules(11) }));
  expect(await problemOf(tooMany)).toEqual({ code: 'too_many_ranges', limit: 10 });
});

test('a list whose groups name more ranges together than a device may have is refused, in create, change and key', async () => {
  const world = await makeWorld(postgres, { quotas: { device_ranges: 10 } });
  const { store, org, owner } = world;
  const [six, five] = [await make(world, { inbound_rules: rules(6) }), await make(world, { outbound_rules: rules(5) })];
  const four = await make(world, { inbound_rules: rules(2), outbound_rules: rules(2) });
  const both = { security_groups: [six, five] };
  const problem = {
    code: 'group_list_invalid',
    problems: [{ index: -1, code: 'too_many_ranges', allowed: 10, ranges: 11 }],
  };
  expect(await problemOf(store.devices.create(org, owner, device(owner.user_id, both)))).toEqual(problem);
  const made = await store.devices.create(org, owner, device(owner.user_id, { security_groups: [six, four] }));
  expect(await problemOf(store.devices.update(org, owner, made.record.id, both))).toEqual(problem);
  const key = {
    digest: Buffer.alloc(32),
    name: '',
    expires_at: new Date(Date.UTC(2100, 0)),
    uses: 1,
    labels: [],
    ...both,
  };
  expect(await problemOf(store.enrollmentKeys.issue(org, owner, key))).toEqual(problem);
});

test('groups of one device that grow at the same moment stay within its bound together', async () => {
  const world = await makeWorld(postgres, { quotas: { device_ranges: 100 } });
  const { store, org, owner } = world;
  const ids: GroupId[] = [];
  for (let n = 0; n < 40; n += 1) ids.push(await make(world, {}));
  await store.devices.create(org, owner, device(owner.user_id, { security_groups: ids }));
  const outcomes = await Promise.allSettled(
    ids.map((id) => store.groups.update(org, owner, 'organization', id, { inbound_rules: rules(9) })),
  );
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(11);
});

test('labels that would give a device too many by label are refused, and others are given, alone and in a crowd', async () => {
  const world = await makeWorld(postgres, { quotas: { device_ranges: 10 } });
  const { store, org, owner } = world;
  const listed = await make(world, { inbound_rules: rules(3) });
  await make(world, { inbound_rules: rules(6), applies_to: [{ labels: ['six'] }] });
  await make(world, { inbound_rules: rules(8), applies_to: [{ labels: ['eight'] }] });
  const devices = await Promise.all(
    Array.from({ length: 24 }, () =>
      store.devices.create(org, owner, device(owner.user_id, { security_groups: [listed] })),
    ),
  );
  const ids = devices.map(({ record }) => record.id);
  const change = (id: DeviceId, ...labels: string[]) => {
    const written = store.devices.update(org, owner, id, { labels });
    return written.then(
      () => 'written',
      () => problemOf(written),
    );
  };
  const refused = (ranges: number) => ({
    code: 'group_list_invalid',
    problems: [{ index: -1, code: 'too_many_ranges', allowed: 10, ranges }],
  });
  const [one = parseDeviceId(org), other = one] = ids;
  expect([await change(one, 'six'), await change(other, 'eight')]).toEqual(['written', refused(11)]);
  const crowd = await Promise.all(ids.map((id, at) => (at % 2 === 0 ? change(id, 'six') : change(id, 'eight', 'six'))));
  expect(crowd).toEqual(devices.map((_, at) => (at % 2 === 0 ? 'written' : refused(17))));
});

test('the stored counts are those of the rules', async () => {
  const world = await makeWorld(postgres);
  const id = await make(world, { inbound_rules: [...rules(3), ...rules(2)], outbound_rules: rules(4) });
  await world.store.groups.update(world.org, world.owner, 'organization', id, { outbound_rules: rules(7) });
  const counted = await query(
    world.url,
    `SELECT inbound_ranges, outbound_ranges FROM security_groups WHERE id = '${id}'`,
  );
  expect(counted).toEqual([{ inbound_ranges: 5, outbound_ranges: 7 }]);
});
