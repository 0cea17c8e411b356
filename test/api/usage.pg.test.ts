/** Proves what is told of the usage of rules, over HTTP and against a real database: never "unused" for what was not observed (reference 4.18). */
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { withRules } from '../lib/reported-rules.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

const tcp = (port: number, more: object = {}): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const tuple = (port: number, more: object = {}): object => ({
  direction: 'in',
  verdict: 'admitted',
  far: '100.64.0.7',
  protocol: 'tcp',
  port,
  packets: 3,
  ...more,
});

let serial = 0;

/** A group with three rules on one device, which reports the traffic of its last minute. */
async function observed(place: Place, group: object = {}) {
  const { owner, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const made = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'db',
    inbound_rules: [tcp(22, { description: 'admins' }), tcp(5432, { ip_ranges: ['100.64.0.0/24'] }), tcp(9100)],
    ...group,
  });
  const device = await owner.api.expect(201, 'POST', `${base}/devices`, {
    public_key: `usage-${(serial += 1)}`,
    security_groups: 'guardrail' in group ? [] : [made.id],
  });
  const agent = stage.server.nobody.as(device.device_token);
  const report = (tuples: readonly object[], more: object = {}): Promise<Json> =>
    agent.expect(200, 'POST', `${base}/devices/${device.id}/flows`, {
      since: new Date(Date.now() - 60_000).toISOString(),
      until: new Date().toISOString(),
      observed: 'all',
      not_recorded: 0,
      ...withRules(tuples, [made]),
      ...more,
    });
  const path = `${base}/security_groups/${made.id}/usage`;
  const states = async (): Promise<readonly string[]> =>
    (await owner.api.expect(200, 'GET', path)).rules.map(({ state }: Json) => state);
  return { made, report, path, states };
}

/** The rule at this place of a group, as a report names it. */
const ruleAt = async ({ owner }: Place, path: string, place: number) => ({
  rules: [
    {
      group_id: path.split('/').at(-2),
      rule_id: (await owner.api.expect(200, 'GET', path)).rules[place].rule_id as string,
    },
  ],
});

test('a rule that decided traffic is used, one that did not is unused where all was observed, and unknown where nothing was', async () => {
  const place = await newPlace(stage.server);
  const begun = Date.now();
  const { made, report, path, states } = await observed(place);
  expect(await states()).toEqual(['unknown', 'unknown', 'unknown']);
  await report([tuple(5432), tuple(5432, { far: '10.0.0.1', verdict: 'refused' }), tuple(443, { direction: 'out' })]);
  const usage = await place.owner.api.expect(200, 'GET', path);
  expect(usage).toMatchObject({ group_id: made.id, devices: 1, observed: 1, not_recorded: 0 });
  expect(usage.rules.map(({ rule, packets, state }: Json) => [rule, packets, state])).toEqual([
    [0, 0, 'unused'],
    [1, 3, 'used'],
    [2, 0, 'unused'],
  ]);
  expect(Date.parse(usage.rules[1].last_hit)).toBeGreaterThanOrEqual(begun);
  expect(usage.rules[0]).not.toHaveProperty('last_hit');
});

test('time that nobody observed leaves rules unknown, before the first report and after the setting is off', async () => {
  const place = await newPlace(stage.server);
  const early = await observed(place);
  // Longer than what is observed of it.
  await setTimeout(2_000);
  await early.report([tuple(5432)], { since: new Date(Date.now() - 1_000).toISOString() });
  const usage = await place.owner.api.expect(200, 'GET', early.path);
  expect(usage.observed).toBeLessThan(0.9);
  expect(usage.rules.map(({ state }: Json) => state)).toEqual(['unknown', 'used', 'unknown']);
  const late = await observed(place, { group_name: 'late' });
  await late.report([tuple(5432)]);
  expect(await late.states()).toEqual(['unused', 'used', 'unused']);
  await place.owner.api.expect(200, 'PATCH', place.base, { observe: 'off' });
  await setTimeout(1_000);
  expect(await late.states()).toEqual(['unknown', 'used', 'unknown']);
});

test('a rule keeps its usage under another description and at another place, and packets that were not recorded leave the others unknown', async () => {
  const place = await newPlace(stage.server);
  const { made, report, path, states } = await observed(place);
  await report([tuple(5432)]);
  const before: Json[] = (await place.owner.api.expect(200, 'GET', path)).rules;
  const [ssh, db, metrics] = made.inbound_rules;
  await place.owner.api.expect(200, 'PATCH', path.replace(/\/usage$/, ''), {
    inbound_rules: [{ ...db, description: 'app servers' }, { ...ssh, description: 'on call' }, metrics],
  });
  const after: Json[] = (await place.owner.api.expect(200, 'GET', path)).rules;
  expect(after.map(({ rule_id, state }) => [rule_id, state])).toEqual(
    [before[1], before[0], before[2]].map((rule) => [rule?.rule_id, rule?.state]),
  );
  await report([], { not_recorded: 7, until: new Date(Date.now() + 1).toISOString() });
  expect(await states()).toEqual(['used', 'unknown', 'unknown']);
});

test('a guardrail that forbids is used by what it refused', async () => {
  const place = await newPlace(stage.server);
  const { report, states } = await observed(place, {
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: [tcp(23), tcp(21)],
  });
  await report([tuple(23, { verdict: 'refused' }), tuple(21)]);
  expect(await states()).toEqual(['used', 'unused']);
});

test('the unused rules of all groups are those that were there and observed for the whole time', async () => {
  const place = await newPlace(stage.server);
  const { owner, base } = place;
  const { made, report } = await observed(place);
  const start = new Date().toISOString();
  const unused = async (): Promise<readonly number[]> => {
    const answer = await owner.api.expect(200, 'GET', `${base}/unused_rules?since=${start}`);
    expect(answer).toMatchObject({ since: start, count: answer.rules.length });
    for (const one of answer.rules)
      expect(one).toMatchObject({ group_id: made.id, group_name: 'db', direction: 'inbound' });
    return answer.rules.map(({ rule }: Json) => rule.from_port);
  };
  expect(await unused()).toEqual([]);
  await report([tuple(5432)]);
  expect(await unused()).toEqual([22, 9100]);
  // A rule that came later is not called unused, and a group that a device without reports has is not judged.
  const group = `${base}/security_groups/${made.id}`;
  await owner.api.expect(200, 'PATCH', group, { inbound_rules: [...made.inbound_rules, tcp(8080)] });
  expect(await unused()).toEqual([22, 9100]);
  const silent = { public_key: `usage-${(serial += 1)}`, security_groups: [made.id] };
  const { id } = await owner.api.expect(201, 'POST', `${base}/devices`, silent);
  expect(await unused()).toEqual([]);
  await owner.api.expect(200, 'DELETE', `${base}/devices/${id}`);
  expect(await unused()).toEqual([22, 9100]);
  await report([tuple(5432)], { not_recorded: 1 });
  expect(await unused()).toEqual([]);
  expect((await place.member.api.get(`${base}/unused_rules`)).status).toBe(403);
});

test('one device without reports leaves the rules of its group unknown, beside any number that report', async () => {
  const place = await newPlace(stage.server);
  const { made, report, states } = await observed(place);
  await report([tuple(5432)]);
  expect(await states()).toEqual(['unused', 'used', 'unused']);
  const silent = { public_key: `usage-${(serial += 1)}`, security_groups: [made.id] };
  await place.owner.api.expect(201, 'POST', `${place.base}/devices`, silent);
  expect(await states()).toEqual(['unknown', 'used', 'unknown']);
});

test('the rules of a group count from when it enforces, not from when it was watch only', async () => {
  const place = await newPlace(stage.server);
  const { made, report, path } = await observed(place);
  await report([]);
  const group = `${place.base}/security_groups/${made.id}`;
  await place.owner.api.expect(200, 'PATCH', `${group}?detach=true`, { mode: 'observe' });
  const before = Date.parse((await place.owner.api.expect(200, 'GET', path)).until);
  await place.owner.api.expect(200, 'PATCH', group, { mode: 'enforce' });
  const { rules } = await place.owner.api.expect(200, 'GET', path);
  for (const { since } of rules as Json[]) expect(Date.parse(since)).toBeGreaterThanOrEqual(before);
});

test('each rule that admits traffic is used, also where another one admits it for some time only', async () => {
  const place = await newPlace(stage.server);
  const expires_at = new Date(Date.now() + 3_600_000).toISOString();
  const { report, states } = await observed(place, {
    inbound_rules: [tcp(5432, { ip_ranges: ['100.64.0.0/24'], expires_at }), tcp(5432)],
  });
  await report([tuple(5432)]);
  expect(await states()).toEqual(['used', 'used']);
});

test('members and devices do not read it, and a time that is no time or to come is refused', async () => {
  const place = await newPlace(stage.server);
  const { path } = await observed(place);
  const gone = path.replace(/[^/]+\/usage$/, '00000000-0000-4000-8000-000000000000/usage');
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
  const statusOf = async (asked: string): Promise<number> => (await place.owner.api.get(asked)).status;
  expect((await place.member.api.get(path)).status).toBe(403);
  expect(await Promise.all([`${path}?since=yesterday`, `${path}?since=${tomorrow}`, gone].map(statusOf))).toEqual([
    422, 422, 404,
  ]);
});

test('an agent that does not say which rules decided leaves them unknown, whatever it observed', async () => {
  const place = await newPlace(stage.server);
  const { report, states } = await observed(place);
  await report([tuple(5432)]);
  expect(await states()).toEqual(['unused', 'used', 'unused']);
  const older = {
    rules: undefined,
    decisions: undefined,
    groups: undefined,
    tuples: [tuple(22)],
    until: new Date(Date.now() + 1).toISOString(),
  };
  await report([], older);
  expect(await states()).toEqual(['unknown', 'used', 'unknown']);
});

test('traffic of which the agent does not know the rules, because it is beyond its limits, leaves the others unknown', async () => {
  const place = await newPlace(stage.server);
  const { path, report, states } = await observed(place);
  await report([], {
    tuples: [{ ...tuple(5432), decision: 0 }, tuple(9100)],
    decisions: [[0]],
    ...(await ruleAt(place, path, 1)),
  });
  expect(await states()).toEqual(['unknown', 'used', 'unknown']);
  expect(await place.owner.api.expect(200, 'GET', path)).toMatchObject({ not_recorded: 3 });
});

test('a device adds to the counts of rules of its own groups only, and its word on others is not kept', async () => {
  const place = await newPlace(stage.server);
  const { made, report, path, states } = await observed(place);
  const other = await observed(place, { group_name: 'other' });
  await report([tuple(5432)]);
  await other.report([], {
    tuples: [{ ...tuple(22), decision: 0 }],
    decisions: [[0, 1, 2]],
    rules: [
      ...(await ruleAt(place, path, 0)).rules,
      { group_id: made.id, rule_id: 'f'.repeat(32) },
      ...(await ruleAt(place, other.path, 2)).rules,
    ],
    groups: [made.id, other.made.id],
  });
  expect(await states()).toEqual(['unused', 'used', 'unused']);
  expect(await other.states()).toEqual(['unused', 'unused', 'used']);
});
