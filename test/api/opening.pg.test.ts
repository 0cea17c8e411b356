/** Proves that no device opens unasked: what leaves a device with the default group says so first (reference 1.3 (5)). */
import { describe, expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, startTestServer, type Place } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

const stage = useServer();
/** A second server on the same database, so that writes race in PostgreSQL and not only in one process. */
const sibling = lasting(
  () => startTestServer(stage.postgres, { url: stage.server.databaseUrl }),
  (server) => server.close(),
);

let serial = 0;
const unique = (): string => `opening-${(serial += 1)}`;
const label = (...labels: readonly string[]): object => ({ applies_to: [{ labels }] });

const device = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique(), hostname: unique(), ...fields });
const group = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: unique(), ...fields });
const patchDevice = (place: Place, status: number, id: string, body: object, query = ''): Promise<Json> =>
  place.owner.api.expect(status, 'PATCH', `${place.base}/devices/${id}${query}`, body);
const patchGroup = (place: Place, status: number, id: string, body: object, query = ''): Promise<Json> =>
  place.owner.api.expect(status, 'PATCH', `${place.base}/security_groups/${id}${query}`, body);
const reasons = async (place: Place, id: string): Promise<readonly string[]> =>
  (await place.owner.api.expect(200, 'GET', `${place.base}/devices/${id}/groups`)).map((one: Json) => one.by as string);

describe('a label', () => {
  test('that gave a device its last group is not taken off unasked: 409 would_open names the device', async () => {
    const place = await newPlace(stage.server);
    await group(place, label('db'));
    const made = await device(place, { hostname: 'db-1', labels: ['db', 'prod'] });
    const before = await place.owner.api.expect(200, 'GET', `${place.base}/devices/${made.id}`);
    for (const labels of [['prod'], ['app'], []]) {
      const problem = await patchDevice(place, 409, made.id, { labels, hostname: 'renamed' });
      expect(problem).toMatchObject({ code: 'would_open', devices: [made.id] });
      expect(problem.detail).toContain('db-1');
      expect(problem.detail).toContain('?detach=true');
    }
    expect(await place.owner.api.expect(200, 'GET', `${place.base}/devices/${made.id}`)).toEqual(before);
    await patchDevice(place, 200, made.id, { labels: ['db'] });
    await patchDevice(place, 200, made.id, { labels: [] }, '?detach=true');
    expect(await reasons(place, made.id)).toEqual(['default']);
  });
});

describe('a group that applies by label', () => {
  test('does not change whom it applies to where a device would have none, unless that is asked for', async () => {
    const place = await newPlace(stage.server);
    const made = await group(place, label('db'));
    const only = await device(place, { labels: ['db'], hostname: 'db-1' });
    const listed = await group(place);
    await device(place, { labels: ['db'], security_groups: [listed.id] });
    for (const applies_to of [[], [{ labels: ['app'] }], [{ labels: ['db', 'prod'] }]]) {
      const problem = await patchGroup(place, 409, made.id, { applies_to, group_name: 'renamed' });
      expect(problem).toMatchObject({ code: 'would_open', devices: [only.id] });
      expect(problem.detail).toContain('db-1');
    }
    expect(await reasons(place, only.id)).toEqual(['label']);
    await patchGroup(place, 200, made.id, { applies_to: [{ labels: ['app'] }, { labels: ['db'] }] });
    await patchGroup(place, 200, made.id, { applies_to: [] }, '?detach=true');
    expect(await reasons(place, only.id)).toEqual(['default']);
  });

  test('is not restored to a state that leaves a device with none, unless that is asked for', async () => {
    const place = await newPlace(stage.server);
    const made = await group(place);
    await patchGroup(place, 200, made.id, label('db'));
    const only = await device(place, { labels: ['db'] });
    const path = `${place.base}/security_groups/${made.id}/restore`;
    const problem = await place.owner.api.expect(409, 'POST', path, { revision: made.revision });
    expect(problem).toMatchObject({ code: 'would_open', devices: [only.id] });
    expect(await reasons(place, only.id)).toEqual(['label']);
    await place.owner.api.expect(200, 'POST', `${path}?detach=true`, { revision: made.revision });
    expect(await reasons(place, only.id)).toEqual(['default']);
  });

  test('names at most 100 devices, and tells how many more there are', async () => {
    const place = await newPlace(stage.server);
    const made = await group(place, { applies_to: [{ all_devices: true }] });
    await Promise.all(Array.from({ length: 103 }, () => device(place)));
    const problem = await patchGroup(place, 409, made.id, { applies_to: [] });
    expect(problem).toMatchObject({ code: 'would_open', more_devices: 3 });
    expect(problem.devices).toHaveLength(100);
    expect(problem.detail).toContain('and 98 more');
  });
});

test('of two writes at once that each take one of two groups away, on two servers, one is refused', async () => {
  const place = await newPlace(stage.server);
  const [first, second] = [await group(place, label('db')), await group(place, label('prod'))];
  const made = await device(place, { labels: ['db', 'prod'] });
  const elsewhere = sibling().nobody.as(place.owner.token);
  const groups = `${place.base}/security_groups`;
  for (let round = 0; round < 12; round += 1) {
    const takesLabel = round % 2 === 0;
    const answers = await Promise.all([
      takesLabel
        ? place.owner.api.ask('PATCH', `${place.base}/devices/${made.id}`, { body: { labels: ['prod'] } })
        : place.owner.api.ask('PATCH', `${groups}/${first.id}`, { body: { applies_to: [] } }),
      elsewhere.ask('PATCH', `${groups}/${second.id}`, { body: { applies_to: [] } }),
    ]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
    expect(await reasons(place, made.id)).toEqual(['label']);
    await patchDevice(place, 200, made.id, { labels: ['db', 'prod'] });
    await patchGroup(place, 200, first.id, label('db'));
    await patchGroup(place, 200, second.id, label('prod'));
  }
});

describe('a list of groups that are on trial', () => {
  /** Enforces what is given, and is tried otherwise on devices with this label. */
  async function tried(place: Place, mode: 'enforce' | 'observe', scope: string): Promise<Json> {
    const made = await group(place, { mode: mode === 'enforce' ? 'observe' : 'enforce' });
    await patchGroup(place, 200, made.id, { mode }, `?confirm_within=600&scope=label:${scope}`);
    return made;
  }

  test('opens a device that is in the scope of one trial and outside of another only where that is asked', async () => {
    const place = await newPlace(stage.server);
    const [stops, starts] = [await tried(place, 'observe', 'canary'), await tried(place, 'enforce', 'edge')];
    const list = { security_groups: [stops.id, starts.id] };
    const closed = await group(place);
    const made = await device(place, { labels: ['canary'], security_groups: [closed.id] });
    const asked = [
      await patchDevice(place, 409, made.id, list),
      await place.owner.api.expect(409, 'POST', `${place.base}/changes`, { devices: [{ id: made.id, ...list }] }),
    ];
    for (const problem of asked) expect(problem).toMatchObject({ code: 'would_open', devices: [made.id] });
    expect(await reasons(place, made.id)).toEqual(['list']);
    await patchDevice(place, 200, made.id, list, '?detach=true');
    expect(await reasons(place, made.id)).toEqual(['default']);
    // It is open, and another order of the list changes nothing.
    await patchDevice(place, 200, made.id, { security_groups: [starts.id, stops.id] });
    const elsewhere = await device(place, { labels: ['edge'], security_groups: [closed.id] });
    await patchDevice(place, 200, elsewhere.id, list);
  });
});
