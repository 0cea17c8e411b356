/** Proves the failover stack of `packaging/cluster`: writers and followers through a switchover and the loss of the primary, by HAProxy and by several hosts. */
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { Client } from '../../src/client/http.ts';
import { createInformer, type Informer } from '../../src/client/informer.ts';
import { eventually } from '../lib/eventually.ts';
import { newPlace, startTestServer, type Place, type TestPostgres, type TestServer } from '../lib/server.ts';
import { PatroniStack } from './patroni-stack.ts';

const none: TestPostgres = {
  freshUrl: () => Promise.reject(new Error('a URL is given')),
  emptyUrl: () => Promise.reject(new Error('a URL is given')),
  stop: () => Promise.resolve(),
};

let stack: PatroniStack;
let servers: readonly [byProxy: TestServer, byHosts: TestServer];
let place: Place;
beforeAll(async () => {
  stack = await PatroniStack.start();
  const { byProxy, byHosts } = await stack.urls();
  servers = [await startTestServer(none, { url: byProxy }), await startTestServer(none, { url: byHosts })];
  place = await newPlace(servers[0]);
}, 300_000);
afterAll(async () => {
  for (const server of servers ?? []) await server.close();
  await stack?.stop();
});

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Writers that create devices through both servers until they are stopped, and what was answered. */
class Writers {
  readonly acknowledged = new Set<string>();
  /** It may have happened or not. */
  readonly unknown = new Set<string>();
  /** The longest time between two acknowledged writes at each server, in milliseconds. */
  readonly gaps = servers.map(() => 0);
  readonly #acknowledgedAt = servers.map(() => performance.now());
  readonly #counts = servers.map(() => 0);
  readonly #running: Promise<void>[];
  #stopped = false;

  constructor(prefix: string, each: number) {
    this.#running = servers.flatMap((server, index) =>
      Array.from({ length: each }, (_, writer) => this.#write(server, index, `${prefix}-${index}-${writer}`)),
    );
    onTestFinished(() => this.stop());
  }

  async #write(server: TestServer, index: number, name: string): Promise<void> {
    const api = server.nobody.as(place.owner.token);
    for (let n = 0; !this.#stopped; n += 1) {
      const key = `${name}-${n}`;
      const answer = await api.post(`${place.base}/devices`, { public_key: key });
      if (answer.status === 201) {
        this.acknowledged.add(key);
        const now = performance.now();
        this.gaps[index] = Math.max(this.gaps[index] ?? 0, now - (this.#acknowledgedAt[index] ?? now));
        this.#acknowledgedAt[index] = now;
        this.#counts[index] = (this.#counts[index] ?? 0) + 1;
        await pause(10);
        continue;
      }
      expect([answer.status, answer.json.code]).toEqual([
        503,
        expect.stringMatching(/^(unavailable|outcome_unknown)$/),
      ]);
      if (answer.json.code === 'outcome_unknown') this.unknown.add(key);
      await pause(50);
    }
  }

  /** Waits until each server has acknowledged so many more. */
  async write(more: number): Promise<void> {
    const goals = this.#counts.map((count) => count + more);
    await eventually(
      () => `both servers write: ${this.#counts.join(', ')}`,
      () => this.#counts.every((count, index) => count >= (goals[index] ?? 0)),
    );
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
  }
}

const keysOf = (records: Iterable<{ readonly public_key: string }>): string[] =>
  [...records].map(({ public_key }) => public_key).toSorted();

/** Two followers at each server, which end with the test. */
function follow(): readonly Informer<'device'>[] {
  const stop = new AbortController();
  const informers = [...servers, ...servers].map((server) =>
    createInformer({
      client: new Client({ url: server.url, token: place.owner.token }),
      organization: place.org,
      kinds: ['device'],
      backoff: { first: 20, longest: 500 },
    }),
  );
  const running = informers.map((informer) => informer.run({ signal: stop.signal }));
  onTestFinished(async () => {
    stop.abort();
    await Promise.all(running);
  });
  return informers;
}

async function devices(server: TestServer): Promise<string[]> {
  const answer = await server.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/devices`);
  return keysOf(answer);
}

/** No follower misses a device or holds one that is gone, and both servers list the same. */
async function followersAreRight(informers: readonly Informer<'device'>[]): Promise<readonly string[]> {
  const [first, second] = [await devices(servers[0]), await devices(servers[1])];
  expect(second).toEqual(first);
  for (const informer of informers) await expect.poll(() => keysOf(informer.view('device'))).toEqual(first);
  return first;
}

const seconds = (gaps: readonly number[]): string => gaps.map((gap) => `${(gap / 1000).toFixed(1)} s`).join(', ');

test('with synchronous_mode, a switchover and the loss of the primary lose no acknowledged write, by HAProxy and by several hosts', async () => {
  const informers = follow();
  const before = await stack.leader();
  const moving = new Writers('moving', 3);
  await moving.write(50);
  await stack.switchover();
  await eventually('another node is the primary', async () => (await stack.leader()) !== before);
  await moving.write(50);
  await moving.stop();
  await stack.isWhole();

  const losing = new Writers('losing', 3);
  await losing.write(50);
  const lost = await stack.leader();
  await stack.kill(lost);
  await losing.write(50);
  await losing.stop();

  const there = await followersAreRight(informers);
  const found = new Set(there);
  const acknowledged = [...moving.acknowledged, ...losing.acknowledged];
  expect(acknowledged.filter((key) => !found.has(key))).toEqual([]);
  const mayBe = new Set([...acknowledged, ...moving.unknown, ...losing.unknown]);
  expect(there.filter((key) => !mayBe.has(key))).toEqual([]);
  await stack.startNode(lost);
  await stack.isWhole();
  console.log(
    `longest pause between writes by HAProxy, by hosts: switchover ${seconds(moving.gaps)}; primary lost ${seconds(losing.gaps)}; outcome unknown ${moving.unknown.size} and ${losing.unknown.size} of ${acknowledged.length}`,
  );
});

test('without synchronous_mode, followers undo what the loss of the primary lost: 0 missed, 0 ghosts', async () => {
  await stack.setSynchronous(false);
  const informers = follow();
  const writers = new Writers('fast', 3);
  await writers.write(50);
  const lost = await stack.leader();
  // The last commits reach no standby.
  await stack.holdReplication(lost);
  await writers.write(20);
  await stack.kill(lost);
  await writers.write(50);
  await writers.stop();
  const found = new Set(await followersAreRight(informers));
  const missing = [...writers.acknowledged].filter((key) => !found.has(key));
  expect(missing.length).toBeGreaterThan(0);
  await stack.startNode(lost);
  await stack.isWhole({ synchronous: false });
  // The node that returns has thrown its own history away: nothing comes back.
  expect(new Set(await followersAreRight(informers))).toEqual(found);
  console.log(
    `without synchronous_mode: ${missing.length} of ${writers.acknowledged.size} acknowledged writes were lost, pauses ${seconds(writers.gaps)}`,
  );
});
