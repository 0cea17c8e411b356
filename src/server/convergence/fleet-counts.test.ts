/** Proves that the counts for the metrics add up over organizations, and that frequent scrapes do not cause frequent counting. */
import { expect, test } from 'vitest';
import { parseOrganizationId } from '../../policy/ids.ts';
import { FleetCounts, type Counts } from './fleet-counts.ts';

const idOf = (number: number) => parseOrganizationId(`00000000-0000-4000-8000-${String(number).padStart(12, '0')}`);
const counts = (given: Partial<Counts>): Counts => ({
  yes: 0,
  behind: 0,
  failed: 0,
  reverted: 0,
  offline: 0,
  never_seen: 0,
  not_understood: 0,
  ...given,
});

function setUp(size: number) {
  const ids = Array.from({ length: size }, (_, index) => idOf(index));
  const world = { now: 0, counted: 0, fails: false, warnings: 0 };
  const fleetCounts = new FleetCounts({
    store: {
      organizations: {
        ids: async ({ after, limit }) => ids.slice(after === undefined ? 0 : ids.indexOf(after) + 1).slice(0, limit),
      },
    },
    convergence: {
      count: async () => {
        if (world.fails) throw new Error('away');
        world.counted += 1;
        world.now += 1;
        return counts({ yes: 2, reverted: 1 });
      },
    },
    monotonic: () => world.now,
    onWarning: () => (world.warnings += 1),
  });
  return { fleetCounts, world };
}

test('every organization is counted once, in as many pages as it takes', async () => {
  const { fleetCounts, world } = setUp(1_200);
  expect(fleetCounts.read()).toBeUndefined();
  await fleetCounts.settled();
  expect(fleetCounts.read()).toEqual(counts({ yes: 2_400, reverted: 1_200 }));
  expect(world.counted).toBe(1_200);
});

test('it is counted anew only after a rest that is many times what counting took, however often it is asked', async () => {
  const { fleetCounts, world } = setUp(1_000);
  fleetCounts.read();
  await fleetCounts.settled();
  // A thousand milliseconds to count: fifty thousand to rest.
  for (world.now = 1_001; world.now < 51_000; world.now += 100) fleetCounts.read();
  await fleetCounts.settled();
  expect(world.counted).toBe(1_000);
  world.now = 51_000;
  fleetCounts.read();
  await fleetCounts.settled();
  expect(world.counted).toBe(2_000);
});

test('what was counted last is told while it cannot be counted', async () => {
  const { fleetCounts, world } = setUp(1);
  fleetCounts.read();
  await fleetCounts.settled();
  world.fails = true;
  world.now = 60_000;
  expect(fleetCounts.read()).toEqual(counts({ yes: 2, reverted: 1 }));
  await fleetCounts.settled();
  expect(fleetCounts.read()).toEqual(counts({ yes: 2, reverted: 1 }));
  expect(world.warnings).toBe(1);
});
