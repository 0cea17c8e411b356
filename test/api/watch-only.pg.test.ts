/** Proves watch-only groups over HTTP and against a real database: they decide nothing, and tell what they would have done (reference 1.6, 4.22). */
import { describe, expect, test } from 'vitest';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { readGroupRecord } from '../../src/policy/fleet/group-record.ts';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let serial = 0;
const unique = (): string => `watch-only-${(serial += 1)}`;
const tcp = (port: number, more: object = {}): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const device = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique(), hostname: unique(), ...fields });
const group = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: unique(),
    inbound_rules: [tcp(22)],
    ...fields,
  });
const patchGroup = (place: Place, status: number, { id }: Json, body: object, query = ''): Promise<Json> =>
  place.owner.api.expect(status, 'PATCH', `${place.base}/security_groups/${id}${query}`, body);
const patchDevice = (place: Place, status: number, { id }: Json, body: object, query = ''): Promise<Json> =>
  place.owner.api.expect(status, 'PATCH', `${place.base}/devices/${id}${query}`, body);
const read = (place: Place, { id }: Json): Promise<Json> =>
  place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${id}`);
const inEffect = async (place: Place, { id }: Json): Promise<readonly string[]> =>
  (await place.owner.api.expect(200, 'GET', `${place.base}/devices/${id}/groups`)).map(
    (one: Json) => `${one.by} ${one.group_id}`,
  );
const defaultOf = async ({ owner, base }: Place): Promise<Json> =>
  (await owner.api.expect(200, 'GET', `${base}/security_groups`)).find((one: Json) => one.is_default === true);

describe('the mode of a group', () => {
  test('is stored, left out where the group enforces, and refused where it means nothing', async () => {
    const place = await newPlace(stage.server);
    const watched = await group(place, { mode: 'observe' });
    expect(watched.mode).toBe('observe');
    expect((await patchGroup(place, 200, watched, { group_name: 'renamed' })).mode).toBe('observe');
    expect(await patchGroup(place, 200, watched, { mode: 'enforce' })).not.toHaveProperty('mode');
    expect(await group(place, { mode: 'enforce' })).not.toHaveProperty('mode');
    for (const mode of ['watch', null, true, 'OBSERVE'])
      expect((await patchGroup(place, 422, watched, { mode })).errors[0]).toMatchObject({ pointer: '/mode' });
    const fallback = await defaultOf(place);
    const problem = { errors: [{ pointer: '/mode', code: 'default_group' }] };
    expect(await patchGroup(place, 422, fallback, { mode: 'observe' })).toMatchObject(problem);
    const change = { security_groups: [{ id: fallback.id, mode: 'observe' }] };
    for (const operation of ['changes', 'simulate']) {
      const answer = await place.owner.api.expect(422, 'POST', `${place.base}/${operation}`, change);
      expect(answer.errors).toMatchObject([{ pointer: '/security_groups/0/mode', code: 'default_group' }]);
    }
  });

  test('comes back with a restore, with the end of a trial and with the revert of a change set', async () => {
    const place = await newPlace(stage.server);
    const watched = await group(place, { mode: 'observe' });
    await patchGroup(place, 200, watched, { mode: 'enforce' });
    const path = `${place.base}/security_groups/${watched.id}/restore`;
    const restored = await place.owner.api.expect(200, 'POST', path, { revision: watched.revision });
    expect(restored.mode).toBe('observe');
    const tried = await patchGroup(place, 200, watched, { mode: 'enforce' }, '?confirm_within=600');
    expect([tried.mode, tried.trial.before.mode]).toEqual([undefined, 'observe']);
    await place.owner.api.expect(200, 'POST', `${place.base}/trials/${tried.trial.id}/revert`);
    expect((await read(place, watched)).mode).toBe('observe');
    for (const [mode, before] of [
      ['enforce', 'observe'],
      ['observe', undefined],
    ]) {
      if (before === undefined) await patchGroup(place, 200, watched, { mode: 'enforce' });
      const set = { security_groups: [{ id: watched.id, mode }] };
      const { change_id } = await place.owner.api.expect(200, 'POST', `${place.base}/changes`, set);
      await place.owner.api.expect(200, 'POST', `${place.base}/changes/${change_id}/revert`);
      expect((await read(place, watched)).mode).toBe(before);
    }
  });

  test('of a group that a change set creates is what the set says, and comes back when its deletion is reverted', async () => {
    const place = await newPlace(stage.server);
    const changes = `${place.base}/changes`;
    const named = async (): Promise<Json> =>
      (await place.owner.api.expect(200, 'GET', `${place.base}/security_groups`)).find(
        (one: Json) => one.group_name === 'first watched',
      );
    await place.owner.api.expect(200, 'POST', changes, {
      security_groups: [{ group_name: 'first watched', inbound_rules: [], mode: 'observe' }],
    });
    const made = await named();
    expect(made.mode).toBe('observe');
    const { change_id } = await place.owner.api.expect(200, 'POST', changes, { delete: [made.id] });
    expect(await named()).toBeUndefined();
    await place.owner.api.expect(200, 'POST', `${changes}/${change_id}/revert`);
    expect((await named()).mode).toBe('observe');
  });
});

test('a group that keeps the devices of an enrollment key closed becomes watch only when that is asked for', async () => {
  const place = await newPlace(stage.server);
  const closing = await group(place);
  const keys = `${place.base}/enrollment_keys`;
  const { id } = await place.owner.api.expect(201, 'POST', keys, { name: 'edge', security_groups: [closing.id] });
  expect(await patchGroup(place, 409, closing, { mode: 'observe' })).toMatchObject({
    code: 'group_in_use',
    enrollment_keys: [id],
  });
  const changes = `${place.base}/changes`;
  const set = { security_groups: [{ id: closing.id, mode: 'observe' }] };
  expect(await place.owner.api.expect(409, 'POST', changes, set)).toMatchObject({
    code: 'group_in_use',
    enrollment_keys: [id],
  });
  expect((await read(place, closing)).mode).toBeUndefined();
  await place.owner.api.expect(200, 'POST', `${changes}?detach=true`, set);
  await patchGroup(place, 200, closing, { mode: 'enforce' });
  await patchGroup(place, 200, closing, { mode: 'observe' }, '?detach=true');
  // A key with another group that enforces admits no open device.
  const [one, other] = [await group(place), await group(place)];
  await place.owner.api.expect(201, 'POST', keys, { name: 'two', security_groups: [one.id, other.id] });
  await patchGroup(place, 200, one, { mode: 'observe' });
  await patchGroup(place, 409, other, { mode: 'observe' });
  await patchGroup(place, 200, one, { mode: 'enforce' });
  const both = [one, other].map((each) => ({ id: each.id, mode: 'observe' }));
  await place.owner.api.expect(409, 'POST', changes, { security_groups: both });
  await place.owner.api.expect(200, 'POST', changes, { security_groups: both.slice(0, 1) });
});

describe('a watch-only group', () => {
  test('is not in effect, by list, by label and as a guardrail; a device with nothing else has the default group', async () => {
    const place = await newPlace(stage.server);
    const fallback = `default ${(await defaultOf(place)).id}`;
    const listed = await group(place, { mode: 'observe' });
    const byLabel = await group(place, { mode: 'observe', applies_to: [{ labels: ['db'] }] });
    const guard = await group(place, { mode: 'observe', guardrail: 'forbid', applies_to: [{ all_devices: true }] });
    const made = await device(place, { labels: ['db'], security_groups: [listed.id] });
    expect(await inEffect(place, made)).toEqual([fallback]);
    const other = await group(place);
    await patchDevice(place, 200, made, { security_groups: [listed.id, other.id] });
    expect(await inEffect(place, made)).toEqual([`list ${other.id}`]);
    for (const one of [listed, byLabel, guard]) await patchGroup(place, 200, one, { mode: 'enforce' });
    expect(await inEffect(place, made)).toEqual([
      `guardrail ${guard.id}`,
      `list ${listed.id}`,
      `list ${other.id}`,
      `label ${byLabel.id}`,
    ]);
  });

  test('moves no verdict of explain, no policy test and no receipt; activating it does', async () => {
    const place = await newPlace(stage.server);
    const { api } = place.owner;
    const fallback = await defaultOf(place);
    const made = await device(place, { tunnel_ip: '100.64.0.1/32' });
    const far = await device(place, { tunnel_ip: '100.64.0.2/32' });
    const promise = {
      name: 'web',
      from: { device_id: far.id },
      to: { device_id: made.id },
      protocol: 'tcp',
      port: 80,
      expect: 'allow',
    };
    await api.expect(200, 'PUT', `${place.base}/policy_tests`, [promise]);
    const digest = policyDigest(canonicalize({ source: 'default', groups: [readGroupRecord(fallback)] }));
    const inForce = async (): Promise<string> => {
      const { revision } = await api.expect(200, 'GET', `${place.base}/convergence`);
      const status = { state: 'applied', revision, policy_digest: digest, policy_digest_form: digestForm };
      const agent = stage.server.nobody.as(made.device_token);
      await agent.expect(200, 'PUT', `${place.base}/devices/${made.id}/status`, status);
      const statuses: Json[] = await api.expect(200, 'GET', `${place.base}/device_statuses`);
      return statuses.find(({ device_id }) => device_id === made.id)?.in_force;
    };
    const explained = async (): Promise<string> =>
      (await api.expect(200, 'GET', `${place.base}/explain?from=${far.id}&to=${made.id}&protocol=tcp&port=80`)).verdict;
    const before = [await inForce(), await explained()];
    const watched = await group(place, { mode: 'observe', outbound_rules: [tcp(443)] });
    await patchDevice(place, 200, made, { security_groups: [watched.id] });
    expect([await inForce(), await explained()]).toEqual(before);
    expect(before[0]).toBe('yes');
    await patchGroup(place, 200, watched, { inbound_rules: [] });
    expect([await inForce(), await explained()]).toEqual(before);
    const refused = await patchGroup(place, 422, watched, { mode: 'enforce' });
    expect(refused.code).toBe('policy_test_failed');
    await patchGroup(place, 200, watched, { mode: 'enforce' }, '?skip_tests=true');
    expect(await inForce()).toBe('failed');
    expect(await explained()).not.toBe(before[1]);
  });

  test('simulated as enforcing shows what is lost and gained, and simulated as it is shows nothing', async () => {
    const place = await newPlace(stage.server);
    const watched = await group(place, { mode: 'observe', applies_to: [{ labels: ['db'] }] });
    const made = await device(place, { labels: ['db'] });
    const simulate = (mode: string): Promise<Json> =>
      place.owner.api.expect(200, 'POST', `${place.base}/simulate`, { security_groups: [{ id: watched.id, mode }] });
    expect(await simulate('observe')).toMatchObject({ devices: [], gained: [], lost: [] });
    const answer = await simulate('enforce');
    expect(answer.devices.map((one: Json) => one.device_id ?? one)).toEqual([made.id]);
    expect(answer.lost.length).toBeGreaterThan(0);
    await patchGroup(place, 200, watched, { mode: 'enforce' });
    const back = await simulate('observe');
    expect(back.gained.length).toBeGreaterThan(0);
    expect(back.warnings.map(({ code }: Json) => code)).toContain('would_open');
  });
});

describe('no device opens unasked', () => {
  test('when its last group becomes watch only, by list or by label, alone or in a change set', async () => {
    const place = await newPlace(stage.server);
    const { api } = place.owner;
    const byList = await group(place);
    const byLabel = await group(place, { applies_to: [{ labels: ['db'] }] });
    const listing = await device(place, { security_groups: [byList.id] });
    const labelled = await device(place, { labels: ['db'] });
    for (const [one, opened] of [
      [byList, listing],
      [byLabel, labelled],
    ] as const) {
      const set = { security_groups: [{ id: one.id, mode: 'observe' }] };
      const problems = [
        await patchGroup(place, 409, one, { mode: 'observe' }),
        await patchGroup(place, 409, one, { mode: 'observe' }, '?confirm_within=600'),
        await api.expect(409, 'POST', `${place.base}/changes`, set),
      ];
      for (const problem of problems) expect(problem).toMatchObject({ code: 'would_open', devices: [opened.id] });
      expect(await read(place, one)).not.toHaveProperty('mode');
      await patchGroup(place, 200, one, { mode: 'observe' }, '?detach=true');
      expect((await inEffect(place, opened))[0]).toMatch(/^default/);
    }
    // They are open already: nothing opens them any more.
    await patchGroup(place, 200, byLabel, { applies_to: [] });
    await patchDevice(place, 200, labelled, { labels: [] });
  });

  test('when its list is left with watch-only groups; emptying the list still asks for it', async () => {
    const place = await newPlace(stage.server);
    const watched = await group(place, { mode: 'observe' });
    const enforced = await group(place);
    const made = await device(place, { security_groups: [enforced.id] });
    const list = { security_groups: [watched.id] };
    expect(await patchDevice(place, 409, made, list)).toMatchObject({ code: 'would_open', devices: [made.id] });
    const set = { devices: [{ id: made.id, ...list }] };
    const problem = await place.owner.api.expect(409, 'POST', `${place.base}/changes`, set);
    expect(problem).toMatchObject({ code: 'would_open', devices: [made.id] });
    await patchDevice(place, 200, made, list, '?detach=true');
    await patchDevice(place, 200, made, { security_groups: [watched.id, enforced.id] });
    await place.owner.api.expect(200, 'POST', `${place.base}/changes`, {
      devices: [{ id: made.id, security_groups: [] }],
    });
    // A label takes the place of the list.
    await group(place, { applies_to: [{ labels: ['db'] }] });
    const labelled = await device(place, { labels: ['db'], security_groups: [enforced.id] });
    await patchDevice(place, 200, labelled, list);
    expect(await patchDevice(place, 409, labelled, { labels: [] })).toMatchObject({ code: 'would_open' });
  });
});

describe('the observation of a watch-only group', () => {
  const tuple = (port: number, more: object = {}): object => ({
    direction: 'in',
    verdict: 'admitted',
    far: '100.64.0.7',
    protocol: 'tcp',
    port,
    packets: 3,
    ...more,
  });

  /** A device with a group that admits SSH, and a watch-only group that admits PostgreSQL. */
  async function observed() {
    const place = await newPlace(stage.server);
    const { owner, base } = place;
    await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
    const watched = await group(place, { mode: 'observe', inbound_rules: [tcp(5432)], outbound_rules: [tcp(443)] });
    const enforced = await group(place, { inbound_rules: [tcp(22)] });
    const made = await device(place, { hostname: 'db-1', security_groups: [enforced.id, watched.id] });
    const report = (tuples: readonly object[], minute = 0, more: object = {}): Promise<Json> =>
      stage.server.nobody.as(made.device_token).expect(200, 'POST', `${base}/devices/${made.id}/flows`, {
        since: new Date(Date.now() - 60_000 * (minute + 1)).toISOString(),
        until: new Date(Date.now() - 60_000 * minute).toISOString(),
        observed: 'all',
        tuples,
        not_recorded: 0,
        ...more,
      });
    const path = `${base}/security_groups/${watched.id}/observation`;
    const observation = (query = ''): Promise<Json> => owner.api.expect(200, 'GET', `${path}${query}`);
    return { place, watched, enforced, made, report, path, observation };
  }
  const shown = ({ flows }: Json): unknown =>
    flows.map((flow: Json) => [flow.direction, flow.verdict, flow.port, flow.packets, flow.decision.verdict]);

  test('says what it would have refused of the admitted traffic and admitted of the refused, and how much was observed', async () => {
    const { report, observation, made, watched } = await observed();
    expect(await observation()).toMatchObject({ devices: 1, observed: 0, would_refuse: { packets: 0, flows: [] } });
    await report([tuple(80, { direction: 'out', packets: 5 }), tuple(443, { direction: 'out' }), tuple(22)], 1);
    await report([
      tuple(80, { direction: 'out' }),
      tuple(5432, { verdict: 'refused', packets: 2 }),
      tuple(9000, { verdict: 'refused' }),
      // Today's policy refuses this, with the group and without it: it changed since.
      tuple(8080),
    ]);
    const answer = await observation();
    expect(answer).toMatchObject({
      group_id: watched.id,
      mode: 'observe',
      devices: 1,
      observed: 1,
      observed_refused: 1,
      not_recorded: 0,
      admitted_packets: 17,
      refused_packets: 5,
      would_refuse: { packets: 8, sums: 1 },
      would_admit: { packets: 2, sums: 1 },
    });
    expect(shown(answer.would_refuse)).toEqual([['out', 'admitted', 80, 8, 'refused']]);
    expect(shown(answer.would_admit)).toEqual([['in', 'refused', 5432, 2, 'admitted']]);
    expect(answer.would_refuse.flows[0]).toMatchObject({
      device_id: made.id,
      hostname: 'db-1',
      decision: { nearest: { group_id: watched.id, differs: ['port'] } },
    });
    expect(answer.would_admit.flows[0].decision.rule).toMatchObject({ group_id: watched.id, index: 0 });
    expect(shown((await observation('?limit=1')).would_admit)).toHaveLength(1);
  });

  test('of a group that would take the place of the default group counts everything that it does not admit', async () => {
    const { place, made, report, observation } = await observed();
    await patchDevice(place, 200, made, { security_groups: [] });
    const watched = (await place.owner.api.expect(200, 'GET', `${place.base}/security_groups`)).find(
      ({ mode }: Json) => mode === 'observe',
    );
    await patchDevice(place, 200, made, { security_groups: [watched.id] });
    await report([tuple(22), tuple(5432), tuple(1, { protocol: 'icmp', port: undefined })]);
    const answer = await observation();
    expect(answer.would_refuse).toMatchObject({ packets: 6, sums: 2 });
    expect(answer.would_admit.packets).toBe(0);
  });

  test('is for owners and for the user of the group, and a group that enforces already would change nothing', async () => {
    const { place, path, enforced, watched } = await observed();
    expect((await place.member.api.get(path)).status).toBe(403);
    const already = await place.owner.api.expect(200, 'GET', path.replace(watched.id, enforced.id));
    expect(already).toMatchObject({ mode: 'enforce', devices: 1, would_refuse: { sums: 0 }, would_admit: { sums: 0 } });
    const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
    for (const query of [`?since=${tomorrow}`, '?limit=0', '?limit=100000', '?since=yesterday'])
      expect((await place.owner.api.get(`${path}${query}`)).status).toBe(422);
    const { api } = place.member;
    const own = await api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
      group_name: 'mine',
      mode: 'observe',
    });
    expect((await api.get(path.replace(watched.id, own.id))).status).toBe(200);
  });
});
