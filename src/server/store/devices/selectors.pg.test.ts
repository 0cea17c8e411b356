/** Proves that the database and the policy core agree on which groups a device has, and why. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { Random } from '../../../../test/lib/random.ts';
import { effectivePolicy } from '../../../policy/effective.ts';
import { groupsInEffect } from '../../../policy/groups-in-effect.fixture.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import type { PolicyGroup, Selector } from '../../../policy/rule.ts';
import { device, group, makeWorld } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

test('a device has the groups that the policy core says, for the reasons it says, whatever its labels and list', async () => {
  const { store, org, owner } = await makeWorld(postgres);
  const random = new Random(41);
  const words = ['app', 'db', 'prod', 'web'];
  const some = (): string[] => words.filter(() => random.chance(0.4));
  const selector = (): Selector =>
    random.chance(0.2)
      ? { all_devices: true }
      : { labels: [random.pick(words), ...some()].filter((w, i, all) => all.indexOf(w) === i) };
  const groups: PolicyGroup[] = [];
  for (let n = 0; n < 12; n += 1) {
    const guardrail = random.pick(['forbid', 'require', undefined, undefined] as const);
    const applies_to = guardrail === undefined && random.chance(0.4) ? [] : random.many(random.int(1, 3), selector);
    const made = await store.groups.create(org, owner, 'organization', { ...group(), applies_to, guardrail });
    const id = parseGroupId(made.id);
    groups.push({ id, name: '', inbound: [], outbound: [], appliesTo: applies_to, ...(guardrail && { guardrail }) });
  }
  const [standard] = await store.groups.list(org, { reader: owner.user_id });
  const defaultGroup = { id: parseGroupId(standard?.id), name: '', inbound: [], outbound: [] };
  const lists = groups.filter(({ guardrail }) => guardrail === undefined).map(({ id }) => id);
  for (let n = 0; n < 40; n += 1) {
    const [labels, list] = [some(), random.chance(0.4) ? [] : lists.filter(() => random.chance(0.3))];
    const made = await store.devices.create(
      org,
      owner,
      device(owner.user_id, { fields: { labels }, security_groups: list }),
    );
    const find = (id: string) => groups.find((one) => one.id === id);
    const policy = effectivePolicy({ list, find, defaultGroup, labels, byLabel: groups });
    if ('missing' in policy) throw new Error('a group is missing');
    expect(await store.devices.groups(org, made.record.id)).toEqual(groupsInEffect(policy, list));
  }
});
