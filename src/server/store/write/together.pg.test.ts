/** Proves that writes which share a transaction have the outcomes that they have one by one, and that hints tell what the log has. */
import type { DevicePatch } from '../../../organization/decide/device.ts';
import type { NewGroup } from '../../../organization/decide/group.ts';
import { asServer } from '../data/actor.ts';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { parseDeviceId, parseGroupId, type DeviceId, type GroupId, type OrganizationId } from '../../../policy/ids.ts';
import type { Entry, Hint } from '../data/change-log.ts';
import { StoreError } from '../../problems.ts';
import { device, group, logOf, makeWorld, ssh, type World } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/**
 * Keys that a write may want. No write gives up a key that another wants: the order of two such writes is undefined,
 * and both answers would be right.
 */
const wanted = ['held', 'new 0', 'new 1', 'new 2'];
const changed = ['held', 'changed 0', 'changed 1'];
const patch: fc.Arbitrary<DevicePatch> = fc.record(
  {
    public_key: fc.constantFrom(...changed),
    hostname: fc.constantFrom('', 'a', 'ü"\\', 'host'),
    child_prefix: fc.constantFrom(null, [], ['10.0.0.0/8']),
    relay: fc.boolean(),
    local_ip: fc.constantFrom('', '10.0.0.1:1'),
  },
  { requiredKeys: [] },
);
const groupPatch: fc.Arbitrary<Partial<NewGroup>> = fc.record(
  {
    group_name: fc.constantFrom('web', 'db'),
    inbound_rules: fc.constantFrom([], [ssh]),
    outbound_rules: fc.constantFrom([], [ssh]),
  },
  { requiredKeys: [] },
);
const expected = fc.constantFrom(undefined, undefined, undefined, 1);
const actor = fc.constantFrom('owner' as const, 'owner' as const, 'member' as const, 'stranger' as const);

const operation = fc.oneof(
  fc.record({ what: fc.constant('create device' as const), actor, user: actor, key: fc.constantFrom(...wanted) }),
  fc.record({ what: fc.constant('update device' as const), actor, which: fc.nat(2), patch, expected }),
  fc.record({ what: fc.constant('create group' as const), actor, common: fc.boolean(), patch: groupPatch }),
  fc.record({
    what: fc.constant('update group' as const),
    actor,
    which: fc.nat(3),
    common: fc.boolean(),
    patch: groupPatch,
    expected,
  }),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

/** Two devices, a third that no write changes, and two groups: the same in every organization except for their ids. */
interface Place {
  readonly org: OrganizationId;
  readonly devices: readonly DeviceId[];
  readonly groups: readonly GroupId[];
}

async function place({ store, owner, member }: World): Promise<Place> {
  const { id: org } = await store.organizations.create(owner.user_id, { name: '', description: '' }, asServer);
  await store.members.add(org, owner, member);
  const make = (public_key: string) =>
    store.devices.create(org, owner, device(owner.user_id, { fields: { public_key } }));
  const devices = [await make('first'), await make('second')];
  await make('held');
  const groups = [
    await store.groups.create(org, owner, 'organization', group()),
    await store.groups.create(org, member, member.user_id, group()),
  ];
  return { org, devices: devices.map(({ id }) => parseDeviceId(id)), groups: groups.map(({ id }) => parseGroupId(id)) };
}

const absent = '00000000-0000-4000-8000-000000000000';

/** What came of it, without what must differ: ids, revisions and times. */
async function outcome(promise: Promise<{ json: string }>): Promise<unknown> {
  try {
    const { json } = await promise;
    const {
      id: _id,
      org_id: _org,
      organization_id: _place,
      revision: _revision,
      created_at: _made,
      updated_at: _changed,
      ...rest
    } = JSON.parse(json) as Record<string, unknown>;
    return rest;
  } catch (error) {
    if (error instanceof StoreError) return error.code;
    throw error;
  }
}

test('any burst of writes has the outcomes that it has one by one', async () => {
  const world = await makeWorld(postgres, { quotas: { organizations: 1_000_000 } });
  const { store, owner, member } = world;
  const stranger = { user_id: (await store.users.create({ username: 'stranger' }, asServer)).id, ...asServer };
  const actors = { owner, member, stranger };
  const logged = new Map<OrganizationId, Entry[]>();
  store.log.onHint((hint) => {
    for (const { organization_id, entries } of hint.logged) {
      logged.set(organization_id, [...(logged.get(organization_id) ?? []), ...entries]);
    }
  });

  const perform = ({ org, devices, groups }: Place, given: Operation): Promise<{ json: string }> => {
    const by = actors[given.actor];
    switch (given.what) {
      case 'create device':
        return store.devices.create(org, by, device(actors[given.user].user_id, { fields: { public_key: given.key } }));
      case 'update device': {
        const { public_key } = given.patch;
        // A key of its own for each device, so that one that changes twice gives up nothing that the other wants.
        const key =
          public_key === undefined || public_key === 'held'
            ? given.patch
            : { ...given.patch, public_key: `${public_key} ${given.which}` };
        return store.devices.update(org, by, devices[given.which] ?? parseDeviceId(absent), key, {
          if_match: given.expected,
        });
      }
      case 'create group':
        return store.groups.create(org, by, given.common ? 'organization' : by.user_id, group(given.patch));
      case 'update group': {
        const id = groups[given.which] ?? parseGroupId(absent);
        return store.groups.update(org, by, given.common ? 'organization' : by.user_id, id, given.patch, {
          if_match: given.expected,
        });
      }
      default:
        return given satisfies never;
    }
  };

  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 2, maxLength: 12 }), async (given) => {
      const [alone, together] = [await place(world), await place(world)];
      const oneByOne: unknown[] = [];
      for (const one of given) oneByOne.push(await outcome(perform(alone, one)));
      // The first write is in flight when the others arrive, so they share one transaction.
      const first = store.devices.update(together.org, owner, together.devices[0] ?? parseDeviceId(absent), {
        tunnel_ip: '',
      });
      const burst = await Promise.all(given.map((one) => outcome(perform(together, one))));
      await first;
      expect(burst).toEqual(oneByOne);
      const heads = (await store.log.heads([alone.org, together.org])).organizations;
      expect(heads.get(together.org)?.revision).toBe(heads.get(alone.org)?.revision);
      expect(await store.log.readChanges(together.org, 0, 1000)).toHaveLength(heads.get(together.org)?.revision ?? 0);
      // What hints tell of transactions is what the log has, byte for byte; the first entry is that of the organization's making.
      for (const { org } of [alone, together]) expect(logged.get(org)).toStrictEqual(await logOf(store, org, 1));
    }),
    { numRuns: 60, seed: 20_260_101 },
  );
});

test('of a group that enters and leaves the view of others, and of one that is private, a hint tells what the log has', async () => {
  const { store, org, member } = await makeWorld(postgres);
  const hints: Hint[] = [];
  const id = parseGroupId((await store.groups.create(org, member, member.user_id, group())).id);
  const held = await store.devices.create(org, member, device(member.user_id));
  store.log.onHint((hint) => hints.push(hint));
  for (const security_groups of [[id], []])
    await store.devices.update(org, member, held.record.id, { security_groups });
  const { revision } = await store.groups.update(org, member, member.user_id, id, { group_name: 'private' });
  const log = await logOf(store, org, held.revision);
  expect(log.at(-1)).toMatchObject({ revision, only_for: member.user_id, left_at: revision - 1 });
  expect(hints.flatMap(({ logged }) => logged.flatMap(({ entries }) => entries))).toStrictEqual(log);
});
