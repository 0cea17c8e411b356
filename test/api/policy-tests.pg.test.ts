/** Proves policy tests: every write that can change a verdict is checked against them in its own transaction (reference 4.14). */
import { describe, expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, startTestServer, type Place } from '../lib/server.ts';
import { lasting, useServer } from '../lib/stage.ts';

const stage = useServer();
/** A second server on the same database, so that writes race in PostgreSQL and not only in one process. */
const sibling = lasting(
  () => startTestServer(stage.postgres, { url: stage.server.databaseUrl }),
  (server) => server.close(),
);

let serial = 0;
const unique = (): string => `tested-${(serial += 1)}`;
const tcp = (port: number, more: object = {}): object => ({
  ip_protocol: 'tcp',
  from_port: port,
  to_port: port,
  ...more,
});
const [web, db] = [{ labels: ['web'] }, { labels: ['db'] }];
const allow = (name: string, more: object = {}): Json => ({
  name,
  from: web,
  to: db,
  protocol: 'tcp',
  port: 5432,
  expect: 'allow',
  ...more,
});

const device = (place: Place, fields: object): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: unique(), ...fields });
const group = (place: Place, fields: object): Promise<Json> =>
  place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: unique(), ...fields });
const send = (place: Place, status: number, method: string, path: string, body?: unknown): Promise<Json> =>
  place.owner.api.expect(status, method, `${place.base}${path}`, body);
const put = (place: Place, tests: readonly Json[], status = 200, query = ''): Promise<Json> =>
  send(place, status, 'PUT', `/policy_tests${query}`, tests);
const states = async (place: Place): Promise<readonly string[]> =>
  (await send(place, 200, 'GET', '/policy_tests')).map((one: Json) => one.state as string);

/** A web server that may reach a database, by a group that applies by label, and a test that keeps it so. */
async function tested() {
  const place = await newPlace(stage.server);
  const admits = await group(place, {
    group_name: 'db',
    applies_to: [db],
    inbound_rules: [tcp(5432, { peers: [web] })],
  });
  const source = await device(place, { hostname: 'web-1', labels: ['web'], tunnel_ip: '100.64.0.1' });
  const target = await device(place, { hostname: 'db-1', labels: ['db', 'prod'], tunnel_ip: '100.64.0.2/32' });
  await put(place, [allow('web reaches db')]);
  return { place, admits, source, target };
}

describe('the list', () => {
  test('is written by owners as a whole, read by members with its states, and has its own ETag', async () => {
    const { place } = await tested();
    const vacuous = {
      name: 'nobody',
      from: { labels: ['none'] },
      to: { address: '192.0.2.1' },
      protocol: 'icmp',
      expect: 'refuse',
    };
    const tests = [allow('web reaches db', { note: 'the shop' }), vacuous];
    const answer = await put(place, tests);
    expect(answer).toEqual([
      { ...tests[0], state: 'passing' },
      { ...vacuous, state: 'vacuous' },
    ]);
    const { headers, json } = await place.member.api.ask('GET', `${place.base}/policy_tests`);
    expect([headers.etag, json]).toEqual(['"2"', answer]);
    await place.member.api.expect(403, 'PUT', `${place.base}/policy_tests`, []);
    // What was read may be sent back as it is, and changes nothing.
    expect(await put(place, answer)).toEqual(answer);
    const replaceIf = (tag: string) =>
      place.owner.api.ask('PUT', `${place.base}/policy_tests`, { body: [], headers: { 'if-match': tag } });
    const stale = await replaceIf('"1"');
    expect([stale.status, stale.headers.etag]).toEqual([412, '"2"']);
    const fresh = await replaceIf('"2"');
    expect([fresh.status, fresh.headers.etag, fresh.json]).toEqual([200, '"3"', []]);
  });

  test('is refused with a pointer to each problem', async () => {
    const place = await newPlace(stage.server);
    const wrong: readonly (readonly [unknown, string, string])[] = [
      [{}, '', 'not_an_array'],
      [Array.from({ length: 1_001 }, (_, n) => allow(`${n}`)), '', 'too_many_items'],
      [[allow('a'), allow('a')], '/1/name', 'duplicate'],
      [[allow('')], '/0/name', 'text_too_short'],
      [[allow('a', { from: undefined })], '/0/from', 'missing_field'],
      [[allow('a', { from: {} })], '/0/from', 'one_key_only'],
      [[allow('a', { from: { labels: ['a'], address: '192.0.2.1' } })], '/0/from', 'one_key_only'],
      [[allow('a', { from: { hosts: [] } })], '/0/from/hosts', 'unknown_field'],
      [[allow('a', { to: { labels: [] } })], '/0/to/labels', 'too_few_items'],
      [[allow('a', { to: { address: '192.0.2.0/24' } })], '/0/to/address', 'address_invalid'],
      [[allow('a', { from: { address: '192.0.2.1' }, to: { address: '192.0.2.2' } })], '/0/to', 'contradiction'],
      [[allow('a', { protocol: 'sctp' })], '/0/protocol', 'not_one_of'],
      [[allow('a', { port: undefined })], '/0/port', 'missing_field'],
      [[allow('a', { port: 0 })], '/0/port', 'port_out_of_range'],
      [[allow('a', { protocol: 'icmp' })], '/0/port', 'port_on_icmp'],
      [[allow('a', { expect: 'maybe' })], '/0/expect', 'not_one_of'],
      [[allow('a', { more: 1 })], '/0/more', 'unknown_field'],
    ];
    for (const [body, pointer, code] of wrong) {
      const problem = await send(place, 422, 'PUT', '/policy_tests', body);
      expect(problem.errors).toContainEqual(expect.objectContaining({ pointer, code }));
    }
    expect(await states(place)).toEqual([]);
  });

  test('refuses a test that fails, unless an owner skips it; then it does not stand in the way of other writes', async () => {
    const { place, target } = await tested();
    const refuse = allow('never', { expect: 'refuse' });
    const problem = await put(place, [allow('web reaches db'), refuse], 422);
    expect(problem).toMatchObject({
      code: 'policy_test_failed',
      tests: [{ name: 'never', failure: { reason: 'rule' } }],
    });
    expect(await states(place)).toEqual(['passing']);
    await put(place, [allow('web reaches db'), refuse], 200, '?skip_tests=true');
    expect(await states(place)).toEqual(['passing', 'failing']);
    // It failed before and fails still.
    await send(place, 200, 'PATCH', `/devices/${target.id}`, { addresses: ['fd00::2'] });
    await put(place, [refuse, allow('web reaches db')]);
  });
});

describe('a write of a person that breaks a test', () => {
  test('is 422 policy_test_failed and names test, pair and rule, whatever kind of write it is; nothing is written', async () => {
    const { place, admits, source, target } = await tested();
    const shut = await group(place, { group_name: 'shut', inbound_rules: [tcp(22)] });
    const head = async (): Promise<number> => (await send(place, 200, 'GET', '')).revision;
    const out = await group(place, { group_name: 'out', outbound_rules: [tcp(22)] });
    const writes: readonly (readonly [string, string, unknown?])[] = [
      ['PATCH', `/security_groups/${admits.id}`, { inbound_rules: [] }],
      ['PATCH', `/security_groups/${admits.id}`, { inbound_rules: [tcp(5432, { peers: [{ device_id: target.id }] })] }],
      ['PATCH', `/security_groups/${admits.id}`, { applies_to: [{ labels: ['nobody'] }, { labels: ['other'] }] }],
      ['DELETE', `/security_groups/${admits.id}?detach=true`],
      [
        'POST',
        '/security_groups',
        { group_name: 'no', guardrail: 'forbid', applies_to: [db], inbound_rules: [tcp(5432)] },
      ],
      ['PATCH', `/devices/${source.id}`, { security_groups: [out.id] }],
      ['POST', '/changes', { security_groups: [{ id: admits.id, inbound_rules: [] }] }],
      [
        'POST',
        '/devices',
        { public_key: unique(), labels: ['web', 'cut'], tunnel_ip: '100.64.0.9', security_groups: [out.id] },
      ],
    ];
    // Its last group goes with the label, which is another refusal, and comes first.
    await send(place, 200, 'PATCH', `/devices/${target.id}`, { security_groups: [shut.id] });
    const before = await head();
    for (const [method, path, body] of writes) {
      const problem = await send(place, 422, method, path, body);
      expect(problem).toMatchObject({
        code: 'policy_test_failed',
        tests: [{ name: 'web reaches db', state: 'failing' }],
      });
      expect(problem.tests[0].failure.to).toMatchObject({ hostname: 'db-1', device_id: target.id });
      expect(problem.detail).toContain('→ db-1 (100.64.0.2) tcp/5432 must be allowed.');
      expect(problem.errors).toEqual([{ pointer: '', code: 'policy_test_failed', detail: problem.detail }]);
    }
    expect(await head()).toBe(before);
    expect(await states(place)).toEqual(['passing']);
  });

  test('is refused where a label is taken off a device, or an address moves', async () => {
    const { place, source, target } = await tested();
    await put(place, [
      allow('web reaches db', { to: { device_id: target.id }, from: { device_id: source.id } }),
      allow('nobody else', { from: { address: '100.64.0.7' }, expect: 'refuse' }),
    ]);
    const problem = await send(place, 422, 'PATCH', `/devices/${source.id}`, { labels: [] });
    expect(problem.tests[0].failure).toMatchObject({
      device_id: target.id,
      direction: 'inbound',
      reason: 'no-rule',
      fix: { direction: 'inbound', rule: { ip_protocol: 'tcp', from_port: 5432, peers: [{ device_id: source.id }] } },
    });
    const lent = await send(place, 422, 'PATCH', `/devices/${source.id}`, { addresses: ['100.64.0.7'] });
    expect(lent.tests[0]).toMatchObject({ name: 'nobody else', failure: { reason: 'rule', group_name: 'db' } });
    await send(place, 200, 'PATCH', `/devices/${source.id}`, { hostname: 'renamed', addresses: ['100.64.0.8'] });
    expect(await states(place)).toEqual(['passing', 'passing']);
  });

  test('is refused for a member and for a restore as well, and of a member that is removed', async () => {
    const { place, admits } = await tested();
    const own = await place.member.api.expect(201, 'POST', `/api/user/${place.org}/security_groups`, {
      group_name: 'own',
      inbound_rules: [tcp(8080)],
    });
    const laptop = await place.member.api.expect(201, 'POST', `${place.base}/devices`, {
      public_key: unique(),
      hostname: 'laptop',
      tunnel_ip: '100.64.0.3',
      security_groups: [own.id],
    });
    const name = 'laptop is closed';
    const closed = { name, from: web, to: { device_id: laptop.id }, protocol: 'tcp', port: 22, expect: 'refuse' };
    await put(place, [allow('web reaches db'), closed]);
    const path = `${place.base}/devices/${laptop.id}`;
    const problem = await place.member.api.expect(422, 'PATCH', path, { security_groups: [] });
    expect(problem.tests).toMatchObject([{ name, failure: { reason: 'rule', group_name: 'default' } }]);
    await place.member.api.expect(403, 'PATCH', `${path}?skip_tests=true`, { security_groups: [] });
    const gone = await send(place, 422, 'DELETE', `/members/${place.member.id}?keep=devices&detach=true`);
    expect(gone).toMatchObject({ code: 'policy_test_failed', tests: [{ name }] });
    await send(place, 200, 'DELETE', `/members/${place.member.id}`);
    expect(await states(place)).toEqual(['passing', 'vacuous']);
    // A restore is a write like others.
    const { revision } = await send(place, 200, 'PATCH', `/security_groups/${admits.id}?skip_tests=true`, {
      inbound_rules: [],
    });
    await send(place, 200, 'PATCH', `/security_groups/${admits.id}`, { inbound_rules: [tcp(5432)] });
    await send(place, 422, 'POST', `/security_groups/${admits.id}/restore`, { revision });
  });

  test('happens where an owner skips the tests, and the audit says so', async () => {
    const { place, admits } = await tested();
    await send(place, 200, 'PATCH', `/security_groups/${admits.id}?skip_tests=true`, { inbound_rules: [] });
    expect(await states(place)).toEqual(['failing']);
    const { policy_tests } = await send(place, 200, 'GET', '/overview');
    expect(policy_tests).toEqual({ passing: 0, failing: 1, vacuous: 0 });
    const [entry] = await send(place, 200, 'GET', '/audit?limit=1');
    expect(entry).toMatchObject({ operation: 'updateSecurityGroup', fields: ['inbound_rules', 'skip_tests'] });
    const written = (await send(place, 200, 'GET', '/audit')).find(
      ({ operation }: Json) => operation === 'replacePolicyTests',
    );
    expect(written).toMatchObject({
      before: { policy_tests: [] },
      after: { policy_tests: [{ name: 'web reaches db' }] },
    });
  });
});

describe('a test that passes only by a trial', () => {
  /** The rule for the web server is in two groups, one of which is being tried. */
  async function lent() {
    const { place, admits } = await tested();
    const body = { group_name: 'tried', applies_to: [db], inbound_rules: [tcp(5432)] };
    const tried = await send(place, 201, 'POST', '/security_groups?confirm_within=600', body);
    return { place, admits, tried, trial: tried.trial as { readonly id: string; readonly ends_at: string } };
  }

  test('fails with `until`, and a write that leaves it so is refused like any other', async () => {
    const { place, admits, trial } = await lent();
    expect(await states(place)).toEqual(['passing']);
    const closing = { security_groups: [{ id: admits.id, inbound_rules: [] }] };
    const until = new Date(trial.ends_at).toISOString();
    const expected = { name: 'web reaches db', state: 'failing', until, failure: { reason: 'no-rule' } };
    expect((await send(place, 200, 'POST', '/simulate', closing)).tests).toMatchObject([expected]);
    const refused = await send(place, 422, 'PATCH', `/security_groups/${admits.id}`, { inbound_rules: [] });
    expect(refused).toMatchObject({ code: 'policy_test_failed', tests: [expected] });
    expect(refused.detail).toContain(`passes only until ${until.slice(0, 19).replace('T', ' ')} UTC`);
    // An owner may insist. What was read may be sent back as it is.
    await send(place, 200, 'PATCH', `/security_groups/${admits.id}?skip_tests=true`, { inbound_rules: [] });
    const read = await send(place, 200, 'GET', '/policy_tests');
    expect(read).toMatchObject([expected]);
    expect(await put(place, read)).toEqual(read);
    expect((await send(place, 200, 'GET', '/overview')).policy_tests).toEqual({ passing: 0, failing: 1, vacuous: 0 });
    // Whoever confirms the trial makes it pass, so nothing there speaks against that.
    expect((await send(place, 200, 'GET', `/trials/${trial.id}`)).failing_tests).toBeUndefined();
    await send(place, 200, 'POST', `/trials/${trial.id}/confirm`);
    expect(await states(place)).toEqual(['passing']);
  });

  test('is refused where it is new, and fails without `until` once the trial has ended', async () => {
    const { place, admits, trial } = await lent();
    await put(place, []);
    await send(place, 200, 'PATCH', `/security_groups/${admits.id}`, { inbound_rules: [] });
    const refused = await put(place, [allow('web reaches db')], 422);
    expect(refused.tests).toMatchObject([{ name: 'web reaches db', until: expect.any(String) }]);
    await put(place, [allow('web reaches db')], 200, '?skip_tests=true');
    await send(place, 200, 'POST', `/trials/${trial.id}/revert`);
    const [result] = await send(place, 200, 'GET', '/policy_tests');
    expect(result).toMatchObject({ state: 'failing', failure: { reason: 'no-rule' } });
    expect(result.until).toBeUndefined();
  });
});

test('a device that enrolls is never refused: its test fails, and the next write of a person goes on', async () => {
  const { place, source } = await tested();
  await group(place, { group_name: 'open', applies_to: [{ labels: ['edge'] }], inbound_rules: [tcp(22)] });
  await put(place, [allow('ssh stays shut', { to: { all_devices: true }, port: 22, expect: 'refuse' })]);
  const key = await send(place, 201, 'POST', '/enrollment_keys', { labels: ['edge'] });
  const enrolled = await stage.server.nobody.as(key.key).expect(201, 'POST', `${place.base}/devices`, {
    public_key: unique(),
    tunnel_ip: '100.64.0.50',
    hostname: 'edge-1',
  });
  const [result] = await send(place, 200, 'GET', '/policy_tests');
  expect(result).toMatchObject({ state: 'failing', failure: { to: { device_id: enrolled.id, hostname: 'edge-1' } } });
  await send(place, 200, 'PATCH', `/devices/${source.id}`, { addresses: ['fd00::1'] });
});

test('two writers that break a test only together: one of them is refused, whichever server it asks', async () => {
  const place = await newPlace(stage.server);
  const [first, second] = await Promise.all(
    ['a', 'b'].map((name) => group(place, { group_name: name, applies_to: [db], inbound_rules: [tcp(5432)] })),
  );
  await device(place, { labels: ['web'], tunnel_ip: '100.64.0.1' });
  await device(place, { labels: ['db'], tunnel_ip: '100.64.0.2' });
  await put(place, [allow('web reaches db')]);
  for (let round = 0; round < 5; round += 1) {
    const close = (server: typeof stage.server, id: string): Promise<number> =>
      server.nobody
        .as(place.owner.token)
        .ask('PATCH', `${place.base}/security_groups/${id}`, { body: { inbound_rules: [] } })
        .then(({ status }) => status);
    const answers = await Promise.all([close(stage.server, first.id), close(sibling(), second.id)]);
    expect(answers.toSorted()).toEqual([200, 422]);
    expect(await states(place)).toEqual(['passing']);
    for (const { id } of [first, second])
      await send(place, 200, 'PATCH', `/security_groups/${id}`, { inbound_rules: [tcp(5432)] });
  }
});

test('a simulation tells how the tests would come out, those of its body or else those of the organization', async () => {
  const { place, admits } = await tested();
  const change = { security_groups: [{ id: admits.id, inbound_rules: [] }] };
  const stored = await send(place, 200, 'POST', '/simulate', change);
  expect(stored.tests).toMatchObject([{ name: 'web reaches db', state: 'failing', failure: { reason: 'no-rule' } }]);
  const own = await send(place, 200, 'POST', '/simulate', {
    ...change,
    policy_tests: [allow('shut', { expect: 'refuse' })],
  });
  expect(own.tests).toMatchObject([{ name: 'shut', state: 'passing' }]);
  const wrong = await send(place, 422, 'POST', '/simulate', { ...change, policy_tests: [allow('a', { port: 0 })] });
  expect(wrong.errors).toMatchObject([{ pointer: '/policy_tests/0/port' }]);
  expect(await states(place)).toEqual(['passing']);
});

test('a change set replaces the tests with its records, is judged by them as a whole, and takes both back', async () => {
  const { place, admits } = await tested();
  const { member, owner, base } = place;
  const open = { id: admits.id, inbound_rules: [tcp(5432, { peers: [web] })] };
  const shut = { id: admits.id, inbound_rules: [] };
  const refused = [allow('web does not reach db', { expect: 'refuse' })];
  // Each of the two would be refused alone.
  await send(place, 422, 'POST', '/changes', { security_groups: [shut] });
  await send(place, 422, 'POST', '/changes', { policy_tests: refused });
  const { change_id } = await send(place, 200, 'POST', '/changes', { security_groups: [shut], policy_tests: refused });
  expect(await states(place)).toEqual(['passing']);
  const { records } = await send(place, 200, 'GET', `/changes/${change_id}`);
  expect(records.map(({ kind }: Json) => kind)).toEqual(['security-groups', 'policy-tests']);
  const entries = await send(place, 200, 'GET', '/audit?limit=3');
  expect(
    entries.filter((entry: Json) => entry.change_id === change_id).map(({ operation }: Json) => operation),
  ).toEqual(expect.arrayContaining(['applyChanges', 'replacePolicyTests', 'updateSecurityGroup']));
  expect(await member.api.status('POST', `${base}/changes`, { body: { policy_tests: [] } })).toBe(403);
  const wrong = await send(place, 422, 'POST', '/changes', { policy_tests: [allow('a', { port: 0 })] });
  expect(wrong.errors).toMatchObject([{ pointer: '/policy_tests/0/port' }]);
  expect(await owner.api.status('POST', `${base}/changes?confirm_within=60`, { body: { policy_tests: [] } })).toBe(422);
  await send(place, 200, 'POST', `/changes/${change_id}/revert`);
  expect(await send(place, 200, 'GET', `/security_groups/${admits.id}`)).toMatchObject(open);
  expect(await send(place, 200, 'GET', '/policy_tests')).toMatchObject([{ name: 'web reaches db', state: 'passing' }]);
});

test('a burst of writes has each its own outcome', async () => {
  const { place, source } = await tested();
  const devices = await Promise.all(
    Array.from({ length: 12 }, (_, n) => device(place, { labels: ['db'], tunnel_ip: `100.64.1.${n}` })),
  );
  const answers = await Promise.all([
    ...devices.map(({ id }, n) =>
      place.owner.api.ask('PATCH', `${place.base}/devices/${id}`, {
        body: n % 3 === 0 ? { hostname: unique() } : { addresses: [`fd00::1:${n}`] },
      }),
    ),
    place.owner.api.ask('PATCH', `${place.base}/devices/${source.id}`, { body: { labels: ['other'] } }),
  ]);
  // Without a web server there is no pair: the test is vacuous, and nothing is broken.
  expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 13 }, () => 200));
  expect(await states(place)).toEqual(['vacuous']);
});
