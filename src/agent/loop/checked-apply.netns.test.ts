/** Proves with packets on a real kernel that a device which its policy locks out recovers by itself, that a network failure keeps the new policy, and that rules end on time. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { attemptQuickly, runQuickly } from '../../../test/lib/batch-runner.ts';
import { Talker } from '../../../test/lib/talker.ts';
import { written } from '../../nft/policies.fixture.ts';
import type { CanonicalPolicy } from '../../policy/canonical.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import { policyDigest } from '../../policy/digest/digest.ts';
import type { PolicyGroup, StoredRule } from '../../policy/rule.ts';
import { samePolicy } from '../../policy/same-policy.ts';
import { policyAt } from '../../policy/time/policy-at.ts';
import { groupOf } from './agent.fixture.ts';
import { device4, driver, peer4, RealWorld } from './real-world.fixture.ts';

/** Each kind of failure so many times in one world. */
const rounds = process.env['RINGFENCE_SWITCHES'] === undefined ? 2 : 20;
const port = 7_443;

let world: RealWorld;
beforeEach(async () => {
  world = await RealWorld.open({
    checkedApply: {
      probe: () => reaches(),
      patience: 1_500,
      restoredFor: 2_500,
      every: 100,
    },
  });
  await Talker.serve(world.peer, port);
});
afterEach(async () => {
  await world?.close();
});

const inbound = [written('tcp', 8_000, 8_000)];
const reachable = (number: number): PolicyGroup =>
  groupOf(1, inbound, [written('tcp', port, port), written('udp', 1_000 + number, 1_000 + number)]);
const lockedOut = (number: number): PolicyGroup =>
  groupOf(1, inbound, [written('udp', 1_000 + number, 1_000 + number)]);

const holds = async (group: PolicyGroup): Promise<boolean> => {
  const policy = (await world.kernel())?.enforced?.policy;
  return policy !== undefined && samePolicy(policy, canonicalize({ source: 'list', groups: [group] }));
};
const inForce = (group: PolicyGroup): Promise<void> =>
  world.eventually('the kernel enforces the group', () => holds(group));
const checked = (): Promise<void> =>
  world.eventually('the policy was checked', async () => {
    const file = `${world.folder}/state/apply-check.json`;
    return (await attemptQuickly(world.device, ['test', '-e', file])).code !== 0;
  });
/** A connection of its own, from inside the device. */
const reaches = async (): Promise<boolean> => {
  const attempt = ['timeout', '1', 'bash', '-c', `exec 3<>/dev/tcp/${peer4}/${port}`];
  return (await attemptQuickly(world.device, attempt)).code === 0;
};

test(`a device that its policy locks out recovers by itself, ${rounds} of ${rounds} times`, async () => {
  const agent = world.start();
  let revision = 1;
  world.source.know(revision, reachable(0));
  await inForce(reachable(0));
  await checked();
  for (let round = 1; round <= rounds; round += 1) {
    world.source.know((revision += 1), lockedOut(round));
    await inForce(lockedOut(round));
    await world.eventually('the policy before is in force', () => holds(reachable(round - 1)));
    await world.eventually('the agent refuses the policy', () => agent.status.reverted?.revision === revision);
    world.source.know((revision += 1), reachable(round));
    await inForce(reachable(round));
    expect(agent.status.reverted).toBeUndefined();
    await checked();
  }
});

test(`a network that fails while a policy is put in force leaves the new policy in force, ${rounds} of ${rounds} times`, async () => {
  const agent = world.start();
  world.source.know(1, reachable(0));
  await inForce(reachable(0));
  await checked();
  for (let round = 1; round <= rounds; round += 1) {
    await runQuickly(world.peer, ['ip', 'link', 'set', driver, 'down']);
    const before = world.logged.length;
    world.source.know(1 + round, reachable(round));
    const said = (words: string): boolean => world.logged.slice(before).some((line) => line.includes(words));
    await world.eventually('the policy before was tried', () => said('restores the policy before'));
    await world.eventually('the network was found at fault', () => said('applies the new policy again'));
    await inForce(reachable(round));
    expect(agent.status.reverted).toBeUndefined();
    await runQuickly(world.peer, ['ip', 'link', 'set', driver, 'up']);
    await world.eventually('the server is reached', reaches);
    await inForce(reachable(round));
  }
});

test('a rule ends at its moment without the server, with its connections, and outbound stays closed', async () => {
  world.start();
  await Talker.serve(world.device, 8_000);
  const always = groupOf(1, [written('tcp', 8_000, 8_000)], [written('tcp', port, port)]);
  let [ends, nothing, talker]: [number, CanonicalPolicy | undefined, Talker | undefined] = [0, undefined, undefined];
  // A busy machine gets another, longer time until all is seen before its end.
  for (let [revision, lifeMs] = [1, 4_000]; talker === undefined && lifeMs < 100_000; revision += 1, lifeMs *= 2) {
    ends = Date.now() + lifeMs;
    const expiring = (rule: StoredRule): StoredRule => ({ ...rule, expires_at: new Date(ends).toISOString() });
    const group = groupOf(1, always.inbound.map(expiring), always.outbound.map(expiring));
    nothing = canonicalize(policyAt({ source: 'list', groups: [group] }, ends).policy);
    world.source.know(revision, group);
    await world.eventually('it is in force, or over', async () => Date.now() >= ends || (await holds(always)));
    const within = Math.max(1, ends - Date.now());
    const called = await Talker.call(world.peer, device4, 8_000, { within }).catch(() => undefined);
    if ((await reaches()) && Date.now() < ends) talker = called;
  }
  if (talker === undefined || nothing === undefined) throw new Error('it was never seen in force');
  const expected = policyDigest(nothing);
  await world.eventually('the rule has expired', async () => {
    const policy = (await world.kernel())?.enforced?.policy;
    return policy !== undefined && policyDigest(policy) === expected;
  });
  expect(Date.now()).toBeGreaterThanOrEqual(ends);
  expect(await talker.isSilenced(500)).toBe(true);
  expect(await reaches()).toBe(false);
});
