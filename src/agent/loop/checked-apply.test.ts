/** Proves that a policy under which the server cannot be reached goes back by itself, and that a network which fails changes no policy. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { admits, canonicalize } from '../../policy/canonicalize.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import { groupOf, World, type WorldOptions } from './agent.fixture.ts';
import { reportOf } from '../report/reporter.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { StateFolder } from '../state/state-folder.ts';

const good = groupOf(1, [written('tcp', 80, 80)], [written('tcp', 443, 443)]);
const better = groupOf(1, [written('tcp', 81, 81)], [written('tcp', 443, 443)]);
const bad = groupOf(1, [written('tcp', 80, 80)], [written('udp', 53, 53)]);
const worse = groupOf(1, [written('tcp', 80, 80)], [written('udp', 54, 54)]);

const toServer = {
  direction: 'outbound',
  family: 4,
  remote: 0x0a00_0001n,
  transport: { kind: 'tcp', dport: 443 },
  hopLimit: 64,
} as const;

let worlds: World[] = [];
let folder: string;
/** The network between the device and the server. */
const network = { up: true, attempts: 0 };

/** A world in which the server can be reached while the network is up and the kernel lets the connection out. */
async function open(options: WorldOptions = {}): Promise<World> {
  const nft = options.nft ?? new FakeNft();
  const world: World = new World({
    state: new StateFolder({ folder }),
    checkedApply: {
      probe: async () => {
        network.attempts += 1;
        const policy = (await world.enforced())?.policy;
        return network.up && (policy === undefined || admits(policy, toServer));
      },
    },
    ...options,
    nft,
  });
  worlds.push(world);
  await world.settle();
  return world;
}
const holds = async (world: World, group: PolicyGroup): Promise<boolean> => {
  const held = (await world.enforced())?.policy;
  const { policy } = policyAt({ source: 'list', groups: [group] }, world.clock.now());
  return held !== undefined && samePolicy(held, canonicalize(policy));
};
/** Moves time on in small steps, so that files and attempts keep up. */
async function pass(world: World, seconds: number): Promise<void> {
  for (let passed = 0; passed < seconds; passed += 1) {
    await world.clock.advance(1_000);
    await world.settle();
  }
}
const report = (world: World) => reportOf(world.agent.status, '1');

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-check-'));
  network.up = true;
  network.attempts = 0;
});
afterEach(async () => {
  for (const world of worlds) await world.stop();
  worlds = [];
  await rm(folder, { recursive: true, force: true });
});

describe('a policy under which the server cannot be reached', () => {
  test('goes back after 90 seconds, is reported with its revision, and is not tried again until the next change', async () => {
    const world = await open();
    world.source.know(1, good);
    await pass(world, 3);
    world.source.know(2, bad);
    await pass(world, 88);
    expect(await holds(world, bad)).toBe(true);
    expect(report(world)?.state).toBe('applied');
    await pass(world, 5);
    expect(await holds(world, good)).toBe(true);
    expect(report(world)).toMatchObject({
      state: 'reverted',
      revision: 1,
      observed_revision: 2,
      code: 'server_unreachable',
      detail: expect.stringContaining('revision 2'),
    });
    world.source.know(3, { ...bad, name: 'another name' });
    await pass(world, 200);
    expect(await holds(world, good)).toBe(true);
    expect(report(world)).toMatchObject({ state: 'reverted', observed_revision: 3 });
    world.source.know(4, better);
    await pass(world, 100);
    expect(await holds(world, better)).toBe(true);
    expect(report(world)).toMatchObject({ state: 'applied', revision: 4 });
  });

  test('goes back to the last policy that was good, also after a second bad one', async () => {
    const world = await open();
    world.source.know(1, good);
    await pass(world, 3);
    world.source.know(2, bad);
    await pass(world, 30);
    world.source.know(3, worse);
    await pass(world, 95);
    expect(await holds(world, good)).toBe(true);
    expect(report(world)).toMatchObject({ state: 'reverted', observed_revision: 3 });
  });

  test('stays in force where the option says so', async () => {
    const world = new World({ state: new StateFolder({ folder }) });
    worlds.push(world);
    await world.settle();
    world.source.know(1, good);
    await pass(world, 3);
    world.source.know(2, bad);
    await pass(world, 200);
    expect(await holds(world, bad)).toBe(true);
  });

  test('brings back no rule that has expired meanwhile', async () => {
    const world = await open();
    const rule = { ...written('tcp', 22, 22), expires_at: new Date(world.clock.now() + 30_000).toISOString() };
    const timed = { ...good, inbound: [...good.inbound, rule] };
    world.source.know(1, timed);
    await pass(world, 3);
    world.source.know(2, bad);
    await pass(world, 95);
    expect(report(world)).toMatchObject({ state: 'reverted' });
    expect(await holds(world, timed)).toBe(true);
    const policy = (await world.enforced())?.policy ?? canonicalize({ source: 'list', groups: [timed] });
    const ssh = { ...toServer, direction: 'inbound', transport: { kind: 'tcp', dport: 22 } } as const;
    expect(admits(policy, ssh)).toBe(false);
  });
});

describe('a network that fails while a policy is put in force', () => {
  test('leaves the new policy in force, whether or not the network comes back', async () => {
    const world = await open();
    world.source.know(1, good);
    await pass(world, 3);
    network.up = false;
    world.source.know(2, better);
    await pass(world, 95);
    expect(await holds(world, good)).toBe(true);
    await pass(world, 30);
    expect(await holds(world, better)).toBe(true);
    await pass(world, 300);
    expect(await holds(world, better)).toBe(true);
    expect(report(world)).toMatchObject({ state: 'applied', revision: 2 });
  });

  test('and comes back in time makes no difference at all', async () => {
    const world = await open();
    world.source.know(1, good);
    await pass(world, 3);
    network.up = false;
    world.source.know(2, better);
    await pass(world, 60);
    network.up = true;
    await pass(world, 10);
    const { attempts } = network;
    await pass(world, 300);
    expect(await holds(world, better)).toBe(true);
    // A policy that is good is not tried again.
    expect(network.attempts).toBe(attempts);
    await expect(readFile(join(folder, 'apply-check.json'), 'utf8')).rejects.toThrow('ENOENT');
  });

  test('before the policy came is no reason to check it', async () => {
    const world = await open();
    world.source.know(1, good);
    await pass(world, 3);
    world.source.connection = { phase: 'waiting', since: 0, failures: 3 };
    network.up = false;
    world.source.know(2, bad);
    await pass(world, 200);
    expect(await holds(world, bad)).toBe(true);
  });
});

describe('an agent that starts again in the middle', () => {
  const untilBad = async (seconds: number): Promise<World> => {
    const world = await open();
    world.source.know(1, good);
    await pass(world, 3);
    world.source.know(2, bad);
    await pass(world, seconds);
    await world.stop();
    return world;
  };

  test.each(['the kernel still holds its rules', 'the machine was restarted'])(
    'goes on with the check: %s',
    async (which) => {
      const first = await untilBad(30);
      const again = await open(which.startsWith('the kernel') ? { nft: first.nft } : {});
      expect(await holds(again, bad)).toBe(true);
      await pass(again, 95);
      expect(await holds(again, good)).toBe(true);
      expect(again.agent.status.reverted).toMatchObject({ revision: 2 });
    },
  );

  test('refuses the same policy of the server, and takes another', async () => {
    const first = await untilBad(100);
    const again = await open({ nft: first.nft });
    again.source.know(2, { ...bad });
    await pass(again, 3);
    expect(await holds(again, good)).toBe(true);
    expect(report(again)).toMatchObject({ state: 'reverted', observed_revision: 2 });
    again.source.know(3, better);
    await pass(again, 3);
    expect(await holds(again, better)).toBe(true);
  });

  test('applies the new policy again where the network was at fault', async () => {
    const first = await open();
    first.source.know(1, good);
    await pass(first, 3);
    network.up = false;
    first.source.know(2, better);
    await pass(first, 100);
    expect(await holds(first, good)).toBe(true);
    await first.stop();
    const again = await open();
    await pass(again, 40);
    expect(await holds(again, better)).toBe(true);
    await pass(again, 300);
    expect(await holds(again, better)).toBe(true);
  });
});
