/** Proves that no connection outlives its rule because others were put in force before it could be ended. */
import { afterEach, describe, expect, test } from 'vitest';
import type { Command } from '../../nft/ast.ts';
import { written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { Fleet } from '../../policy/fleet/fleet.ts';
import { deviceIdentity } from '../../policy/fleet/identity.ts';
import { resolvePolicy } from '../../policy/fleet/resolve.ts';
import type { FarEnd } from '../host/flow-table.ts';
import { isRevoked, parseFlow, localFlows } from '../host/flows.ts';
import { FakeNft } from '../kernel/fake-nft.fixture.ts';
import { NftError } from '../kernel/nft.ts';
import { groupOf, World } from './agent.fixture.ts';
import { everything, isUrgent, mostPolicies, withNarrowed, type PendingRevocation } from './pending-revocation.ts';

const worlds: World[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.stop();
});
async function open(nft?: FakeNft): Promise<World> {
  const world = new World(nft && { nft });
  worlds.push(world);
  await world.settle();
  return world;
}

const addressOf = (number: number): string => `100.64.0.${number}`;
const farEnd = (number: number): FarEnd => ({ address: addressOf(number), direction: 'inbound' });
const policy = {
  source: 'list',
  groups: [groupOf(1, [{ ip_protocol: 'tcp', from_port: 22, to_port: 22, peers: [{ labels: ['app'] }] }])],
} as const;

/** A fleet whose devices with the label may connect. It passes each change to the agent. */
class Members {
  readonly #fleet = new Fleet();
  readonly #world: World;
  #revision = 0;
  constructor(world: World) {
    this.#world = world;
  }
  async join(...numbers: readonly number[]): Promise<void> {
    for (const number of numbers) {
      this.#fleet.set(deviceIdentity({ id: `d${number}`, tunnel_ip: addressOf(number), labels: ['app'] }));
    }
    await this.#tell();
  }
  async leave(number: number): Promise<void> {
    this.#fleet.delete(`d${number}`);
    await this.#tell();
  }
  async #tell(): Promise<void> {
    this.#revision += 1;
    const revision = this.#revision;
    this.#world.source.give({ kind: 'known', revision, policy: resolvePolicy(policy, this.#fleet) });
    await this.#world.settle();
    expect(this.#world.agent.status.inForce?.revision).toBe(revision);
  }
}

/** Whether the last revocation ended a connection from that address. */
function isEnded(world: World, remote: string): boolean {
  const { before, after, remotes } = world.revocations.at(-1) ?? { before: [], after: everything };
  const [src, dst] = [remote, addressOf(250)];
  const flow = parseFlow(
    `tcp 6 300 ESTABLISHED src=${src} dst=${dst} sport=9 dport=22 src=${dst} dst=${src} sport=22 dport=9`,
  );
  const flows = flow === undefined ? [] : localFlows(flow, (address) => address === dst);
  return (
    flows.some((each) => isRevoked(each, before, after)) &&
    (remotes === undefined || remotes.some(({ address }) => address === remote))
  );
}

describe('while connections cannot be ended', () => {
  test('a device that joins and leaves loses its connections with the others, once they can', async () => {
    const world = await open();
    const members = new Members(world);
    await members.join(1, 2);
    world.revokeFault = new Error('no conntrack today');
    const { length } = world.revocations;
    await members.leave(2);
    await members.join(3);
    await members.leave(3);
    expect(world.revocations).toHaveLength(length);
    world.revokeFault = undefined;
    await world.clock.advance(5_000);
    expect(world.revocations).toHaveLength(length + 1);
    expect([1, 2, 3].map((number) => isEnded(world, addressOf(number)))).toEqual([false, true, true]);
    expect(isEnded(world, addressOf(4))).toBe(false);
  });

  test('however many come and go meanwhile', async () => {
    const world = await open();
    const members = new Members(world);
    await members.join(1);
    world.revokeFault = new Error('no conntrack today');
    const passing = Array.from({ length: 100 }, (_, i) => 2 + i);
    for (const number of passing) {
      await members.join(number);
      await members.leave(number);
    }
    world.revokeFault = undefined;
    await world.clock.advance(60_000);
    expect(passing.filter((number) => !isEnded(world, addressOf(number)))).toEqual([]);
    expect(isEnded(world, addressOf(1))).toBe(false);
    expect(world.revocations.at(-1)?.before).toEqual([everything]);
    // What is remembered is forgotten once it was dealt with.
    await members.leave(1);
    expect(world.revocations.at(-1)?.before).not.toContain(everything);
    expect(isEnded(world, addressOf(1))).toBe(true);
  });
});

test('connections by a policy that the kernel took although it failed end when it is withdrawn', async () => {
  /** Runs the commands, and then reports a timeout. */
  class LateNft extends FakeNft {
    late = false;
    override async run(commands: readonly Command[]): Promise<void> {
      await super.run(commands);
      if (this.late) throw new NftError('timed_out', 'nft did not answer within 60 s');
    }
  }
  const nft = new LateNft();
  const world = await open(nft);
  const [narrow, wide] = ['10.0.0.1', '100.64.0.0/24'].map((range) => groupOf(1, [written('tcp', 22, 22, range)]));
  if (narrow === undefined || wide === undefined) throw new Error('two groups were made');
  world.source.know(1, narrow);
  await world.settle();
  nft.late = true;
  world.source.know(2, narrow, wide);
  await world.settle();
  expect(world.agent.status).toMatchObject({ pending: true, inForce: { revision: 1 } });
  nft.late = false;
  world.source.know(3, groupOf(2, [written('tcp', 22, 22, '10.0.0.1', '10.0.0.2')]));
  await world.settle();
  expect(world.agent.status).toMatchObject({ pending: false, inForce: { revision: 3 } });
  expect(isEnded(world, addressOf(7))).toBe(true);
});

describe('what is remembered', () => {
  const other = (number: number): CanonicalPolicy =>
    canonicalize({ source: 'list', groups: [groupOf(number, [written('tcp', number, number)])] });
  const after = (count: number, remotes: (i: number) => readonly FarEnd[] | undefined): PendingRevocation | undefined =>
    Array.from({ length: count }, (_, i) => i).reduce<PendingRevocation | undefined>(
      (pending, i) => withNarrowed(pending, other(1 + i), remotes(i)),
      undefined,
    );

  test('is bounded, and urgent before anything is forgotten', () => {
    const full = after(mostPolicies, (i) => [farEnd(i)]);
    expect(full?.before).toHaveLength(mostPolicies);
    expect(isUrgent(after(mostPolicies - 1, () => []))).toBe(false);
    expect(isUrgent(full)).toBe(true);
    const more = after(mostPolicies + 5, (i) => [farEnd(i)]);
    expect(more).toMatchObject({ before: [everything], remotes: { length: mostPolicies + 5 } });
    expect(isUrgent(more)).toBe(true);
  });

  test('are far ends only while each change told whom it concerned, and while they are few', () => {
    expect(after(3, (i) => (i === 1 ? undefined : [farEnd(i)]))?.remotes).toBeUndefined();
    expect(after(3, () => [farEnd(1)])?.remotes).toEqual([farEnd(1)]);
    expect(after(100, (i) => [farEnd(i)])?.remotes).toBeUndefined();
  });
});
