/** Proves that devices which rules name come and go by small transactions on maps, and that what others do to these maps is put right. */
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { collectMemory } from '../../../test/lib/collect-memory.ts';
import type { Command } from '../../nft/ast.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { canonicalize, canonicalizeNames } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import { peersKey } from '../../policy/fleet/selector.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { StoredRule } from '../../policy/rule.ts';
import { Enforcer, type Target } from './enforcer.ts';
import { FakeNft } from './fake-nft.fixture.ts';

const rule: StoredRule = { ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['db'] }] };
const policy: EffectivePolicy = {
  source: 'list',
  groups: [{ id: parseGroupId('00000000-0000-4000-8000-000000000001'), name: 'g', inbound: [rule], outbound: [] }],
};
const targetWith = (...addresses: readonly string[]): Target => {
  const resolved = resolvePolicy(policy, new Fleet([deviceIdentity({ id: 'a', addresses, labels: ['db'] })]));
  return {
    policy: canonicalize(resolved),
    named: canonicalizeNames(resolved),
    interface: parseInterfaceName('rf0'),
    neighbourDiscovery: false,
    forwarding: 'on',
  };
};

class Recorder extends FakeNft {
  readonly batches: (readonly Command[])[] = [];
  override async run(commands: readonly Command[]): Promise<void> {
    await super.run(commands);
    this.batches.push(commands);
  }
}

async function start(...addresses: readonly string[]): Promise<{ nft: Recorder; enforcer: Enforcer }> {
  const nft = new Recorder();
  const enforcer = new Enforcer({ nft, random: Math.random });
  await enforcer.apply(targetWith(...addresses));
  await enforcer.collect();
  nft.batches.length = 0;
  return { nft, enforcer };
}

/** Empties every map of the table. */
const emptyMaps = (nft: FakeNft): void =>
  nft.tamper((table) => {
    if (table === undefined) return undefined;
    const objects = table.objects.map((each) =>
      each.members === undefined ? each : { ...each, members: { ...each.members, elements: new Map() } },
    );
    return { ...table, objects };
  });

describe('a device that rules name', () => {
  test('joins and leaves by one transaction on elements, in both tables', async () => {
    const { nft, enforcer } = await start('10.0.0.1');
    expect(await enforcer.apply(targetWith('10.0.0.1', '10.0.0.2'))).toBe(true);
    expect(nft.batches.map((batch) => batch.map(({ kind }) => kind))).toEqual([['addElements', 'addElements']]);
    expect((await enforcer.verify()).findings).toEqual([]);
    nft.batches.length = 0;
    await enforcer.apply(targetWith('10.0.0.2'));
    expect(nft.batches.map((batch) => batch.map(({ kind }) => kind))).toEqual([['deleteElements', 'deleteElements']]);
    expect((await enforcer.verify()).findings).toEqual([]);
    expect(enforcer.garbage).toBe(0);
  });

  test('is forgotten with the policy that named it, however many came and went since the chains were made', async () => {
    const fleet = new Fleet();
    const targetNow = (form?: Target['named']): Target => {
      const resolved = resolvePolicy(policy, fleet);
      const named = form ?? canonicalizeNames(resolved);
      if (named === undefined) throw new Error('the policy names nobody');
      const peer = { labels: ['db'] } as const;
      const members = new Map([[peersKey([peer]), fleet.addressesOf(peer)]]);
      return { ...targetWith(), policy: canonicalize(resolved), named, membership: { form: named, members } };
    };
    const enforcer = new Enforcer({ nft: new FakeNft(), random: Math.random });
    const first = targetNow();
    await enforcer.apply(first);
    const old: WeakRef<object>[] = [];
    for (let i = 1; i <= 50; i += 1) {
      fleet.set(deviceIdentity({ id: 'a', addresses: [`10.0.0.${i}`], labels: ['db'] }));
      const target = targetNow(first.named);
      await enforcer.apply(target);
      if (target.membership !== undefined) old.push(new WeakRef(target.membership.members));
    }
    await setImmediate();
    collectMemory();
    // That of the policy in force, and one that a register may still hold.
    expect(old.filter((each) => each.deref() !== undefined).length).toBeLessThan(5);
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test('changes nothing where it has no address', async () => {
    const { nft, enforcer } = await start();
    expect(await enforcer.apply(targetWith())).toBe(false);
    expect(nft.batches).toEqual([]);
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test('is put back where somebody takes it out of a map', async () => {
    const { nft, enforcer } = await start('10.0.0.1', 'fd00::1');
    emptyMaps(nft);
    enforcer.distrust();
    expect((await enforcer.inspect()).findings).toHaveLength(1);
    expect((await enforcer.verify()).findings).toEqual([]);
    const elements = (await nft.list())?.objects.flatMap(({ members }) => [...(members?.elements.keys() ?? [])]);
    expect(elements).toHaveLength(2);
  });
});
