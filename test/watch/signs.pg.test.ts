/** Proves signs of life on the wire, against the real server and PostgreSQL: streams that go both ways, what older agents get, and that no device speaks for another. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { eventually } from '../lib/eventually.ts';
import type { Json } from '../lib/http.ts';
import type { Place } from '../lib/server.ts';
import { watching, type Device } from '../lib/watching.ts';

const silentMs = 3_000;
const unpromisedSilentMs = 6_000;
const world = watching({ watch: { heartbeatMs: 500, silentMs, unpromisedSilentMs } });
const { watch, newDevice } = world;

const both = { Connection: 'Upgrade', Upgrade: 'ringfence-watch', Prefer: 'signs-of-life' };
const open = (place: Place, { device_token }: Device, headers = {}) =>
  watch(place, [{ kind: 'device' }], { token: device_token, headers });

async function statusOf(place: Place, { id }: Device): Promise<Json> {
  const all: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
  return all.find(({ device_id }) => device_id === id);
}
const becomes = (place: Place, device: Device, online: boolean): Promise<void> =>
  eventually(`online ${online}`, async () => (await statusOf(place, device)).online === online);

/** Shows signs in this way until the device was seen after it would have been gone without them. */
function seenAfterSilence(place: Place, device: Device, show: () => Promise<unknown>, ms = silentMs): Promise<void> {
  const started = Date.now();
  return eventually('it was seen after it could have been gone', async () => {
    await show();
    return Date.parse((await statusOf(place, device)).last_seen_at) > started + ms;
  });
}

test('a stream goes both ways where the client asks for it: lines without chunks, signs up, and a last line', async () => {
  const place = await world.place();
  const device = await newDevice(place);
  const stream = open(place, device, both);
  await stream.until('the tail', () => stream.raw.includes('{"type":"tail"}\n'));
  const [head = '', body = ''] = stream.raw.split('\r\n\r\n');
  expect(head.split('\r\n')).toEqual(
    expect.arrayContaining([
      'HTTP/1.1 101 Switching Protocols',
      'Connection: Upgrade',
      'Upgrade: ringfence-watch',
      'Preference-Applied: signs-of-life=1.333, heartbeat=0.5',
    ]),
  );
  expect(body).toMatch(/^\{"type":"change",[^\n]*\}\n\{"type":"tail"\}\n/);
  await seenAfterSilence(place, device, async () => {
    stream.send('\n');
    await sleep(silentMs / 10);
  });
  expect([stream.closed, (await statusOf(place, device)).online]).toEqual([false, true]);
  await place.owner.api.expect(200, 'DELETE', `${place.base}/devices/${device.id}`);
  await stream.end();
  expect(stream.raw.endsWith('\n{"type":"end"}\n')).toBe(true);
});

test('a stream that goes both ways is closed when signs stop, and the device is offline since its last sign', async () => {
  const place = await world.place();
  const device = await newDevice(place);
  const stream = open(place, device, both);
  await becomes(place, device, true);
  const closed = stream.until('the end of the connection', () => stream.closed);
  await becomes(place, device, false);
  expect(Date.now() - Date.parse((await statusOf(place, device)).last_seen_at)).toBeGreaterThanOrEqual(silentMs);
  await closed;
});

test('a stream is closed when its reader sends anything but signs, or too many, and others go on', async () => {
  const place = await world.place();
  const [one, two, three] = [await newDevice(place), await newDevice(place), await newDevice(place)];
  const streams = [open(place, one, both), open(place, two, both), open(place, three, both)];
  for (const stream of streams) await stream.until('the tail', () => stream.raw.includes('"tail"'));
  streams[0]?.send('GET /healthz HTTP/1.1\r\n\r\n');
  streams[1]?.send('\n'.repeat(61));
  await eventually('both are closed', () => streams[0]?.closed === true && streams[1]?.closed === true);
  streams[2]?.send('\n');
  expect(streams[2]?.closed).toBe(false);
});

test('a promise of signs by requests is kept by any request of the device itself, and by none of another', async () => {
  const place = await world.place();
  const [device, other] = [await newDevice(place), await newDevice(place)];
  const stream = open(place, device, { Prefer: 'signs-of-life' });
  await stream.until('the tail', () => stream.raw.includes('"tail"'));
  expect(stream.raw).toMatch(/^HTTP\/1\.1 200 [^]*Transfer-Encoding: chunked\r\n/);
  const asks = (token: string) =>
    world.server.nobody.as(token).expect(200, 'GET', `${place.base}/devices/${device.id}`);
  await seenAfterSilence(place, device, () => asks(device.device_token));
  expect((await statusOf(place, device)).online).toBe(true);
  await eventually('it is offline', async () => {
    await asks(other.device_token);
    await asks(place.owner.token);
    return (await statusOf(place, device)).online === false;
  });
  expect(stream.closed).toBe(false);
});

test('an agent of an earlier version, which promises nothing, is online while it reports, and not for ever', async () => {
  const place = await world.place();
  const device = await newDevice(place);
  const stream = open(place, device);
  await stream.until('the tail', () => stream.raw.includes('"tail"'));
  const report = () =>
    world.server.nobody
      .as(device.device_token)
      .expect(200, 'PUT', `${place.base}/devices/${device.id}/status`, { state: 'starting' });
  await seenAfterSilence(place, device, report, unpromisedSilentMs);
  expect([(await statusOf(place, device)).online, stream.closed]).toEqual([true, false]);
  await becomes(place, device, false);
});
