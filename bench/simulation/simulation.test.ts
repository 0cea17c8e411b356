/** Proves that the simulation adds up. */
import { expect, test } from 'vitest';
import { millionDevices, simulate, unitCosts, usualMachine } from './simulation.ts';

test('twice the devices need twice the memory and the processors', () => {
  const [one, two] = [millionDevices.devices, 2 * millionDevices.devices].map((devices) =>
    simulate({ ...millionDevices, devices, organizations: devices / 100 }),
  );
  expect((two?.dayTotal ?? 0) / (one?.dayTotal ?? 0)).toBeCloseTo(2, 6);
  expect((two?.returnSeconds.full ?? 0) / (one?.returnSeconds.full ?? 0)).toBeCloseTo(2, 6);
  expect((two?.memoryGb ?? 0) / (one?.memoryGb ?? 0)).toBeGreaterThan(1.5);
});

test('each unit cost counts', () => {
  const usual = JSON.stringify(simulate(millionDevices));
  for (const [name, cost] of Object.entries(unitCosts)) {
    const costs = { ...unitCosts, [name]: { ...cost, value: cost.value * 10 } };
    expect(JSON.stringify(simulate(millionDevices, usualMachine, costs)), name).not.toBe(usual);
  }
});
