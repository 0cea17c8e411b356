/**
 * Proves that a device undoes an unconfirmed trial by itself: without the server, after a restart, and with any change
 * of its clock.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { StateFolder } from '../state/state-folder.ts';
import { groupOf, World, type WorldOptions } from './agent.fixture.ts';
import { PolicyClock } from './policy-clock.ts';

const start = 1_700_000_000_000;
const [minute, hour] = [60_000, 3_600_000];
const policyOf = (port: number): EffectivePolicy => ({
  source: 'list',
  groups: [groupOf(1, [written('tcp', port, port, '10.0.0.0/8')], [])],
});
const [before, tried] = [policyOf(22), policyOf(80)];
const onTrial = (in_ms: number): EffectivePolicy => ({ ...tried, next: { at: start + in_ms, policy: before } });

let worlds: World[] = [];
let folder: string;
const open = async (options: WorldOptions = {}): Promise<World> => {
  const world = new World({ state: new StateFolder({ folder }), ...options });
  worlds.push(world);
  await world.settle();
  return world;
};
const holds = async (world: World, policy: EffectivePolicy): Promise<boolean> => {
  const held = (await world.enforced())?.policy;
  return held !== undefined && samePolicy(held, canonicalize(policy));
};
async function startTrial(world: World, in_ms: number, revision = 1): Promise<void> {
  world.source.give({ kind: 'known', policy: onTrial(in_ms), revision });
  await world.settle();
  expect(await holds(world, tried)).toBe(true);
}
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-trial-'));
});
afterEach(async () => {
  for (const world of worlds) await world.stop();
  worlds = [];
  await rm(folder, { recursive: true, force: true });
});

describe('a change on trial', () => {
  test('is undone at its end without a word from the server, and connections are looked at', async () => {
    const world = await open();
    await startTrial(world, minute);
    const looks = world.revocations.length;
    await world.clock.advance(minute - 1);
    await world.settle();
    expect(await holds(world, tried)).toBe(true);
    await world.clock.advance(1);
    await world.settle();
    expect(await holds(world, before)).toBe(true);
    expect(world.revocations.length).toBeGreaterThan(looks);
  });

  test('stays once the server says that it is confirmed, also where the device had gone back already', async () => {
    const world = await open();
    await startTrial(world, minute);
    world.source.give({ kind: 'known', policy: tried, revision: 2 });
    await world.settle();
    await world.clock.advance(hour);
    await world.settle();
    expect(await holds(world, tried)).toBe(true);
    await startTrial(world, 2 * hour, 3);
    await world.clock.advance(2 * hour);
    await world.settle();
    expect(await holds(world, before)).toBe(true);
    world.source.give({ kind: 'known', policy: tried, revision: 4 });
    await world.settle();
    expect(await holds(world, tried)).toBe(true);
  });

  test('stays undone where a clock that was set forward is set back', async () => {
    let skew = 0;
    const world = await open({ skew: () => skew });
    await startTrial(world, hour);
    skew = 2 * hour;
    await world.clock.advance(minute);
    await world.settle();
    expect(await holds(world, before)).toBe(true);
    skew = 0;
    world.source.give({ kind: 'known', policy: onTrial(hour), revision: 2 });
    await world.settle();
    expect(await holds(world, before)).toBe(true);
  });
});

describe('after a restart without the server, a change on trial', () => {
  test('goes on until its end', async () => {
    const first = await open();
    await startTrial(first, hour);
    await first.stop();
    const again = await open();
    expect(await holds(again, tried)).toBe(true);
    await again.clock.advance(hour);
    await again.settle();
    expect(await holds(again, before)).toBe(true);
  });

  test('is undone at once where the clock is an hour ahead, or its end has passed', async () => {
    const first = await open();
    await startTrial(first, hour);
    await first.stop();
    const again = await open({ skew: () => hour });
    expect(await holds(again, before)).toBe(true);
  });

  test('is undone at once where the clock was set back by an hour: nobody can tell how long it still had', async () => {
    const first = await open();
    await startTrial(first, 2 * hour);
    await first.stop();
    const again = await open({ skew: () => -hour });
    expect(await holds(again, before)).toBe(true);
  });

  test('is undone at once where the clock shows less than what the last run knew, however long after the policy was saved', async () => {
    const first = await open();
    await startTrial(first, 2 * hour);
    await first.clock.advance(hour);
    await first.settle();
    await first.stop();
    // A new world begins at the start again: an hour has passed, and the clock was set back by it.
    const again = await open();
    expect(await holds(again, before)).toBe(true);
    // The server knows better.
    again.source.give({ kind: 'known', policy: tried, revision: 2 });
    await again.settle();
    expect(await holds(again, tried)).toBe(true);
  });

  test('ends in time on a device whose clock is an hour behind the server', async () => {
    const clock = { now: () => start - hour };
    const time = new PolicyClock({ clock, monotonic: () => 0 });
    time.serverTime(start);
    const first = await open({ skew: () => -hour, time });
    await startTrial(first, 10 * minute);
    await first.stop();
    // No server answers, and the time is the one of the server all the same.
    const again = await open({ skew: () => -hour });
    expect(await holds(again, tried)).toBe(true);
    await again.clock.advance(10 * minute);
    await again.settle();
    expect(await holds(again, before)).toBe(true);
  });

  test('does not come back once it was undone', async () => {
    const first = await open();
    await startTrial(first, minute);
    await first.clock.advance(minute);
    await first.settle();
    await first.stop();
    const again = await open({ skew: () => -hour });
    expect(await holds(again, before)).toBe(true);
  });
});
