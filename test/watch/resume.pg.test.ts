/** Proves from where a reader can resume on the real server, when deletions are forgotten (reference 4.3 (25)). */
import { expect, test } from 'vitest';
import { Client } from '../../src/client/http.ts';
import { createInformer } from '../../src/client/informer.ts';
import { openStore } from '../../src/server/store/open.ts';
import { Proxy } from '../lib/proxy.ts';
import type { Place } from '../lib/server.ts';
import type { EventStream } from '../lib/stream.ts';
import { watching } from '../lib/watching.ts';

const world = watching();
const { watch, newDevice, change, remove } = world;

/** Forgets every deletion that may be forgotten, as a server does after its retention. */
async function forgetDeletions(): Promise<void> {
  const store = await openStore({ url: world.server.databaseUrl, phase: 3, deletionRetentionMs: 0 });
  await store.log.compact();
  await store.close();
}

const newGroup = (place: Place, name: string): Promise<{ id: string; revision: number }> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: name });

const lastRevision = (stream: EventStream): number =>
  Math.max(...stream.documents.map(({ value }) => value?.revision ?? 0));

/** Devices that stay as they are, then a group and a device that come and go, and are forgotten. */
async function forgetful() {
  const place = await world.place();
  const old = await newDevice(place);
  const group = await newGroup(place, 'short-lived');
  const device = await newDevice(place);
  const before = device.revision;
  await place.owner.api.expect(200, 'DELETE', `${place.base}/security_groups/${group.id}`);
  await remove(place, device.id);
  await forgetDeletions();
  return { place, old, before };
}

test('a reader that just listed resumes, whatever was forgotten after the newest record', async () => {
  const { place, old } = await forgetful();
  for (const items of [
    [{ kind: 'device' }],
    [{ kind: 'device', view: 'identity' }],
    [{ kind: 'security-groups' }],
    [{ kind: 'device' }, { kind: 'security-groups' }],
  ]) {
    const listed = await watch(place, items).tail(items.length);
    const gt_revision = lastRevision(listed);
    expect(gt_revision).toBeGreaterThan(0);
    const resumed = await watch(
      place,
      items.map((item) => ({ ...item, gt_revision })),
    ).tail(items.length);
    expect([resumed.status, resumed.told.filter((one) => !one.endsWith('tail'))]).toEqual([200, []]);
  }
  // A record that moves on meanwhile does not take the reader's way back with it.
  const { revision } = await change(place, old.id, 'moved');
  await forgetDeletions();
  const resumed = await watch(place, [{ kind: 'device', gt_revision: old.revision }]).tail();
  expect(resumed.told).toEqual([`change ${revision}`, 'tail']);
});

test('a reader that still holds what was forgotten starts afresh, and only for that kind', async () => {
  const { place, before } = await forgetful();
  const gone = await watch(place, [{ kind: 'device', gt_revision: before }]).answered();
  expect(gone.status).toBe(410);
  const later = await newDevice(place);
  const resumed = await watch(place, [{ kind: 'device', gt_revision: later.revision }]).tail();
  expect(resumed.told).toEqual(['tail']);
});

test('an informer whose stream is cut resumes without starting afresh, also where its kinds did not change for long', async () => {
  const { place } = await forgetful();
  const proxy = await Proxy.start(world.server.url);
  const stop = new AbortController();
  const client = new Client({ url: proxy.url, token: place.member.token });
  const informer = createInformer({
    client,
    organization: place.org,
    kinds: ['device', 'security-groups'],
    backoff: { first: 20, longest: 200 },
  });
  const errors = new Set<string>();
  informer.onState(({ lastError }) => lastError && errors.add(lastError.error.code));
  const run = informer.run({ signal: stop.signal });
  try {
    await informer.whenSynced();
    proxy.cut();
    const fresh = await newDevice(place);
    await expect.poll(() => informer.view('device').get(fresh.id)?.revision).toBe(fresh.revision);
    expect(proxy.count).toBeGreaterThan(1);
    expect([...errors]).not.toContain('revision_gone');
  } finally {
    stop.abort();
    await run.catch(() => undefined);
    await proxy.close();
  }
});

test('a list after a revision above the head is refused like a stream', async () => {
  const place = await world.place();
  const { revision } = await newDevice(place);
  for (const path of [
    `${place.base}/devices`,
    `${place.base}/security_groups`,
    `/api/user/${place.org}/security_groups`,
  ]) {
    const { api } = place.member;
    expect(await api.expect(200, 'GET', `${path}?gt_revision=${revision}`)).toEqual([]);
    const gone = await api.get(`${path}?gt_revision=${revision + 1}`);
    expect([gone.status, gone.json.code]).toEqual([410, 'revision_gone']);
  }
});
