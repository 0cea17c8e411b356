/** Proves with packets that a start never widens what the kernel admits: with broken files, after a reboot, and while helper programs hang. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { runQuickly } from '../../../test/lib/batch-runner.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { FakeClock } from '../../client/fake.fixture.ts';
import { written } from '../../nft/policies.fixture.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, peer4, RealWorld, type WorldOverrides } from './real-world.fixture.ts';

/** Two services that others may use; of those of others, only one. */
const both = groupOf(1, [written('tcp', 2_200, 2_200), written('tcp', 2_300, 2_300)], [written('tcp', 443, 443)]);
const one = groupOf(1, [written('tcp', 2_300, 2_300)], [written('tcp', 443, 443)]);
const away = { kind: 'unknown', why: 'the server is away' } as const;
const silence = 1_500;
const run = ([command = '', ...args]: readonly string[]): Promise<unknown> => promisify(execFile)(command, args);

const worlds: RealWorld[] = [];
const mounts: string[] = [];
afterEach(async () => {
  await Promise.all(worlds.map((world) => world.stop()));
  for (const path of mounts.splice(0)) await run(['umount', '--lazy', path]);
  await Promise.all(worlds.splice(0).map((world) => world.close()));
});

async function openWorld(overrides: WorldOverrides = {}): Promise<RealWorld> {
  const world = await RealWorld.open(overrides);
  worlds.push(world);
  await Promise.all([Talker.serve(world.device, 2_200, 2_300), Talker.serve(world.peer, 443, 80)]);
  return world;
}

const stateOf = (world: RealWorld): string => join(world.folder, 'state');
const inKernel = (world: RealWorld, port: number, open: boolean): Promise<void> =>
  world.eventually(`port ${port} is ${open ? 'open' : 'closed'} in the kernel`, async () => {
    const text = JSON.stringify((await world.kernel())?.enforced?.policy.inbound ?? 'nothing', (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    return text !== '"nothing"' && text.includes(String(port)) === open;
  });
const settled = (world: RealWorld): Promise<void> =>
  world.eventually('the rules were read back', () => world.agent.status.verifiedAt !== undefined);

type Service = 'withdrawn' | 'admitted' | 'out' | 'forbidden';
const inwards: ReadonlySet<Service> = new Set<Service>(['withdrawn', 'admitted']);
/** Which packets pass: two services of the device, and two of its peer. Those that should are waited for, the others for a while. */
async function passing(world: RealWorld, ...expected: readonly Service[]): Promise<readonly Service[]> {
  const services = [
    ['withdrawn', world.peer, device4, 2_200],
    ['admitted', world.peer, device4, 2_300],
    ['out', world.device, peer4, 443],
    ['forbidden', world.device, peer4, 80],
  ] as const;
  const passes = await Promise.all(
    services.map(([service, from, to, port]) =>
      Talker.call(from, to, port, expected.includes(service) ? {} : { within: silence }).then(
        () => true,
        () => false,
      ),
    ),
  );
  return services.flatMap(([service], place) => (passes[place] === true ? [service] : []));
}

/** An agent that has a policy in force and on the disk, which is memory with little room. */
async function withPolicy(): Promise<RealWorld> {
  const world = await openWorld();
  await run(['mkdir', '--mode=700', stateOf(world)]);
  await run(['mount', '-t', 'tmpfs', '-o', 'size=256k,mode=700', 'state', stateOf(world)]);
  mounts.push(stateOf(world));
  world.start();
  world.source.know(1, both);
  await inKernel(world, 2_200, true);
  await world.eventually('the policy is saved', async () =>
    (await readFile(join(stateOf(world), 'policy.json'), 'utf8').catch(() => '')).includes('2200'),
  );
  return world;
}

const restart = async (world: RealWorld, between: () => Promise<unknown> = async () => {}): Promise<void> => {
  await world.stop();
  world.source.give(away);
  await between();
  world.start();
  await settled(world);
};
const reboot = (world: RealWorld): Promise<unknown> => runQuickly(world.device, ['nft', 'flush', 'ruleset']);

/** Not while a file is being written there. */
const makeReadOnly = (world: RealWorld): Promise<void> =>
  world.eventually('the state directory is read-only', () =>
    run(['mount', '-o', 'remount,ro', stateOf(world)]).then(
      () => true,
      () => false,
    ),
  );

const troubles: readonly [string, (world: RealWorld) => Promise<unknown>][] = [
  ['read-only', makeReadOnly],
  [
    'full',
    // Without the intent's own page, into which a small new intent would still fit.
    (world) =>
      run([
        'sh',
        '-c',
        `cd ${stateOf(world)} && rm intent.json && head -c 1M /dev/zero > ballast 2> ${world.folder}/full || true`,
      ]),
  ],
];

describe('a state directory that cannot be written', () => {
  test.each(troubles)('a %s one does not bring a withdrawn rule back at a restart', async (_, spoil) => {
    const world = await withPolicy();
    await spoil(world);
    world.source.know(2, one);
    await inKernel(world, 2_200, false);
    await world.eventually('the failure is reported', () =>
      world.agent.status.troubles.some(({ code }) => code === 'state_unwritable'),
    );
    await restart(world);
    expect(await passing(world, 'admitted', 'out')).toEqual(['admitted', 'out']);
  });

  test('a read-only one closes both directions after a reboot, and the failure is logged once', async () => {
    const world = await withPolicy();
    await makeReadOnly(world);
    // The first run may have been about to write the intent.
    let errorsBefore = 0;
    const errors = (): string[] => world.logged.filter((line) => line.startsWith('error'));
    await restart(world, async () => {
      errorsBefore = errors().length;
      await reboot(world);
    });
    expect(world.agent.status.troubles).toMatchObject([{ code: 'state_unwritable' }]);
    expect(await passing(world)).toEqual([]);
    world.source.know(2, one);
    await inKernel(world, 2_300, true);
    const tries = new Set<number>();
    await world.eventually('to save was tried several times', () => {
      for (const { step, at } of world.agent.status.troubles) if (step === 'save') tries.add(at);
      return tries.size > 2;
    });
    const afterRestart = errors().slice(errorsBefore);
    expect(afterRestart, afterRestart.join('\n')).toHaveLength(2);
  });
});

describe('after a reboot', () => {
  const cut = (world: RealWorld, name: string): Promise<void> => truncate(join(stateOf(world), name), 40);
  const garble = (world: RealWorld, name: string): Promise<void> =>
    writeFile(join(stateOf(world), name), 'sha256 0\n{"format":1}\n');

  test('a truncated policy leaves the intent, which holds the same', async () => {
    const world = await withPolicy();
    await restart(world, async () => {
      await reboot(world);
      await cut(world, 'policy.json');
    });
    expect(await passing(world, 'withdrawn', 'admitted', 'out')).toEqual(['withdrawn', 'admitted', 'out']);
  });

  test.each([
    ['truncated', cut],
    ['garbage', garble],
  ])('%s files close both directions until the server tells the policy', async (_, damage) => {
    const world = await withPolicy();
    await restart(world, async () => {
      await reboot(world);
      await Promise.all([damage(world, 'policy.json'), damage(world, 'intent.json')]);
    });
    expect(world.agent.status.troubles).toMatchObject([{ code: 'state_damaged' }]);
    expect(await passing(world)).toEqual([]);
    world.source.know(2, one);
    await inKernel(world, 2_300, true);
    expect(await passing(world, 'admitted', 'out')).toEqual(['admitted', 'out']);
    await world.eventually('the trouble is over', () => world.agent.status.troubles.length === 0);
  });
});

describe('the first rules do not wait', () => {
  test('for a netlink helper that hangs', async () => {
    const world = await openWorld({ netlink: { argv: ['sleep', '600'], timeout: 600_000 } });
    world.start();
    await settled(world);
    expect((await passing(world)).filter((service) => inwards.has(service))).toEqual([]);
  });

  test('longer than a second for an ip that hangs', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ringfence-ip-'));
    const linkClock = new FakeClock();
    try {
      const [ip, listing] = [join(folder, 'ip'), join(folder, 'listing')];
      // The first listing never answers, nor does the program that watches the links. Later listings do.
      const script = `case "$*" in *'link show'*) mkdir ${listing} || exec ip "$@" ;; esac\nexec sleep 3600\n`;
      await writeFile(ip, `#!/bin/sh\n${script}`, { mode: 0o755 });
      const world = await openWorld({ ip, linkClock });
      world.start();
      await world.eventually('the links are being listed', () => existsSync(listing));
      // Only this much time passes for the listing, however long the test takes.
      await linkClock.advance(1_000);
      await settled(world);
      expect((await passing(world)).filter((service) => inwards.has(service))).toEqual([]);
    } finally {
      // Ends a listing that still hangs.
      await linkClock.advance(60_000);
      await rm(folder, { recursive: true, force: true });
    }
  });
});
