/** Proves that the table for forwarded connections is put in force with the other one, repaired like it, and taken away with it. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Command } from '../../nft/ast.ts';
import { forwardPolicy } from '../../nft/compile/compile.ts';
import { decompile } from '../../nft/read/decompile.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { canonicalPolicy, defaultPolicy, policyOf, serverAccess, written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy, DirectionPolicy } from '../../policy/canonical.ts';
import { Enforcer, type Target } from './enforcer.ts';
import { FakeNft } from './fake-nft.fixture.ts';
import type { TableChange } from './drift.ts';

const on = (policy: CanonicalPolicy): Target => ({
  policy,
  interface: parseInterfaceName('rf0'),
  neighbourDiscovery: true,
  forwarding: 'on',
});
const web = on(policyOf([written('tcp', 80, 84, '10.0.0.0/8', '12.0.0.1')], [written('tcp', 443, 443)]));
const judged = ({ policy, forwarding }: Target): CanonicalPolicy | undefined =>
  forwarding && forwardPolicy(policy, forwarding);

/** What packets meet: a table with staged parts only says as little as none. */
async function enforced(nft: FakeNft): Promise<CanonicalPolicy | undefined> {
  const installed = await nft.list('service-forward');
  const policy = installed && decompile(installed, 'service-forward').enforced?.policy;
  const isOpen = ({ kind, forbid }: DirectionPolicy): boolean => kind === 'open' && forbid === undefined;
  return policy !== undefined && isOpen(policy.inbound) && isOpen(policy.outbound) ? undefined : policy;
}

/** Remembers what both tables enforced after each transaction. */
class Witness extends FakeNft {
  readonly seen: (readonly [CanonicalPolicy | undefined, CanonicalPolicy | undefined])[] = [];
  override async run(commands: readonly Command[]): Promise<void> {
    await super.run(commands);
    const own = await this.list();
    this.seen.push([own && decompile(own).enforced?.policy, await enforced(this)]);
  }
}

function start(): { nft: Witness; enforcer: Enforcer } {
  const nft = new Witness();
  let count = 0;
  return { nft, enforcer: new Enforcer({ nft, random: () => ++count / 1_000 }) };
}

describe('forwarded connections', () => {
  test('are judged by the old policy or by the new one, at one instant with those of the device', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(canonicalPolicy, fc.constantFrom('on', 'off', undefined), serverAccess), { maxLength: 5 }),
        async (steps) => {
          const { nft, enforcer } = start();
          await enforcer.apply(web);
          for (const [policy, forwarding, access] of steps) {
            const [old = web, next] = [enforcer.target, { ...on(policy), forwarding, serverAccess: access }];
            const from = nft.seen.length;
            await enforcer.apply(next);
            await enforcer.collect();
            for (const seen of nft.seen.slice(from)) {
              expect([
                [old.policy, judged(old)],
                [next.policy, judged(next)],
              ]).toContainEqual(seen);
            }
            expect((await enforcer.verify()).findings).toEqual([]);
            expect(enforcer.garbage).toBe(0);
          }
        },
      ),
      { numRuns: 40 },
    );
  });

  const tamperings: readonly (readonly [string, (nft: FakeNft) => Promise<TableChange>])[] = [
    [
      'the table is deleted',
      async (nft) => {
        nft.tamper(() => undefined, 'service-forward');
        return { tables: new Set(['service-forward'] as const), chains: new Set() };
      },
    ],
    [
      'a chain is emptied',
      async (nft) => {
        nft.tamper((table) => {
          const chain = table?.chains.get('service-forward-inbound');
          if (table === undefined || chain === undefined) throw new Error('there is no such chain');
          return { ...table, chains: new Map(table.chains).set(chain.name, { ...chain, rules: [] }) };
        }, 'service-forward');
        return { tables: new Set(), chains: new Set(['service-forward-inbound']) };
      },
    ],
    [
      'a rule is put in front of the addresses',
      async (nft) => {
        const leaf = [...((await nft.list('service-forward'))?.chains.keys() ?? [])].find((n) => n.startsWith('from-'));
        nft.tamper((table) => {
          const chain = table?.chains.get(leaf ?? '');
          if (table === undefined || chain === undefined) throw new Error('there is no such chain');
          const rules = [{ kind: 'foreign' as const, json: '{"accept":null}' }, ...chain.rules];
          return { ...table, chains: new Map(table.chains).set(chain.name, { ...chain, rules }) };
        }, 'service-forward');
        return { tables: new Set(), chains: new Set([leaf ?? '']) };
      },
    ],
  ];

  test.each(tamperings)('are judged again after %s: by an inspection', async (_, tamper) => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    await tamper(nft);
    expect((await enforcer.inspect()).findings).not.toEqual([]);
    expect(await enforced(nft)).toEqual(judged(web));
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test.each(tamperings)(
    'are judged again after %s: by a repair, which leaves the other table alone',
    async (_, tamper) => {
      const { nft, enforcer } = start();
      await enforcer.apply(web);
      await enforcer.repair(await tamper(nft));
      expect(await enforced(nft)).toEqual(judged(web));
      for (const [own] of nft.seen) expect(own === undefined ? undefined : own).toEqual(own && web.policy);
      await enforcer.inspect();
      await enforcer.collect();
      expect((await enforcer.verify()).findings).toEqual([]);
    },
  );

  test('keep their rules, and so do all other chains, while a repair turns the one that was changed', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    const emptied: string[] = [];
    const run = nft.run.bind(nft);
    nft.run = (commands) => {
      for (const command of commands) if (command.kind === 'flushChain') emptied.push(command.name);
      return run(commands);
    };
    nft.tamper((table) => {
      const chain = table?.chains.get('service-inbound');
      if (table === undefined || chain === undefined) throw new Error('there is no such chain');
      const rules = [{ kind: 'foreign' as const, json: '{"accept":null}' }, ...chain.rules];
      return { ...table, chains: new Map(table.chains).set(chain.name, { ...chain, rules }) };
    });
    await enforcer.repair({ tables: new Set(), chains: new Set(['service-inbound']) });
    expect(emptied).toEqual(['service-inbound']);
    expect(nft.seen.at(-1)).toEqual([web.policy, judged(web)]);
    expect((await enforcer.inspect()).findings).toEqual([]);
  });

  test('are left alone where that is asked for, where everything passes, and after the rules are taken away', async () => {
    const { nft, enforcer } = start();
    await enforcer.apply(web);
    await enforcer.apply({ ...web, forwarding: undefined });
    expect(await nft.list('service-forward')).toBeUndefined();
    await enforcer.apply(web);
    await enforcer.apply(on(defaultPolicy));
    expect(await nft.list('service-forward')).toBeUndefined();
    await enforcer.apply(web);
    await enforcer.remove();
    expect([await nft.list(), await nft.list('service-forward')]).toEqual([undefined, undefined]);
  });
});
