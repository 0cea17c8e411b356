/** Proves what a process tells of its devices: comings and goings once, that it lives now and then, and everything again when it was given up. */
import { expect, test } from 'vitest';
import { parseDeviceId } from '../../policy/ids.ts';
import type { PresenceChange } from '../store/contract/presence.ts';
import { DeviceStreams } from './device-streams.ts';

const deviceOf = (number: number) => parseDeviceId(`00000000-0000-4000-8000-${String(number).padStart(12, '0')}`);
const [a, b] = [deviceOf(1), deviceOf(2)];

function setUp() {
  const told: (readonly PresenceChange[])[] = [];
  const world = { now: 0, fails: false, unknown: true, warnings: 0 };
  const streams = new DeviceStreams({
    presence: {
      record: (_process, changes) => {
        if (world.fails) return Promise.reject(new Error('the database is away'));
        told.push(changes);
        const { unknown } = world;
        world.unknown = false;
        return Promise.resolve(unknown);
      },
    },
    process: 'p',
    monotonic: () => world.now,
    onWarning: () => (world.warnings += 1),
  });
  const look = async (seconds = 1): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      world.now += 1_000;
      await streams.look();
    }
  };
  return { told, world, streams, look };
}

test('ten thousand idle devices cost one small write every five seconds, and a process without devices none', async () => {
  const { told, streams, look } = setUp();
  await look(60);
  expect(told).toEqual([]);
  for (let number = 1; number <= 10_000; number += 1) streams.opened(deviceOf(number));
  await look();
  expect(told.flat()).toHaveLength(10_000);
  const before = told.length;
  await look(50);
  expect(told.slice(before)).toEqual(Array.from({ length: 10 }, () => []));
});

test('a device with several streams comes with the first and leaves with the last', async () => {
  const { told, streams, look } = setUp();
  streams.opened(a);
  streams.opened(a);
  streams.opened(b);
  await look();
  expect(told.at(-1)).toEqual([
    { device_id: a, connected: true },
    { device_id: b, connected: true },
  ]);
  streams.closed(a);
  await look();
  expect(told).toHaveLength(1);
  streams.closed(a);
  await look();
  expect(told.at(-1)).toEqual([{ device_id: a, connected: false }]);
});

test('what could not be told is told when the database is back, as it is by then', async () => {
  const { told, world, streams, look } = setUp();
  world.fails = true;
  streams.opened(a);
  streams.opened(b);
  await look(3);
  streams.closed(b);
  world.fails = false;
  await look();
  expect(world.warnings).toBe(3);
  expect(told.flat()).toEqual([
    { device_id: a, connected: true },
    { device_id: b, connected: false },
  ]);
});

test('a process that was given up after a long silence tells of all its devices again', async () => {
  const { told, world, streams, look } = setUp();
  streams.opened(a);
  streams.opened(b);
  await look();
  world.unknown = true;
  await look(5);
  expect(told.at(-1)).toEqual([
    { device_id: a, connected: true },
    { device_id: b, connected: true },
  ]);
});

test('the end of a process tells who left with it', async () => {
  const { told, streams, look } = setUp();
  streams.opened(a);
  await look();
  streams.closed(a);
  await streams.close();
  expect(told.at(-1)).toEqual([{ device_id: a, connected: false }]);
});
