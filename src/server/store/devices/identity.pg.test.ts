/** Proves devices by identity: the log and the state show exactly the identity part of the records. */
import type { DevicePatch } from '../../../organization/decide/device.ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { Random } from '../../../../test/lib/random.ts';
import { parseGroupId, type DeviceId, type GroupId } from '../../../policy/ids.ts';
import type { Entry } from '../data/change-log.ts';
import { device, group, logOf, makeWorld, stateOf } from '../store.fixture.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

const shown = ['id', 'hostname', 'tunnel_ip', 'addresses', 'labels', 'security_groups'] as const;

/** A record as the view shows it, without the revision. */
function project(json: string): string {
  const record = JSON.parse(json) as Record<string, unknown>;
  return JSON.stringify(Object.fromEntries(shown.flatMap((name) => (name in record ? [[name, record[name]]] : []))));
}

const withoutRevision = (json: string): string => json.replace(/,"revision":\d+\}$/, '}');

/** What a stream by identity owes: the projection of every device entry, those left out that repeat the one before. */
function owed(log: readonly Entry[]): readonly string[] {
  const last = new Map<string, string>();
  return log.flatMap(({ kind, type, id, json, revision }) => {
    if (kind !== 'device') return [];
    const projected = project(json);
    if (type === 'change' && last.get(id) === projected) return [];
    if (type === 'change') last.set(id, projected);
    else last.delete(id);
    return [`${revision} ${type} ${projected}`];
  });
}

const told = (entries: readonly Entry[], text: (entry: Entry) => string | undefined): readonly string[] =>
  entries.flatMap((entry) => {
    const json = text(entry);
    if (json === undefined) return [];
    expect(JSON.parse(json)).toMatchObject({ revision: entry.revision });
    return [`${entry.revision} ${entry.type} ${withoutRevision(json)}`];
  });

test('the log by identity is the projection of the log with what repeats left out, and the state its newest entries, whatever is written', async () => {
  const { store, org, owner, member } = await makeWorld(postgres);
  const random = new Random(29);
  const groups: GroupId[] = [];
  for (const whose of ['organization', 'organization', member.user_id] as const) {
    const by = whose === 'organization' ? owner : member;
    groups.push(parseGroupId((await store.groups.create(org, by, whose, group())).id));
  }
  const patch = (): DevicePatch => {
    const texts = ['', 'a', 'b'];
    const all: DevicePatch[] = [
      { local_ip: `10.0.0.${random.int(0, 2)}:1` },
      { reflexive_ip4: `9.9.9.${random.int(0, 2)}`, symmetric_nat: random.chance(0.5) },
      { hostname: random.pick(texts) },
      { tunnel_ip: random.pick(['', '100.64.0.1', '100.64.0.2']) },
      { addresses: random.pick([[], ['10.0.0.1'], ['10.0.0.1', 'fd00::1']]) },
      { labels: random.pick([[], ['db'], ['app', 'db']]) },
      { security_groups: groups.filter(() => random.chance(0.5)) },
      { hostname: random.pick(texts), local_ip: '10.1.1.1:1', child_prefix: null },
    ];
    return random.pick(all);
  };
  const ids: DeviceId[] = [];
  for (let step = 0; step < 250; step += 1) {
    const id = ids.length === 0 ? undefined : random.pick(ids);
    if (id === undefined || (ids.length < 8 && random.chance(0.2))) {
      ids.push((await store.devices.create(org, owner, device(member.user_id))).record.id);
    } else if (random.chance(0.05)) {
      await store.devices.delete(org, owner, id);
      ids.splice(ids.indexOf(id), 1);
    } else if (random.chance(0.2)) {
      // Several at once share a transaction and a statement.
      await Promise.all([...ids, ...ids].map((one) => store.devices.update(org, owner, one, patch())));
    } else await store.devices.update(org, owner, id, patch());
  }
  const [first, second] = groups;
  if (first === undefined || second === undefined) throw new Error('no groups');
  await store.groups.delete(org, owner, 'organization', first, { detach: true });
  await store.members.remove(org, owner, member.user_id, { keepDevices: true, detach: true });

  const log = await logOf(store, org);
  const all = owed(log);
  expect(told(log, ({ identity }) => identity)).toEqual(all);
  expect(all.length).toBeGreaterThan(100);
  expect(all.length).toBeLessThan(log.length * 0.8);

  for (const after of [0, Math.floor(log.length / 3), log.length - 5]) {
    for (const deletions of [false, true]) {
      const newest = new Map<string, string>();
      for (const line of all) newest.set(JSON.parse(line.replace(/^\d+ \w+ /, '')).id as string, line);
      const want = [...newest.values()]
        .filter((line) => Number.parseInt(line, 10) > after && (deletions || line.includes(' change ')))
        .toSorted((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10));
      const state = await stateOf(store, org, { kinds: ['device-identity'], after, deletions });
      expect(told(state, ({ json }) => json)).toEqual(want);
    }
  }
});
