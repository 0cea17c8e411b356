/** Proves that a look judges exactly the devices whose result may have changed, and misses none after a failure or a concurrent change. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDeviceId, type DeviceId } from '../../policy/ids.ts';
import { TimeSlices } from '../scheduling/time-slices.ts';
import { EnforcedRevisions, type EnforcedRevisionsOptions } from './enforced-revisions.ts';
import type { EnforcedDevice } from './policy-revisions.ts';
import type { Receipt } from './receipt.ts';

const idOf = (number: number): DeviceId => parseDeviceId(`00000000-0000-4000-8000-${String(number).padStart(12, '0')}`);

/** An organization whose devices have in force what their last word says. */
function setUp(count: number) {
  const devices = new Map<DeviceId, EnforcedDevice>();
  const receipts = new Map<DeviceId, Receipt>();
  const world = {
    fails: false,
    isKnown: true,
    judged: 0,
    meanwhile: () => {},
    now: 0,
    until: Number.POSITIVE_INFINITY,
  };
  let changed: Set<DeviceId> | undefined;
  const slices = new TimeSlices({ monotonic: () => 0, worked: () => 0, defer: queueMicrotask, rest: queueMicrotask });
  const state: EnforcedRevisionsOptions['state'] = {
    devices,
    receiptOf: (id) => receipts.get(id),
    takeChanged: () => {
      const taken = changed;
      changed = new Set();
      return taken;
    },
    workOutDigests: async () => {
      world.meanwhile();
      if (world.fails) throw new Error('away');
      return world.isKnown;
    },
    inForceUpTo: ({ id }) => {
      world.judged += 1;
      return receipts.get(id)?.revision ?? -1;
    },
    isUnreported: () => false,
    judgedUntil: () => world.until,
    get now() {
      return world.now;
    },
  };
  const report = (number: number, revision: number): void => {
    receipts.set(idOf(number), { revision } as Receipt);
    changed?.add(idOf(number));
  };
  const put = (number: number): void => {
    devices.set(idOf(number), { id: idOf(number) } as EnforcedDevice);
    changed = undefined;
  };
  const remove = (number: number): void => {
    devices.delete(idOf(number));
    receipts.delete(idOf(number));
    changed = undefined;
  };
  for (let number = 0; number < count; number += 1) put(number);
  const enforced = new EnforcedRevisions({ state, slices, presence: async () => new Map() });
  const truth = (): object => new Map([...devices.keys()].map((id) => [id, receipts.get(id)?.revision ?? -1]));
  const look = async (): Promise<object> => new Map(await enforced.look());
  return { world, enforced, look, truth, report, put, remove };
}

test('one word among a thousand devices costs one judgement', async () => {
  const { world, look, truth, report } = setUp(1_000);
  expect(await look()).toEqual(truth());
  world.judged = 0;
  report(500, 7);
  expect(await look()).toEqual(truth());
  expect(world.judged).toBe(1);
  expect(await look()).toEqual(truth());
  expect(world.judged).toBe(1);
});

test('what a look that failed was about is judged by the next one', async () => {
  const { world, look, truth, report } = setUp(10);
  await look();
  report(3, 7);
  world.fails = true;
  await expect(look()).rejects.toThrow('away');
  world.fails = false;
  expect(await look()).toEqual(truth());
});

test('a device that could not be judged for certain is judged again, until it can be', async () => {
  const { world, look, truth, report } = setUp(3);
  await look();
  report(1, 7);
  world.isKnown = false;
  await look();
  world.judged = 0;
  await look();
  expect(world.judged).toBe(1);
  world.isKnown = true;
  expect(await look()).toEqual(truth());
  world.judged = 0;
  await look();
  expect(world.judged).toBe(0);
});

test('two who look at once are both told the truth', async () => {
  const { look, truth, report } = setUp(10);
  await look();
  report(3, 7);
  expect(await Promise.all([look(), look()])).toEqual([truth(), truth()]);
});

test('however devices come, leave and report, also while somebody looks, the next look tells the truth', async () => {
  const number = fc.integer({ min: 0, max: 5 });
  const step = fc.oneof(
    fc.record({ kind: fc.constant('report' as const), number, revision: fc.nat(9) }),
    fc.record({ kind: fc.constantFrom('put' as const, 'remove' as const), number }),
    fc.record({ kind: fc.constantFrom('look' as const, 'fail' as const, 'unknown' as const) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), fc.array(step, { maxLength: 10 }), async (steps, meanwhile) => {
      const { world, look, truth, report, put, remove } = setUp(3);
      const change = (one: (typeof steps)[number]): void => {
        if (one.kind === 'report') report(one.number, one.revision);
        else if (one.kind === 'put') put(one.number);
        else if (one.kind === 'remove') remove(one.number);
      };
      const rest = [...meanwhile];
      world.meanwhile = () => {
        const one = rest.shift();
        if (one !== undefined) change(one);
      };
      for (const one of steps) {
        change(one);
        world.fails = one.kind === 'fail';
        world.isKnown = one.kind !== 'unknown';
        if (one.kind === 'look' || one.kind === 'fail' || one.kind === 'unknown') await look().catch(() => {});
      }
      world.meanwhile = () => {};
      world.fails = false;
      world.isKnown = true;
      expect(await look()).toEqual(truth());
    }),
  );
});

test('a device whose judgement time alone changes is judged again then, and not before', async () => {
  const { world, look, report } = setUp(3);
  for (const number of [0, 1, 2]) report(number, 7);
  world.until = 1_000;
  await look();
  const judged = world.judged;
  world.now = 999;
  await look();
  expect(world.judged).toBe(judged);
  world.now = 1_000;
  world.until = Number.POSITIVE_INFINITY;
  await look();
  expect(world.judged).toBe(judged + 3);
  await look();
  expect(world.judged).toBe(judged + 3);
});
