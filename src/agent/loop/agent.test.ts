/** Proves the agent's loop in a world of fakes: what is in force when, whatever happens around it. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Command } from '../../nft/ast.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { written } from '../../nft/policies.fixture.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { PolicyGroup } from '../../policy/rule.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { groupOf, World, type WorldOptions } from './agent.fixture.ts';
import { closedPolicy } from './desired-policy.ts';
import { everything } from './pending-revocation.ts';
import { parseSelector } from '../host/driver-interface.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { NftError, type NftErrorCode } from '../kernel/nft.ts';
import { StateFolder } from '../state/state-folder.ts';

const web = groupOf(1, [written('tcp', 80, 84, '10.0.0.0/8', '12.0.0.1')]);
const ssh = groupOf(2, [written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')], [written('udp', 53, 53)]);
const meaning = (...groups: readonly PolicyGroup[]) => canonicalize({ source: 'list', groups });

let worlds: World[] = [];
let folder: string;
const open = async (options: WorldOptions = {}): Promise<World> => {
  const world = new World(options);
  worlds.push(world);
  await world.settle();
  return world;
};
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ringfence-agent-'));
});
afterEach(async () => {
  for (const world of worlds) await world.stop();
  worlds = [];
  await rm(folder, { recursive: true, force: true });
});
/** Holds once every agent has nothing left to do. */
const whenSettled = async (condition: () => boolean | Promise<boolean>): Promise<void> => {
  for (const world of worlds) await world.settle();
  expect(await condition()).toBe(true);
};

describe('before the first policy', () => {
  test('inbound is closed, and only then is the network asked', async () => {
    const world = await open();
    expect((await world.enforced())?.policy).toEqual(closedPolicy.canonical);
    expect(world.source.running).toBe(true);
    expect(world.agent.status).toMatchObject({ pending: false, inForce: { origin: 'first' } });
  });

  test('nothing is touched where open was asked for', async () => {
    const world = await open({ untilFirstPolicy: 'open' });
    expect(await world.nft.list()).toBeUndefined();
    world.source.know(1, web);
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
  });

  test('the last good policy is in force before the network is asked', async () => {
    const state = new StateFolder({ folder });
    const first = await open({ state });
    first.source.know(7, web);
    await whenSettled(async () => (await state.readPolicy('policy')).kind === 'found');
    await first.stop();
    let running: boolean | undefined;
    const second: World = new World({
      state,
      failpoint: (at) => {
        if (at === 'flipped') running ??= second.source.running;
      },
    });
    worlds.push(second);
    await whenSettled(async () => (await second.enforced())?.interface === 'wg0');
    expect((await second.enforced())?.policy).toEqual(meaning(web));
    expect(running).toBe(false);
    expect(second.agent.status.inForce).toMatchObject({ origin: 'kept', revision: 7 });
  });

  test('a damaged file is ignored aloud, and what the kernel has stays', async () => {
    const state = new StateFolder({ folder });
    const nft = new FakeNft();
    const first = await open({ state, nft });
    first.source.know(7, ssh);
    await whenSettled(async () => (await state.readPolicy('policy')).kind === 'found');
    await first.stop();
    await writeFile(state.path('policy'), 'half of wha');
    await writeFile(state.path('intent'), '');
    const { transactions } = nft;
    const second = await open({ state, nft });
    await whenSettled(() => second.source.running);
    expect((await second.enforced())?.policy).toEqual(meaning(ssh));
    expect(nft.transactions).toBe(transactions);
    expect(second.logged.filter(({ message }) => message.includes('damaged'))).toHaveLength(2);
    expect(second.agent.status.inForce?.origin).toBe('kernel');
  });

  test('a policy that the kernel took just before the end is not taken back', async () => {
    const state = new StateFolder({ folder });
    const nft = new FakeNft();
    const first = await open({ state, nft });
    first.source.know(7, web);
    await whenSettled(async () => (await state.readPolicy('policy')).kind === 'found');
    first.source.know(8, ssh);
    await whenSettled(async () => (await first.enforced())?.policy.outbound.kind === 'closed');
    await first.stop();
    const intended = await readFile(state.path('intent'));
    await state.writePolicy({
      policy: { source: 'list', groups: [web] },
      revision: 7,
      interface: parseInterfaceName('wg0'),
      neighbourDiscovery: false,
    });
    await writeFile(state.path('intent'), intended);
    const second = await open({ state, nft });
    await whenSettled(() => second.source.running);
    expect((await second.enforced())?.policy).toEqual(meaning(ssh));
    // All connections are judged, also those that stood on the older policy, and the newer one is saved.
    expect(second.revocations).toMatchObject([{ before: [everything], after: meaning(ssh) }]);
    await whenSettled(async () => {
      const read = await state.readPolicy('policy');
      return read.kind === 'found' && read.record.revision === 8;
    });
  });
});

describe('rules in the kernel that nobody had saved', () => {
  const record = (group: PolicyGroup, revision: number) => ({
    policy: { source: 'list' as const, groups: [group] },
    revision,
    interface: parseInterfaceName('wg0'),
    neighbourDiscovery: false,
  });

  test.each([
    ['the policy is as it was saved', 9, web],
    ['the policy is another one by now', 9, groupOf(3, [written('tcp', 443, 443)])],
  ])('stay, and end with the connections on them once the server has told the policy: %s', async (_, revision, now) => {
    const [state, nft] = [new StateFolder({ folder }), new FakeNft()];
    const first = await open({ state, nft });
    first.source.know(8, ssh);
    await whenSettled(async () => (await first.enforced())?.policy.outbound.kind === 'closed');
    await first.stop();
    await state.writePolicy(record(web, 7));
    await (await state.prepareIntent(record(web, 7))).place();
    const second = await open({ state, nft });
    await whenSettled(() => second.source.running);
    expect((await second.enforced())?.policy).toEqual(meaning(ssh));
    expect(second.agent.status.inForce?.origin).toBe('kernel');
    // Whatever there is, it is judged as if it were new, before the server is reached.
    expect(second.revocations).toMatchObject([{ before: [everything], after: meaning(ssh) }]);
    second.source.know(revision, now);
    await whenSettled(() => second.revocations.length > 1);
    expect(second.revocations.at(-1)).toMatchObject({ before: [meaning(ssh)], after: meaning(now) });
  });

  test('leave the agent at rest while it knows no interface to put them in force on', async () => {
    const nft = new FakeNft();
    const first = await open({ nft });
    first.source.know(1, web);
    await whenSettled(async () => (await first.enforced())?.policy.inbound.kind === 'closed');
    await first.stop();
    const second = await open({ nft, selector: parseSelector('wg*'), links: [] });
    expect(second.source.running).toBe(true);
    second.changeLinks([{ index: 5, name: 'wg0', discovers: false }]);
    await whenSettled(() => second.agent.status.inForce !== undefined);
    expect(second.revocations).toMatchObject([{ before: [everything], after: meaning(web) }]);
  });
});

describe('a change of policy', () => {
  test('that comes before the beginning is not overwritten by it', async () => {
    const world = new World({ state: new StateFolder({ folder }) });
    worlds.push(world);
    world.source.know(1, web);
    await whenSettled(async () => (await world.enforced()) !== undefined);
    await whenSettled(async () => samePolicy((await world.enforced())?.policy ?? meaning(), meaning(web)));
    expect(world.agent.status.inForce).toMatchObject({ origin: 'server', revision: 1 });
  });

  test('is put in force, read back, saved on disk, and ends what it no longer admits', async () => {
    const state = new StateFolder({ folder });
    const world = await open({ state });
    await whenSettled(() => world.source.running);
    world.source.know(3, web);
    await whenSettled(() => world.agent.status.inForce?.revision === 3 && world.agent.status.verifiedAt !== undefined);
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    world.source.know(4, ssh);
    await whenSettled(() => world.revocations.length === 2);
    expect(world.revocations.at(-1)).toMatchObject({ interface: 'wg0', before: [meaning(web)], after: meaning(ssh) });
    await whenSettled(async () => {
      const read = await state.readPolicy('policy');
      return read.kind === 'found' && read.record.revision === 4;
    });
    expect(world.agent.status.revokedConnections).toBe(2);
  });

  test('that means the same touches nothing', async () => {
    const world = await open();
    world.source.know(3, web);
    await world.settle();
    await world.clock.advance(5_000);
    const { transactions } = world.nft;
    world.source.know(4, web);
    world.source.know(5, { ...web, name: 'renamed' });
    world.source.know(6, web, groupOf(9, web.inbound));
    await world.settle();
    expect(world.nft.transactions).toBe(transactions);
    expect(world.agent.status.inForce).toMatchObject({ revision: 6, policy: { groups: [{}, {}] } });
    expect(world.revocations).toHaveLength(1);
  });

  test('many changes at once become one', async () => {
    const world = await open();
    const { applies } = world.agent.status;
    for (let i = 0; i < 50; i++) world.source.know(i, groupOf(i, [written('tcp', 1 + i, 1 + i)]));
    await world.settle();
    expect(world.agent.status.applies).toBe(applies + 1);
    expect((await world.enforced())?.policy).toEqual(meaning(groupOf(49, [written('tcp', 50, 50)])));
  });

  test('old parts are collected a while later', async () => {
    const world = await open();
    world.source.know(1, web);
    world.source.know(2, ssh);
    await world.settle();
    world.source.know(3, web);
    await world.settle();
    const before = (await world.nft.list())?.chains.size ?? 0;
    await world.clock.advance(3_000);
    expect((await world.nft.list())?.chains.size).toBeLessThan(before);
    expect((await world.enforced())?.policy).toEqual(meaning(web));
  });

  test('established connections are left alone where that was asked for', async () => {
    const world = await open();
    const keeping = new World({ keepEstablished: true });
    worlds.push(keeping);
    for (const each of [world, keeping]) each.source.know(1, web);
    await world.settle();
    expect(keeping.agent.status.revokedConnections).toBe(0);
    expect(world.agent.status.revokedConnections).toBe(1);
  });
});

describe('old rules stay', () => {
  test('while the source does not know the policy, and the reason is shown', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    for (const why of ['the organization has no such device', 'the group x is missing']) {
      world.source.give({ kind: 'unknown', why });
      await world.settle();
      expect((await world.enforced())?.policy).toEqual(meaning(web));
      expect(world.agent.status.held?.why).toBe(why);
    }
    const unclear = { why: 'the group x has a field', code: 'not_understood', revision: 4 } as const;
    world.source.give({ kind: 'unknown', ...unclear });
    await world.settle();
    expect(world.agent.status.held).toEqual(unclear);
    expect(world.agent.status).toMatchObject({ observedRevision: 4, inForce: { revision: 1 } });
    world.source.know(2, ssh);
    await world.settle();
    expect(world.agent.status.held).toBeUndefined();
    expect((await world.enforced())?.policy).toEqual(meaning(ssh));
  });

  test.each(['refused', 'not_permitted', 'missing', 'no_scratch'] satisfies NftErrorCode[])(
    'when nft is %s, with one message, and it is tried again',
    async (code) => {
      const world = await open();
      world.source.know(1, web);
      await world.settle();
      const from = world.logged.length;
      // What was known may be stale, so the first refusal is looked into; the next ones are final.
      world.monitorEvent({ kind: 'lost', why: 'test' });
      world.nft.failNext(code);
      world.source.know(2, ssh);
      await world.settle();
      expect((await world.enforced())?.policy).toEqual(meaning(web));
      expect(world.agent.status).toMatchObject({
        pending: true,
        troubles: [{ step: 'apply' }],
        observedRevision: 2,
        inForce: { revision: 1 },
      });
      world.nft.failNext(code);
      await world.clock.advance(400);
      expect(world.logged.slice(from).filter(({ level }) => level === 'error')).toHaveLength(1);
      await world.clock.advance(2_000);
      expect((await world.enforced())?.policy).toEqual(meaning(ssh));
      expect(world.agent.status).toMatchObject({ pending: false, troubles: [] });
    },
  );

  test('when nft takes too long: it is said with what to do, not tried again and again, and at once with the next change', async () => {
    /** Takes a minute for a batch, and then is ended. */
    class SlowNft extends FakeNft {
      slow = false;
      attempts = 0;
      override async run(commands: readonly Command[]): Promise<void> {
        if (!this.slow) return super.run(commands);
        this.attempts += 1;
        await world.clock.advance(60_000);
        throw new NftError('timed_out', 'nft did not answer within 60 s');
      }
    }
    const nft = new SlowNft();
    const world = await open({ nft, random: () => 0.5 });
    world.source.know(1, web);
    await world.settle();
    nft.slow = true;
    world.source.know(2, ssh);
    await world.settle();
    expect(nft.attempts).toBe(1);
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    expect(world.agent.status).toMatchObject({
      pending: true,
      inForce: { revision: 1 },
      troubles: [{ step: 'apply', code: 'timed_out', advice: expect.stringContaining('fewer ranges') as string }],
    });
    expect(world.logged.filter(({ level }) => level === 'error')).toMatchObject([
      {
        message: expect.stringMatching(/trying again in 240 s, or at the next change: .*fewer ranges/),
        fields: { code: 'timed_out' },
      },
    ]);
    await world.clock.advance(230_000);
    await world.settle();
    expect(nft.attempts).toBe(1);
    await world.clock.advance(20_000);
    await world.settle();
    expect(nft.attempts).toBe(2);
    nft.slow = false;
    world.source.know(3, ssh, groupOf(3, [written('tcp', 443, 443)]));
    await world.settle();
    expect(world.agent.status).toMatchObject({ pending: false, inForce: { revision: 3 }, troubles: [] });
  });

  test('when the agent is stopped', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    await world.stop();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
  });

  test('when nothing can be saved on disk', async () => {
    await writeFile(join(folder, 'file'), '');
    const world = await open({ state: new StateFolder({ folder: join(folder, 'file') }) });
    world.source.know(1, web);
    await whenSettled(() => world.agent.status.troubles.length > 0);
    expect(world.agent.status.troubles).toMatchObject([
      { step: 'start', code: 'state_damaged' },
      { step: 'save', code: 'state_unwritable' },
    ]);
    expect((await world.enforced())?.policy).toEqual(meaning(web));
  });
});

describe('a fault of the agent itself', () => {
  test('while it works a policy out keeps the rules in force, is reported, and is over with the next policy', async () => {
    const world = await open();
    world.source.know(1, web);
    await world.settle();
    const nobodyLookedUp = { peers: [{ labels: ['app'] }], ip_protocol: 'tcp', from_port: 1, to_port: 1 } as const;
    world.source.know(2, groupOf(3, [nobodyLookedUp]));
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(web));
    expect(world.agent.status.held?.why).toMatch(/^a fault of the agent: /);
    expect(world.logged.filter(({ level }) => level === 'error')).toHaveLength(1);
    world.source.know(3, ssh);
    await world.settle();
    expect((await world.enforced())?.policy).toEqual(meaning(ssh));
    expect(world.agent.status.held).toBeUndefined();
  });

  test('elsewhere in the loop ends the agent, which never stays connected without a loop', async () => {
    let isBroken = false;
    const access = { addresses: { v4: [], v6: [] }, port: 443, resolvers: { v4: [], v6: [] } };
    const serverAccess = {
      get access() {
        if (isBroken) throw new Error('broken');
        return access;
      },
      onChange: () => () => {},
      settled: () => {},
    };
    const world = new World({ serverAccess });
    await world.settle();
    expect(world.source.running).toBe(true);
    isBroken = true;
    world.source.know(1, web);
    await expect(world.ended).rejects.toThrow('broken');
  });
});
