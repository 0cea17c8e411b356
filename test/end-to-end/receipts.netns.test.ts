/**
 * Proves packets against receipts: random changes on a fleet of real agents that are killed, frozen and tampered with. Whenever a device is said to have its policy in force, its
 * packets agree at once; one that lacks a change is never counted. RINGFENCE_RECEIPTS_CHANGES and RINGFENCE_RECEIPTS_SEED make it longer and repeat it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { DeviceStatus } from '../../src/api/device.ts';
import type { SecurityRule } from '../../src/policy/rule.ts';
import { Random } from '../lib/random.ts';
import { rounds } from '../lib/thorough.ts';
import { Fleet, type Probe } from './fleet.ts';

const longRun = process.env['RINGFENCE_RECEIPTS_CHANGES'];
const changes = Number(longRun ?? rounds(8, 20));
/** The same changes in every run; a longer one draws its own. */
const drawn = longRun === undefined ? 20_261_116 : Math.floor(Math.random() * 1_000_000);
const seed = Number(process.env['RINGFENCE_RECEIPTS_SEED'] ?? drawn);
const devices = 3;
const numbers = Array.from({ length: devices }, (_, index) => index + 1);
/**
 * One more device, whose agent is killed before the changes begin: the server reports it as away only after a while.
 */
const absent = devices + 1;
const ports = [7_101, 7_102, 7_103] as const;
/**
 * Seconds in which a connected device must be counted: a bound, no measure. A device that is not counted is not judged
 * in that round.
 */
const patience = 2;

const rulesOf = (open: readonly number[]): SecurityRule[] =>
  open.map((port) => ({ ip_protocol: 'tcp', from_port: port, to_port: port }));

let fleet: Fleet;
const groups: { id: string; open: readonly number[] }[] = [];
const ids = new Map<number, string>();
/** The groups of each device, as the test has set them. */
const lists = new Map<number, readonly number[]>();
beforeAll(async () => {
  fleet = await Fleet.open({ devices: absent, phase: 3 });
  for (const name of ['one', 'two', 'of the absent']) {
    const made = await fleet.owner.groups.create(fleet.org, { group_name: name, inbound_rules: rulesOf([ports[0]]) });
    groups.push({ id: made.id, open: [ports[0]] });
  }
  for (const number of numbers) {
    ids.set(number, await fleet.idOf(number));
    lists.set(number, [number % 2]);
    await fleet.attach(number, groups[number % 2]?.id ?? '');
  }
  ids.set(absent, await fleet.idOf(absent));
  await fleet.attach(absent, groups[2]?.id ?? '');
  await fleet.converged(...numbers, absent);
  await fleet.eventually(absent, 'it is in force', async () => (await statusOf(absent)).in_force === 'yes');
  await fleet.device(absent).stopAgent('SIGKILL');
});
afterAll(() => fleet?.close());

/** What the device should let in now. */
const intended = (number: number): readonly number[] =>
  (lists.get(number) ?? []).flatMap((index) => groups[index]?.open ?? []);

async function statusOf(number: number): Promise<DeviceStatus> {
  const all = await fleet.owner.statuses.list(fleet.org);
  const found = all.find(({ device_id }) => device_id === ids.get(number));
  if (found === undefined) throw new Error(`device ${number} is not listed`);
  return found;
}

test('a watch-only group leaves rules, digest and verdicts as they are, before, during and after; the same group that enforces does not (reference 1.6)', async () => {
  const number = 1;
  const list = (lists.get(number) ?? []).map((index) => groups[index]?.id ?? '');
  /** The text of the rules, without counters; the digest that the agent read back; what becomes of packets. */
  const observe = async (): Promise<object> => {
    await fleet.converged(number);
    await fleet.eventually(number, 'it is in force', async () => (await statusOf(number)).in_force === 'yes');
    const { stdout } = await fleet.device(number).nft('--stateless', 'list', 'table', 'inet', 'service');
    // The kernel lists chains in the order in which they were made, which means nothing.
    const text = stdout
      .replace(/\n}\s*$/, '')
      .split('\n\n')
      .toSorted();
    const probes = [...ports.slice(0, 2), 7_104].map((port): Probe => ({ from: 2, to: number, protocol: 'tcp', port }));
    const out: Probe = { from: number, to: 3, protocol: 'tcp', port: intended(3)[0] ?? 0 };
    const verdicts = await fleet.judge([...probes, out]);
    return { text, digest: (await statusOf(number)).status?.policy_digest, verdicts };
  };
  const before = await observe();
  const { groups: api } = fleet.owner;
  const watched = await api.create(fleet.org, {
    group_name: 'watched',
    mode: 'observe',
    inbound_rules: rulesOf([ports[1]]),
    outbound_rules: rulesOf([443]),
  });
  const guardrail = await api.create(fleet.org, {
    group_name: 'watched guardrail',
    mode: 'observe',
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: rulesOf([ports[0]]),
  });
  await fleet.attach(number, ...list, watched.id);
  expect(await observe()).toEqual(before);
  await api.update(fleet.org, watched.id, { inbound_rules: [{ ip_protocol: 'ip', from_port: 0, to_port: 0 }] });
  expect(await observe()).toEqual(before);
  await api.update(fleet.org, watched.id, { mode: 'enforce' });
  expect(await observe()).toMatchObject({ verdicts: ['open', 'open', 'open', 'stopped going out'] });
  await api.update(fleet.org, watched.id, { mode: 'observe' });
  expect(await observe()).toEqual(before);
  await fleet.attach(number, ...list);
  for (const { id } of [watched, guardrail]) await api.delete(fleet.org, id);
  expect(await observe()).toEqual(before);
});

test(
  `${changes} random changes with kills, freezes and tampering, seed ${seed}`,
  { timeout: 120_000 + changes * 20_000 },
  async () => {
    const random = new Random(seed);
    const [dead, frozen] = [new Set<number>(), new Set<number>()];
    /** What each device let in when its agent last could hear of a change. */
    const held = new Map<number, string>();
    const asText = (number: number): string => ports.filter((port) => intended(number).includes(port)).join();
    /**
     * Devices that are away and should let in something else than they do. One whose policy has come to the same again may be counted or not: a worker
     * that has not seen the changes happen goes by the digest of its rules, and its packets are judged then.
     */
    const lacking = new Set<number>();
    const signal = (number: number, name: NodeJS.Signals): void => {
      const { pid = Number.NaN, isRunning = false } = fleet.device(number).agent ?? {};
      if (isRunning) process.kill(pid, name);
    };
    const thaw = (number: number): void => {
      if (frozen.delete(number)) signal(number, 'SIGCONT');
    };
    let [proven, unproven] = [0, 0];

    const disturb = async (number: number): Promise<void> => {
      const away = dead.has(number) || frozen.has(number);
      switch (
        away
          ? random.pick(['back', 'stay'] as const)
          : random.pick(['kill', 'freeze', 'tamper', 'leave', 'leave'] as const)
      ) {
        case 'kill':
          held.set(number, asText(number));
          await fleet.device(number).stopAgent('SIGKILL');
          dead.add(number);
          break;
        case 'freeze':
          held.set(number, asText(number));
          signal(number, 'SIGSTOP');
          frozen.add(number);
          break;
        case 'tamper':
          await fleet.device(number).nft('insert', 'rule', 'inet', 'service', 'service-inbound', 'accept');
          await fleet.converged(number);
          break;
        case 'back':
          thaw(number);
          if (dead.delete(number)) await fleet.lab.startAgent(fleet.device(number));
          lacking.delete(number);
          break;
        case 'stay':
        case 'leave':
          break;
      }
    };

    const change = async (): Promise<number> => {
      let revision: number;
      if (random.chance(0.7)) {
        const index = random.int(0, 1);
        const open = ports.filter(() => random.chance(0.5));
        const { id = '' } = groups[index] ?? {};
        revision = (await fleet.owner.groups.update(fleet.org, id, { inbound_rules: rulesOf(open) })).revision;
        groups[index] = { id, open };
      } else {
        const number = random.pick(numbers);
        const list = random.pick([[0], [1], [0, 1], [1, 0]]);
        const security_groups = list.map((index) => groups[index]?.id ?? '');
        revision = (await fleet.owner.devices.update(fleet.org, ids.get(number) ?? '', { security_groups })).revision;
        lists.set(number, list);
      }
      for (const number of numbers) {
        const isAway = dead.has(number) || frozen.has(number);
        if (isAway && asText(number) !== held.get(number)) lacking.add(number);
        else lacking.delete(number);
      }
      return revision;
    };

    const waits: Promise<unknown>[] = [];
    /**
     * The devices that are not in force, once only the absent ones are left, or after a while. A device that lacks the
     * change is always among them. A waiter is open meanwhile, so that agents report at once; the test does not wait
     * for its end.
     */
    const pendingAt = async (at: number): Promise<ReadonlySet<string>> => {
      const wait = fleet.owner.statuses.convergence(fleet.org, { revision: at, wait: patience });
      wait.catch(() => {}); // Told in the end.
      waits.push(wait);
      for (const until = Date.now() + patience * 1_000; ;) {
        const { pending } = await fleet.owner.statuses.convergence(fleet.org, { revision: at });
        const found = new Set<string>(pending.map(({ device_id }) => device_id));
        const counted = [...lacking].filter((number) => !found.has(ids.get(number) ?? ''));
        expect(counted, `seed ${seed}: counted though they lack revision ${at}`).toEqual([]);
        const isAway = (number: number): boolean => dead.has(number) || frozen.has(number);
        if (numbers.every((number) => isAway(number) || !found.has(ids.get(number) ?? ''))) return found;
        if (Date.now() > until) return found;
        await sleep(50);
      }
    };

    let revision = 0;
    for (let round = 0; round < changes; round += 1) {
      await disturb(random.pick(numbers));
      // A write that changes nothing answers with the revision of an earlier one.
      revision = Math.max(revision, await change());
      const pending = await pendingAt(revision);
      for (const number of numbers) {
        const isPending = pending.has(ids.get(number) ?? '');
        const about = `seed ${seed}, round ${round}, device ${number}: ${JSON.stringify(await statusOf(number))}`;
        if (isPending) {
          unproven += 1;
          continue;
        }
        expect(lacking.has(number), `${about} is counted though it lacks the change`).toBe(false);
        const from = (number % devices) + 1;
        const probes = ports.map((port): Probe => ({ from, to: number, protocol: 'tcp', port }));
        const verdicts = await fleet.judge(probes);
        const wanted = ports.map((port) => (intended(number).includes(port) ? 'open' : 'stopped coming in'));
        expect(verdicts, about).toEqual(wanted);
        proven += 1;
      }
    }
    await Promise.all(waits);
    // Everybody comes back, and everything is in force.
    for (const number of numbers) {
      thaw(number);
      if (dead.delete(number)) await fleet.lab.startAgent(fleet.device(number));
    }
    await fleet.eventually(1, 'everything is in force', async () => {
      const { in_force } = await fleet.owner.statuses.convergence(fleet.org, { wait: 5 });
      return in_force === absent;
    });
    await fleet.converged(...numbers);
    expect([proven > 0, proven + unproven]).toEqual([true, changes * devices]);
  },
);

test('a device that goes away after it has everything stays in force; one that misses a change is offline', async () => {
  await fleet.eventually(absent, 'it is seen to be away', async () => !(await statusOf(absent)).online);
  expect(await statusOf(absent)).toMatchObject({ in_force: 'yes', online: false });
  await fleet.owner.groups.update(fleet.org, groups[2]?.id ?? '', { inbound_rules: rulesOf([ports[2], 7_199]) });
  expect(await statusOf(absent)).toMatchObject({ in_force: 'offline', online: false });
});
