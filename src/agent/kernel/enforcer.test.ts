/** Proves that an update never lets go of the rules, whatever fails on the way, and that foreign changes are undone. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import { basesOf, type Command, type Ruleset, type TableName } from '../../nft/ast.ts';
import { compile } from '../../nft/compile/compile.ts';
import { decompile } from '../../nft/read/decompile.ts';
import { earlierForm } from '../../nft/compile/earlier-form.fixture.ts';
import type { Installed, InstalledChain } from '../../nft/read/listing.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { install } from '../../nft/plan/plan.ts';
import { printCommands } from '../../nft/print.ts';
import { canonicalPolicy, defaultPolicy, policyOf, written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { Enforcer, type Target } from './enforcer.ts';
import { FakeNft } from './fake-nft.fixture.ts';
import { NftError } from './nft.ts';
import type { TableChange } from './drift.ts';

const on = (policy: CanonicalPolicy): Target => ({
  policy,
  interface: parseInterfaceName('rf0'),
  neighbourDiscovery: true,
  forwarding: 'on',
});
const web = on(policyOf([written('tcp', 80, 84, '10.0.0.0/8', '12.0.0.1'), written('icmp', 0, 0)]));
const ssh = on(policyOf([written('tcp', 22, 22, '10.0.0.0/8', '12.0.0.1')], [written('udp', 53, 53)]));
const dns = on(policyOf([written('udp', 53, 53, '10.0.0.0/8', '13.0.0.1')]));
const open = on(defaultPolicy);

/** A fake that remembers what was enforced after each transaction. */
class Witness extends FakeNft {
  readonly seen: (CanonicalPolicy | undefined)[] = [];
  override async run(commands: readonly Command[]): Promise<void> {
    try {
      await super.run(commands);
    } finally {
      this.seen.push(await enforced(this));
    }
  }
}

async function enforced(nft: FakeNft): Promise<CanonicalPolicy | undefined> {
  const installed = await nft.list();
  return installed && decompile(installed).enforced?.policy;
}

/** Numbers that are never the same twice. */
function counting(): () => number {
  let count = 0;
  return () => ++count / 1_000;
}

function start(): { nft: Witness; enforcer: Enforcer } {
  const nft = new Witness();
  return { nft, enforcer: new Enforcer({ nft, random: counting() }) };
}

const shown = (ruleset: Ruleset): string => printCommands(install(ruleset));

const everything: TableChange = { tables: new Set(), chains: new Set() };

describe('an update', () => {
  test('stages, then flips, and reads the kernel only once', async () => {
    const { nft, enforcer } = start();
    expect(await enforcer.apply(web)).toBe(true);
    expect(await enforced(nft)).toEqual(web.policy);
    const { transactions } = nft;
    expect(await enforcer.apply(dns)).toBe(true);
    expect(nft.transactions - transactions).toBe(2);
    expect(nft.seen.slice(-2)).toEqual([web.policy, dns.policy]);
    expect(enforcer.target).toBe(dns);
  });

  test.each([
    ['rules without a set', [written('tcp', 22, 22, '10.0.0.0/8')], 'one transaction'],
    ['a rule that makes a set', [written('tcp', 22, 22, '10.0.0.0/8', '13.0.0.1')], 'staged first'],
  ])('of %s goes to the kernel so: %s', async (_, rules, how) => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const from = nft.seen.length;
    const told: string[] = [];
    await enforcer.apply(on(policyOf(rules)), {
      atOnce: () => void told.push(`at once, after ${nft.seen.length - from}`),
      whileStaging: () => async () => void told.push(`before the switch, after ${nft.seen.length - from}`),
    });
    expect(nft.seen.slice(from)).toEqual(how === 'one transaction' ? [policyOf(rules)] : [web.policy, policyOf(rules)]);
    expect(told).toEqual([how === 'one transaction' ? 'at once, after 0' : 'before the switch, after 1']);
  });

  test('that changes nothing runs nothing', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const { transactions } = nft;
    expect(await enforcer.apply({ ...web })).toBe(false);
    expect(nft.transactions).toBe(transactions);
  });

  test('leaves the old parts to be collected later, and can turn back to them before', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    expect(enforcer.garbage).toBe(0);
    await enforcer.apply(ssh);
    expect(enforcer.garbage).toBeGreaterThan(0);
    const { transactions } = nft;
    await enforcer.apply(web);
    expect(nft.transactions - transactions).toBe(1);
    await enforcer.collect();
    expect(enforcer.garbage).toBe(0);
    const installed = await nft.list();
    expect(decompile(installed as Installed).findings).toEqual([]);
    expect(await enforced(nft)).toEqual(web.policy);
  });

  test.each([
    ['one protocol, one port', ssh],
    ['several protocols, one range of ports', web],
  ])('over rules as an earlier version laid them out turns to its own at one instant: %s', async (_, target) => {
    const { nft, enforcer } = start();
    const before = earlierForm(compile(target.policy, target));
    await nft.run(install(before));
    expect(await enforced(nft)).toEqual(target.policy);
    expect(await enforcer.apply(target)).toBe(true);
    expect(nft.seen.length).toBeGreaterThan(1);
    for (const seen of nft.seen) expect(seen).toEqual(target.policy);
    await enforcer.collect();
    const [service, forward] = [await nft.list(), await nft.list('service-forward')];
    expect(decompile(service as Installed)).toMatchObject({ enforced: { policy: target.policy }, findings: [] });
    expect(decompile(forward as Installed, 'service-forward').findings).toEqual([]);
    const own = compile(target.policy, target);
    expect(shown(own)).not.toBe(shown(before));
    expect(new Set(service?.chains.keys())).toEqual(new Set([...basesOf(own), ...own.helpers].map(({ name }) => name)));
  });

  test('follows the interface to another name', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    await enforcer.apply({ ...web, interface: parseInterfaceName('rf9') });
    const installed = await nft.list();
    expect(decompile(installed as Installed).enforced?.interface).toBe('rf9');
    expect(nft.seen.slice(-1)).toEqual([web.policy]);
  });

  test.each(['refused', 'not_permitted', 'missing', 'no_scratch'] as const)(
    'that is %s leaves the old rules in force, and a later one works',
    async (code) => {
      const { nft, enforcer } = start();
      await enforcer.apply(web);
      enforcer.distrust();
      nft.failNext(code);
      await expect(enforcer.apply(ssh)).rejects.toMatchObject({ code });
      expect(await enforced(nft)).toEqual(web.policy);
      expect(enforcer.target).toBe(web);
      await enforcer.apply(ssh);
      expect(await enforced(nft)).toEqual(ssh.policy);
    },
  );

  test('that is refused because others were there meanwhile is planned again from a fresh listing', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    nft.tamper(() => undefined);
    await enforcer.apply(ssh);
    expect(await enforced(nft)).toEqual(ssh.policy);
  });

  test.each(['none', 'done'] as const)(
    'that is cut off, its last step %s, goes on where the kernel is',
    async (effect) => {
      const { nft, enforcer } = start();
      await enforcer.apply(web);
      for (const target of [ssh, open, web]) {
        const old = enforcer.target?.policy;
        nft.failNext('interrupted', effect);
        const from = nft.seen.length;
        await enforcer.apply(target);
        expect(await enforced(nft)).toEqual(target.policy);
        for (const seen of nft.seen.slice(from)) expect([old, target.policy]).toContainEqual(seen);
      }
    },
  );

  test('that can never be finished is given up, the old rules in force', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const broken = new Enforcer({
      nft: { ...bound(nft), run: () => Promise.reject(new NftError('interrupted', 'killed')) },
      random: counting(),
    });
    await expect(broken.apply(ssh)).rejects.toMatchObject({ code: 'interrupted' });
    expect(await enforced(nft)).toEqual(web.policy);
  });

  test('finds the old or the new rules in force after every step of every update', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            policy: canonicalPolicy,
            fails: fc.constantFrom(undefined, 'refused', 'interrupted', 'no_scratch'),
            effect: fc.constantFrom('none', 'done'),
            collects: fc.boolean(),
          }),
          { maxLength: 6 },
        ),
        async (steps) => {
          const { nft, enforcer } = start();
          await enforcer.apply(web);
          for (const { policy, fails, effect, collects } of steps) {
            const old = enforcer.target?.policy;
            const from = nft.seen.length;
            if (fails !== undefined) nft.failNext(fails, fails === 'interrupted' ? effect : 'none');
            await enforcer.apply(on(policy)).catch((error: unknown) => expect(error).toBeInstanceOf(NftError));
            if (collects) await enforcer.collect().catch(() => {});
            for (const seen of nft.seen.slice(from)) expect([old, policy]).toContainEqual(seen);
            const now = await enforced(nft);
            expect(now).toEqual(enforcer.target?.policy);
            nft.clearFailure();
          }
          expect((await enforcer.verify()).findings).toEqual([]);
        },
      ),
      { numRuns: rounds(20, 60) },
    );
  });
});

const bound = (nft: FakeNft) => ({
  run: (commands: readonly Command[]) => nft.run(commands),
  list: (table?: TableName) => nft.list(table),
  listEnded: () => nft.listEnded(),
  listSet: (table: TableName, set: string) => nft.listSet(table, set),
  counters: () => nft.counters(),
  owns: (pid: number) => nft.owns(pid),
  close: () => nft.close(),
});

const foreignRule = { kind: 'foreign', json: '{"accept":null}' } as const;
const changeChain =
  (name: string, change: (chain: InstalledChain) => InstalledChain | undefined) =>
  (table: Installed | undefined): Installed | undefined => {
    const chain = table?.chains.get(name);
    if (table === undefined || chain === undefined) throw new Error(`there is no ${name}`);
    const chains = new Map(table.chains);
    const changed = change(chain);
    if (changed === undefined) chains.delete(name);
    else chains.set(name, changed);
    return { ...table, chains };
  };
const helperOf = async (nft: FakeNft): Promise<string> =>
  [...((await nft.list())?.chains.keys() ?? [])].find((name) => name.startsWith('from-')) ?? '';

const base = 'service-inbound';
type Tampering = (nft: FakeNft) => Promise<ReadonlySet<string> | 'table'>;
const onBase =
  (change: (chain: InstalledChain) => InstalledChain): Tampering =>
  async (nft) => {
    nft.tamper(changeChain(base, change));
    return new Set([base]);
  };
const onHelper =
  (change: (chain: InstalledChain) => InstalledChain): Tampering =>
  async (nft) => {
    const name = await helperOf(nft);
    nft.tamper(changeChain(name, change));
    return new Set([name]);
  };

const tamperings: readonly [string, Tampering][] = [
  ['a rule was inserted', onBase((chain) => ({ ...chain, rules: [foreignRule, ...chain.rules] }))],
  ['a rule was deleted', onBase((chain) => ({ ...chain, rules: chain.rules.slice(0, -1) }))],
  ['a rule was moved', onBase((chain) => ({ ...chain, rules: chain.rules.toReversed() }))],
  ['a chain was emptied', onBase((chain) => ({ ...chain, rules: [] }))],
  [
    'the policy of a chain was changed',
    onBase((chain) => ({ ...chain, ...(chain.attachment && { attachment: { ...chain.attachment, policy: 'drop' } }) })),
  ],
  [
    'a chain hangs elsewhere',
    onBase((chain) => ({ ...chain, ...(chain.attachment && { attachment: { ...chain.attachment, priority: 5 } }) })),
  ],
  ['a chain below was emptied', onHelper((chain) => ({ ...chain, rules: [] }))],
  ['a chain below was extended', onHelper((chain) => ({ ...chain, rules: [...chain.rules, foreignRule] }))],
  [
    'the table was deleted',
    async (nft) => {
      nft.tamper(() => undefined);
      return 'table';
    },
  ],
  [
    'the table was put to sleep',
    async (nft) => {
      nft.tamper((table) => table && { ...table, flagged: true });
      return 'table';
    },
  ],
  [
    'a set was added',
    async (nft) => {
      nft.tamper((table) => table && { ...table, objects: [{ object: 'set', name: 'strange' }] });
      return new Set(['strange']);
    },
  ],
  [
    'a chain was hung beside ours',
    async (nft) => {
      const attachment = { type: 'filter', hook: 'input', priority: -5, policy: 'drop' };
      nft.tamper(
        (table) =>
          table && {
            ...table,
            chains: new Map(table.chains).set('strange', { name: 'strange', attachment, rules: [] }),
          },
      );
      return new Set(['strange']);
    },
  ],
];

describe('when', () => {
  test.each(tamperings)('%s, an inspection finds it and repairs it', async (_, tamper) => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    await tamper(nft);
    expect((await enforcer.inspect()).findings).not.toEqual([]);
    expect(await enforced(nft)).toEqual(web.policy);
    await enforcer.collect();
    expect(decompile((await nft.list()) as Installed).findings).toEqual([]);
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test.each(tamperings)('%s, a repair and an inspection put it right', async (_, tamper) => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const changed = await tamper(nft);
    await enforcer.repair(
      changed === 'table'
        ? { tables: new Set(['service'] as const), chains: new Set() }
        : { tables: new Set(), chains: changed },
    );
    await enforcer.inspect();
    await enforcer.collect();
    expect(decompile((await nft.list()) as Installed).findings).toEqual([]);
    expect((await enforcer.verify()).findings).toEqual([]);
    expect(await enforced(nft)).toEqual(web.policy);
  });

  test.each(tamperings)('%s, the next update puts it right, too', async (_, tamper) => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    await tamper(nft);
    enforcer.distrust();
    await enforcer.apply(ssh);
    await enforcer.inspect();
    await enforcer.collect();
    expect(decompile((await nft.list()) as Installed).findings).toEqual([]);
    expect(await enforced(nft)).toEqual(ssh.policy);
  });

  test('nothing was changed, a repair keeps the rules in force throughout', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const from = nft.seen.length;
    await enforcer.repair(everything);
    expect(nft.seen.length).toBeGreaterThan(from);
    for (const seen of nft.seen.slice(from)) expect(seen).toEqual(web.policy);
  });

  test('a deleted table is there again before its deletion is told, a repair leaves its rules as they are', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const whole = await Promise.all([nft.list(), nft.list('service-forward')]);
    await nft.run([{ kind: 'addTable' }, { kind: 'deleteTable' }]);
    await enforcer.inspect();
    await enforcer.repair({ tables: new Set<TableName>(['service', 'service-forward']), chains: new Set() });
    expect(await Promise.all([nft.list(), nft.list('service-forward')])).toEqual(whole);
    expect((await enforcer.inspect()).findings).toEqual([]);
  });

  test('nothing was ever put in force, nothing is repaired', async () => {
    const { nft, enforcer } = start();
    await enforcer.repair(everything);
    expect((await enforcer.inspect()).findings).toEqual([]);
    await enforcer.collect();
    expect(await nft.list()).toBeUndefined();
  });

  test('the table is taken away, it stays away', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    await enforcer.remove();
    expect(await nft.list()).toBeUndefined();
    expect((await enforcer.inspect()).findings).toEqual([]);
    expect(await nft.list()).toBeUndefined();
  });
});
