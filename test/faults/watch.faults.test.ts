/**
 * Proves what streams promise (reference 4.3 (17)) while things fail: two servers and more as processes on one PostgreSQL, random
 * writers, many watchers, and every fault of `chaos.ts`. Ground truth is the database's own log; the checker judges each stream.
 *
 * RINGFENCE_FAULTS_SEED picks the run, RINGFENCE_FAULTS_ROUNDS makes it longer: each round takes a minute or two.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { builtProgram } from '../lib/built.ts';
import { watchKinds, type WatchKind } from '../../src/api/kinds.ts';
import { parseOrganizationId, parseUserId } from '../../src/policy/ids.ts';
import { isInGap, type RevisionGap } from '../../src/server/store/data/change-log.ts';
import { Checker, type Client, type Connection } from '../../src/server/watch/checker.fixture.ts';
import { framesOf, visible } from '../../src/server/store/follow/frame.ts';
import { Api } from '../lib/http.ts';
import { startOwnPostgres, temporaryDirectory, type OwnPostgres } from '../lib/postgres.ts';
import { Random } from '../lib/random.ts';
import { rounds } from '../lib/thorough.ts';
import { Chaos, faults } from './chaos.ts';
import { Watcher, type Item } from './clients.ts';
import { Recorder } from './record.ts';
import { adminToken, startReplicas, type Replica } from './replicas.ts';
import { Writers, type Person } from './writers.ts';

const firstSeed = Number(process.env['RINGFENCE_FAULTS_SEED'] ?? 20_260_101);
const runs = Number(process.env['RINGFENCE_FAULTS_ROUNDS'] ?? 1);
/** How often each fault comes. */
const turns = rounds(1, 2);
/** Several of each reader and order of kinds; the fiftieth that is sent the same as another proves no more. */
const watcherCount = rounds(50, 150);
/** A run that proved less proves nothing. */
const least = { deliveries: rounds(10_000, 300_000), writes: rounds(400, 2_000), resumes: rounds(75, 500) };

let random = new Random(firstSeed);
let folder: string;
let postgres: OwnPostgres;
let replicas: readonly Replica[] = [];
let recorder: Recorder;
const watchers: Watcher[] = [];
let clients: readonly Client[] = [];
let org = parseOrganizationId('00000000-0000-4000-8000-000000000000');

async function person(api: Api, name: string): Promise<Person> {
  const { id } = await api.expect(201, 'POST', '/api/users', { username: name });
  const { token } = await api.expect(201, 'POST', `/api/users/${id}/tokens`, {});
  return { id, token };
}

interface Refusal {
  readonly status: number;
  readonly items: readonly Item[];
  readonly headBefore: number;
  readonly gapsAfter: readonly RevisionGap[];
}

beforeAll(async () => {
  folder = await temporaryDirectory();
  await mkdir(join(folder, 'data'));
  postgres = await startOwnPostgres();
});

afterAll(async () => {
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

afterAll(endRound);
async function endRound(): Promise<void> {
  for (const watcher of watchers.splice(0)) watcher.finish();
  await recorder?.stop();
  for (const replica of replicas) await replica.stop('SIGKILL');
}

describe.each(Array.from({ length: runs }, (_, round) => firstSeed + round))(
  'streams under faults, seed %i',
  (seed) => {
    test('are ordered, unique, exact, complete, atomic and resumable on any server, tails never ahead', async () => {
      await endRound();
      random = new Random(seed);
      const databaseUrl = await postgres.freshUrl();
      const program = join(await builtProgram(), 'ringfence.mjs');
      const args = ['--stream-max-age', '20', '--stream-heartbeat', '2'];
      replicas = await startReplicas(2, { program, databaseUrl, data: join(folder, 'data'), args });
      const servers = (): readonly string[] => replicas.map(({ url }) => url);

      const admin = new Api(replicas[0]?.url ?? '', adminToken);
      const [owner, anna, ben, guest] = [
        await person(admin, 'owner'),
        await person(admin, 'anna'),
        await person(admin, 'ben'),
        await person(admin, 'guest'),
      ];
      const api = admin.as(owner.token);
      org = parseOrganizationId((await api.expect(201, 'POST', '/api/organizations', { name: 'acme' })).id);
      for (const { id } of [anna, ben]) {
        await api.expect(201, 'POST', `/api/organizations/${org}/members`, { user_id: id });
      }
      admin.close();

      recorder = new Recorder(databaseUrl, org);
      recorder.start();
      const writers = new Writers({ servers, org, owner, members: [anna, ben], guest, random });
      const refusals: Promise<Refusal>[] = [];
      const around = {
        org,
        servers,
        random,
        committed: () => writers.committed,
        onRefused: (_: Watcher, status: number, items: readonly Item[], headBefore: number) => {
          if (status >= 500) return;
          refusals.push(recorder.gaps().then((gapsAfter) => ({ status, items, headBefore, gapsAfter })));
        },
      };
      const orders: readonly (readonly WatchKind[])[] = [
        ...watchKinds.map((kind) => [kind]),
        watchKinds,
        watchKinds.toReversed(),
      ];
      for (let i = 0; i < watcherCount; i += 1) {
        const { id, token } = random.pick([owner, anna, ben]);
        watchers.push(
          new Watcher({ name: `watcher ${i}`, reader: parseUserId(id), token, kinds: random.pick(orders), around }),
        );
      }

      writers.start(16, 100);
      for (const watcher of watchers) watcher.open();
      const chaos = new Chaos({ replicas, postgres, databaseUrl, org, recorder, random });
      const probes: Watcher[] = [];
      const probe = (): void => {
        const { id, token } = random.pick([owner, anna, ben]);
        const kinds = random.pick(orders);
        const one = new Watcher({ name: `probe ${probes.length}`, reader: parseUserId(id), token, kinds, around });
        probes.push(one);
        one.open(kinds.map((kind) => ({ kind, gt_revision: random.int(1, writers.committed + 20) })));
        setTimeout(() => one.finish(false), 2_000);
      };
      const misbehave = setInterval(() => (random.chance(0.9) ? misbehaveOnce() : probe()), 20);
      try {
        await chaos.run(turns);
      } finally {
        clearInterval(misbehave);
      }
      for (const replica of replicas) if (!(await replica.ready())) await replica.start();
      // Enough for the figures below even on a slow machine.
      const enough = (): boolean =>
        watchers.reduce((sum, one) => sum + one.deliveries, 0) > least.deliveries * 1.02 &&
        writers.acknowledged.size > least.writes;
      for (let i = 0; i < 2_400 && !enough(); i += 1) await sleep(100);
      await writers.stop();
      while (!(await recorder.catchUp())) await sleep(50);
      await settle(recorder);
      const record = ({ name, reader }: Watcher, connections: readonly Connection[]): Client => ({
        name,
        reader,
        connections,
      });
      clients = watchers.map((watcher) => record(watcher, watcher.finish()));
      const probed = probes.map((one) => record(one, one.finish(false)));
      await recorder.stop();

      // Every acknowledged write is in the record.
      const lost = [...writers.acknowledged].filter(([revision, id]) => recorder.log[revision - 1]?.id !== id);
      expect(lost).toEqual([]);
      const checker = new Checker(org, recorder.log, recorder.transactions);
      expect([...clients, ...probed].flatMap((client) => checker.check(client)).slice(0, 20)).toEqual([]);
      // A revision was called gone only when it was.
      const unjust = (await Promise.all(refusals)).filter(({ status, items, headBefore, gapsAfter }) => {
        const gone = items.some(
          ({ kind, gt_revision = 0 }) => gt_revision > headBefore || isInGap(gapsAfter, kind, gt_revision),
        );
        return status !== 410 || !gone;
      });
      expect(unjust).toEqual([]);

      const resumes = clients.flatMap(({ connections }) => connections.filter(({ items }) => items[0]?.gt_revision));
      console.log(
        `seed ${seed}: ${recorder.head} revisions, ${writers.acknowledged.size} acknowledged writes, ${checker.checked} deliveries checked, ` +
          `${resumes.length} resumes, ${probes.length} probes, ${refusals.length} revisions gone; ${[...chaos.done].map(([fault, n]) => `${fault} ×${n}`).join(', ')}`,
      );
      expect(checker.checked).toBeGreaterThan(least.deliveries);
      expect(writers.acknowledged.size).toBeGreaterThan(least.writes);
      expect(resumes.length).toBeGreaterThan(least.resumes);
      expect(chaos.done).toEqual(new Map(faults.map((fault) => [fault, turns])));
    }, 600_000);

    test('are judged by a checker that sees one dropped event, two swapped ones and an early tail among all of these', () => {
      const checker = new Checker(org, recorder.log, recorder.transactions);
      for (const mutate of [dropOne, swapTwo, tailEarly]) {
        const mutants = clients.flatMap((client) => mutate(client) ?? []).slice(0, 40);
        expect(mutants.length).toBeGreaterThan(10);
        const missed = mutants.filter((mutant) => checker.check(mutant).length === 0);
        expect([mutate.name, missed.map(({ name }) => name)]).toEqual([mutate.name, []]);
      }
    });
  },
);

/** Someone stalls, someone breaks off, someone starts afresh. */
function misbehaveOnce(): void {
  const watcher = random.pick(watchers);
  const chance = random.int(0, 9);
  if (chance < 5) watcher.stall(random.int(10, 2_500));
  else if (chance < 9) watcher.drop();
  else watcher.restart();
}

/** Waits until every watcher has the last that it may see. */
async function settle(record: Recorder): Promise<void> {
  const lastSeen = (watcher: Watcher, kind: WatchKind): number =>
    record.log.findLast(
      (entry) => entry.kind === kind && framesOf(org, entry).some((frame) => visible(frame, watcher.reader)),
    )?.revision ?? 0;
  const wanted = watchers.map((watcher) => watcher.kinds.map((kind) => [kind, lastSeen(watcher, kind)] as const));
  for (let i = 0; i < 1_200; i += 1) {
    const behind = watchers.filter((watcher, n) => !wanted[n]?.every(([kind, last]) => watcher.at(kind) >= last));
    if (behind.length === 0 && watchers.every(({ connected }) => connected)) return;
    await sleep(100);
  }
}

/** The last connection that can be changed so, changed. */
function changed(client: Client, change: (connection: Connection) => Connection | undefined): Client | undefined {
  for (let index = client.connections.length - 1; index >= 0; index -= 1) {
    const one = client.connections[index];
    const other = one === undefined ? undefined : change(one);
    if (other !== undefined) return { ...client, connections: client.connections.with(index, other) };
  }
  return undefined;
}

/** The last state of some resource is never sent. */
const dropOne = (client: Client): Client | undefined =>
  changed(client, (connection) => {
    const { received, complete } = connection;
    const told = new Set<string | undefined>();
    const index = received.findLastIndex(({ type, revision }) => {
      const id = recorder.log[revision - 1]?.id;
      const last = type === 'change' && !told.has(id);
      told.add(id);
      return last;
    });
    return index < 0 || !complete ? undefined : { ...connection, received: received.toSpliced(index, 1) };
  });

const swapTwo = (client: Client): Client | undefined =>
  changed(client, (connection) => {
    const { received } = connection;
    const index = received.findIndex(
      (one, i) => one.type !== 'tail' && received[i + 1]?.kind === one.kind && received[i + 1]?.type !== 'tail',
    );
    const [one, two] = [received[index], received[index + 1]];
    if (one === undefined || two === undefined) return undefined;
    return { ...connection, received: received.toSpliced(index, 2, two, one) };
  });

/** The tail comes before the last document of its listing, which was there before the request. */
const tailEarly = (client: Client): Client | undefined =>
  changed(client, (connection) => {
    const { received, headBefore } = connection;
    const tail = received.findIndex(({ type }) => type === 'tail');
    const before = received[tail - 1];
    const last = received[tail];
    if (last === undefined || before?.kind !== last.kind || before.type !== 'change') return undefined;
    if (before.revision > headBefore) return undefined;
    return { ...connection, received: received.toSpliced(tail - 1, 2, last, before) };
  });
