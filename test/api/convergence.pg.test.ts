/** Proves the answer to "is it in force?" on two servers with one database: receipts, presence, waiters, and what a device must say to count. */
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { printAddress } from '../../src/policy/address.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { forgedHosts } from '../../src/policy/digest/forgery.fixture.ts';
import { Fleet } from '../../src/policy/fleet/fleet.ts';
import { readGroupRecord } from '../../src/policy/fleet/group-record.ts';
import { deviceIdentity } from '../../src/policy/fleet/identity.ts';
import { resolvePolicy } from '../../src/policy/fleet/resolve.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import type { Api, Json } from '../lib/http.ts';
import { newPlace, startTestServer, type Place, type TestServer } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';
import { EventStream } from '../lib/stream.ts';

const stage = useServer(() => ({ maxWaits: 3 }));
let second: TestServer;
beforeAll(async () => {
  second = await startTestServer(stage.postgres, { url: stage.server.databaseUrl });
});
afterAll(() => second.close());

const digestOf = (...groups: readonly Json[]): string =>
  policyDigest(
    canonicalize({
      source: 'list',
      groups: groups.map((group) => ({
        id: parseGroupId(group.id),
        name: group.group_name,
        inbound: group.inbound_rules ?? [],
        outbound: group.outbound_rules ?? [],
      })),
    }),
  );

interface TestDevice {
  readonly id: string;
  readonly token: string;
  report(api: Api, status: object): Promise<Json>;
}

/** An organization of its own with a group and devices that hold it. */
async function setUp(count: number) {
  const place: Place = await newPlace(stage.server);
  const { api } = place.owner;
  const group = await api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'web',
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 80, to_port: 80 }],
  });
  const devices: TestDevice[] = [];
  for (let number = 0; number < count; number += 1) {
    const made = await api.expect(201, 'POST', `${place.base}/devices`, {
      public_key: `key ${number}`,
      hostname: `host-${number}`,
      security_groups: [group.id],
    });
    const report = (server: Api, status: object): Promise<Json> =>
      server.as(made.device_token).expect(200, 'PUT', `${place.base}/devices/${made.id}/status`, status);
    devices.push({ id: made.id, token: made.device_token, report });
  }
  const setPort = (port: number): Promise<Json> =>
    api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}`, {
      inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
    });
  const convergence = (query = '', server: TestServer = stage.server): Promise<Json> =>
    server.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/convergence${query}`);
  const wordsOf = async (): Promise<readonly string[]> =>
    (await api.expect(200, 'GET', `${place.base}/device_statuses`)).map((one: Json) => one.in_force);
  const applied = (policy: Json, revision: number = policy.revision) => ({
    state: 'applied',
    revision,
    policy_digest: digestOf(policy),
    policy_digest_form: digestForm,
  });
  return { place, api, group, devices, setPort, convergence, wordsOf, applied };
}

const openStream = (server: TestServer, place: Place, { token }: TestDevice, prefer = 'report-lines'): EventStream =>
  new EventStream(server.url, token, place.org, [{ kind: 'device' }, { kind: 'security-groups' }], {
    headers: { Prefer: prefer },
  });

test('every device is listed, also one never seen, and counts add up', async () => {
  const { api, place, devices, group, convergence, applied } = await setUp(4);
  const [first, other, third] = devices;
  const head = (await convergence()).revision;
  await first?.report(stage.server.nobody, applied(group, head));
  await other?.report(stage.server.nobody, { ...applied(group, head), policy_digest: '0'.repeat(64) });
  await third?.report(second.nobody, { state: 'failed', revision: 1, detail: 'no nft' });
  const statuses = await api.expect(200, 'GET', `${place.base}/device_statuses`);
  expect(statuses.map((one: Json) => [one.device_id, one.in_force, one.code, one.online])).toEqual([
    [first?.id, 'yes', undefined, false],
    [other?.id, 'failed', 'digest_differs', false],
    [third?.id, 'failed', undefined, false],
    [devices[3]?.id, 'never_seen', undefined, false],
  ]);
  expect(statuses[3]).not.toHaveProperty('last_seen_at');
  const pages = await api.get(`${place.base}/device_statuses?limit=3`);
  expect([pages.json.length, pages.headers.link]).toEqual([3, expect.stringContaining(third?.id ?? '')]);
  const answer = await convergence();
  expect(answer).toMatchObject({
    devices: 4,
    in_force: 1,
    failed: 2,
    never_seen: 1,
    behind: 0,
    offline: 0,
    reverted: 0,
  });
  expect(answer.pending.map((one: Json) => one.hostname)).toEqual(['host-1', 'host-2', 'host-3']);
  const page = await api.get(`${place.base}/convergence?limit=2`);
  expect(page.json.pending).toHaveLength(2);
  const rest = await api.get(/<([^>]*)>/.exec(page.headers.link as string)?.[1] ?? '');
  expect(rest.json.pending.map((one: Json) => one.hostname)).toEqual(['host-3']);
  expect(rest.headers.link).toBeUndefined();
});

test('with since, or of a change set, only devices count whose policy it changed, on every server and in every page', async () => {
  const { place, api, devices, setPort, convergence, applied } = await setUp(3);
  const { revision: since } = await convergence();
  const elsewhere = await api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'elsewhere' });
  expect(await convergence(`?revision=${elsewhere.revision}&since=${since}`)).toMatchObject({
    devices: 0,
    pending: [],
  });
  const [first] = devices;
  const only = await api.expect(200, 'POST', `${place.base}/changes`, {
    devices: [{ id: first?.id, security_groups: [elsewhere.id] }],
  });
  const concerned = { devices: 1, in_force: 0, never_seen: 1, pending: [{ device_id: first?.id }] };
  expect(await convergence(`?revision=${only.revision}&since=${elsewhere.revision}`)).toMatchObject(concerned);
  expect(await convergence(`?change=${only.change_id}`)).toMatchObject({ ...concerned, revision: only.revision });
  // A server that did not follow the change counts rather too many than too few.
  const fresh = await convergence(`?change=${only.change_id}`, second);
  expect(fresh.pending.map((one: Json) => one.device_id)).toContain(first?.id);

  const changed = await setPort(8_080);
  const others = `?revision=${changed.revision}&since=${only.revision}`;
  const page = await api.get(`${place.base}/convergence${others}&limit=1`);
  const rest = await api.get(/<([^>]*)>/.exec(page.headers.link as string)?.[1] ?? '');
  expect([page, rest].map(({ json }) => [json.devices, json.pending.length])).toEqual([
    [2, 1],
    [2, 1],
  ]);
  // The one that lacks nothing of this keeps nobody waiting.
  const waiting = convergence(`${others}&wait=60`);
  for (const device of devices.slice(1)) await device.report(second.nobody, applied(changed));
  expect(await waiting).toMatchObject({ devices: 2, in_force: 2, pending: [] });

  expect(await place.member.api.get(`${place.base}/convergence?change=${only.change_id}`)).toMatchObject({
    status: 404,
  });
  expect(await api.get(`${place.base}/convergence?change=${only.change_id}&since=1`)).toMatchObject({
    status: 422,
    json: { errors: [{ code: 'contradiction' }] },
  });
});

test('a rule that expires changes the digest that a device should have, and not what a device proved before', async () => {
  const { place, api, group, devices, applied, wordsOf } = await setUp(2);
  const [online, away] = devices;
  if (online === undefined) throw new Error('no device');
  const [stays, ends] = [80, 22].map((port) => ({ ip_protocol: 'tcp', from_port: port, to_port: port }));
  const expiring = (expires_at: string): Promise<Json> =>
    api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}`, {
      inbound_rules: [stays, { ...ends, expires_at }],
    });
  const soon = new Date(Date.now() + 4_000).toISOString();
  const short = await expiring(soon);
  const left = { ...short, inbound_rules: short.inbound_rules.slice(0, 1) };
  await online.report(stage.server.nobody, applied(short));
  expect(await wordsOf()).toEqual(['yes', 'never_seen']);
  await expect.poll(() => Date.now() > Date.parse(soon)).toBe(true);
  await away?.report(stage.server.nobody, applied(left, short.revision));
  expect(await wordsOf()).toEqual(['yes', 'yes']);
  await away?.report(stage.server.nobody, applied(group, short.revision));
  expect(await wordsOf()).toEqual(['yes', 'yes']);
  await away?.report(stage.server.nobody, { ...applied(group, short.revision), policy_digest: '0'.repeat(64) });
  expect(await wordsOf()).toEqual(['yes', 'failed']);

  // A server whose clock shows the end of a later rule, and has seen nothing happen.
  const hour = 3_600_000;
  const long = await expiring(new Date(Date.now() + hour).toISOString());
  for (const each of devices) await each.report(stage.server.nobody, applied(long));
  const tomorrow = await startTestServer(stage.postgres, {
    url: stage.server.databaseUrl,
    clock: () => Date.now() + 2 * hour,
  });
  onTestFinished(() => tomorrow.close());
  const stream = openStream(tomorrow, place, online);
  onTestFinished(() => stream.close());
  const statuses = async (): Promise<readonly Json[]> =>
    tomorrow.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/device_statuses`);
  await expect
    .poll(async () => (await statuses()).map((one) => [one.in_force, one.online, one.code]))
    .toEqual([
      ['behind', true, 'expiry_unreported'],
      ['yes', false, undefined],
    ]);
  const waited = await tomorrow.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/convergence?wait=1`);
  expect(waited.pending.map((one: Json) => one.hostname)).toEqual(['host-0']);
  stream.close();
  await expect
    .poll(async () => (await statuses()).map((one) => [one.in_force, one.online]))
    .toEqual([
      ['yes', false],
      ['yes', false],
    ]);
  const atOnce = await tomorrow.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/convergence?wait=120`);
  expect(atOnce.pending).toEqual([]);
});

test('a device that still admits hosts chosen to forge a digest is not called in force once the group admits nobody', async () => {
  const { place, devices, group, applied } = await setUp(1);
  const setRules = (inbound_rules: readonly object[]): Promise<Json> =>
    place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}`, { inbound_rules });
  const ip_ranges = forgedHosts().map((host) => printAddress(4, host));
  const forged = await setRules([{ ip_protocol: 'tcp', from_port: 22, to_port: 22, ip_ranges }]);
  await devices[0]?.report(stage.server.nobody, applied(forged));
  const wordsOn = async (server: TestServer): Promise<readonly string[]> =>
    (await server.nobody.as(place.owner.token).expect(200, 'GET', `${place.base}/device_statuses`)).map(
      (one: Json) => one.in_force,
    );
  expect(await wordsOn(stage.server)).toEqual(['yes']);
  await setRules([]);
  // A server that has not seen the change judges by the digest alone.
  const third = await startTestServer(stage.postgres, { url: stage.server.databaseUrl });
  onTestFinished(() => third.close());
  expect([await wordsOn(third), await wordsOn(stage.server)]).toEqual([['offline'], ['offline']]);
});

test('a digest of an older form is no proof and no failure; the device is behind until its agent is updated', async () => {
  const { place, api, devices, group, applied } = await setUp(3);
  const { policy_digest_form: _, ...withoutForm } = applied(group);
  const [older, newer, wrong] = devices;
  await older?.report(stage.server.nobody, withoutForm);
  await newer?.report(stage.server.nobody, { ...applied(group), policy_digest_form: digestForm + 1 });
  await wrong?.report(stage.server.nobody, { ...withoutForm, policy_digest: '0'.repeat(64) });
  const statuses = await api.expect(200, 'GET', `${place.base}/device_statuses`);
  expect(statuses.map((one: Json) => [one.device_id, one.in_force, one.code, one.detail])).toEqual([
    [older?.id, 'offline', 'digest_form', expect.stringMatching(/update the agent$/)],
    [newer?.id, 'offline', 'digest_form', expect.stringMatching(/update the server$/)],
    [wrong?.id, 'offline', 'digest_form', expect.stringMatching(/update the agent$/)],
  ]);
  await older?.report(stage.server.nobody, applied(group));
  const [updated] = await api.expect(200, 'GET', `${place.base}/device_statuses`);
  expect([updated.in_force, updated.status.policy_digest_form]).toEqual(['yes', digestForm]);
});

test('what a device counted for its groups is told to owners and to its own user, and to nobody else', async () => {
  const { place, devices, group, applied } = await setUp(1);
  const { owner, member, base } = place;
  const mine = await member.api.expect(201, 'POST', `${base}/devices`, { public_key: 'mine' });
  const group_packets = [{ group_id: group.id, inbound: 1_204, outbound: 0 }];
  const status = { ...applied(group), group_packets };
  await devices[0]?.report(stage.server.nobody, status);
  await stage.server.nobody.as(mine.device_token).expect(200, 'PUT', `${base}/devices/${mine.id}/status`, status);
  const countedFor = async (api: Api): Promise<readonly string[]> =>
    (await api.expect(200, 'GET', `${base}/device_statuses`))
      .filter((one: Json) => JSON.stringify(one.status.group_packets) === JSON.stringify(group_packets))
      .map((one: Json) => one.device_id);
  expect(new Set(await countedFor(owner.api))).toEqual(new Set([devices[0]?.id, mine.id]));
  expect(await countedFor(member.api)).toEqual([mine.id]);
  const others = await member.api.expect(200, 'GET', `${base}/device_statuses`);
  // By its name: a random id or time may hold these digits.
  expect(JSON.stringify(others).match(/"inbound":1204/g)).toHaveLength(1);
  const byDevice = await stage.server.nobody.as(mine.device_token).expect(200, 'GET', `${base}/device_statuses`);
  expect(JSON.stringify(byDevice)).not.toContain('group_packets');
  const wrong = await stage.server.nobody
    .as(mine.device_token)
    .put(`${base}/devices/${mine.id}/status`, { state: 'applied', group_packets: [{ group_id: 'web', inbound: -1 }] });
  expect(wrong.json.errors.map(({ pointer }: Json) => pointer)).toEqual([
    '/group_packets/0/group_id',
    '/group_packets/0/inbound',
  ]);
});

test('a revision above the head, or no number, is 422; one that is there counts what touched each device up to it', async () => {
  const { api, place, devices, group, setPort, convergence, applied } = await setUp(1);
  const [device] = devices;
  const before = (await convergence()).revision;
  await device?.report(stage.server.nobody, applied(group, before));
  for (const query of ['?revision=999999', '?revision=x', '?revision=-1', '?wait=121', '?wait=x', '?limit=0']) {
    expect([query, (await api.get(`${place.base}/convergence${query}`)).status]).toEqual([query, 422]);
  }
  expect((await convergence()).in_force).toBe(1);
  const changed = await setPort(81);
  expect((await convergence(`?revision=${before}`)).in_force).toBe(1);
  expect(await convergence(`?revision=${changed.revision}`)).toMatchObject({ in_force: 0, offline: 1 });
  // What does not touch the device asks nothing of it.
  await api.expect(201, 'POST', `${place.base}/security_groups`, { group_name: 'elsewhere' });
  await device?.report(second.nobody, applied(changed));
  expect((await convergence()).in_force).toBe(1);
  expect((await convergence('', second)).in_force).toBe(1);
});

test('a device is online on every server while it holds a stream, and a failure is not hidden by its being away', async () => {
  const { api, place, devices, convergence, wordsOf } = await setUp(2);
  const [first, other] = devices;
  if (first === undefined || other === undefined) throw new Error('no devices');
  const stream = await openStream(second, place, first).tail(2);
  expect(stream.head).toContain('Preference-Applied: report-lines');
  await expect.poll(async () => (await convergence()).behind).toBe(1);
  expect(await wordsOf()).toEqual(['behind', 'never_seen']);
  const [status] = await api.expect(200, 'GET', `${place.base}/device_statuses`);
  expect(status).toMatchObject({ online: true, last_seen_at: expect.any(String) });
  await first.report(second.nobody, { state: 'failed', detail: 'no nft' });
  stream.close();
  expect((await convergence()).failed).toBe(1);
});

test('whoever waits is answered as soon as all have said it, on whichever server they say it', async () => {
  const { devices, setPort, convergence, applied, place } = await setUp(3);
  const streams = await Promise.all(
    devices.map((device, index) => openStream(index % 2 === 0 ? stage.server : second, place, device).tail(2)),
  );
  const changed = await setPort(8080);
  const { revision } = changed;
  const waiters = [
    convergence(`?revision=${revision}&wait=120`),
    convergence(`?revision=${revision}&wait=120`, second),
  ];
  // Each is asked on its stream, after it received the change.
  for (const stream of streams) {
    await stream.shows(`{"type":"report","revision":${revision}}`);
    const types = stream.documents.map((one) => one.type);
    expect(types.indexOf('report')).toBeGreaterThan(types.lastIndexOf('tail'));
    expect(stream.documents.findIndex((one) => one.value?.revision === revision)).toBeLessThan(types.indexOf('report'));
  }
  for (const [index, device] of devices.entries()) {
    await device.report(index % 2 === 0 ? second.nobody : stage.server.nobody, applied(changed));
  }
  for (const answer of await Promise.all(waiters)) {
    expect(answer).toMatchObject({ revision, devices: 3, in_force: 3, pending: [] });
  }
  for (const stream of streams) stream.close();
});

test('when the time is over, the answer tells who lacks it; a reader that did not ask for it is never asked', async () => {
  const { devices, setPort, convergence, place } = await setUp(1);
  const [device] = devices;
  if (device === undefined) throw new Error('no device');
  const stream = await openStream(stage.server, place, device, 'respond-async').tail(2);
  expect(stream.head).not.toMatch(/preference-applied/i);
  const { revision } = await setPort(8081);
  const answer = await convergence(`?revision=${revision}&wait=2`);
  expect(answer).toMatchObject({ in_force: 0, devices: 1 });
  expect(answer.pending).toMatchObject([{ device_id: device.id, hostname: 'host-0' }]);
  expect(stream.raw).not.toContain('"report"');
  stream.close();
});

test('a server that stops lets its waiters go, and they are answered by the other', async () => {
  const { devices, place, group, convergence, applied } = await setUp(1);
  const [device] = devices;
  if (device === undefined) throw new Error('no device');
  const third = await startTestServer(stage.postgres, { url: stage.server.databaseUrl });
  const { revision } = await convergence();
  const stream = await openStream(third, place, device).tail(2);
  const waiting = convergence(`?revision=${revision}&wait=120`, third).catch((error: unknown) => error);
  // The device is asked as soon as somebody waits for it.
  await stream.shows(`{"type":"report","revision":${revision}}`);
  const again = convergence(`?revision=${revision}&wait=120`);
  await third.close();
  expect(String(await waiting)).toMatch(/503|closed|ECONN|socket/i);
  await device.report(second.nobody, applied(group, revision));
  expect((await again).in_force).toBe(1);
  stream.close();
});

test('groups by label, guardrails and named devices count: in what a device should have, and in what touches it', async () => {
  const { place, api, group, devices, convergence } = await setUp(1);
  const [device] = devices;
  const named = await api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'named',
    applies_to: [{ labels: ['db'] }],
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 5432, to_port: 5432, peers: [{ labels: ['app'] }] }],
  });
  const guardrail = await api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'never telnet',
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 23, to_port: 23 }],
  });
  await api.expect(200, 'PATCH', `${place.base}/devices/${device?.id}`, { labels: ['db'] });
  const report = async (apps: readonly string[]): Promise<void> => {
    const fleet = new Fleet(
      apps.map((address, index) => deviceIdentity({ id: `${index}`, tunnel_ip: address, labels: ['app'] })),
    );
    const groups = [group, named].map((one) => readGroupRecord(one));
    const policy = {
      source: 'list',
      groups,
      guardrails: { forbid: [readGroupRecord(guardrail)], require: [] },
    } as const;
    const policy_digest = policyDigest(canonicalize(resolvePolicy(policy, fleet)));
    const { revision } = await convergence();
    await device?.report(stage.server.nobody, {
      state: 'applied',
      revision,
      policy_digest,
      policy_digest_form: digestForm,
    });
  };
  await report([]);
  expect((await convergence()).in_force).toBe(1);
  const app = await api.expect(201, 'POST', `${place.base}/devices`, {
    public_key: 'app',
    tunnel_ip: '100.64.0.77',
    labels: ['app'],
  });
  // It names one more device now, and the receipt is older than that.
  expect(await convergence()).toMatchObject({ in_force: 0, offline: 1, never_seen: 1 });
  await report([]);
  expect(await convergence()).toMatchObject({ in_force: 0, failed: 1 });
  await report(['100.64.0.77']);
  expect((await convergence()).in_force).toBe(1);
  expect((await convergence('', second)).in_force).toBe(1);
  await api.expect(200, 'DELETE', `${place.base}/devices/${app.id}`);
  expect(await convergence()).toMatchObject({ devices: 1, in_force: 0 });
  await report([]);
  expect((await convergence()).in_force).toBe(1);
  await api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'of no concern to it' });
  // This server has not seen the change: the device is away, and its digest shows that its rules are the policy's.
  const third = await startTestServer(stage.postgres, { url: stage.server.databaseUrl });
  onTestFinished(() => third.close());
  expect(await convergence('', third)).toMatchObject({ devices: 2, in_force: 1, never_seen: 1 });
});

test('a connection is explained: the verdict, the rule and the guardrail that decide, and whether the devices enforce it', async () => {
  const { api, place, group, devices, convergence, applied } = await setUp(2);
  const [web, app] = devices;
  for (const [index, device] of devices.entries()) {
    await api.expect(200, 'PATCH', `${place.base}/devices/${device.id}`, { tunnel_ip: `100.64.1.${index + 1}` });
  }
  const explain = (query: string, status = 200): Promise<Json> =>
    api.expect(status, 'GET', `${place.base}/explain?${query}`);
  const open = await explain(`from=${app?.id}&to=${web?.id}&port=80`);
  expect(open).toMatchObject({ verdict: 'allowed', in_force: false, from: { address: '100.64.1.2' } });
  expect(open.sides).toMatchObject([
    { device_id: app?.id, direction: 'outbound', verdict: 'allowed', reason: 'open', in_force: 'never_seen' },
    { device_id: web?.id, direction: 'inbound', verdict: 'allowed', reason: 'rule', group_id: group.id },
  ]);
  expect(open.sides[1].rule).toEqual(group.inbound_rules[0]);
  for (const device of devices)
    await device.report(stage.server.nobody, applied(group, (await convergence()).revision));
  expect(await explain(`from=${app?.id}&to=100.64.1.1&port=80`)).toMatchObject({ verdict: 'allowed', in_force: true });
  expect(await explain(`from=203.0.113.9&to=${web?.id}&port=81`)).toMatchObject({
    verdict: 'refused',
    in_force: true,
    from: { address: '203.0.113.9' },
    sides: [{ reason: 'no-rule', in_force: 'yes' }],
  });
  const guardrail = await api.expect(201, 'POST', `${place.base}/security_groups`, {
    group_name: 'never 80',
    guardrail: 'forbid',
    applies_to: [{ all_devices: true }],
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 80, to_port: 80, peers: [{ device_id: app?.id }] }],
  });
  expect(await explain(`from=${app?.id}&to=${web?.id}&port=80`)).toMatchObject({
    verdict: 'refused',
    in_force: false,
    sides: [
      { verdict: 'allowed' },
      {
        verdict: 'refused',
        reason: 'forbid',
        group_id: guardrail.id,
        peer: { device_id: app?.id },
        void_rules: [{ group_id: group.id, rule: 0 }],
        in_force: 'offline',
      },
    ],
  });
  // A rule that names a deleted device admits nothing, and is reported (reference 2.13 (5)).
  const gone = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'goes' });
  const peer = { device_id: gone.id };
  await api.expect(200, 'PATCH', `${place.base}/security_groups/${group.id}`, {
    inbound_rules: [group.inbound_rules[0], { ip_protocol: 'tcp', from_port: 81, to_port: 81, peers: [peer] }],
  });
  await api.expect(200, 'DELETE', `${place.base}/devices/${gone.id}`);
  const [side] = (await explain(`from=203.0.113.9&to=${web?.id}&port=81`)).sides;
  expect(side).toMatchObject({ reason: 'no-rule', peer_gone: [{ group_id: group.id, rule: 1, peer }] });
  const refused: readonly [string, string, string][] = [
    ['from=x&to=100.64.1.1&port=80', '/from', 'address_invalid'],
    [`from=${place.org}&to=${web?.id}&port=80`, '/from', 'device_unknown'],
    [`from=${app?.id}&to=2001:db8::1&port=80`, '/to', 'family_contradiction'],
    ['from=203.0.113.9&to=203.0.113.8&port=80', '/to', 'device_unknown'],
    [`from=${app?.id}&to=${web?.id}`, '/port', 'missing_field'],
    [`from=${app?.id}&to=${web?.id}&protocol=icmp&port=1`, '/port', 'contradiction'],
    [`from=${app?.id}&to=${web?.id}&protocol=256`, '/protocol', 'unknown_protocol'],
  ];
  for (const [query, pointer, code] of refused) {
    expect([query, (await explain(query, 422)).errors]).toMatchObject([query, [{ pointer, code }]]);
  }
});

/** A request that waits: its connection, and what has been answered. */
function waitOn(server: TestServer, place: Place): { readonly socket: Socket; answered: string } {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  const wait = { socket, answered: '' };
  socket.on('data', (chunk: Buffer) => (wait.answered += chunk.toString())).on('error', () => {});
  const authorization = `Authorization: Bearer ${place.owner.token}`;
  socket.write(`GET ${place.base}/convergence?wait=120 HTTP/1.1\r\nHost: x\r\n${authorization}\r\n\r\n`);
  return wait;
}

test('a user waits so often at a time and no more; a wait ends with its connection', async () => {
  const { api, place, devices } = await setUp(1);
  const statusOf = async (asker: Api): Promise<number> => (await asker.get(`${place.base}/convergence?wait=1`)).status;
  const waits = Array.from({ length: 6 }, () => waitOn(stage.server, place));
  const refused = (): readonly string[] => waits.map(({ answered }) => answered).filter((answer) => answer !== '');
  await expect.poll(() => refused().length).toBe(3);
  for (const answer of refused()) {
    expect(answer).toMatch(/^HTTP\/1.1 429 /);
    expect(answer).toMatch(/retry-after: [1-9]/i);
    expect(answer).toContain('"code":"rate_limited"');
  }
  expect(await statusOf(api)).toBe(429);
  // Another token of the same user does not help. Another user, a device and a request without a wait are not affected.
  const { token } = await api.expect(201, 'POST', '/api/users/me/tokens', {});
  expect(await statusOf(stage.server.nobody.as(token))).toBe(429);
  expect(await statusOf(stage.server.nobody.as(place.member.token))).toBe(200);
  expect(await statusOf(stage.server.nobody.as(devices[0]?.token ?? ''))).toBe(200);
  expect((await api.get(`${place.base}/convergence`)).status).toBe(200);
  for (const { socket } of waits) socket.destroy();
  await expect.poll(() => statusOf(api)).toBe(200);
});

test('the overview counts the fleet, names the worst first, and adds up what devices counted on every server', async () => {
  const { place, api, group, devices, applied } = await setUp(4);
  const [good, bad, old] = devices;
  const overview = (query = '', by: Api = api): Promise<Json> =>
    by.expect(200, 'GET', `${place.base}/overview${query}`);
  expect(await overview()).toMatchObject({ devices: 4, in_force: 0, never_seen: 4, online: 0, samples: [] });
  const packets = { admitted: 30, refused: 2 };
  const { revision } = await api.expect(200, 'GET', place.base);
  const status = await good?.report(stage.server.nobody, { ...applied(group, revision), packets });
  expect(status?.status.packets).toEqual(packets);
  await bad?.report(second.nobody, { state: 'failed', detail: 'no nft', packets: { admitted: 0, refused: 5 } });
  await old?.report(second.nobody, { state: 'applied', revision: 1 });
  const seen = await overview('?hours=1', place.member.api);
  expect(seen).toMatchObject({ devices: 4, in_force: 1, failed: 1, offline: 1, never_seen: 1, sample_seconds: 300 });
  expect(seen.urgent.map((one: Json) => one.in_force)).toEqual(['failed', 'offline', 'never_seen']);
  expect(seen.urgent[0].detail).toBe('no nft');
  // Samples may fall into two steps of time.
  const sum = async (name: string): Promise<number> =>
    (await overview()).samples.reduce((total: number, sample: Json) => total + (sample[name] as number), 0);
  await expect.poll(() => sum('refused')).toBe(7);
  const counted = `ringfence_refused_packets_total{organization="${place.org}"}`;
  expect((await stage.server.nobody.get('/metrics')).text).toContain(`${counted} 2\n`);
  expect(await sum('admitted')).toBe(30);
  await expect.poll(async () => (await overview()).samples.at(-1)?.devices).toBe(4);
  expect((await overview()).samples.at(-1).in_force).toBeLessThanOrEqual(1);
  // What was counted is the fleet's, not a part of what the device says of itself.
  const statuses = await api.expect(200, 'GET', `${place.base}/device_statuses`);
  expect(JSON.stringify(statuses)).not.toContain('packets');
  expect((await overview('?hours=336')).sample_seconds).toBe(4_200);
  await api.expect(422, 'GET', `${place.base}/overview?hours=337`);
  // Where agents record what they refuse, only their reports of traffic count.
  await place.owner.api.expect(200, 'PATCH', place.base, { observe: 'refused' });
  await good?.report(stage.server.nobody, { ...applied(group, revision), packets });
  expect((await stage.server.nobody.get('/metrics')).text).toContain(`${counted} 2\n`);
  await api.expect(200, 'DELETE', place.base);
  await api.expect(404, 'GET', `${place.base}/overview`);
});
