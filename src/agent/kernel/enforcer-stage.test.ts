/** Proves that a large policy comes in several transactions, none of which leaves a part half, and that one that fails leaves the old policy in force. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { Command } from '../../nft/ast.ts';
import { decompile } from '../../nft/read/decompile.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { remove } from '../../nft/plan/plan.ts';
import { policyOf, written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { Enforcer, type Target } from './enforcer.ts';
import { FakeNft } from './fake-nft.fixture.ts';
import { NftError } from './nft.ts';

const on = (policy: CanonicalPolicy): Target => ({
  policy,
  interface: parseInterfaceName('rf0'),
  neighbourDiscovery: true,
  forwarding: 'on',
});
const small = on(policyOf([written('tcp', 22, 22)]));
/** Each port for others: a chain each, and thousands of commands. */
const large = on(
  policyOf(Array.from({ length: 3_000 }, (_, i) => written('tcp', 2 * i + 1, 2 * i + 1, `10.0.${i >> 8}.${i & 255}`))),
);

/** Remembers each batch and what was enforced after it; the one of this number fails. */
class Witness extends FakeNft {
  readonly batches: (readonly Command[])[] = [];
  readonly enforced: (CanonicalPolicy | undefined)[] = [];
  failAt = Number.NaN;
  override async run(commands: readonly Command[]): Promise<void> {
    this.batches.push(commands);
    if (this.batches.length === this.failAt) throw new NftError('timed_out', 'a test wants so');
    await super.run(commands);
    const table = await this.list();
    this.enforced.push(table && decompile(table).enforced?.policy);
  }
}

let nft: Witness;
let enforcer: Enforcer;
let salts = 0;
beforeEach(async () => {
  nft = new Witness();
  salts = 0;
  enforcer = new Enforcer({ nft, random: () => ++salts / 1_000 });
  await enforcer.apply(small);
  nft.batches.length = 0;
  nft.enforced.length = 0;
});

describe('a large policy', () => {
  test('comes in several transactions, each with whole chains, and is in force with the last one', async () => {
    await enforcer.apply(large);
    const [flip, ...stages] = nft.batches.toReversed();
    expect(stages.length).toBeGreaterThan(2);
    expect(flip?.some(({ kind }) => kind === 'flushChain')).toBe(true);
    for (const batch of stages) {
      const chains = new Set(batch.flatMap((command) => (command.kind === 'addChain' ? command.name : [])));
      expect(batch.every((command) => command.kind !== 'addRule' || chains.has(command.chain))).toBe(true);
      expect(batch.length).toBeLessThan(3_000);
    }
    for (const policy of nft.enforced.slice(0, -1)) expect(policy).toEqual(small.policy);
    expect(nft.enforced.at(-1)).toEqual(large.policy);
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test('of which a transaction fails in the middle leaves the old one in force, and goes on with what is there', async () => {
    nft.failAt = 2;
    await expect(enforcer.apply(large)).rejects.toMatchObject({ code: 'timed_out' });
    expect(nft.enforced.at(-1)).toEqual(small.policy);
    const [first] = nft.batches;
    nft.batches.length = 0;
    nft.failAt = Number.NaN;
    await enforcer.apply(large);
    expect(nft.enforced.at(-1)).toEqual(large.policy);
    const again = new Set(nft.batches.flat().flatMap((command) => (command.kind === 'addChain' ? command.name : [])));
    expect(first?.some((command) => command.kind === 'addChain' && again.has(command.name))).toBe(false);
    expect(salts).toBe(0);
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test('that never comes, after a part of it did, leaves nothing behind', async () => {
    nft.failAt = 2;
    await expect(enforcer.apply(large)).rejects.toMatchObject({ code: 'timed_out' });
    await enforcer.apply(small);
    await enforcer.collect();
    expect(enforcer.garbage).toBe(0);
    expect((await enforcer.verify()).findings).toEqual([]);
  });
});

describe('so many ranges that the kernel could not keep a message for each', () => {
  const hosts = (from: number): string[] =>
    Array.from({ length: 50_000 }, (_, i) => `10.${from + (i >> 15)}.${(i >> 7) & 255}.${(2 * i) & 255}`);
  const many = on(policyOf([written('tcp', 22, 22, ...hosts(0))], [written('tcp', 443, 443, ...hosts(8))]));
  /** What the kernel keeps a message for. A range of a list that stands in a rule is two elements. */
  const elementsIn = (batch: readonly Command[]): number =>
    batch.reduce((sum, command) => {
      if (command.kind === 'addElements') return sum + command.elements.length;
      if (command.kind !== 'addRule') return sum;
      const { matches, action } = command.rule;
      const lists = matches.map((match) => (match.kind === 'address' ? match.ranges.length : 0));
      return sum + 2 * lists.reduce((a, b) => a + b, 'entries' in action ? action.entries.length : 0);
    }, 0);
  const mostElements = (): number => Math.max(...nft.batches.map(elementsIn));

  test('come a few thousand at a time, and hold from the last transaction on', async () => {
    await enforcer.apply(many);
    expect(nft.batches.reduce((sum, batch) => sum + elementsIn(batch), 0)).toBeGreaterThan(200_000);
    expect(mostElements()).toBeLessThan(5_000);
    expect(nft.enforced.slice(0, -1).every((policy) => policy !== undefined && samePolicy(policy, small.policy))).toBe(
      true,
    );
    expect(samePolicy(nft.enforced.at(-1) ?? small.policy, many.policy)).toBe(true);
  });

  test('come so too when another program has flushed the ruleset', async () => {
    await enforcer.apply(many);
    await nft.run([...remove()]);
    nft.batches.length = 0;
    await enforcer.repair({ tables: new Set(['service', 'service-forward'] as const), chains: new Set() });
    expect(mostElements()).toBeLessThan(5_000);
    expect((await enforcer.verify()).findings).toEqual([]);
  });

  test('another list changes the parts around it, and no other', async () => {
    await enforcer.apply(many);
    nft.batches.length = 0;
    await enforcer.apply(
      on(policyOf([written('tcp', 22, 22, ...hosts(0), '10.1.255.255')], [written('tcp', 443, 443, ...hosts(8))])),
    );
    expect(nft.batches.reduce((sum, batch) => sum + elementsIn(batch), 0)).toBeLessThan(10_000);
  });
});
