/** Proves that models show what was written and nothing else, whatever comes between: other servers, transactions, lost hints, cut logs and restored databases. */
import { expect, test } from 'vitest';
import { Random } from '../../../../test/lib/random.ts';
import { rounds } from '../../../../test/lib/thorough.ts';
import type { Organization } from '../../../organization/organization.ts';
import { processSlices } from '../../scheduling/time-slices.ts';
import { loopTurns } from '../../watch/hub.fixture.ts';
import { ModelDatabase, modelOrg, userOf } from '../../watch/model.fixture.ts';
import type { Entry } from '../data/change-log.ts';
import { FollowedLogs } from '../follow/followed-logs.ts';
import type { Runner } from '../postgres/connection.ts';
import { OrganizationModels, type FollowedOrganization } from './organizations.ts';

/** Devices by their names, groups by their revisions. */
type Picture = Readonly<Record<string, string | number>>;

const sorted = (entries: Iterable<readonly [string, string | number]>): Picture =>
  Object.fromEntries([...entries].toSorted(([a], [b]) => a.localeCompare(b)));

const pictureOf = ({ devices, groups }: Pick<Organization, 'devices' | 'groups'>): Picture =>
  sorted([
    ...[...devices.values()].map(({ id, hostname }) => [id, hostname] as const),
    ...[...groups.values()].map(({ id, revision = 0 }) => [id, revision] as const),
  ]);

function truthAt(log: readonly Entry[], revision: number): Picture {
  const truth = new Map<string, string | number>();
  for (const { type, kind, id, json, revision: at } of log.slice(0, revision)) {
    if (type === 'delete') truth.delete(id);
    else if (kind === 'device') truth.set(id, (JSON.parse(json) as { hostname: string }).hostname);
    else if (kind === 'security-groups') truth.set(id, at);
  }
  return sorted(truth);
}

/** What a transaction reads that holds the head. */
const transactionOn = (db: ModelDatabase): Runner => ({
  run: async <Row>(_: unknown, [, after]: readonly unknown[]) => {
    const { organizations } = await db.heads([modelOrg]);
    const head = organizations.get(modelOrg);
    const bodyOf = (json: string): string => json.slice(0, json.lastIndexOf(',"revision"'));
    const rows = db.log.slice(Number(after)).map((entry) => ({
      ...entry,
      body: bodyOf(entry.json),
      identity: entry.identity === undefined ? null : bodyOf(entry.identity),
      version: null,
    }));
    return [
      ...rows,
      { ...head, kind: 'organization', type: 'change', id: modelOrg, body: '', identity: null },
    ] as Row[];
  },
});

class World {
  readonly random: Random;
  readonly db: ModelDatabase;
  readonly logs: FollowedLogs;
  readonly models: OrganizationModels;
  /** The logs of the histories that were discarded. */
  readonly discarded: Entry[][] = [];
  #last: FollowedOrganization | undefined;
  #mirror = new Map<string, string | number>();

  constructor(seed: number) {
    this.random = new Random(seed);
    const pause = () => (this.random.int(0, 9) < 6 ? Promise.resolve() : loopTurns(1 + this.random.int(0, 2)));
    this.db = new ModelDatabase({ pause });
    this.logs = new FollowedLogs({
      source: this.db,
      settings: { ringBytes: this.random.pick([600, 5_000, 1_000_000]) },
      timers: { now: () => 0, defer: setImmediate, later: setTimeout },
      onWarning: () => {},
    });
    const { db: source, logs } = this;
    this.models = new OrganizationModels({
      logs,
      source,
      slices: processSlices(),
      monotonic: () => 0,
      clock: () => 0,
    });
    this.db.restart('first');
  }

  /** One transaction; gives back what it logged. */
  write(): readonly Entry[] {
    const { db, random } = this;
    const before = db.head;
    for (let left = 1 + random.int(0, 3); left > 0; left -= 1) {
      const id = random.pick([...db.resources.keys(), undefined]);
      const what = random.int(0, 9);
      if (id === undefined || what < 3) {
        if (random.int(0, 1) === 0) db.create('device');
        else db.create('security-groups', random.int(0, 1) === 0 ? userOf(1) : undefined);
      } else if (what < 5) db.delete(id);
      else if (what < 6) db.touchOrganization();
      else if (what < 8 && db.resources.get(id)?.owner !== undefined) db.apply(id, random.int(0, 1) === 0);
      else db.update(id, { endpointOnly: random.int(0, 1) === 0 });
    }
    return db.log.slice(before);
  }

  /** A transaction of this process, which may be rolled back, and whose hint may be late. */
  async transact(): Promise<void> {
    const { db, random, models } = this;
    const tx = models.inTransaction(modelOrg);
    const seen = await tx.read(transactionOn(db));
    expect([seen.revision, pictureOf(seen)]).toEqual([db.head, truthAt(db.log, db.head)]);
    if (random.int(0, 3) === 0) {
      const json = JSON.stringify({ id: userOf(99), hostname: 'rolled back' });
      const entry = { revision: db.head + 1, type: 'change', id: userOf(99), json, identity: json } as const;
      tx.changed({ ...entry, kind: 'device', only_for: undefined, left_at: 0 });
      expect(Object.values(pictureOf(await tx.read(transactionOn(db))))).toContain('rolled back');
      return;
    }
    const before = db.head;
    for (const entry of this.write()) tx.changed(entry);
    tx.committed();
    if (random.int(0, 4) > 0) db.tell(before);
  }

  async read(): Promise<void> {
    const { db, discarded } = this;
    const [headBefore, histories] = [db.head, discarded.length];
    const seen = await this.models.read(modelOrg).catch(() => undefined);
    if (seen === undefined) return;
    const possible = [...discarded.slice(histories), db.log];
    expect(possible.map((log) => truthAt(log, seen.revision))).toContainEqual(pictureOf(seen));
    if (possible.length === 1) expect(seen.revision).toBeGreaterThanOrEqual(headBefore);
  }

  /** What somebody has who follows the steps is what is there. */
  async follow(): Promise<void> {
    const followed = await this.models.follow(modelOrg, this.#last).catch(() => undefined);
    if (followed === undefined) return;
    const { organization, steps } = followed;
    if (steps === undefined) this.#mirror = new Map(Object.entries(pictureOf(organization)));
    for (const { revision, change } of steps ?? []) {
      const value = change.kind === 'device' ? change.device?.hostname : change.group && revision;
      if (value === undefined) this.#mirror.delete(change.id);
      else this.#mirror.set(change.id, value);
    }
    expect(sorted(this.#mirror)).toEqual(pictureOf(organization));
    this.#last = followed;
  }

  /** A backup is put in the place of the database, which goes on from it. */
  async restore(): Promise<void> {
    const { db, random } = this;
    this.discarded.push([...db.log]);
    db.restart(`era ${this.discarded.length}`, Math.max(1, db.head - random.int(0, 5)));
    db.resources.clear();
    for (let left = random.int(0, 7); left > 0; left -= 1) this.write();
    // Before a server tells of what it wrote itself, it knows of the restore.
    if (random.chance(0.5)) await this.transact();
    else await this.models.read(modelOrg);
  }

  async act(): Promise<void> {
    const { db, random } = this;
    const what = random.int(0, 19);
    if (what < 6) await this.transact();
    else if (what < 11) this.write();
    else if (what < 14) db.tell(db.head - this.write().length);
    else if (what < 16) db.hint();
    else if (what < 17) db.cut = Math.max(db.cut, db.head - random.int(0, 4));
    else if (what < 18) db.purged += 1;
    else if (what < 19) await this.restore();
    else {
      db.down = true;
      await loopTurns(3);
      db.down = false;
    }
  }

  async step(): Promise<void> {
    const { random } = this;
    const reading = [this.read(), random.chance(0.5) ? this.read() : this.follow()];
    for (let left = random.int(0, 4); left > 0; left -= 1) {
      await loopTurns(random.int(0, 4));
      await this.act();
    }
    await Promise.all(reading);
    await this.follow();
  }
}

test('a model is what the log says, for readers, followers and transactions', async () => {
  let steps = 0;
  for (let seed = 1; seed <= rounds(20, 200); seed += 1) {
    const world = new World(seed);
    world.write();
    for (let n = 0; n < 60; n += 1, steps += 1) await world.step();
    world.logs.close();
  }
  expect(steps).toBeGreaterThan(1_000);
});
