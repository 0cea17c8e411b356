/**
 * Proves how streams end, who sees what, and that slow readers affect no other reader (reference 4.3 (15) to (18), 5
 * (5)).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Place, TestServer, TestServerOptions } from '../lib/server.ts';
import type { EventStream } from '../lib/stream.ts';
import { watching } from '../lib/watching.ts';

const world = watching();
const { watch, newDevice, remove } = world;
const device = [{ kind: 'device' }];

/** A server whose clock is ahead of the others' by as much as the test says. */
async function ahead(
  options: TestServerOptions = {},
): Promise<{ readonly on: TestServer; readonly pass: (ms: number) => void }> {
  let offset = 0;
  const on = await world.replica({ ...options, clock: () => Date.now() + offset });
  return { on, pass: (ms) => void (offset += ms) };
}

async function endsCleanly(stream: EventStream): Promise<void> {
  await stream.end();
  expect(stream.error).toBeUndefined();
  expect(stream.body.ended).toBe(true);
  expect(stream.raw.endsWith('0\r\n\r\n')).toBe(true);
}

describe('a stream ends properly (reference 4.3 (15))', () => {
  test('when its token is revoked, on every server; others go on', async () => {
    const [place, replica] = [await world.place(), await world.replica()];
    const issued = await place.member.api.expect(201, 'POST', '/api/users/me/tokens', {});
    const { token } = issued;
    const here = await watch(place, device, { token }).tail();
    const there = await watch(place, device, { token, on: replica }).tail();
    const other = await watch(place, device).tail();
    await place.member.api.expect(200, 'DELETE', `/api/tokens/${issued.id}`);
    await Promise.all([endsCleanly(here), endsCleanly(there)]);
    expect((await watch(place, device, { token }).answered()).status).toBe(401);
    await newDevice(place);
    await other.count(2);
  });

  test('when its token expires', async () => {
    const [place, { on, pass }] = [await world.place(), await ahead()];
    const expires_at = new Date(Date.now() + 3_600_000).toISOString();
    const { token } = await place.member.api.expect(201, 'POST', '/api/users/me/tokens', { expires_at });
    const stream = await watch(place, device, { token, on }).tail();
    pass(3_600_000);
    await endsCleanly(stream);
    expect((await watch(place, device, { token, on }).answered()).status).toBe(401);
  });

  test('when its device is deleted, for a device token', async () => {
    const place = await world.place();
    const one = await newDevice(place);
    const stream = await watch(place, device, { token: one.device_token }).tail();
    await remove(place, one.id);
    await endsCleanly(stream);
    expect((await watch(place, device, { token: one.device_token }).answered()).status).toBe(401);
  });

  test('when its member is removed, with events for those who stay', async () => {
    const [place, replica] = [await world.place(), await world.replica()];
    const one = await newDevice(place);
    const gone = [await watch(place, device).tail(), await watch(place, device, { on: replica }).tail()];
    const stays = await watch(place, device, { token: place.owner.token }).tail();
    await place.owner.api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}`);
    await Promise.all(gone.map(endsCleanly));
    await stays.count(3);
    expect(stays.documents[2]).toMatchObject({ type: 'delete', value: { id: one.id } });
    expect((await watch(place, device).answered()).status).toBe(404);
  });

  test('when its organization goes', async () => {
    const [place, replica] = [await world.place(), await world.replica()];
    const streams = [await watch(place, device).tail(), await watch(place, device, { on: replica }).tail()];
    await place.owner.api.expect(200, 'DELETE', place.base);
    await Promise.all(streams.map(endsCleanly));
    expect((await watch(place, device).answered()).status).toBe(404);
  });

  test('when the server drains for shutdown, and its client resumes elsewhere', async () => {
    const [place, replica] = [await world.place(), await world.replica()];
    const first = await watch(place, device, { on: replica }).tail();
    const seen = await newDevice(place);
    await first.count(2);
    const closing = replica.close();
    await endsCleanly(first);
    await closing;
    const missed = await newDevice(place);
    const resumed = await watch(place, [{ kind: 'device', gt_revision: seen.revision, at_tail: true }]).count(1);
    expect(resumed.told).toEqual([`change ${missed.revision}`]);
  });

  test('at its greatest age, jittered', async () => {
    const [place, { on, pass }] = [await world.place(), await ahead({ streamMaxAge: 36_000 })];
    const streams = await Promise.all(Array.from({ length: 20 }, () => watch(place, device, { on }).tail()));
    const open = (): number => streams.filter((stream) => !stream.closed).length;
    // Past four fifths of the age, and some time before all of it: some have ended, and all at the end.
    pass(32_400_000);
    for (const end = Date.now() + 60_000; open() === streams.length && Date.now() < end;) await sleep(20);
    expect(open()).toBeLessThan(streams.length);
    pass(3_600_000);
    await Promise.all(streams.map(endsCleanly));
  });
});

describe('a reader (reference 4.3 (16))', () => {
  const groups = [{ kind: 'security-groups' }];
  // Long ranges, so that fewer fill a connection: each takes time to check.
  const address = (i: number): string => `2001:db8:1111:2222:3333:4444:${(i + 4_096).toString(16)}`;
  const ip_ranges = Array.from({ length: 5_000 }, (_, i) => `${address(i)}:1111-${address(i)}:2222`);
  const inbound_rules = [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges }];

  /** Changes that together are more than any kernel holds for one connection: some 10 MB. Gives the last revision. */
  async function flood(place: Place): Promise<number> {
    let last = 0;
    for (let i = 0; i < 30; i += 1) {
      const group = { group_name: `flood ${i}`, inbound_rules };
      last = (await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, group)).revision;
    }
    return last;
  }

  test('that stalls costs no queue and delays nobody; when it reads again it has everything', async () => {
    const patient = await world.replica({ watch: { stuckMs: 600_000, ringBytes: 1_000_000 } });
    const place = await world.place();
    const [slow, quick] = [
      await watch(place, groups, { on: patient }).tail(),
      await watch(place, groups, { on: patient }).tail(),
    ];
    slow.pause();
    const last = await flood(place);
    await quick.shows(`"revision":${last}}`, 60_000);
    slow.resume();
    await slow.shows(`"revision":${last}}`, 60_000);
    // It may have skipped states in between; here each group has one, so that none may be missing.
    expect(slow.told).toEqual(quick.told);
  });

  test('that takes nothing for long is cut off, and may resume', async () => {
    const [place, { on, pass }] = [await world.place(), await ahead()];
    const [stuck, quick] = [await watch(place, groups, { on }).tail(), await watch(place, groups, { on }).tail()];
    stuck.pause();
    const last = await flood(place);
    await quick.shows(`"revision":${last}}`, 60_000);
    const cutOff = async (): Promise<boolean> =>
      (await on.nobody.get('/metrics')).text.includes('ringfence_watch_ended_total{why="stuck"} 1');
    expect(await cutOff()).toBe(false);
    // As long as it may be stuck, counted from whenever the kernel took the last of it.
    for (let i = 0; i < 600 && !(await cutOff()); i += 1) {
      pass(61_000);
      await sleep(100);
    }
    expect(quick.closed).toBe(false);
    stuck.resume();
    await stuck.end();
    expect(stuck.body.ended).toBe(false);
    const seen = stuck.documents.findLast((one) => one.value !== undefined)?.value.revision ?? 1;
    const resumed = watch(place, [{ kind: 'security-groups', gt_revision: seen, at_tail: true }]);
    await resumed.shows(`"revision":${last}}`, 60_000);
  });

  test('that goes away is forgotten at once', async () => {
    const place = await world.place();
    const [closed, half] = [await watch(place, device).tail(), await watch(place, device).tail()];
    const count = async (): Promise<number> => {
      const { text } = await world.server.nobody.get('/metrics');
      return Number(/^ringfence_watch_streams (\d+)$/m.exec(text)?.[1]);
    };
    const before = await count();
    closed.close();
    half.halfClose();
    for (let i = 0; i < 3_000 && (await count()) > before - 2; i += 1) await sleep(20);
    expect(await count()).toBe(before - 2);
  });

  test('that sends more after its request is not listened to', async () => {
    const place = await world.place();
    const stream = await watch(place, device).tail();
    stream.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nand no HTTP at all');
    const { revision } = await newDevice(place);
    await stream.count(2);
    expect(stream.told).toEqual(['tail', `change ${revision}`]);
    expect(stream.raw.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});

describe("a user's group (reference 4.3 (18), 5 (5))", () => {
  test('enters and leaves the view of others with its first and last device; resumes agree', async () => {
    const place = await world.place();
    const { owner, member, base, org } = place;
    const groups = [{ kind: 'security-groups' }];
    const [own, other] = [await watch(place, groups).tail(), await watch(place, groups, { token: owner.token }).tail()];
    const group = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
    const holder = await newDevice(place, { security_groups: [group.id] });
    await other.count(3);
    expect(other.documents[2]).toMatchObject({ type: 'change', value: { id: group.id, group_name: 'mine' } });
    await member.api.expect(200, 'PATCH', `${base}/devices/${holder.id}`, { security_groups: [] });
    await other.count(4);
    const left = other.documents[3].value;
    expect(other.documents[3].type).toBe('delete');
    expect(left).toEqual({ id: group.id, org_id: org, revision: left.revision });
    const secret = await member.api.expect(200, 'PATCH', `/api/user/${org}/security_groups/${group.id}`, {
      group_name: 'secret',
    });
    await own.count(6);
    expect(own.documents.slice(2).map((one) => one.type)).toEqual(['change', 'change', 'change', 'change']);
    expect(own.documents.at(-1)?.value).toEqual(secret);

    const resume = async (gt_revision: number, token: string): Promise<readonly string[]> =>
      (await watch(place, [{ kind: 'security-groups', gt_revision }], { token }).tail()).told;
    expect(await resume(holder.revision, owner.token)).toEqual([`delete ${left.revision}`, 'tail']);
    expect(await resume(left.revision, owner.token)).toEqual(['tail']);
    expect(await resume(holder.revision, member.token)).toEqual([`change ${secret.revision}`, 'tail']);
    await member.api.expect(200, 'DELETE', `/api/user/${org}/security_groups/${group.id}`);
    expect(await resume(holder.revision, owner.token)).toEqual([`delete ${left.revision}`, 'tail']);
    expect(other.raw).not.toContain('secret');
    const listed = await watch(place, groups, { token: owner.token }).tail();
    expect(listed.told).toEqual(['change 1', 'tail']);
  });

  test('that was never applied shows to its owner only, and not to a device token of its owner (reference 5)', async () => {
    const place = await world.place();
    const { owner, member, org } = place;
    const { device_token } = await newDevice(place);
    const group = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'mine' });
    await member.api.expect(200, 'DELETE', `/api/user/${org}/security_groups/${group.id}`);
    const kept = await member.api.expect(201, 'POST', `/api/user/${org}/security_groups`, { group_name: 'kept' });
    const ask = async (token: string): Promise<string> =>
      (await watch(place, [{ kind: 'security-groups', gt_revision: 1 }], { token }).tail()).raw;
    expect(await ask(owner.token)).not.toContain(group.id);
    expect(await ask(owner.token)).not.toContain(kept.id);
    expect(await ask(device_token)).not.toContain(kept.id);
    expect(await ask(member.token)).toContain(kept.id);
    expect(await ask(member.token)).toContain(group.id);
  });
});
