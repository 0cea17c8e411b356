/** Proves every rule of WatchEvents (reference 4.3 (1) to (8), 2.5, 2.6, 6) against the real server and PostgreSQL. */
import { describe, expect, test } from 'vitest';
import type { EventStream } from '../lib/stream.ts';
import { watching } from '../lib/watching.ts';

const world = watching();
const { watch, newDevice, change, remove } = world;

describe('the answer (reference 4.3)', () => {
  test('is 200, chunked, application/json;stream=watch, and carries a request id', async () => {
    const stream = await watch(await world.place(), [{ kind: 'device' }]).tail();
    expect(stream.status).toBe(200);
    expect(stream.header('content-type')).toBe('application/json;stream=watch');
    expect(stream.header('transfer-encoding')).toBe('chunked');
    expect(stream.header('x-request-id')).toMatch(/^[\w-]{8,}$/);
    expect(stream.header('cache-control')).toBe('no-store');
    expect(stream.raw.match(/^cache-control:/gim)).toHaveLength(1);
  });

  test('is the same on the bare path and with the token of a device', async () => {
    const place = await world.place();
    const { device_token } = await newDevice(place);
    const bare = await watch(place, [{ kind: 'device' }], { prefix: '' }).tail();
    const byDevice = await watch(place, [{ kind: 'device' }], { token: device_token }).tail();
    expect(bare.body.text).toBe(byDevice.body.text);
    expect(bare.told).toHaveLength(2);
  });

  test('reaches a client of HTTP/1.0 as plain bytes, ended by the end of the connection', async () => {
    const place = await world.place();
    await newDevice(place);
    const stream = await watch(place, [{ kind: 'device' }], { version: '1.0' }).tail();
    expect(stream.header('transfer-encoding')).toBeUndefined();
    expect(stream.raw.split('\r\n\r\n')[1]).toMatch(/^\{"type":"change".*\}\n\{"type":"tail"\}\n$/);
    await newDevice(place);
    await stream.count(3);
  });

  test('reaches a client that says Connection: close', async () => {
    const place = await world.place();
    const stream = await watch(place, [{ kind: 'device' }], { headers: { Connection: 'close' } }).tail();
    const { revision } = await newDevice(place);
    await stream.count(2);
    expect(stream.told).toEqual(['tail', `change ${revision}`]);
  });
});

describe('rule 1 (reference 4.3 (1))', () => {
  test('each requested kind first comes in ascending revision, one document each, the highest last', async () => {
    const place = await world.place();
    const devices = [await newDevice(place), await newDevice(place), await newDevice(place)];
    const moved = await change(place, devices[0]?.id ?? '', 'moved');
    const stream = await watch(place, [{ kind: 'device' }]).tail();
    expect(stream.documents.map((one) => one.value?.id)).toEqual([
      devices[1]?.id,
      devices[2]?.id,
      devices[0]?.id,
      undefined,
    ]);
    expect(stream.told.at(-2)).toBe(`change ${moved.revision}`);
    expect(stream.documents.slice(0, -1).every((one) => one.type === 'change')).toBe(true);
  });

  test('a device is told of as it stands, with every field and its revision (reference 2.4)', async () => {
    const place = await world.place();
    const { id } = await newDevice(place, {
      hostname: 'gate',
      child_prefix: ['10.9.0.0/24'],
      local_ip: '10.0.0.1:51820',
    });
    const stream = await watch(place, [{ kind: 'device' }]).tail();
    const stored = await place.member.api.expect(200, 'GET', `${place.base}/devices/${id}`);
    expect(stream.documents[0]).toEqual({ type: 'change', value: stored });
    expect(Object.keys(stored)).not.toContain('security_groups');
  });
});

describe('rule 2 (reference 4.3 (2))', () => {
  test('without gt_revision the listing is every resource of the kind, without deletions', async () => {
    const place = await world.place();
    const [kept, gone] = [await newDevice(place), await newDevice(place)];
    await remove(place, gone.id);
    const stream = await watch(place, [{ kind: 'device' }]).tail();
    expect(stream.told).toEqual([`change ${kept.revision}`, 'tail']);
  });

  test('with gt_revision N only changes after N come, deletions included, as last known with the revision of the deletion', async () => {
    const place = await world.place();
    const [old, gone] = [await newDevice(place), await newDevice(place, { hostname: 'was here' })];
    const deleted = await remove(place, gone.id);
    const later = await newDevice(place);
    const stream = await watch(place, [{ kind: 'device', gt_revision: old.revision }]).tail();
    expect(stream.told).toEqual([`delete ${deleted.revision}`, `change ${later.revision}`, 'tail']);
    expect(stream.documents[0].value).toEqual(deleted);
    expect(stream.documents[0].value).toMatchObject({ id: gone.id, hostname: 'was here', revision: deleted.revision });
  });

  test('with gt_revision at the head nothing comes but the tail', async () => {
    const place = await world.place();
    const { revision } = await newDevice(place);
    const stream = await watch(place, [{ kind: 'device', gt_revision: revision }]).tail();
    expect(stream.told).toEqual(['tail']);
  });
});

describe('rule 3 (reference 4.3 (3))', () => {
  test('the tail is the type alone, and comes when at_tail is false or absent', async () => {
    const place = await world.place();
    for (const item of [{ kind: 'device' }, { kind: 'device', at_tail: false }]) {
      const stream = await watch(place, [item]).tail();
      expect(stream.body.text).toBe('{"type":"tail"}\n');
    }
  });

  test('no tail comes when at_tail is true', async () => {
    const place = await world.place();
    const listed = await newDevice(place);
    const stream = await watch(place, [{ kind: 'device', at_tail: true }]).count(1);
    const later = await newDevice(place);
    await stream.count(2);
    expect(stream.told).toEqual([`change ${listed.revision}`, `change ${later.revision}`]);
  });
});

describe('rule 4 (reference 4.3 (4))', () => {
  test('the stream stays open and later changes come in ascending revision, as change or delete', async () => {
    const place = await world.place();
    const stream = await watch(place, [{ kind: 'device' }]).tail();
    const device = await newDevice(place);
    const moved = await change(place, device.id, 'renamed');
    const gone = await remove(place, device.id);
    await stream.count(4);
    expect(stream.told.slice(1)).toEqual([
      `change ${device.revision}`,
      `change ${moved.revision}`,
      `delete ${gone.revision}`,
    ]);
    expect(stream.documents.at(-1)?.value).toEqual(gone);
    expect(stream.closed).toBe(false);
  });
});

describe('rule 5 (reference 4.3 (5))', () => {
  test('current state and later changes join without a gap while others write', async () => {
    const place = await world.place();
    const writing = new AbortController();
    const writer = (async () => {
      for (let i = 0; !writing.signal.aborted && i < 2_000; i += 1) await newDevice(place);
    })();
    const streams: EventStream[] = [];
    for (let i = 0; i < 20; i += 1) streams.push(await watch(place, [{ kind: 'device' }]).tail());
    writing.abort();
    await writer;
    const all = await place.member.api.expect(200, 'GET', `${place.base}/devices`);
    const truth = all.map((one: { revision: number }) => one.revision).toSorted((a: number, b: number) => a - b);
    for (const stream of streams) {
      await stream.count(truth.length + 1);
      expect(stream.documents.flatMap((one) => one.value?.revision ?? [])).toEqual(truth);
    }
  });
});

describe('rule 6 (reference 4.3 (6))', () => {
  test('a client reconnects with its last revision and at_tail, and has missed nothing; or starts afresh', async () => {
    const place = await world.place();
    const first = await watch(place, [{ kind: 'device' }]).tail();
    const seen = await newDevice(place);
    await first.count(2);
    first.close();
    const [missed, doomed] = [await newDevice(place), await newDevice(place)];
    const gone = await remove(place, doomed.id);
    const again = await watch(place, [{ kind: 'device', gt_revision: seen.revision, at_tail: true }]).count(2);
    const later = await newDevice(place);
    await again.count(3);
    expect(again.told).toEqual([`change ${missed.revision}`, `delete ${gone.revision}`, `change ${later.revision}`]);
    const afresh = await watch(place, [{ kind: 'device' }]).tail();
    expect(afresh.told).toEqual([...[seen, missed, later].map((one) => `change ${one.revision}`), 'tail']);
  });
});

describe('rule 7 (reference 4.3 (7))', () => {
  test('every operation that changes desired state reaches open streams, on other servers too', async () => {
    const other = await world.replica();
    const place = await world.place();
    const items = [{ kind: 'device' }, { kind: 'security-groups' }];
    const here = await watch(place, items).tail(2);
    const there = await watch(place, items, { on: other, token: place.owner.token }).tail(2);
    const { owner, member, base, org } = place;
    const device = await newDevice(place);
    const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'web' });
    await owner.api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, { group_description: 'front' });
    const own = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
    const lists = [[group.id], [group.id, own.id], []];
    for (const security_groups of lists) {
      await member.api.expect(200, 'PATCH', `${base}/devices/${device.id}`, { security_groups });
    }
    await owner.api.expect(200, 'DELETE', `${base}/security_groups/${group.id}`);
    await owner.api.expect(200, 'DELETE', `${base}/security_groups/${place.defaultGroup}`);
    await member.api.expect(200, 'DELETE', `${base}/devices/${device.id}`);
    // The owner of the group sees its making and its comings and goings; others see it from its first device to its last.
    await here.count(3 + 13);
    await there.count(3 + 12);
    const types = (stream: EventStream) => stream.documents.slice(3).map((one) => `${one.kind} ${one.type}`);
    expect(types(here)).toEqual([
      'device change',
      'security-groups change',
      'security-groups change',
      'security-groups change',
      'device change',
      'security-groups change',
      'device change',
      'device change',
      'security-groups change',
      'security-groups delete',
      'security-groups delete',
      'security-groups change',
      'device delete',
    ]);
    expect(types(there)).toEqual([
      'device change',
      'security-groups change',
      'security-groups change',
      'device change',
      'security-groups change',
      'device change',
      'device change',
      'security-groups delete',
      'security-groups delete',
      'security-groups delete',
      'security-groups change',
      'device delete',
    ]);
    const left = there.documents.find((one) => one.type === 'delete');
    expect(left?.value).toEqual({ id: own.id, org_id: org, revision: left?.value.revision });
  });
});

describe('rule 8 (reference 4.3 (8))', () => {
  test('one change among a hundred devices costs one document', async () => {
    const place = await world.place();
    const devices = [];
    for (let i = 0; i < 100; i += 1) devices.push(await newDevice(place));
    const stream = await watch(place, [{ kind: 'device' }]).tail();
    const before = stream.raw.length;
    const moved = await change(place, devices[50]?.id ?? '', 'one');
    await stream.count(102);
    const chunk = stream.raw.slice(before);
    expect(chunk.split('\n').filter((line) => line.startsWith('{'))).toHaveLength(1);
    expect(chunk).toContain(`"revision":${moved.revision}`);
  });
});

describe('a stream (reference 6)', () => {
  test('reports only events of the organization in its path', async () => {
    const [mine, other] = [await world.place(), await world.place()];
    const stream = await watch(mine, [{ kind: 'device' }]).tail();
    await newDevice(other);
    const { revision } = await newDevice(mine);
    await stream.count(2);
    expect(stream.told).toEqual(['tail', `change ${revision}`]);
  });

  test('reports only the kinds that were asked for, each document on its own line', async () => {
    const place = await world.place();
    const stream = await watch(place, [{ kind: 'security-groups' }]).tail();
    await newDevice(place);
    const group = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
      group_name: 'web',
      group_description: 'two\nlines',
    });
    await stream.count(3);
    expect(stream.documents[0]).toMatchObject({ type: 'change', value: { id: place.defaultGroup, is_default: true } });
    expect(stream.documents[2]).toEqual({ type: 'change', value: group });
    for (const line of stream.body.text.trimEnd().split('\n')) expect(() => JSON.parse(line) as unknown).not.toThrow();
  });
});
