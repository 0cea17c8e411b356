/** Proves that rules end by the agent's own clock: without the server, after a restart, and whatever happens to the time of day. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import { groupOf, World, type WorldOptions } from './agent.fixture.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { StateFolder } from '../state/state-folder.ts';
import { everything } from './pending-revocation.ts';
import { PolicyClock } from './policy-clock.ts';

const start = 1_700_000_000_000;
const [second, minute, hour, day] = [1_000, 60_000, 3_600_000, 86_400_000];
const ends = (rule: StoredRule, in_ms: number): StoredRule => ({
  ...rule,
  expires_at: new Date(start + in_ms).toISOString(),
});
const http = written('tcp', 80, 80, '10.0.0.0/8');
const ssh = written('tcp', 22, 22, '10.0.0.0/8');
const group = (in_ms: number): PolicyGroup => groupOf(1, [http, ends(ssh, in_ms)], [ends(http, in_ms)]);

let worlds: World[] = [];
let folder: string;
const open = async (options: WorldOptions = {}): Promise<World> => {
  const world = new World(options);
  worlds.push(world);
  await world.settle();
  return world;
};
const kept = (): Pick<WorldOptions, 'state'> => ({ state: new StateFolder({ folder }) });
/** Whether the kernel holds the group as it is at a moment. */
const holds = async (world: World, of: PolicyGroup, in_ms: number): Promise<boolean> => {
  const wanted = canonicalize(policyAt({ source: 'list', groups: [of] }, start + in_ms).policy);
  const held = (await world.enforced())?.policy;
  return held !== undefined && samePolicy(held, wanted);
};
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-expiry-'));
});
afterEach(async () => {
  for (const world of worlds) await world.stop();
  worlds = [];
  await rm(folder, { recursive: true, force: true });
});

describe('a rule that expires', () => {
  test('is in force until its moment and not after it, its connections are looked at, and outbound stays closed', async () => {
    const world = await open();
    world.source.know(1, group(minute));
    await world.settle();
    // Every minute all connections are judged anyway.
    const looked = () => world.revocations.filter(({ before }) => !before.includes(everything)).length;
    const looks = looked();
    await world.clock.advance(minute - 1);
    await world.settle();
    expect(await holds(world, group(minute), 0)).toBe(true);
    expect(looked()).toBe(looks);
    await world.clock.advance(1);
    await world.settle();
    expect(await holds(world, group(minute), minute)).toBe(true);
    expect(await holds(world, group(minute), 0)).toBe(false);
    expect((await world.enforced())?.policy.outbound.kind).toBe('closed');
    expect(looked()).toBe(looks + 1);
    expect(world.agent.status).toMatchObject({ inForce: { revision: 1 }, pending: false });
  });

  test('that ends in a month makes the agent look at the clock every few seconds, so that no timer is too long', async () => {
    const world = await open();
    world.source.know(1, group(30 * day));
    await world.settle();
    expect(world.clock.next).toBeLessThanOrEqual(5 * second);
    expect(await holds(world, group(30 * day), 0)).toBe(true);
  });

  test('ends while the server says something that the agent does not understand', async () => {
    const world = await open();
    world.source.know(1, group(minute));
    await world.settle();
    world.source.give({ kind: 'unknown', why: 'a newer field', code: 'not_understood', revision: 2 });
    await world.clock.advance(minute);
    await world.settle();
    expect(await holds(world, group(minute), minute)).toBe(true);
  });

  test('that has expired when it comes never matches', async () => {
    const world = await open();
    world.source.know(1, group(-minute));
    await world.settle();
    expect(await holds(world, group(-minute), 0)).toBe(true);
    expect(world.agent.status.inForce?.policy?.groups[0]?.inbound[1]).toMatchObject({ expired: true });
  });

  test('that the server prolongs matches again', async () => {
    const world = await open();
    world.source.know(1, group(minute));
    await world.settle();
    await world.clock.advance(minute);
    world.source.know(2, group(hour));
    await world.settle();
    expect(await holds(world, group(hour), minute)).toBe(true);
  });
});

describe('after a restart', () => {
  test('a device without rules in the kernel, and without a server, drops what expired meanwhile', async () => {
    const first = await open(kept());
    first.source.know(1, group(hour));
    await first.settle();
    await first.stop();
    const again = await open({ ...kept(), skew: () => 2 * hour });
    expect(await holds(again, group(hour), hour)).toBe(true);
    expect(again.agent.status.inForce).toMatchObject({ origin: 'kept', revision: 1 });
  });

  test('the kernel still holds what expired while the agent was down: it is known again and ends', async () => {
    const first = await open(kept());
    first.source.know(1, group(hour));
    await first.settle();
    await first.stop();
    const again = await open({ ...kept(), nft: first.nft, skew: () => 2 * hour });
    expect(again.agent.status.inForce).toMatchObject({ origin: 'kept', revision: 1 });
    expect(await holds(again, group(hour), hour)).toBe(true);
    await again.stop();
    const third = await open({ ...kept(), nft: first.nft, skew: () => 3 * hour });
    expect(third.agent.status.inForce).toMatchObject({ origin: 'kept', revision: 1 });
  });

  test('a clock that was set back opens nothing again', async () => {
    const first = await open(kept());
    first.source.know(1, group(minute));
    await first.settle();
    await first.clock.advance(2 * minute);
    await first.settle();
    await first.stop();
    for (const nft of [first.nft, new FakeNft()]) {
      const again = await open({ ...kept(), nft, skew: () => -hour });
      expect(await holds(again, group(minute), minute)).toBe(true);
      await again.stop();
    }
  });
});

test('a policy saved under a clock that was three hours ahead ends no later rule early, once the server has answered', async () => {
  const first = await open({ ...kept(), skew: () => 3 * hour });
  first.source.know(1, group(4 * hour));
  await first.settle();
  await first.stop();
  const time = new PolicyClock({ clock: { now: () => start }, monotonic: () => 0 });
  const again = await open({ ...kept(), time });
  expect(time.now()).toBe(start + 3 * hour);
  time.serverTime(start);
  again.source.know(2, group(hour));
  await again.settle();
  expect(await holds(again, group(hour), 0)).toBe(true);
});

describe('after a loss of power with a clock that starts from the beginning', () => {
  /** What a device without a battery for its clock shows: the same time at each start. No shutdown saves anything. */
  test('a rule lives no longer than the saved time allows, at each of several starts', async () => {
    const lived: number[] = [];
    for (let boot = 0; boot < 3; boot += 1) {
      const world = await open({ ...kept(), nft: new FakeNft() });
      if (boot === 0) {
        world.source.know(1, group(hour));
        await world.settle();
      }
      let minutes = 0;
      for (; minutes < 25 && !(await holds(world, group(hour), hour)); minutes += 1) {
        await world.clock.advance(minute);
        await world.settle();
      }
      lived.push(minutes);
      // What a run saves as it ends is not there after a loss of power.
      const saved = await readFile(join(folder, 'time.json'), 'utf8');
      await world.stop();
      await writeFile(join(folder, 'time.json'), saved);
    }
    // Three starts make an hour, and not an hour each; a start may lose the time since the last save, a minute here.
    expect(lived[0]).toBe(25);
    expect(lived[1]).toBe(25);
    expect(lived[2]).toBeLessThanOrEqual(12);
  });
});

describe('when the time of day is set', () => {
  test('forward by an hour, the rule ends within seconds', async () => {
    let skew = 0;
    const world = await open({ skew: () => skew });
    world.source.know(1, group(minute * 30));
    await world.settle();
    skew = hour;
    await world.clock.advance(5 * second);
    await world.settle();
    expect(await holds(world, group(minute * 30), hour)).toBe(true);
  });

  test('forward and back again, what has expired stays so, and what has not lives on', async () => {
    let skew = 0;
    const world = await open({ skew: () => skew });
    const both = groupOf(1, [ends(http, 30 * minute), ends(ssh, 90 * minute)]);
    world.source.know(1, both);
    await world.settle();
    skew = hour;
    await world.clock.advance(5 * second);
    skew = 0;
    await world.settle();
    world.source.know(2, groupOf(1, [...both.inbound]));
    await world.clock.advance(40 * minute);
    await world.settle();
    expect(await holds(world, both, hour)).toBe(true);
    await world.clock.advance(50 * minute);
    await world.settle();
    expect(await holds(world, both, 90 * minute)).toBe(true);
  });

  test('forward past the ends of several rules and back again, all of them stay ended', async () => {
    let skew = 0;
    const world = await open({ skew: () => skew });
    const both = groupOf(1, [ends(http, 30 * minute), ends(ssh, 90 * minute)]);
    world.source.know(1, both);
    await world.settle();
    skew = 2 * hour;
    await world.clock.advance(5 * second);
    skew = 0;
    await world.settle();
    world.source.know(2, groupOf(1, [...both.inbound]));
    await world.settle();
    expect(await holds(world, both, 2 * hour)).toBe(true);
  });

  test('back by an hour, the rule ends when it should have', async () => {
    let skew = 0;
    const world = await open({ skew: () => skew });
    world.source.know(1, group(minute));
    await world.settle();
    skew = -hour;
    await world.clock.advance(minute);
    await world.settle();
    expect(await holds(world, group(minute), minute)).toBe(true);
  });
});

describe("the time of the agent's policy", () => {
  const set = { wall: start, steady: 0 };
  const clockAt = (): PolicyClock => new PolicyClock({ clock: { now: () => set.wall }, monotonic: () => set.steady });
  const pass = (ms: number): void => {
    set.wall += ms;
    set.steady += ms;
  };
  beforeEach(() => {
    set.wall = start;
    set.steady = 0;
  });

  test("is the server's where that is later, however the device's clock is set", () => {
    const time = clockAt();
    time.serverTime(start + hour);
    pass(minute);
    expect(time.now()).toBe(start + hour + minute);
    set.wall -= day;
    expect(time.now()).toBe(start + hour + minute);
    expect(time.aheadOfServer).toBe(-day - hour);
    set.wall += 2 * day;
    expect(time.now()).toBe(start + day + minute);
  });

  test("follows the server when the device's clock was ahead at the start and is corrected", () => {
    set.wall = start + hour;
    const time = clockAt();
    pass(second);
    set.wall -= hour;
    expect(time.now()).toBe(start + hour + second);
    time.serverTime(start + second);
    expect(time.now()).toBe(start + second);
  });

  test('is that of the last run only until the server has answered: a clock that was ahead then holds no later rule back', () => {
    const time = clockAt();
    time.resume({ time: start + 3 * hour, offset: 0 });
    pass(second);
    expect(time.now()).toBe(start + 3 * hour + second);
    time.serverTime(start + second);
    expect(time.now()).toBe(start + second);
  });

  test("goes on after a restart from the furthest time that was known, with the difference to the server's clock", () => {
    const firstRun = clockAt();
    firstRun.serverTime(start + hour);
    pass(minute);
    const { saved } = firstRun;
    expect(saved).toEqual({ time: start + hour + minute, offset: hour });
    // Set back by a day, and no server.
    set.wall -= day;
    const secondRun = clockAt();
    secondRun.resume(saved);
    pass(minute);
    expect(secondRun.now()).toBe(start + hour + 2 * minute);
    expect(secondRun.saved.offset).toBe(hour);
    // Set right meanwhile: what only the difference has reached is taken back when the server answers.
    set.wall = start + 2 * hour;
    const thirdRun = clockAt();
    thirdRun.resume(saved);
    expect(thirdRun.now()).toBe(start + 3 * hour);
    thirdRun.passed(start + 3 * hour - minute);
    thirdRun.serverTime(start + 2 * hour);
    expect(thirdRun.now()).toBe(start + 2 * hour);
    thirdRun.passed(start + 2 * hour);
    set.wall -= day;
    expect(thirdRun.now()).toBe(start + 2 * hour);
  });

  test('takes no answer that came late for a correction', () => {
    const time = clockAt();
    time.serverTime(start);
    pass(10 * second);
    time.serverTime(start + 8 * second);
    expect(time.aheadOfServer).toBe(0);
    time.serverTime(start + 2 * minute);
    expect(time.aheadOfServer).toBe(-110 * second);
    expect(time.clockOff).toBe(-110 * second);
    time.serverTime(start - hour);
    expect(time.aheadOfServer).toBe(hour + 10 * second);
  });
});
