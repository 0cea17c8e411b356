/** Proves the agent's loop in a world of fakes: changes by others, moving interfaces and jumping time. */
import { afterEach, describe, expect, test } from 'vitest';
import { written } from '../../nft/policies.fixture.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { parseSelector } from '../host/driver-interface.ts';
import { everything } from './pending-revocation.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { groupOf, World, type WorldOptions } from './agent.fixture.ts';

const web = groupOf(1, [written('tcp', 80, 84, '10.0.0.0/8', '12.0.0.1')]);
const ssh = groupOf(2, [written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')], [written('udp', 53, 53)]);
const meaning = (...groups: readonly PolicyGroup[]) => canonicalize({ source: 'list', groups });

/** Answers nothing for a while. */
class HangingNft extends FakeNft {
  #released = Promise.resolve();

  hang(): () => void {
    let release = (): void => {};
    this.#released = new Promise((resolve) => (release = resolve));
    return release;
  }

  override async run(commands: Parameters<FakeNft['run']>[0]): Promise<void> {
    await this.#released;
    return super.run(commands);
  }
}

let worlds: World[] = [];
const open = async (options: WorldOptions = {}): Promise<World> => {
  const world = new World(options);
  worlds.push(world);
  await world.settle();
  return world;
};
afterEach(async () => {
  for (const world of worlds) await world.stop();
  worlds = [];
});

const insert = (world: World): void =>
  world.nft.tamper((table) => {
    const base = table?.chains.get('service-inbound');
    if (table === undefined || base === undefined) return table;
    const rules = [{ kind: 'foreign' as const, json: 'accept' }, ...base.rules];
    return { ...table, chains: new Map(table.chains).set(base.name, { ...base, rules }) };
  });

describe('changes by others', () => {
  test('are undone at once when the kernel names a stranger', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    world.ownGeneration();
    insert(world);
    world.foreignGeneration(['service-inbound'], 'insert rule inet service service-inbound accept');
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    expect(world.agent.status).toMatchObject({
      driftRepairs: 1,
      lastDrift: { by: 'stranger (4711)', what: ['insert rule inet service service-inbound accept'] },
    });
    expect(world.logged.at(-2)).toMatchObject({ level: 'warn', fields: { by: 'stranger (4711)' } });
    // Who came in meanwhile is judged as if it were new.
    expect(world.revocations.at(-1)).toMatchObject({ before: [everything], after: meaning(web), untracked: true });
  });

  test('show in the status at once, also while a helper that hangs holds up the repair', async () => {
    const nft = new HangingNft();
    const published: boolean[] = [];
    const world = await open({ nft, onStatus: ({ pending }) => published.push(pending) });
    world.source.know(1, web);
    await world.settle();
    world.ownGeneration();
    expect(world.agent.status.pending).toBe(false);
    const release = nft.hang();
    insert(world);
    world.foreignGeneration(['service-inbound'], 'insert rule inet service service-inbound accept');
    const { pending } = world.agent.status;
    release();
    expect([pending, published.at(-1)]).toEqual([true, true]);
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    expect(world.agent.status).toMatchObject({ pending: false, driftRepairs: 1 });
  });

  test('are undone after an inspection while the kernel has not named us yet, and our own are none', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    const { transactions } = world.nft;
    world.foreignGeneration(['service-inbound'], 'insert rule …');
    await world.settle();
    expect(world.nft.transactions).toBe(transactions);
    insert(world);
    world.foreignGeneration(['service-inbound'], 'insert rule …');
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    expect(world.agent.status.driftRepairs).toBe(1);
  });

  test('that only touch other tables are none of our business', async () => {
    const world = await open();
    world.ownGeneration();
    const { transactions } = world.nft;
    const author = { pid: 4711, name: 'stranger' };
    world.monitorEvent({ kind: 'generation', generation: { number: 9, author, change: undefined, lines: [] } });
    await world.settle();
    expect(world.nft.transactions).toBe(transactions);
  });

  test('are found by the regular inspection when no events come', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    insert(world);
    await world.clock.advance(130_000);
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    expect(world.agent.status.driftRepairs).toBe(1);
  });

  test('are looked for when events may have been lost', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    insert(world);
    world.monitorEvent({ kind: 'lost', why: 'overrun' });
    await world.clock.advance(1_500);
    expect((await world.enforced())?.policy).toEqual(meaning(web));
  });

  test('that never rest do not keep a new policy from being put in force', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    world.ownGeneration();
    for (let i = 0; i < 30; i++) {
      insert(world);
      world.foreignGeneration(['service-inbound'], 'insert rule …');
      if (i === 10) world.source.know(2, ssh);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(ssh));
    expect(world.agent.status.driftRepairs).toBeGreaterThanOrEqual(10);
  });
});

describe('the driver interface', () => {
  const link = (index: number, name: string, discovers = false) => ({ index, name, discovers });

  test('is followed when it is renamed', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    world.changeLinks([link(5, 'other')]);
    await world.settle();
    expect(await world.enforced()).toMatchObject({ interface: 'other', policy: meaning(web) });
    world.changeLinks([link(5, 'other'), link(6, 'wg0')]);
    await world.settle();
    expect((await world.enforced())?.interface).toBe('wg0');
    expect(world.logged.filter(({ message }) => message.includes('renamed'))).toHaveLength(1);
  });

  test('may come later, and its kind is seen then', async () => {
    const world = await open({ links: [] });
    world.source.know(1, web);
    await world.settle();
    expect(await world.enforced()).toMatchObject({ interface: 'wg0', neighbourDiscovery: false });
    world.changeLinks([link(9, 'wg0', true)]);
    await world.settle();
    expect(await world.enforced()).toMatchObject({ interface: 'wg0', neighbourDiscovery: true });
    world.changeLinks([]);
    await world.settle();
    expect(await world.enforced()).toMatchObject({ interface: 'wg0', neighbourDiscovery: true });
  });

  test('found by a pattern is bound as soon as it is there', async () => {
    const world = await open({ selector: parseSelector('tun*'), links: [] });
    world.source.know(1, web);
    await world.settle();
    expect(await world.nft.list()).toBeUndefined();
    expect(world.agent.status.pending).toBe(true);
    world.changeLinks([link(9, 'tun7')]);
    await world.settle();
    expect(await world.enforced()).toMatchObject({ interface: 'tun7', policy: meaning(web) });
  });

  test('is bound by its name even if interfaces cannot be read', async () => {
    const world = await open({ links: new Error('no ip') });
    world.source.know(1, web);
    await world.settle();
    expect(await world.enforced()).toMatchObject({ interface: 'wg0', policy: meaning(web) });
    expect(world.agent.status.troubles).toMatchObject([{ step: 'links', message: 'no ip' }]);
  });
});

describe('when the time of day jumps', () => {
  const hour = 3_600_000;
  test.each([
    ['forward by a year', 8_760 * hour],
    ['back by a year', -8_760 * hour],
    ['to the beginning of time', -1_700_000_000_000],
  ])('%s: policies, looks, retries and clean-up go on as before', async (_, jump) => {
    let skew = 0;
    const world = await open({ skew: () => skew });
    world.source.know(1, web);
    await world.settle();
    skew = jump;
    world.monitorEvent({ kind: 'lost', why: 'test' });
    world.nft.failNext('not_permitted');
    world.source.know(2, ssh);
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    await world.clock.advance(2_000);
    expect((await world.enforced())?.policy).toEqual(meaning(ssh));
    // The regular inspection still finds unreported changes.
    skew = -jump;
    insert(world);
    await world.clock.advance(130_000);
    expect((await world.enforced())?.policy).toEqual(meaning(ssh));
    expect(world.agent.status.driftRepairs).toBe(1);
    expect(world.agent.status.troubles).toEqual([]);
  });
});
