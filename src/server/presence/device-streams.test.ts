/**
 * Proves what a process records of its devices: each connection and disconnection once, the last sign of life, and
 * everything again after its record was dropped.
 */
import { expect, test } from 'vitest';
import { parseDeviceId } from '../../policy/ids.ts';
import type { PresenceChange } from '../store/devices/presence.ts';
import { DeviceStreams } from './device-streams.ts';

const deviceOf = (number: number) => parseDeviceId(`00000000-0000-4000-8000-${String(number).padStart(12, '0')}`);
const [a, b] = [deviceOf(1), deviceOf(2)];
const silence = 45_000;

function setUp() {
  const recorded: (readonly PresenceChange[])[] = [];
  const heard: (number | undefined)[] = [];
  const world = { now: 0, fails: false, unknown: true, warnings: 0 };
  const streams = new DeviceStreams({
    presence: {
      record: (_process, heardAgoMs, changes) => {
        if (world.fails) return Promise.reject(new Error('the database is away'));
        recorded.push(changes);
        heard.push(heardAgoMs);
        const { unknown } = world;
        world.unknown = false;
        return Promise.resolve(unknown);
      },
    },
    process: 'p',
    requestGapMs: 10_000,
    monotonic: () => world.now,
    onWarning: () => (world.warnings += 1),
  });
  const look = async (seconds = 1): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      world.now += 1_000;
      await streams.look();
    }
  };
  const open = (device = a): void => streams.opened(device, 'stream', silence);
  const close = (device = a, silent = false): void => streams.closed(device, 'stream', silent);
  return { recorded, heard, world, streams, look, open, close };
}

const connected = (device_id: string, heardAgoMs: number) => ({
  device_id,
  connected: true,
  twoWay: true,
  silenceMs: silence,
  heardAgoMs,
});
const left = (device_id: string, heardAgoMs: number, leftAgoMs: number) => ({
  ...connected(device_id, heardAgoMs),
  connected: false,
  twoWay: false,
  leftAgoMs,
});

test('ten thousand idle devices that show signs cost one small write every five seconds, and a process without devices none', async () => {
  const { recorded, streams, look, open } = setUp();
  await look(60);
  expect(recorded).toEqual([]);
  const devices = Array.from({ length: 10_000 }, (_, index) => deviceOf(index + 1));
  for (const device of devices) open(device);
  await look();
  expect(recorded.flat()).toHaveLength(10_000);
  const before = recorded.length;
  for (let second = 0; second < 50; second += 1) {
    for (const device of devices.slice(second * 500, second * 500 + 500)) streams.heard(device, false);
    await look();
  }
  expect(recorded.slice(before)).toEqual(Array.from({ length: 10 }, () => []));
});

test('since when all devices were heard is the time of the one that was silent for longest, and never later', async () => {
  const { heard, streams, look, open, close } = setUp();
  open(a);
  await look(10);
  open(b);
  streams.heard(a, false);
  await look(6);
  // Both were last heard at 10 s.
  expect(heard.at(-1)).toBe(6_000);
  streams.heard(b, false);
  await look(5);
  expect(heard.at(-1)).toBe(11_000);
  close(a, true);
  await look();
  // The other was heard at 16 s.
  expect(heard.at(-1)).toBe(6_000);
});

test('a device with several streams comes with the first and leaves with the last, at the time of its last sign', async () => {
  const { recorded, world, streams, look, open, close } = setUp();
  open(a);
  open(a);
  open(b);
  await look();
  expect(recorded.at(-1)).toEqual([connected(a, 1_000), connected(b, 1_000)]);
  close(a);
  await look();
  expect(recorded.at(-1)).toEqual([connected(a, 2_000)]);
  streams.heard(a, false);
  world.now += 500;
  close(a);
  await look();
  expect(recorded.at(-1)).toEqual([left(a, 1_500, 1_000)]);
});

test('a device that fell silent is recorded as gone since its last sign, and not as having left', async () => {
  const { recorded, look, open, close } = setUp();
  open(a);
  await look(45);
  close(a, true);
  await look();
  expect(recorded.at(-1)).toEqual([{ ...connected(a, 46_000), connected: false, twoWay: false }]);
});

test('a device that shows itself by requests is recorded by them, at most every ten seconds, and not by reports', async () => {
  const { recorded, streams, look } = setUp();
  streams.opened(a, 'requests', silence);
  await look();
  const before = recorded.length;
  for (let second = 0; second < 40; second += 1) {
    streams.heard(a, false);
    streams.heard(b, true);
    await look();
  }
  const rows = recorded.slice(before).flat();
  expect(rows).toHaveLength(4);
  expect(new Set(rows.map(({ device_id, twoWay }) => `${device_id} ${twoWay}`))).toEqual(new Set([`${a} false`]));
});

test('a device without a stream here is recorded by a request, and then forgotten', async () => {
  const { recorded, streams, look } = setUp();
  streams.heard(a, false);
  await look();
  const row = { device_id: a, connected: false, twoWay: false, silenceMs: 0, heardAgoMs: 1_000 };
  expect(recorded).toEqual([[row]]);
  await look(60);
  expect(recorded).toHaveLength(1);
  streams.heard(a, false);
  await look();
  expect(recorded).toEqual([[row], [row]]);
});

test('what could not be recorded is recorded when the database is back, as it is by then', async () => {
  const { recorded, world, look, open, close } = setUp();
  world.fails = true;
  open(a);
  open(b);
  await look(3);
  close(b);
  world.fails = false;
  await look();
  expect(world.warnings).toBe(3);
  expect(recorded.flat()).toEqual([connected(a, 4_000), left(b, 4_000, 1_000)]);
});

test('a process that was given up after a long silence records all its devices again', async () => {
  const { recorded, world, look, open } = setUp();
  open(a);
  open(b);
  await look();
  world.unknown = true;
  await look(5);
  expect(recorded.at(-1)?.map(({ device_id }) => device_id)).toEqual([a, b]);
});

test('the end of a process records who left with it', async () => {
  const { recorded, streams, look, open, close } = setUp();
  open(a);
  await look();
  close(a);
  await streams.close();
  expect(recorded.at(-1)).toEqual([left(a, 1_000, 0)]);
});
