/**
const hour = 3_600_000;
 * Proves trials and rules that expire with packets in a lab (reference 2.14, 4.15): every end of a trial, with the server killed, devices cut off and rebooted,
 * and clocks that are moved.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { SecurityGroup } from '../../src/api/group.ts';
import type { SecurityRule } from '../../src/policy/rule.ts';
import { eventually } from '../lib/eventually.ts';
import { Fleet, type Probe, type Verdict } from '../end-to-end/fleet.ts';

const hour = 3_600_000;
const port = (number: number, more: Partial<SecurityRule> = {}): SecurityRule => ({
  ip_protocol: 'tcp',
  from_port: number,
  to_port: number,
  ...more,
});
const tcp = (from: number, to: number, number: number): Probe => ({ from, to, protocol: 'tcp', port: number });
const dropped: Verdict = 'stopped coming in';
const timeoutMs = 20_000;

let fleet: Fleet;
let clockFile: string;
const groups = new Map<number, string>();

/** Devices 2 and 3 each list a group of their own that admits port 22; device 1 asks. */
beforeAll(async () => {
  fleet = await Fleet.open({ devices: 3, phase: 3 });
  clockFile = join(fleet.lab.folder, 'moved-clock');
  await moveClock(0);
  for (const number of [2, 3]) {
    const made = await fleet.owner.groups.create(fleet.org, {
      group_name: `group of ${number}`,
      inbound_rules: [port(22)],
    });
    groups.set(number, made.id);
    await fleet.attach(number, made.id);
  }
  await fleet.owner.devices.update(fleet.org, await fleet.idOf(2), { labels: ['canary'] });
  await fleet.owner.devices.update(fleet.org, await fleet.idOf(3), { labels: ['edge'] });
  await fleet.converged(1, 2, 3);
}, 300_000);
afterAll(() => fleet?.close(), 120_000);

const groupOf = (number: number): string => groups.get(number) ?? '';

/** Tries rules on a device for so many seconds. */
const attempt = (number: number, seconds: number, ...rules: readonly SecurityRule[]): Promise<SecurityGroup> =>
  fleet.owner.groups.update(fleet.org, groupOf(number), { inbound_rules: [...rules] }, { confirm_within: seconds });
const trialIdOf = ({ trial }: SecurityGroup): string => trial?.id ?? '';
const stateOf = async (group: SecurityGroup): Promise<string> =>
  (await fleet.owner.trials.get(fleet.org, trialIdOf(group))).state;
const stateBecomes = (group: SecurityGroup, state: string): Promise<void> =>
  eventually(`the trial is ${state}`, async () => (await stateOf(group)) === state);

/** Waits until packets meet these verdicts. */
const expectSoon = (...rows: readonly (readonly [Probe, Verdict])[]): Promise<void> =>
  fleet.eventually(rows[0]?.[0].to ?? 2, JSON.stringify(rows), async () => {
    const seen = await fleet.judge(rows.map(([probe]) => probe));
    return rows.every(([, verdict], index) => seen[index] === verdict);
  });
/** Waits until the moment has passed, by the clock of this machine, which is the server's. */
const passes = (time: string, moreMs = 1_500): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.max(0, Date.parse(time) + moreMs - Date.now())));

const hold = async (name: string, to: number, number: number): Promise<void> => {
  const { driver4: address } = fleet.device(to).addresses;
  expect(await fleet.device(1).perform({ do: 'connect', name, address, port: number, timeoutMs })).toBe('open');
  expect(await fleet.device(1).perform({ do: 'echo', name, timeoutMs })).toBe('open');
};
const ends = (name: string, to: number): Promise<void> =>
  fleet.eventually(
    to,
    `the connection ${name} ends`,
    async () => (await fleet.device(1).perform({ do: 'echo', name, timeoutMs: 500 })) === 'closed',
  );

/** Cuts a device off from its server; the drivers still reach each other. */
const cutOff = async (number: number): Promise<void> => {
  const rules = ['input', 'output'].map(
    (hook) =>
      `chain ${hook} { type filter hook ${hook} priority -300; ${hook === 'input' ? 'iifname' : 'oifname'} "up0" drop; }`,
  );
  await fleet.device(number).namespace.run(['nft', '-f', '-'], `table inet cut {\n${rules.join('\n')}\n}\n`);
};
const reconnect = async (number: number): Promise<void> => {
  await fleet.device(number).namespace.run(['nft', 'delete', 'table', 'inet', 'cut']);
};
/** What a reboot leaves: the state on the disk, and nothing in the kernel. */
const loseKernel = async (number: number): Promise<void> => {
  await fleet.device(number).stopAgent('SIGKILL');
  await fleet.device(number).namespace.run(['nft', 'delete', 'table', 'inet', 'service']);
};
const moveClock = (ms: number): Promise<void> => writeFile(clockFile, String(ms));
/** Starts the agent with a clock that `moveClock` moves. */
async function startAgent(number: number): Promise<void> {
  const preload = fileURLToPath(new URL('moved-clock.mjs', import.meta.url));
  const before = process.env['NODE_OPTIONS'];
  Object.assign(process.env, { NODE_OPTIONS: `--import=${preload}`, MOVED_CLOCK: clockFile });
  try {
    await fleet.lab.startAgent(fleet.device(number));
  } finally {
    delete process.env['MOVED_CLOCK'];
    if (before === undefined) delete process.env['NODE_OPTIONS'];
    else process.env['NODE_OPTIONS'] = before;
  }
}
/** Everything is as in the beginning. */
const expectAsBefore = (): Promise<void> =>
  expectSoon([tcp(1, 2, 22), 'open'], [tcp(1, 2, 80), dropped], [tcp(1, 3, 22), 'open'], [tcp(1, 3, 80), dropped]);

test('a trial that is confirmed stays in force after its end', async () => {
  const tried = await attempt(2, 20, port(22), port(80));
  await expectSoon([tcp(1, 2, 80), 'open'], [tcp(1, 3, 80), dropped]);
  await hold('confirmed', 2, 80);
  expect(await fleet.owner.trials.confirm(fleet.org, trialIdOf(tried))).toMatchObject({ state: 'confirmed' });
  await passes(tried.trial?.ends_at ?? '');
  await expectSoon([tcp(1, 2, 80), 'open']);
  expect(await fleet.device(1).perform({ do: 'echo', name: 'confirmed', timeoutMs })).toBe('open');
  await fleet.owner.groups.update(fleet.org, groupOf(2), { inbound_rules: [port(22)] });
  await expectAsBefore();
});

test('a trial that somebody reverts, and one whose time is over at the server, end with their connections', async () => {
  const [reverted, expired] = [await attempt(2, 600, port(22), port(80)), await attempt(3, 25, port(22), port(80))];
  await expectSoon([tcp(1, 2, 80), 'open'], [tcp(1, 3, 80), 'open']);
  await hold('reverted', 2, 80);
  await hold('expired', 3, 80);
  await hold('admitted before and after', 2, 22);
  await fleet.owner.trials.revert(fleet.org, trialIdOf(reverted));
  await ends('reverted', 2);
  await stateBecomes(expired, 'expired');
  await ends('expired', 3);
  await expectAsBefore();
  expect(await fleet.device(1).perform({ do: 'echo', name: 'admitted before and after', timeoutMs })).toBe('open');
  await fleet.converged(2, 3);
});

test('two trials at once, and the server is killed: each device goes back by itself, each at its own end', async () => {
  const [first, second] = [await attempt(2, 30, port(22), port(80)), await attempt(3, 75, port(22), port(80))];
  await expectSoon([tcp(1, 2, 80), 'open'], [tcp(1, 3, 80), 'open']);
  await hold('offline', 2, 80);
  await fleet.lab.stopServer('SIGKILL');
  await passes(first.trial?.ends_at ?? '', 0);
  await ends('offline', 2);
  expect(Date.now()).toBeLessThan(Date.parse(second.trial?.ends_at ?? ''));
  await expectSoon([tcp(1, 2, 80), dropped], [tcp(1, 3, 80), 'open']);
  await passes(second.trial?.ends_at ?? '', 0);
  await expectAsBefore();
  await fleet.lab.startServer();
  await stateBecomes(first, 'expired');
  await stateBecomes(second, 'expired');
  await fleet.converged(1, 2, 3);
  await expectAsBefore();
});

test('a device that is cut off goes back at the end although somebody confirms, and takes the change when it is back', async () => {
  const tried = await fleet.owner.changes.apply(
    fleet.org,
    { security_groups: [2, 3].map((number) => ({ id: groupOf(number), inbound_rules: [port(22), port(80)] })) },
    { confirm_within: 30 },
  );
  const [group] = tried.security_groups;
  if (group === undefined) throw new Error('nothing was written');
  await expectSoon([tcp(1, 2, 80), 'open'], [tcp(1, 3, 80), 'open']);
  await cutOff(2);
  await fleet.owner.trials.confirm(fleet.org, trialIdOf(group));
  await passes(group.trial?.ends_at ?? '', 0);
  await expectSoon([tcp(1, 2, 80), dropped], [tcp(1, 3, 80), 'open']);
  await reconnect(2);
  await expectSoon([tcp(1, 2, 80), 'open']);
  for (const number of [2, 3])
    await fleet.owner.groups.update(fleet.org, groupOf(number), { inbound_rules: [port(22)] });
  await expectAsBefore();
});

test('a device that reboots without a server tries on until the end, and not after it', async () => {
  const tried = await attempt(2, 75, port(22), port(80));
  await expectSoon([tcp(1, 2, 80), 'open']);
  await cutOff(2);
  await loseKernel(2);
  await startAgent(2);
  await expectSoon([tcp(1, 2, 80), 'open']);
  expect(Date.now()).toBeLessThan(Date.parse(tried.trial?.ends_at ?? ''));
  await passes(tried.trial?.ends_at ?? '', 0);
  await expectSoon([tcp(1, 2, 80), dropped], [tcp(1, 2, 22), 'open']);
  await loseKernel(2);
  await startAgent(2);
  await expectSoon([tcp(1, 2, 22), 'open'], [tcp(1, 2, 80), dropped]);
  await reconnect(2);
  await stateBecomes(tried, 'expired');
  await expectAsBefore();
});

test.each([
  ['forward', 3 * hour],
  // The device cannot know how long the trial still has.
  ['back', -hour],
])(
  'a clock that is set %s while the device is down ends the trial there, until the server says that it goes on',
  async (_, moved) => {
    const tried = await attempt(2, 7_200, port(22), port(80));
    await expectSoon([tcp(1, 2, 80), 'open']);
    await cutOff(2);
    await loseKernel(2);
    await moveClock(moved);
    await startAgent(2);
    await expectSoon([tcp(1, 2, 22), 'open'], [tcp(1, 2, 80), dropped]);
    await moveClock(0);
    await fleet.device(2).stopAgent();
    await reconnect(2);
    await startAgent(2);
    await expectSoon([tcp(1, 2, 80), 'open']);
    await fleet.owner.trials.revert(fleet.org, trialIdOf(tried));
    await expectAsBefore();
  },
);

test('a clock that is set while the agent runs without a server: forward it ends the trial, back it prolongs nothing', async () => {
  const [first, second] = [await attempt(2, 60, port(22), port(80)), await attempt(3, 1_800, port(22), port(80))];
  for (const number of [2, 3]) {
    await fleet.device(number).stopAgent();
    await startAgent(number);
  }
  await expectSoon([tcp(1, 2, 80), 'open'], [tcp(1, 3, 80), 'open']);
  await Promise.all([cutOff(2), cutOff(3)]);
  await moveClock(-hour);
  await passes(first.trial?.ends_at ?? '', 0);
  await expectSoon([tcp(1, 2, 80), dropped], [tcp(1, 3, 80), 'open']);
  await moveClock(hour);
  await expectSoon([tcp(1, 3, 80), dropped]);
  await moveClock(0);
  for (const number of [2, 3]) {
    await fleet.device(number).stopAgent();
    await reconnect(number);
    await fleet.lab.startAgent(fleet.device(number));
  }
  await fleet.owner.trials.revert(fleet.org, trialIdOf(second));
  await expectAsBefore();
});

test('a trial whose peers disappear admits them no more, and ends as any other', async () => {
  const client = await fleet.idOf(1);
  await fleet.owner.devices.update(fleet.org, client, { labels: ['app'] });
  const tried = await attempt(2, 600, port(5_432, { peers: [{ labels: ['app'] }] }));
  await expectSoon([tcp(1, 2, 5_432), 'open'], [tcp(3, 2, 5_432), dropped], [tcp(1, 2, 22), dropped]);
  await hold('peer', 2, 5_432);
  await fleet.owner.devices.update(fleet.org, client, { labels: [] });
  await ends('peer', 2);
  await expectSoon([tcp(1, 2, 5_432), dropped], [tcp(1, 2, 22), dropped]);
  await fleet.owner.trials.revert(fleet.org, trialIdOf(tried));
  await expectAsBefore();
});

test('a trial on canaries is widened twice, and taken back everywhere', async () => {
  const { id } = await fleet.defaultGroup();
  const common = await fleet.owner.groups.create(fleet.org, { group_name: 'common', inbound_rules: [port(22)] });
  for (const number of [1, 2, 3]) await fleet.attach(number, ...(number === 1 ? [] : [groupOf(number)]), common.id);
  await fleet.converged(1, 2, 3);
  const rows = (...open: readonly number[]) =>
    [tcp(2, 1, 8_080), tcp(1, 2, 8_080), tcp(1, 3, 8_080)].map((probe): readonly [Probe, Verdict] => [
      probe,
      open.includes(probe.to) ? 'open' : dropped,
    ]);
  const tried = await fleet.owner.groups.update(
    fleet.org,
    common.id,
    { inbound_rules: [port(22), port(8_080)] },
    { confirm_within: 600, scope: 'label:canary' },
  );
  await expectSoon(...rows(2));
  await fleet.owner.trials.widen(fleet.org, trialIdOf(tried), { scope: 'label:canary,label:edge' });
  await expectSoon(...rows(2, 3));
  await fleet.owner.trials.widen(fleet.org, trialIdOf(tried), { scope: null });
  await expectSoon(...rows(1, 2, 3));
  await fleet.owner.trials.revert(fleet.org, trialIdOf(tried));
  await expectSoon(...rows());
  await fleet.attach(1);
  for (const number of [2, 3]) await fleet.attach(number, groupOf(number));
  await fleet.owner.groups.delete(fleet.org, common.id);
  expect((await fleet.defaultGroup()).id).toBe(id);
  await expectAsBefore();
});

test('an owner who is demoted while the change is tried cannot keep it, and it is taken back in time', async () => {
  const { adminToken } = fleet.lab;
  const admin = fleet.lab.client(adminToken);
  const user = await admin.users.create({ username: 'second-owner' });
  const { token } = await admin.tokens.createFor(user.id, { name: 'test' });
  await fleet.owner.members.add(fleet.org, { user_id: user.id });
  await fleet.owner.members.update(fleet.org, user.id, { role: 'owner' });
  const second = fleet.lab.client(token);
  const tried = await second.groups.update(
    fleet.org,
    groupOf(2),
    { inbound_rules: [port(22), port(80)] },
    { confirm_within: 25 },
  );
  await expectSoon([tcp(1, 2, 80), 'open']);
  await fleet.owner.members.update(fleet.org, user.id, { role: 'member' });
  await expect(second.trials.confirm(fleet.org, trialIdOf(tried))).rejects.toMatchObject({ status: 403 });
  await stateBecomes(tried, 'expired');
  await expectAsBefore();
});

test('a group that is restored as a trial, after its peers are gone, admits nobody by them', async () => {
  const spare = await fleet.owner.devices.create(fleet.org, {
    public_key: 'spare',
    addresses: [fleet.device(1).addresses.driver4],
  });
  const named = await fleet.owner.groups.update(fleet.org, groupOf(2), {
    inbound_rules: [port(443), port(5_433, { peers: [{ device_id: spare.id }] })],
  });
  await expectSoon([tcp(1, 2, 443), 'open'], [tcp(1, 2, 5_433), 'open'], [tcp(1, 2, 22), dropped]);
  await fleet.owner.groups.update(fleet.org, groupOf(2), { inbound_rules: [port(22)] });
  await fleet.owner.devices.delete(fleet.org, spare.id);
  const restored = await fleet.owner.history.restore(
    fleet.org,
    groupOf(2),
    { revision: named.revision },
    { confirm_within: 25 },
  );
  await expectSoon([tcp(1, 2, 443), 'open'], [tcp(1, 2, 5_433), dropped], [tcp(1, 2, 22), dropped]);
  await stateBecomes(restored, 'expired');
  await expectAsBefore();
});

test('a rule that expires ends with its connection on a device that is cut off, also after a reboot with the clock set back', async () => {
  const expires_at = new Date(Date.now() + 75_000).toISOString();
  await fleet.owner.groups.update(fleet.org, groupOf(2), { inbound_rules: [port(22), port(7_000, { expires_at })] });
  await expectSoon([tcp(1, 2, 7_000), 'open']);
  await cutOff(2);
  await loseKernel(2);
  await startAgent(2);
  await expectSoon([tcp(1, 2, 7_000), 'open'], [tcp(1, 2, 22), 'open']);
  await hold('expiring', 2, 7_000);
  expect(Date.now()).toBeLessThan(Date.parse(expires_at));
  await passes(expires_at, 0);
  await ends('expiring', 2);
  await expectSoon([tcp(1, 2, 7_000), dropped], [tcp(1, 2, 22), 'open']);
  await loseKernel(2);
  await moveClock(-hour);
  await startAgent(2);
  await expectSoon([tcp(1, 2, 22), 'open'], [tcp(1, 2, 7_000), dropped]);
  await moveClock(0);
  await fleet.device(2).stopAgent();
  await reconnect(2);
  await fleet.lab.startAgent(fleet.device(2));
  await expectSoon([tcp(1, 2, 22), 'open'], [tcp(1, 2, 7_000), dropped]);
  await fleet.owner.groups.update(fleet.org, groupOf(2), { inbound_rules: [port(22)] });
});
