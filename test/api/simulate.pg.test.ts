/** Proves the simulation of changes: exact, judged like the write, seen by those who could write, and without a trace (reference 4.16). */
import { describe, expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let serial = 0;
const unique = (): string => `simulated-${(serial += 1)}`;
const tcp = (port: number, more: object = {}): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});

const device = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique(), hostname: unique(), ...fields });
const group = (place: Place, fields: object = {}): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: unique(), ...fields });
const simulate = (place: Place, body: object, status = 200, query = ''): Promise<Json> =>
  place.owner.api.expect(status, 'POST', `${place.base}/simulate${query}`, body);
const revisionOf = async (place: Place): Promise<number> =>
  (await place.owner.api.expect(200, 'GET', place.base)).revision as number;

/** Two databases that admit the app servers, one of these, and one machine more. */
async function fleet() {
  const place = await newPlace(stage.server);
  const postgres = await group(place, {
    group_name: 'postgres',
    applies_to: [{ labels: ['db'] }],
    inbound_rules: [tcp(5432, { peers: [{ labels: ['app'] }] })],
  });
  const [db1, db2, app, ci] = [
    await device(place, { hostname: 'db-1', labels: ['db'], tunnel_ip: '100.64.0.1' }),
    await device(place, { hostname: 'db-2', labels: ['db'], tunnel_ip: '100.64.0.2' }),
    await device(place, { hostname: 'app-1', labels: ['app'], tunnel_ip: '100.64.0.3' }),
    await device(place, { hostname: 'ci-1', tunnel_ip: '100.64.0.4' }),
  ];
  return { place, postgres, db1, db2, app, ci };
}

const inWords = (entries: readonly Json[]): string[] =>
  entries.map(({ device: { hostname }, direction, protocol, ports = [], far }) =>
    [
      hostname,
      direction,
      protocol,
      ...ports.map(({ from, to }: Json) => `${from}-${to}`),
      ...far.ranges,
      '=',
      ...far.devices.map((each: Json) => each.hostname),
      ...(far.others === true ? ['others'] : []),
    ].join(' '),
  );

describe('the simulation of a change', () => {
  test('tells who gains and who loses what, by range and by name, and writes nothing', async () => {
    const { place, postgres, db1, db2, ci } = await fleet();
    const before = await revisionOf(place);
    const answer = await simulate(place, {
      security_groups: [{ id: postgres.id, inbound_rules: [tcp(5432, { peers: [{ labels: ['ci'] }] })] }],
      devices: [{ id: ci.id, labels: ['ci'] }],
    });
    expect(answer).toMatchObject({ revision: before, affected: 2, warnings: [], tests: [] });
    expect(answer.devices).toEqual(([db1.id, db2.id] as string[]).toSorted());
    expect(inWords(answer.gained).toSorted()).toEqual([
      'db-1 inbound tcp 5432-5432 100.64.0.4 = ci-1',
      'db-2 inbound tcp 5432-5432 100.64.0.4 = ci-1',
    ]);
    expect(inWords(answer.lost).toSorted()).toEqual([
      'db-1 inbound tcp 5432-5432 100.64.0.3 = app-1',
      'db-2 inbound tcp 5432-5432 100.64.0.3 = app-1',
    ]);
    expect(answer.in_force).toEqual({ [db1.id]: 'never_seen', [db2.id]: 'never_seen' });
    expect(answer.gained.map((each: Json) => each.device.in_force)).toEqual(['never_seen', 'never_seen']);
    expect(await revisionOf(place)).toBe(before);
    expect(await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${postgres.id}`)).toEqual(
      expect.objectContaining({ revision: postgres.revision }),
    );
  });

  test('agrees with the write: what it announced is what explain says afterwards', async () => {
    const { place, postgres, db1, ci } = await fleet();
    const rules = { inbound_rules: [tcp(5432, { ip_ranges: ['100.64.0.4'] })] };
    const answer = await simulate(place, { security_groups: [{ id: postgres.id, ...rules }] });
    expect(inWords(answer.gained)).toContain('db-1 inbound tcp 5432-5432 100.64.0.4 = ci-1');
    const verdict = async (): Promise<unknown> =>
      (await place.owner.api.expect(200, 'GET', `${place.base}/explain?from=${ci.id}&to=${db1.id}&port=5432`)).verdict;
    expect(await verdict()).toBe('refused');
    await place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${postgres.id}`, rules);
    expect(await verdict()).toBe('allowed');
    const again = await simulate(place, { security_groups: [{ id: postgres.id, ...rules }] });
    expect(again).toMatchObject({ affected: 0, devices: [], gained: [], lost: [] });
  });

  test('warns where devices would open, where a deleted group is in use, and where guardrails make a rule void', async () => {
    const { place, postgres, db1, db2 } = await fleet();
    const guardrail = await group(place, {
      group_name: 'no telnet',
      guardrail: 'forbid',
      applies_to: [{ labels: ['db'] }],
      inbound_rules: [tcp(23)],
    });
    const answer = await simulate(place, { delete: [postgres.id] });
    const opened = ([db1.id, db2.id] as string[]).toSorted();
    const devicesOf = ({ devices }: Json): string[] => (devices as string[]).toSorted();
    expect(answer.warnings.map((each: Json) => [each.code, each.pointer, devicesOf(each)])).toEqual([
      ['would_open', '', opened],
      ['group_in_use', '/delete/0', opened],
    ]);
    expect(answer.warnings[1].detail).toMatch(new RegExp(`^The group ${postgres.group_name} is applied to db-\\d`));
    expect(answer.gained.length).toBeGreaterThan(0);
    const voided = await simulate(place, {
      security_groups: [{ id: postgres.id, inbound_rules: [tcp(5432, { peers: [{ labels: ['app'] }] }), tcp(23)] }],
    });
    expect(voided.warnings).toEqual([
      expect.objectContaining({
        code: 'void_by_guardrail',
        pointer: '/security_groups/0/inbound_rules/1',
        guardrail_ids: [guardrail.id],
      }),
    ]);
    expect(voided).toMatchObject({ gained: [], lost: [] });
  });

  test('tells how policy tests would come out: those of the body, or the stored ones', async () => {
    const { place, postgres } = await fleet();
    const one = { from: { labels: ['app'] }, to: { labels: ['db'] }, protocol: 'tcp', port: 5432, expect: 'allow' };
    await place.owner.api.expect(200, 'PUT', `${place.base}/policy_tests`, [{ name: 'app reaches db', ...one }]);
    const closing = { security_groups: [{ id: postgres.id, inbound_rules: [] }] };
    const states = ({ tests }: Json): string[] => tests.map(({ name, state }: Json) => `${name}: ${state}`);
    expect(states(await simulate(place, {}))).toEqual(['app reaches db: passing']);
    const failing = await simulate(place, closing);
    expect(states(failing)).toEqual(['app reaches db: failing']);
    expect(failing.tests[0].failure).toMatchObject({ direction: 'inbound', reason: 'no-rule' });
    const policy_tests = [
      { name: 'closed', ...one, expect: 'refuse' },
      { name: 'nobody', ...one, from: { labels: ['none'] } },
    ];
    expect(states(await simulate(place, { ...closing, policy_tests }))).toEqual(['closed: passing', 'nobody: vacuous']);
    const problem = await simulate(place, { policy_tests: [{ name: 'closed' }] }, 422);
    expect(problem.errors[0].pointer).toMatch(/^\/policy_tests\/0\//);
    await place.member.api.expect(403, 'POST', `${place.base}/simulate`, { policy_tests: [] });
  });

  test('comes in pages of devices that together are the whole', async () => {
    const { place, postgres } = await fleet();
    const body = { security_groups: [{ id: postgres.id, inbound_rules: [] }] };
    const whole = await simulate(place, body);
    const first = await simulate(place, body, 200, '?limit=1');
    const second = await simulate(place, body, 200, `?limit=1&after=${first.devices[0]}`);
    expect([first.affected, second.affected]).toEqual([2, 2]);
    expect([...first.devices, ...second.devices]).toEqual(whole.devices);
    expect([...first.lost, ...second.lost]).toEqual(whole.lost);
    expect(await simulate(place, body, 200, `?limit=1&after=${second.devices[0]}`)).toMatchObject({
      devices: [],
      lost: [],
    });
  });

  test('refuses what the write would refuse, with pointers into the body', async () => {
    const { place, postgres, db1, app } = await fleet();
    const stranger = '00000000-0000-4000-8000-000000000000';
    const problems = await simulate(
      place,
      {
        security_groups: [
          { id: postgres.id, inbound_rules: [tcp(22), { ip_protocol: 'tcp', from_port: 70_000, to_port: 70_000 }] },
          { inbound_rules: [tcp(22, { peers: [{ device_id: stranger }] })] },
        ],
        devices: [{ id: '00000000-0000-4000-8000-000000000001' }, { id: app.id, labels: ['not a label'] }],
        delete: [stranger, 'x'],
      },
      422,
    );
    const found = problems.errors.map(({ pointer, code }: Json) => `${pointer} ${code}`);
    expect(found).toEqual(
      expect.arrayContaining([
        '/security_groups/0/inbound_rules/1/from_port port_out_of_range',
        '/security_groups/1/group_name missing_field',
        '/security_groups/1/inbound_rules/0/peers/0/device_id device_unknown',
        '/devices/0/id device_unknown',
        '/devices/1/labels/0 label_invalid',
        '/delete/0 unknown_record',
        '/delete/1 not_an_id',
      ]),
    );
    const lists = await simulate(
      place,
      { devices: [{ id: db1.id, security_groups: [postgres.id, postgres.id] }] },
      422,
    );
    expect(lists.errors).toEqual([
      expect.objectContaining({ pointer: '/devices/0/security_groups/1', code: 'duplicate' }),
    ]);
    const forbid = { group_name: 'x', guardrail: 'forbid', applies_to: [{ all_devices: true }] };
    const everything = [{ ip_protocol: 'ip', from_port: 0, to_port: 0 }];
    const body = { security_groups: [{ ...forbid, inbound_rules: everything }] };
    expect((await simulate(place, body, 422)).errors[0]).toMatchObject({
      pointer: '/security_groups/0/inbound_rules',
      code: 'forbids_everything',
    });
    expect(await simulate(place, body, 200, '?force=true')).toMatchObject({ affected: 4, gained: [] });
    expect(await simulate(place, {})).toMatchObject({ affected: 0 });
    await simulate(place, { security_group: [] }, 422);
  });

  test('is refused where a record has another revision or is on trial, as the write is', async () => {
    const { place, postgres, db1 } = await fleet();
    const old = { security_groups: [{ id: postgres.id, revision: 1, group_name: 'x' }] };
    expect(await simulate(place, old, 412)).toMatchObject({ code: 'precondition_failed' });
    const device412 = { devices: [{ id: db1.id, revision: 1, hostname: 'x' }] };
    expect(await simulate(place, device412, 412)).toMatchObject({ code: 'precondition_failed' });
    await simulate(place, { policy_tests: [], policy_tests_revision: 7 }, 412);
    const send = (path: string, body: object): Promise<Json> =>
      place.owner.api.expect(200, 'PATCH', `${place.base}/${path}?confirm_within=60`, body);
    const { trial } = await send(`security_groups/${postgres.id}`, { inbound_rules: [tcp(1)] });
    const pending = { code: 'trial_pending', trial_id: trial.id };
    const again = { security_groups: [{ id: postgres.id, inbound_rules: [] }] };
    expect(await simulate(place, again, 409)).toMatchObject(pending);
    expect(await simulate(place, { delete: [postgres.id] }, 409)).toMatchObject(pending);
    const spare = await group(place);
    await send(`devices/${db1.id}`, { security_groups: [spare.id] });
    await simulate(place, { devices: [{ id: db1.id, security_groups: [] }] }, 409);
    await simulate(place, { devices: [{ id: db1.id, labels: ['db', 'x'] }], delete: [] });
  });

  test('is for those who could write the records: a member for its own devices and groups, an owner for all', async () => {
    const { place, postgres, db1 } = await fleet();
    const path = `${place.base}/simulate`;
    const own = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique() });
    const asMember = (status: number, body: object): Promise<Json> =>
      place.member.api.expect(status, 'POST', path, body);
    await asMember(403, { security_groups: [{ id: postgres.id, inbound_rules: [] }] });
    await asMember(403, { security_groups: [{ group_name: 'of the organization' }] });
    await asMember(403, { delete: [postgres.id] });
    await asMember(403, { devices: [{ id: db1.id, security_groups: [] }] });
    expect(await asMember(403, { devices: [{ id: own.id, labels: ['db'] }] })).toMatchObject({
      code: 'labels_by_owner',
    });
    expect(await asMember(200, { devices: [{ id: own.id, hostname: 'renamed' }] })).toMatchObject({ affected: 0 });
    expect(await asMember(200, { delete: [own.id] })).toMatchObject({ devices: [own.id] });
    const isolation = `${place.base}/devices/${own.id}/isolate`;
    await place.owner.api.expect(200, 'POST', isolation, { reason: 'odd' });
    expect(await asMember(403, { delete: [own.id] })).toMatchObject({ code: 'isolated_by_owner' });
    const moved = { devices: [{ id: own.id, tunnel_ip: '100.64.0.9' }] };
    expect(await asMember(403, moved)).toMatchObject({ code: 'address_by_owner' });
    await place.owner.api.expect(200, 'DELETE', isolation);
    const mine = { group_name: 'mine', user_id: place.member.id, inbound_rules: [tcp(22)] };
    expect(await asMember(200, { security_groups: [mine] })).toMatchObject({ affected: 0 });
  });
});
