/** Proves that the conditions in SQL, which writes ask, agree with the policy core on which groups a device has. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { Random } from '../../../../test/lib/random.ts';
import { selectGroups } from '../../../policy/effective.ts';
import { parseGroupId } from '../../../policy/ids.ts';
import type { PolicyGroup, Selector } from '../../../policy/rule.ts';
import { device, group, makeWorld, query } from '../store.fixture.ts';
import { enforcesAny, groupsByLabel, isReplacedByLabel } from './selectors.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

test('a device has the groups that the policy core says, for the reasons it says, whatever its labels and list', async () => {
  const { url, store, org, owner } = await makeWorld(postgres);
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
    const mode = guardrail === undefined && random.chance(0.2) ? 'observe' : 'enforce';
    const made = await store.groups.create(org, owner, 'organization', { ...group(), applies_to, guardrail, mode });
    const id = parseGroupId(made.id);
    groups.push({
      id,
      name: '',
      inbound: [],
      outbound: [],
      appliesTo: applies_to,
      mode,
      ...(guardrail && { guardrail }),
    });
  }
  const [standard] = await store.groups.list(org, { reader: owner.user_id });
  const defaultGroup = { id: parseGroupId(standard?.id), name: '', inbound: [], outbound: [] };
  const lists = groups.filter(({ guardrail }) => guardrail === undefined).map(({ id }) => id);
  const find = (id: string) => groups.find((one) => one.id === id);
  const expected: { id: string; by_list: boolean; by_label: boolean; applying: string[] }[] = [];
  for (let n = 0; n < 40; n += 1) {
    const [labels, list] = [some(), random.chance(0.4) ? [] : lists.filter(() => random.chance(0.3))];
    const given = device(owner.user_id, { fields: { labels }, security_groups: list });
    const { id } = (await store.devices.create(org, owner, given)).record;
    const selected = selectGroups({ list, labels }, { find, defaultGroup, byLabel: groups });
    const by = (way: string): boolean => selected.groups.some((one) => one.by === way);
    // By label alone: what the device has without its list.
    const {
      groups: further,
      forbid,
      require,
      watchOnly,
    } = selectGroups({ list: [], labels }, { find, defaultGroup: undefined, byLabel: groups });
    const applying = [...further, ...forbid, ...require, ...watchOnly].map((one) => one.id as string).toSorted();
    expected.push({ id, by_list: by('list'), by_label: further.length > 0, applying });
  }
  const rows = await query(
    url,
    `SELECT d.id, ${enforcesAny('d.security_groups')} AS by_list, ${isReplacedByLabel('d.labels')} AS by_label,
       ARRAY(SELECT g::text FROM unnest(ARRAY(${groupsByLabel('d')})) AS g GROUP BY g ORDER BY g::text COLLATE "C") AS applying
     FROM devices d WHERE d.org_id = $1`.replaceAll('$1', `'${org}'`),
  );
  const byId = (a: { id: string }, b: { id: string }): number => (a.id < b.id ? -1 : 1);
  expect((rows as typeof expected).toSorted(byId)).toEqual(expected.toSorted(byId));
});
