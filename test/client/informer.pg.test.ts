/** Proves that an informer on a real server ends equal to the server's own lists, whatever happens on the way. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { WatchKind } from '../../src/api/kinds.ts';
import type { Change } from '../../src/client/cache.ts';
import { systemClock, type Clock } from '../../src/client/clock.ts';
import { RingfenceError } from '../../src/client/error.ts';
import { Client } from '../../src/client/http.ts';
import { createInformer, type Informer, type InformerOptions } from '../../src/client/informer.ts';
import { watch } from '../../src/client/watch.ts';
import { openStore } from '../../src/server/store/open.ts';
import { Proxy } from '../lib/proxy.ts';
import { Random } from '../lib/random.ts';
import type { Place } from '../lib/server.ts';
import { watching } from '../lib/watching.ts';

const world = watching({ watch: { heartbeatMs: 300 } });
const both = ['device', 'security-groups'] as const;

const ending: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end();
});

async function proxied(to = world.server.url): Promise<Proxy> {
  const proxy = await Proxy.start(to);
  ending.push(() => proxy.close());
  return proxy;
}

/** A running informer that records the order of its reports. */
function follow(
  url: string,
  place: Place,
  token: string,
  { clock, ...options }: Partial<InformerOptions<WatchKind>> & { readonly clock?: Clock } = {},
) {
  const client = new Client({ url, token, ...(clock && { clock }) });
  const organization = place.org;
  const patience = { silence: 2_000, backoff: { first: 20, longest: 200 } };
  const informer = createInformer({ client, organization, kinds: both, ...patience, ...options });
  const heard = new Map<string, number>();
  const counts = { added: 0, updated: 0, deleted: 0 };
  const faults: string[] = [];
  informer.onChange((changes: readonly Change[]) => {
    for (const change of changes) {
      const known = heard.get(change.id);
      counts[change.type] += 1;
      const fault = (why: string): void => void faults.push(`${change.type} ${change.kind} ${change.id}: ${why}`);
      if (change.type === 'added' ? known !== undefined : known !== change.old.revision) fault(`known as ${known}`);
      if (change.type === 'updated' && change.new.revision <= change.old.revision) fault('not newer');
      if (change.type === 'deleted') heard.delete(change.id);
      else heard.set(change.id, change.new.revision);
    }
  });
  const stop = new AbortController();
  const run = informer.run({ signal: stop.signal });
  ending.push(async () => {
    stop.abort();
    await run.catch(() => undefined);
  });
  return { client, informer, heard, counts, faults, run };
}

/** A clock whose timer for silence goes off when the test says so; all others go by themselves. */
class Watchdog {
  readonly silence = 987_654;
  /** How often it was set. */
  wound = 0;
  #run: (() => void) | undefined;
  readonly clock: Clock = {
    now: () => systemClock.now(),
    after: (ms, run) => {
      if (ms !== this.silence) return systemClock.after(ms, run);
      this.wound += 1;
      this.#run = run;
      return () => {
        if (this.#run === run) this.#run = undefined;
      };
    },
  };

  /** The time of silence is over. */
  async fire(): Promise<void> {
    while (this.#run === undefined) await sleep(5);
    this.#run();
  }
}

async function settled(what: string, so: () => boolean): Promise<void> {
  for (const end = Date.now() + 60_000; !so(); await sleep(20)) {
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
  }
}

const list = (client: Client, place: Place, kind: WatchKind) =>
  kind === 'device' ? client.devices.list(place.org) : client.groups.list(place.org);
const byId = (records: Iterable<{ readonly id: string }>) => [...records].toSorted((a, b) => (a.id < b.id ? -1 : 1));

/** Waits until the copy equals what the server lists for the same credential; fails after a while with the difference. */
async function agrees(informer: Informer, client: Client, place: Place): Promise<void> {
  const until = Date.now() + 60_000;
  for (;;) {
    const lists = await Promise.all(both.map((kind) => list(client, place, kind)));
    const copies = both.map((kind) => informer.view(kind));
    const equal = both.every(
      (_, index) => JSON.stringify(byId(copies[index] ?? [])) === JSON.stringify(byId(lists[index] ?? [])),
    );
    if (equal) return;
    if (Date.now() > until) {
      for (const [index] of both.entries()) expect(byId(copies[index] ?? [])).toEqual(byId(lists[index] ?? []));
    }
    await sleep(20);
  }
}

/** Random writes by the member and the owner: devices and groups come, change, are applied, and go. */
async function write(place: Place, random: Random, count: number): Promise<void> {
  const devices: string[] = [];
  const groups: string[] = [];
  const { api } = place.member;
  const own = place.base.replace('organizations', 'user');
  for (let step = 0; step < count; step += 1) {
    const move = random.int(0, 9);
    if (move < 3 || devices.length === 0) devices.push((await world.newDevice(place)).id);
    else if (move < 5) await world.change(place, random.pick(devices), `host-${step}`);
    else if (move === 5) await world.remove(place, devices.splice(random.int(0, devices.length - 1), 1)[0] ?? '');
    else if (move === 6 || groups.length === 0) {
      const { id } = await api.expect(201, 'POST', `${own}/security_groups`, { group_name: `g-${step}` });
      groups.push(id);
    } else if (move === 7) {
      const inbound_rules = [{ ip_protocol: 'tcp', from_port: step + 1, to_port: step + 1 }];
      await api.expect(200, 'PATCH', `${own}/security_groups/${random.pick(groups)}`, { inbound_rules });
    } else if (move === 8) {
      const security_groups = random.chance(0.5) ? [random.pick(groups)] : [];
      await api.expect(200, 'PATCH', `${place.base}/devices/${random.pick(devices)}`, { security_groups });
    } else {
      const [id = ''] = groups.splice(random.int(0, groups.length - 1), 1);
      await api.expect(200, 'DELETE', `${own}/security_groups/${id}?detach=true`);
    }
  }
}

describe('an informer on a real server', () => {
  test('is filled and synced, and follows every change to its end', async () => {
    const place = await world.place();
    await write(place, new Random(1), 40);
    const { informer, client, faults, counts } = follow(world.server.url, place, place.member.token);
    await informer.whenSynced();
    await agrees(informer, client, place);
    await write(place, new Random(2), 60);
    await agrees(informer, client, place);
    expect(faults).toEqual([]);
    expect(informer.state).toMatchObject({ phase: 'live', failures: 0 });
    expect(Math.min(counts.added, counts.updated, counts.deleted)).toBeGreaterThan(0);
  });

  test('loses nothing and keeps no ghosts while its connection is cut, refused, frozen and moved between servers', async () => {
    const [place, replica, proxy] = [await world.place(), await world.replica(), await proxied()];
    const random = new Random(3);
    const member = follow(proxy.url, place, place.member.token);
    const owner = follow(proxy.url, place, place.owner.token);
    const written = new AbortController();
    const writers = Promise.all([write(place, new Random(4), 150), write(place, new Random(5), 150)]).finally(() =>
      written.abort(),
    );
    const trouble = (async () => {
      while (!written.signal.aborted) {
        await sleep(random.int(20, 150));
        const kind = random.int(0, 5);
        proxy.pointAt(random.chance(0.5) ? world.server.url : replica.url);
        if (kind < 3) proxy.cut();
        else if (kind === 3) proxy.freeze();
        else {
          proxy.refuse(true);
          proxy.cut();
          await sleep(random.int(10, 100));
          proxy.refuse(false);
        }
      }
    })();
    await Promise.all([writers, trouble]);
    await agrees(member.informer, member.client, place);
    await agrees(owner.informer, owner.client, place);
    expect([...member.faults, ...owner.faults]).toEqual([]);
    expect(proxy.count).toBeGreaterThan(10);
    for (const { heard, informer } of [member, owner]) {
      expect(heard.size).toBe(informer.view('device').size + informer.view('security-groups').size);
    }
  });

  test('resumes at once on another server when its own drains', async () => {
    const [place, replica, proxy] = [await world.place(), await world.replica(), await proxied()];
    proxy.pointAt(replica.url);
    const { informer, client, faults } = follow(proxy.url, place, place.member.token);
    await informer.whenSynced();
    proxy.pointAt(world.server.url);
    await replica.close();
    await write(place, new Random(6), 20);
    await agrees(informer, client, place);
    expect(faults).toEqual([]);
  });

  test('starts afresh when its revision is gone, and tells what vanished meanwhile', async () => {
    const [place, proxy] = [await world.place(), await proxied()];
    const [first, second] = [await world.newDevice(place), await world.newDevice(place)];
    const { informer, client, heard, faults } = follow(proxy.url, place, place.member.token);
    await informer.whenSynced();
    proxy.refuse(true);
    proxy.cut();
    await world.remove(place, first.id);
    await world.change(place, second.id, 'renamed');
    // A store that keeps deletions for no time at all forgets this one when it tidies up.
    const { databaseUrl: url } = world.server;
    const clock = (): number => Date.now() + 60_000;
    const forgetful = await openStore({ url, phase: 3, deletionRetentionMs: 0, logRetentionMs: 0, clock });
    await forgetful.log.compact();
    await forgetful.close();
    const deleted: unknown[] = [];
    informer.onChange((changes) => {
      for (const change of changes) if (change.type === 'deleted') deleted.push([change.id, change.revision]);
    });
    proxy.refuse(false);
    await agrees(informer, client, place);
    expect(deleted).toEqual([[first.id, undefined]]);
    expect(heard.has(first.id)).toBe(false);
    expect(faults).toEqual([]);
  });

  test('shows a group of another user while it is applied to a device, and not longer', async () => {
    const place = await world.place();
    const own = place.base.replace('organizations', 'user');
    const { id } = await place.member.api.expect(201, 'POST', `${own}/security_groups`, { group_name: 'mine' });
    const device = await world.newDevice(place);
    const { informer, client, faults } = follow(world.server.url, place, place.owner.token);
    await informer.whenSynced();
    expect(informer.view('security-groups').get(id)).toBeUndefined();
    for (let round = 0; round < 3; round += 1) {
      await place.member.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { security_groups: [id] });
      await agrees(informer, client, place);
      expect(informer.view('security-groups').get(id)?.group_name).toBe('mine');
      await place.member.api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { security_groups: [] });
      await agrees(informer, client, place);
      expect(informer.view('security-groups').get(id)).toBeUndefined();
    }
    expect(faults).toEqual([]);
  });

  test('notices a connection that has died without a word', async () => {
    const [place, proxy] = [await world.place(), await proxied()];
    const watchdog = new Watchdog();
    const { informer, client } = follow(proxy.url, place, place.member.token, watchdog);
    await informer.whenSynced();
    proxy.freeze();
    await world.newDevice(place);
    await watchdog.fire();
    await agrees(informer, client, place);
    expect(informer.state.lastError?.error.code).toBe('silent');
  });

  test('stays on a silent stream as long as heartbeats come', async () => {
    const [place, proxy] = [await world.place(), await proxied()];
    const watchdog = new Watchdog();
    const { informer } = follow(proxy.url, place, place.member.token, watchdog);
    await informer.whenSynced();
    // Nothing but heartbeats comes now, and each of them winds the watchdog up again.
    const before = watchdog.wound;
    while (watchdog.wound < before + 3) await sleep(50);
    expect(informer.state).toMatchObject({ phase: 'live' });
    expect(informer.state.lastError).toBeUndefined();
    // The proof of the proof: a frozen connection winds it up no more.
    proxy.freeze();
    await watchdog.fire();
    await settled('the silence is noticed', () => informer.state.lastError?.error.code === 'silent');
  });

  test('ends when its member is removed', async () => {
    const place = await world.place();
    const { informer, run } = follow(world.server.url, place, place.member.token);
    await informer.whenSynced();
    const ended = run.catch((error: unknown) => error);
    await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}`);
    expect(await ended).toMatchObject({ code: 'not_found' });
  });
});

describe('one stream of a real server', () => {
  test('is read by watch, and refused with the codes of the wire', async () => {
    const place = await world.place();
    const { id } = await world.newDevice(place);
    const client = new Client({ url: world.server.url, token: place.member.token });
    const types: string[] = [];
    for await (const event of watch(client, place.org, [{ kind: 'device' }, { kind: 'security-groups' }])) {
      types.push(`${event.type} ${event.kind}`);
      if (event.type === 'change' && event.kind === 'device') expect(event.id).toBe(id);
      if (types.length === 4) break;
    }
    expect(types).toEqual(['change device', 'tail device', 'change security-groups', 'tail security-groups']);
    const codeOf = async (work: AsyncIterable<unknown>): Promise<unknown> => {
      try {
        for await (const _ of work) break;
        return 'opened';
      } catch (error) {
        return error instanceof RingfenceError ? error.code : error;
      }
    };
    const stranger = new Client({ url: world.server.url, token: place.stranger.token });
    const nobody = new Client({ url: world.server.url, token: 'rf_user_nobody' });
    expect(await codeOf(watch(stranger, place.org, [{ kind: 'device' }]))).toBe('not_found');
    expect(await codeOf(watch(nobody, place.org, [{ kind: 'device' }]))).toBe('unauthenticated');
    expect(await codeOf(watch(client, place.org, []))).toBe('invalid');
    expect(await codeOf(watch(client, place.org, [{ kind: 'device', gt_revision: 1e9 }]))).toBe('revision_gone');
  });
});
