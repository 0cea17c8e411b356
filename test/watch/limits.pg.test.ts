/** Proves the bounds on open streams over HTTP: 429 with Retry-After beyond them, and room again when one ends (reference 8). */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { EventStream } from '../lib/stream.ts';
import { watching } from '../lib/watching.ts';

const world = watching({ maxStreams: 3, maxDeviceStreams: 2, maxOrganizationStreams: 6 });
const { watch, newDevice } = world;
const device = [{ kind: 'device' }];

/** Opens streams until one is refused; gives those that are open and the refused one. */
async function fill(open: () => EventStream): Promise<{ opened: EventStream[]; refused: EventStream }> {
  const opened: EventStream[] = [];
  for (;;) {
    const stream = await open().answered();
    if (stream.status !== 200) return { opened, refused: stream };
    opened.push(await stream.tail());
  }
}

function expectTooMany(refused: EventStream, who: string): void {
  expect(refused.status).toBe(429);
  expect(Number(refused.header('retry-after'))).toBeGreaterThan(0);
  expect(refused.header('content-type')).toContain('application/problem+json');
  expect(refused.raw).toContain(who);
}

test('a user, a device and an organization have as many streams as they may have, and not one more', async () => {
  const place = await world.place();
  const { device_token } = await newDevice(place);
  const mine = await fill(() => watch(place, device));
  expect(mine.opened).toHaveLength(3);
  expectTooMany(mine.refused, 'This credential');
  const ofDevice = await fill(() => watch(place, device, { token: device_token }));
  expect(ofDevice.opened).toHaveLength(2);
  expectTooMany(ofDevice.refused, 'This credential');
  const ofOwner = await fill(() => watch(place, device, { token: place.owner.token }));
  expect(ofOwner.opened).toHaveLength(1);
  expectTooMany(ofOwner.refused, 'This organization');
  // Another organization is not concerned, and neither are those who have their streams.
  expect((await fill(() => watch(place, device))).opened).toHaveLength(0);
  const elsewhere = await world.place();
  expect((await watch(elsewhere, device).tail()).status).toBe(200);
  const { revision } = await newDevice(place);
  for (const stream of [...mine.opened, ...ofDevice.opened, ...ofOwner.opened]) {
    await stream.shows(`"revision":${revision}}`);
  }
});

test('a stream that ends makes room for another', async () => {
  const place = await world.place();
  const { opened } = await fill(() => watch(place, device));
  opened[0]?.close();
  for (let i = 0; i < 3_000; i += 1, await sleep(20)) {
    if ((await watch(place, device).answered()).status === 200) break;
  }
  expect((await fill(() => watch(place, device))).opened).toHaveLength(0);
});
