/**
 * Measures how the cost of pages, writes and retention grows with age, devices, organizations, groups and writers, each at three sizes: processor time of
 * the store and its PostgreSQL, which a busy machine changes little. The goal is the ratio of the largest to the smallest size. Not measured: HTTP and streams.
 */
import { rm } from 'node:fs/promises';
import { openDatabase } from '../src/server/database/supervise.ts';
import type { DeviceId, OrganizationId } from '../src/policy/ids.ts';
import { asServer } from '../src/server/store/data/actor.ts';
import { ssh } from '../src/server/store/store.fixture.ts';
import { temporaryDirectory } from '../test/lib/postgres.ts';
import { ageMs, each, makeOld, makePlace, type Place } from './growth/place.ts';
import { median, type Goal } from './lib/goals.ts';
import { measureParts } from './lib/parts.ts';
import { spentBy } from './lib/processor-time.ts';
import { figure, table } from './lib/table.ts';

const rounds = Number(process.env['RINGFENCE_BENCH_ROUNDS'] ?? 5);
/** Largest number of entries; the other two sizes are a tenth and a hundredth. */
const entries = Number(process.env['RINGFENCE_BENCH_ENTRIES'] ?? 1_000_000);
/** A cost that grows by less than this from the smallest to the largest size, a hundred times as large, counts as flat. */
const flat = 1.5;

type Work = (n: number) => Promise<unknown>;
type Works = Readonly<Record<string, Work>>;

const directory = await temporaryDirectory();
// Statistics come when a part asks for them.
const database = await openDatabase({ dir: directory, settings: { autovacuum: 'off', max_wal_size: '8GB' } });

/** Milliseconds of processor time that one call takes, in the middle of the rounds. What a connection plans first is not counted. */
async function costs(works: Works, calls = 20): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  for (const [name, work] of Object.entries(works)) {
    const run = async (): Promise<void> => {
      for (let n = 0; n < calls; n += 1)
        await work(n).catch((cause: unknown) => {
          throw new Error(`${name} failed`, { cause });
        });
    };
    await run();
    const spent: number[] = [];
    for (let round = 0; round < rounds; round += 1) spent.push((await spentBy(run)) / calls / 1_000);
    found.set(name, median(spent));
  }
  return found;
}

/** One table: a row for each thing, a column for each size. */
function show(
  title: string,
  sizes: readonly number[],
  found: readonly ReadonlyMap<string, number>[],
  bounds: Readonly<Record<string, number>> = {},
): readonly Goal[] {
  const names = [...(found[0]?.keys() ?? [])];
  const ratio = (name: string): number => (found.at(-1)?.get(name) ?? Number.NaN) / (found[0]?.get(name) ?? Number.NaN);
  const rows = names.map((name) => [name, ...found.map((one) => one.get(name) ?? Number.NaN), ratio(name)]);
  console.log(`\n${title}: ms of processor time\n\n${table(['', ...sizes.map(figure), 'largest ÷ smallest'], rows)}`);
  return names.map((name) => ({
    what: `${title}: ${name}`,
    goal: bounds[name] ?? flat,
    measured: ratio(name),
    unit: '×',
  }));
}

const pages = ({ store, org, owner, devices }: Place, size: number): Works => {
  const reader = owner.user_id;
  const pick = (n: number): DeviceId => devices[(n * 7) % devices.length] as DeviceId;
  const middle = (milliseconds: number): string => {
    const hex = Math.floor(milliseconds).toString(16).padStart(12, '0');
    return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
  };
  const past = Math.floor(size / 2);
  return {
    'audit, the newest 100': () => store.audit.list(org, { limit: 100, reader }),
    'audit, 100 in the middle': () =>
      store.audit.list(org, { limit: 100, reader, after: middle(Date.now() - ageMs / 2) }),
    'history of a device, 10': (n) => store.history.ofDevice(org, pick(n), { limit: 10 }),
    'devices at a past revision, 10': () => store.history.devicesAt(org, past, { limit: 10 }),
    'revision at a time': () => store.history.revisionAt(org, new Date(Date.now() - ageMs / 2)),
    'log, the last 100': async () => {
      const head = (await store.log.heads([org])).organizations.get(org)?.revision ?? 0;
      await store.log.readChanges(org, head - 100, 100);
    },
  };
};

const writes = ({ store, org, owner, devices, groups }: Place): Works => {
  let round = 0;
  return {
    "a write of a device's name": (n) => {
      const id = devices[n % devices.length];
      round += 1;
      return id === undefined ? Promise.resolve() : store.devices.update(org, owner, id, { hostname: `host ${round}` });
    },
    "a write of a group's rules": (n) => {
      const id = groups.at(-1 - (n % 4));
      round += 1;
      const rules = [{ ...ssh, from_port: 1 + (round % 60_000), to_port: 60_000 }];
      return id === undefined
        ? Promise.resolve()
        : store.groups.update(org, owner, 'organization', id, { inbound_rules: rules });
    },
  };
};

async function byAge(): Promise<readonly Goal[]> {
  const sizes = [entries / 100, entries / 10, entries];
  const fresh: ReadonlyMap<string, number>[] = [];
  const analyzed: ReadonlyMap<string, number>[] = [];
  const retention: ReadonlyMap<string, number>[] = [];
  const bytes: Record<string, number> = {};
  for (const size of sizes) {
    let place = await makePlace(database, { devices: 100, groups: 10 });
    await makeOld(place, size);
    place = await place.again();
    fresh.push(await costs({ ...pages(place, size), ...writes(place) }));
    await place.query('ANALYZE');
    place = await place.again();
    analyzed.push(await costs({ ...pages(place, size), ...writes(place) }));
    for (const name of ['audit', 'history', 'changes']) {
      const [row] = await place.query<{ bytes: string }>(`SELECT pg_total_relation_size('${name}') AS bytes`);
      bytes[name] = Number(row?.bytes) / size;
    }
    // Half of it is too old now.
    place = await place.again({ auditRetentionMs: ageMs / 2, historyRetentionMs: ageMs / 2, logRetentionMs: 300_000 });
    const forget = async (work: () => Promise<unknown>): Promise<number> => (await spentBy(work)) / (size / 2) / 1_000;
    retention.push(
      new Map([
        ['audit, an entry', await forget(() => place.store.audit.forget())],
        ['history, a state', await forget(() => place.store.history.forget())],
        ['log, an entry', await forget(() => place.store.log.compact())],
      ]),
    );
    const [left] = await place.query<{ audit: string; history: string; changes: string }>(
      'SELECT (SELECT count(*) FROM audit) AS audit, (SELECT count(*) FROM history) AS history, (SELECT count(*) FROM changes) AS changes',
    );
    for (const [name, count] of Object.entries(left ?? {}))
      if (Number(count) > size * 0.6 + 5_000) throw new Error(`${name} kept ${count} of ${size} entries`);
    await place.close();
  }
  const stored = Object.entries(bytes).map(([name, size]) => [name, size]);
  console.log(`\nBytes of an entry, with its indexes\n\n${table(['', 'bytes'], stored)}`);
  return [
    ...show('age, entries, before statistics', sizes, fresh),
    ...show('age, entries, with statistics', sizes, analyzed),
    ...show('retention, entries', sizes, retention),
  ];
}

async function byDevices(): Promise<readonly Goal[]> {
  const sizes = [500, 5_000, 50_000];
  const found: ReadonlyMap<string, number>[] = [];
  for (const size of sizes) {
    let place = await makePlace(database, { devices: size, groups: 10 });
    await place.query('ANALYZE');
    place = await place.again();
    const { store, org } = place;
    found.push(
      await costs({
        'devices, 100': () => store.devices.list(org, { limit: 100 }),
        ...writes(place),
      }),
    );
    await place.close();
  }
  return show('devices of an organization', sizes, found);
}

async function byGroups(): Promise<readonly Goal[]> {
  const sizes = [100, 1_000, 10_000];
  const found: ReadonlyMap<string, number>[] = [];
  for (const size of sizes) {
    let place = await makePlace(database, { devices: 100, groups: size });
    await place.query('ANALYZE');
    place = await place.again();
    const { store, org, owner } = place;
    found.push(
      await costs({
        'groups, 100': () => store.groups.list(org, { limit: 100, reader: owner.user_id }),
        ...writes(place),
      }),
    );
    await place.close();
  }
  return show('groups of an organization', sizes, found);
}

async function byOrganizations(): Promise<readonly Goal[]> {
  const sizes = [100, 1_000, 10_000];
  const found: ReadonlyMap<string, number>[] = [];
  for (const size of sizes) {
    let place = await makePlace(database, { devices: 10, groups: 10 });
    const { user_id } = place.owner;
    // As many at once as the store has connections for: more would wait for one until their time is over.
    const made = await each(size, 4, async (n) => {
      const { id } = await place.store.organizations.create(user_id, { name: `org ${n}`, description: '' }, asServer);
      return id;
    });
    await place.query('ANALYZE');
    place = await place.again();
    const { store, org } = place;
    const watched: readonly OrganizationId[] = made;
    const heads = await costs({ 'heads of all, for each': () => store.log.heads(watched) });
    found.push(
      new Map([
        ...(await costs({ ...writes(place), 'audit, the newest 10': () => store.audit.list(org, { limit: 10 }) })),
        ...[...heads].map(([name, cost]) => [name, cost / size] as const),
      ]),
    );
    await place.close();
  }
  return show('organizations', sizes, found);
}

async function byWriters(): Promise<readonly Goal[]> {
  const sizes = [1, 8, 64];
  const found: ReadonlyMap<string, number>[] = [];
  const place = await makePlace(database, { devices: 64, groups: 10 });
  await place.query('ANALYZE');
  let round = 0;
  for (const size of sizes) {
    const write = async (n: number): Promise<void> => {
      round += 1;
      const id = place.devices[n % 64];
      if (id !== undefined) await place.store.devices.update(place.org, place.owner, id, { hostname: `host ${round}` });
    };
    const cost = await costs({ 'a write': () => each(512, size, write) }, 1);
    found.push(new Map([...cost].map(([name, ms]) => [name, ms / 512])));
  }
  await place.close();
  return show('writers of an organization', sizes, found);
}

try {
  const parts = {
    age: byAge,
    devices: byDevices,
    groups: byGroups,
    organizations: byOrganizations,
    writers: byWriters,
  };
  await measureParts({ parts, asked: process.argv.slice(2) });
} finally {
  await database.stop();
  await rm(directory, { recursive: true, force: true });
}
