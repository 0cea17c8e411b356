/** Proves the hub's promises under random load: random writers, readers, stalls, cuts and failures. The checker judges each run. */
import { describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import type { WatchItem } from '../../api/watch.ts';
import type { WatchKind } from '../../api/kinds.ts';
import type { UserId } from '../../policy/ids.ts';
import { Checker, type Client, type Connection, type Received } from './checker.fixture.ts';
import { TestHub, loopTurns } from './hub.fixture.ts';
import { ModelDatabase, modelOrg, userOf } from './model.fixture.ts';
import { ModelWorkerPeer } from './worker-peer.fixture.ts';
import type { FakeSink } from './sink.fixture.ts';

/** Mulberry32: small, seeded, good enough to shuffle a test. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

class RandomClient {
  readonly name: string;
  readonly reader: UserId;
  readonly random: () => number;
  readonly t: TestHub;
  readonly connections: Connection[] = [];
  sink: FakeSink | undefined;
  #items: readonly WatchItem[] = [];
  #headBefore = 0;
  readonly #kinds: readonly WatchKind[];
  readonly byIdentity: boolean;

  constructor(name: string, random: () => number, t: TestHub) {
    this.name = name;
    this.random = random;
    this.t = t;
    this.reader = userOf(1 + Math.floor(random() * 3));
    const orders: readonly (readonly WatchKind[])[] = [
      ['device'],
      ['security-groups'],
      ['device', 'security-groups'],
      ['security-groups', 'device'],
    ];
    this.#kinds = orders[Math.floor(random() * orders.length)] ?? ['device'];
    this.byIdentity = random() < 0.4;
  }

  async connect(): Promise<void> {
    this.#items = this.#resumed();
    this.#headBefore = this.t.db.head;
    const sink = await this.t.open(this.#items, { user: this.reader }).catch(() => 'down' as const);
    if (sink === 'revision_gone') this.connections.length = 0;
    if (typeof sink === 'string') return;
    this.sink = sink;
  }

  #resumed(): readonly WatchItem[] {
    const fresh = this.connections.length === 0 || this.random() < 0.2;
    if (fresh) return this.#kinds.map((kind) => this.#item(kind));
    return this.#kinds.map((kind) => {
      const last = this.connections.at(-1);
      const tail = last?.received.some((one) => one.type === 'tail' && one.kind === kind) ?? false;
      const gt_revision = last === undefined ? 0 : this.#lastOf(last, kind);
      return {
        ...this.#item(kind),
        ...(gt_revision > 0 ? { gt_revision } : {}),
        ...(tail && gt_revision > 0 ? { at_tail: true } : {}),
      };
    });
  }

  #item(kind: WatchKind): WatchItem {
    return { kind, ...(this.byIdentity && kind === 'device' && { view: 'identity' }) };
  }

  #lastOf(connection: Connection, kind: WatchKind): number {
    const started = connection.items.find((item) => item.kind === kind)?.gt_revision ?? 0;
    return connection.received.findLast((one) => one.kind === kind && one.type !== 'tail')?.revision ?? started;
  }

  /** The connection breaks; what arrived, arrived. */
  disconnect(complete = false): void {
    const { sink } = this;
    if (sink === undefined) return;
    this.sink = undefined;
    const received: readonly Received[] = sink.received(this.#kinds.length === 1 ? this.#kinds[0] : undefined);
    this.connections.push({ items: this.#items, headBefore: this.#headBefore, received, complete });
    sink.close();
  }
}

function act(random: () => number, db: ModelDatabase, groups: string[], devices: string[]): void {
  const pick = (from: readonly string[]): string | undefined => from[Math.floor(random() * from.length)];
  const roll = random();
  const device = pick(devices);
  const group = pick(groups);
  if (roll < 0.25 || device === undefined) devices.push(db.create('device'));
  else if (roll < 0.5) db.update(device, { endpointOnly: random() < 0.6 });
  else if (roll < 0.6) {
    db.delete(device);
    devices.splice(devices.indexOf(device), 1);
  } else if (roll < 0.7 || group === undefined) {
    groups.push(db.create('security-groups', random() < 0.8 ? userOf(1 + Math.floor(random() * 3)) : undefined));
  } else if (roll < 0.75) db.update(group);
  else if (roll < 0.93) db.apply(group, random() < 0.5);
  else if (roll < 0.96) db.touchOrganization();
  else {
    db.delete(group);
    groups.splice(groups.indexOf(group), 1);
  }
}

async function run(seed: number): Promise<{ readonly wrong: readonly string[]; readonly checked: number }> {
  const random = seeded(seed);
  // Large records take more than one batch.
  const size = random() < 0.3 ? 40 : 1;
  const db = new ModelDatabase({
    padding: size === 1 ? 0 : 8_000,
    pause: () => (random() < 0.6 ? Promise.resolve() : loopTurns(1 + Math.floor(random() * 4))),
  });
  const t = new TestHub({
    db,
    settings: {
      ringBytes: size * ([600, 3_000, 100_000][Math.floor(random() * 3)] ?? 600),
      listingBytes: size * ([2_000, 100_000][Math.floor(random() * 2)] ?? 2_000),
      pageBytes: size * ([1_000, 20_000][Math.floor(random() * 2)] ?? 1_000),
      slice: 16,
      stuckMs: 1_000_000,
    },
  });
  const [groups, devices]: [string[], string[]] = [[], []];
  for (let i = 0; i < 60; i += 1) act(random, db, groups, devices);
  const clients = Array.from({ length: 6 }, (_, i) => new RandomClient(`seed ${seed}, client ${i}`, random, t));
  const untold: [number, number][] = [];
  const peer = new ModelWorkerPeer(db);
  for (let step = 0; step < 150; step += 1) {
    const before = db.head;
    for (let n = Math.floor(random() * 4); n > 0; n -= 1) act(random, db, groups, devices);
    // One transaction: of another server, of another process, or of this one. This process passes it on now, later, twice or never.
    const whose = random();
    if (whose < 0.4) untold.push([before, db.head]);
    else if (whose < 0.8 && db.head > before) peer.tell(before, { isKnown: random() < 0.8 });
    if (whose < 0.05) untold.push([before, db.head]);
    if (random() < 0.5) peer.notify();
    if (random() < 0.6) peer.arrive(1 + Math.floor(random() * 3));
    if (random() < 0.1) peer.lose(1);
    if (random() < 0.5) peer.notice({ isLost: random() < 0.2 });
    while (untold.length > 0 && random() < 0.7) {
      const [one] = untold.splice(Math.floor(random() * Math.min(2, untold.length)), 1);
      if (one !== undefined && random() < 0.9) db.tell(...one);
    }
    if (random() < 0.3) db.hint();
    if (random() < 0.1) await t.pass(250);
    if (random() < 0.02) db.cut = Math.max(db.cut, db.head - Math.floor(random() * 20));
    if (random() < 0.02) db.purged = Math.max(db.purged, db.head - 30);
    db.down = random() < 0.03;
    for (const client of clients) {
      const roll = random();
      if (client.sink === undefined) {
        if (roll < 0.3) await client.connect();
      } else if (client.sink.ended || client.sink.destroyed || roll < 0.05) client.disconnect();
      else if (roll < 0.15) client.sink.full = true;
      else if (roll < 0.4) client.sink.drain();
    }
    await loopTurns(Math.floor(random() * 3));
  }
  db.down = false;
  // Everybody reads again; whose stream was ended, or whose revision is gone, comes back.
  for (let i = 0; i < 8; i += 1) {
    for (const client of clients) {
      client.sink?.drain();
      if (client.sink?.ended === true) client.disconnect();
      if (client.sink === undefined) await client.connect();
    }
    await t.pass(250);
    await loopTurns(40);
  }
  const checker = new Checker(modelOrg, db.log);
  const wrong = clients.flatMap((client) => {
    client.disconnect(true);
    const { name, reader, byIdentity, connections } = client;
    const whole: Client = { name, reader, byIdentity, connections };
    return checker.check(whole);
  });
  t.hub.close();
  return { wrong, checked: checker.checked };
}

describe('whatever happens', () => {
  const runs = Number(process.env['RINGFENCE_RANDOM_RUNS'] ?? rounds(15, 60));
  test(`streams, full and by identity, are ordered, unique, exact, complete and resumable, and tails never ahead (${runs} seeded runs)`, async () => {
    let checked = 0;
    for (let seed = 1; seed <= runs; seed += 1) {
      const result = await run(seed);
      expect(result.wrong).toEqual([]);
      checked += result.checked;
    }
    // A run that delivered little proves little.
    expect(checked).toBeGreaterThan(runs * 500);
  });
});
