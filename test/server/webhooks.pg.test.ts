/**
 * Proves alerts end to end: a real server notifies a real receiver, once each, through failures, restarts and several
 * servers (reference 4.9).
 */
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { alertEvents } from '../../src/api/alerts/events.ts';
import { makeWorld, query } from '../../src/server/store/store.fixture.ts';
import type { Json } from '../lib/http.ts';
import {
  newPerson,
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
  type TestServerOptions,
} from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly json: Json;
}

let postgres: TestPostgres;
let receiver: Server;
let where: string;
let received: Received[] = [];
/** The statuses of the next answers; 200 when there are no more. */
let answers: number[] = [];
let servers: TestServer[] = [];
/** Requests that are never answered. */
let hanging = 0;

beforeAll(async () => {
  postgres = await startPostgres();
  receiver = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      if (request.url === '/hang') {
        hanging += 1;
        return;
      }
      received.push({ headers: request.headers, body, json: JSON.parse(body) });
      response.writeHead(answers.shift() ?? 200, { location: `http://${where}/elsewhere` }).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  where = `127.0.0.1:${(receiver.address() as AddressInfo).port}`;
});
afterAll(async () => {
  receiver?.closeAllConnections();
  receiver?.close();
  await postgres?.stop();
});
beforeEach(() => {
  received = [];
  answers = [];
});
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  servers = [];
});

const quick = { settleMs: 0, scanEveryMs: 20, workEveryMs: 10, firstRetryMs: 20, longestRetryMs: 50 };
async function start(options: TestServerOptions = {}): Promise<TestServer> {
  const webhookHosts = [
    { kind: 'exact', scheme: 'http:', host: '127.0.0.1', port: where.split(':')[1] ?? '' },
  ] as const;
  const server = await startTestServer(postgres, { webhookHosts, webhooks: quick, ...options });
  servers.push(server);
  return server;
}
const stop = (server: TestServer): Promise<void> => {
  servers = servers.filter((one) => one !== server);
  return server.close();
};

/** Waits for a condition, never for a time. */
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}

const makeHook = ({ owner, base }: Place, more: object = {}): Promise<Json> =>
  owner.api.expect(201, 'POST', `${base}/webhooks`, { url: `http://${where}/hook`, events: alertEvents, ...more });
const makeDevice = ({ owner, base }: Place, name: string): Promise<Json> =>
  owner.api.expect(201, 'POST', `${base}/devices`, { public_key: name, hostname: name });
const report = (server: TestServer, { base }: Place, device: Json, status: object): Promise<Json> =>
  server.nobody.as(device.device_token).expect(200, 'PUT', `${base}/devices/${device.id}/status`, status);

function expectSigned({ headers, body }: Received, secret: string): void {
  const text = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(text).digest('base64')}`);
}

test('a device that fails is told of once, signed; when it fails again, again', async () => {
  const server = await start();
  const place = await newPlace(server);
  const device = await makeDevice(place, 'edge');
  const { secret, ...hook } = await makeHook(place);
  await report(server, place, device, { state: 'failed', detail: 'no nft' });
  await until(() => received.length > 0);
  expect(received[0]?.json).toEqual({
    type: 'device.failed',
    timestamp: expect.any(String),
    data: {
      organization_id: place.org,
      webhook_id: hook.id,
      device_id: device.id,
      hostname: 'edge',
      in_force: 'failed',
      detail: 'no nft',
    },
  });
  for (const one of received) expectSigned(one, secret);
  expect(await place.owner.api.expect(200, 'GET', `${place.base}/webhooks/${hook.id}`)).toEqual(hook);

  await report(server, place, device, { state: 'applied' });
  await until(async () => (await query(server.databaseUrl, 'SELECT FROM webhook_conditions')).length === 0);
  await report(server, place, device, { state: 'failed' });
  await until(() => received.filter(({ json }) => json.type === 'device.failed').length === 2);
  expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(received.length);
});

test('devices are judged by what the server knows: wrong digests, policies put back, and presence on any server', async () => {
  const url = await postgres.freshUrl();
  const [server, second] = [await start({ url }), await start({ url, webhookHosts: [] })];
  const place = await newPlace(server);
  const [wrong, reverted, away, connected] = [
    await makeDevice(place, 'wrong'),
    await makeDevice(place, 'reverted'),
    await makeDevice(place, 'away'),
    await makeDevice(place, 'connected'),
  ];
  await makeDevice(place, 'never-seen');
  const { revision } = await place.owner.api.expect(200, 'GET', `${place.base}/convergence`);
  await report(server, place, wrong, {
    state: 'applied',
    revision,
    policy_digest: '0'.repeat(64),
    policy_digest_form: digestForm,
  });
  await report(second, place, reverted, { state: 'reverted', revision, detail: 'lost its way to the server' });
  await report(second, place, away, { state: 'starting' });
  await report(second, place, connected, { state: 'starting' });
  const stream = await new EventStream(second.url, connected.device_token, place.org, [{ kind: 'device' }]).tail(1);
  const isOnline = async (): Promise<boolean> => {
    const all: Json[] = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
    return all.some(({ device_id, online }) => device_id === connected.id && online);
  };
  await until(isOnline);
  /** As if its last report had come an hour ago. */
  const age = ({ id }: Json) =>
    query(
      url,
      `UPDATE device_status SET reported_at = reported_at - interval '1 hour', transaction_id = pg_current_xact_id() WHERE device_id = '${id}'`,
    );
  await age(away);
  await age(connected);
  await makeHook(place, { offline_after: 600 });
  await until(() => received.length >= 3);
  const told = received.map(({ json: { type, data } }) => [type, data.hostname, data.in_force, data.code]);
  expect(told.toSorted(([a], [b]) => (a < b ? -1 : 1))).toEqual([
    ['device.failed', 'wrong', 'failed', 'digest_differs'],
    ['device.offline', 'away', 'offline', undefined],
    ['device.reverted', 'reverted', 'reverted', undefined],
  ]);

  // A device that returns and goes away again raises a new alert; a device with an open stream never does.
  await report(second, place, away, { state: 'starting' });
  await until(async () => (await query(url, 'SELECT FROM webhook_conditions')).length === 2);
  await age(away);
  await until(() => received.length >= 4);
  expect(received.filter(({ json }) => json.type === 'device.offline').map(({ json }) => json.data.hostname)).toEqual([
    'away',
    'away',
  ]);
  stream.close();
});

test('what a receiver does not take is sent again under the same id until it does; a redirect is not followed', async () => {
  answers = [500, 302, 200];
  const server = await start();
  const place = await newPlace(server);
  const hook = await makeHook(place);
  const { id } = await place.owner.api.expect(200, 'POST', `${place.base}/webhooks/${hook.id}/test`);
  const path = `${place.base}/webhooks/${hook.id}/deliveries`;
  await until(async () => (await place.owner.api.expect(200, 'GET', path))[0].state === 'delivered');
  expect(received.map(({ headers }) => headers['webhook-id'])).toEqual([id, id, id]);
  expect(new Set(received.map(({ body }) => body)).size).toBe(1);
  expect(await place.owner.api.expect(200, 'GET', path)).toMatchObject([{ id, event: 'test', attempts: 3 }]);
});

test('a server that is stopped and started again loses nothing, also of what happened in between', async () => {
  const url = await postgres.freshUrl();
  const first = await start({ url });
  const place = await newPlace(first);
  const devices = await Promise.all(['a', 'b', 'c'].map((name) => makeDevice(place, name)));
  await makeHook(place);
  answers = Array.from({ length: 1_000 }, () => 503);
  for (const device of devices) await report(first, place, device, { state: 'failed' });
  await until(() => new Set(received.map(({ headers }) => headers['webhook-id'])).size === 3);
  await stop(first);

  const quiet = await start({ url, webhookHosts: [] });
  await report(quiet, place, devices[0], { state: 'failed', drift_repairs: 2 });
  await stop(quiet);
  const before = new Set(received.map(({ headers }) => headers['webhook-id']));
  received = [];
  answers = [];
  await start({ url });
  await until(() => received.length >= 4);
  const after = new Set(received.map(({ headers }) => headers['webhook-id']));
  expect([...before].every((id) => after.has(id))).toBe(true);
  expect(received.some(({ json }) => json.type === 'device.drift_repaired')).toBe(true);
});

test('several servers deliver each alert, and normally once', async () => {
  const url = await postgres.freshUrl();
  const [first] = [await start({ url }), await start({ url }), await start({ url })];
  const place = await newPlace(first);
  const devices = await Promise.all(Array.from({ length: 30 }, (_, n) => makeDevice(place, `d${n}`)));
  const hook = await makeHook(place);
  await Promise.all(devices.map((device) => report(first, place, device, { state: 'failed' })));
  const path = `${place.base}/webhooks/${hook.id}/deliveries`;
  await until(async () => {
    const list: Json[] = await place.owner.api.expect(200, 'GET', path);
    return list.length >= 30 && list.every(({ state }) => state === 'delivered');
  });
  const sorted = (ids: readonly string[]): readonly string[] => ids.toSorted((a, b) => (a < b ? -1 : 1));
  expect(sorted(received.map(({ json }) => json.data.device_id))).toEqual(sorted(devices.map(({ id }) => id)));
});

test('a process looks at what it looked at before sooner than others may, and at the rest when they are late', async () => {
  let now = Date.now();
  const { store, org, owner } = await makeWorld(postgres, { clock: () => now });
  const fields = { name: '', url: 'https://x', events: alertEvents, offline_after: 900, secret: 'whsec_' };
  const { id } = await store.webhooks.create(org, owner, fields);
  const claim = async (...ids: (typeof id)[]) =>
    (await store.webhooks.claimScan(1_000, { ids, everyMs: 800 }, { without: [] }))?.look;
  now += 1_000;
  const first = await claim();
  expect(first).toBeGreaterThan(0);
  now += 799;
  expect([await claim(), await claim(id)]).toEqual([undefined, undefined]);
  now += 1;
  expect([await claim(), await claim(id), await claim(id)]).toEqual([undefined, (first ?? 0) + 1, undefined]);
  now += 1_000;
  expect(await claim()).toBe((first ?? 0) + 2);
});

test('a receiver that never answers delays the alerts of its own organization only', async () => {
  const server = await start({ webhooks: { ...quick, timeoutMs: 3_600_000, leaseMs: 7_200_000 } });
  const [slow, honest] = [await newPlace(server), await newPlace(server)];
  await makeHook(slow, { url: `http://${where}/hang` });
  const failing = async (place: Place, count: number): Promise<void> => {
    const devices = await Promise.all(Array.from({ length: count }, (_, i) => makeDevice(place, `host-${i}`)));
    await Promise.all(devices.map((device) => report(server, place, device, { state: 'failed' })));
  };
  // More than a process ever had in hand at a time.
  await failing(slow, 20);
  await until(async () => {
    const rows = await query(server.databaseUrl, `SELECT FROM webhook_deliveries WHERE event = 'device.failed'`);
    return rows.length === 20 && hanging > 0;
  });
  await makeHook(honest);
  await failing(honest, 6);
  await until(() => received.filter(({ json }) => json.type === 'device.failed').length === 6);
  expect(received.every(({ json }) => json.data.organization_id === honest.org)).toBe(true);
  expect(hanging).toBeLessThanOrEqual(4);
});

/** A receiver of raw connections that answers as the path of the request says: whatever keeps a delivery open. */
async function startHostile() {
  const sockets = new Set<Socket>();
  const counts = { taken: 0 };
  const texts: Readonly<Record<string, string>> = {
    switch: 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
    interim: 'HTTP/1.1 100 Continue\r\n\r\n',
    headers: 'HTTP/1.1 200 OK\r\nx: ',
    silent: '',
  };
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    socket.once('data', (head: Buffer) => {
      counts.taken += 1;
      socket.write(texts[/^POST \/(\w+)/.exec(head.toString())?.[1] ?? ''] ?? '');
      socket.on('data', () => {});
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { counts, kinds: Object.keys(texts), port: String((server.address() as AddressInfo).port) };
}

test('one user with many organizations, whose receivers switch protocols or never answer, stops the alerts of nobody else and no shutdown', async () => {
  const hostile = await startHostile();
  const hostOf = (port: string) => ({ kind: 'exact', scheme: 'http:', host: '127.0.0.1', port }) as const;
  const server = await start({
    webhookHosts: [hostOf(where.split(':')[1] ?? ''), hostOf(hostile.port)],
    // No deadline ends them: others get their share all the same.
    webhooks: { ...quick, slowMs: 50, timeoutMs: 3_600_000, leaseMs: 7_200_000 },
  });
  const attacker = await newPerson(server, 'attacker');
  // More deliveries than a process has places, each organization within its own share.
  const organizations = Array.from({ length: 20 }, (_, n) => hostile.kinds[n % hostile.kinds.length]);
  for (const kind of organizations) {
    const { id } = await attacker.api.expect(201, 'POST', '/api/organizations', { name: 'evil' });
    const base = `/api/organizations/${id}`;
    const url = `http://127.0.0.1:${hostile.port}/${kind}`;
    const hook = await attacker.api.expect(201, 'POST', `${base}/webhooks`, { url, events: ['device.failed'] });
    const tests = Array.from({ length: 4 }, () =>
      attacker.api.expect(200, 'POST', `${base}/webhooks/${hook.id}/test`, undefined),
    );
    await Promise.all(tests);
  }
  await until(() => hostile.counts.taken >= 64);
  const honest = await newPlace(server);
  const hook = await makeHook(honest);
  const { id } = await honest.owner.api.expect(200, 'POST', `${honest.base}/webhooks/${hook.id}/test`);
  await until(() => received.length > 0);
  expect(received.map(({ headers }) => headers['webhook-id'])).toEqual([id]);
  await stop(server);
});

test('only owners have them, within the hosts that the operator allows', async () => {
  const server = await start();
  const place = await newPlace(server);
  const { owner, member, base } = place;
  const body = (url: string) => ({ url, events: ['device.failed'] });
  expect(await member.api.status('POST', `${base}/webhooks`, { body: body(`http://${where}/`) })).toBe(403);
  for (const [url, code] of [
    ['https://other.example/', 'host_not_allowed'],
    ['http://127.0.0.1:1/', 'host_not_allowed'],
    ['http://localhost/', 'host_not_allowed'],
    ['file:///etc/passwd', 'not_a_url'],
    ['hooks', 'not_a_url'],
    [`http://user:secret@${where}/`, 'not_a_url'],
  ] as const) {
    expect((await owner.api.expect(422, 'POST', `${base}/webhooks`, body(url))).errors[0], url).toMatchObject({
      pointer: '/url',
      code,
    });
  }
  const hook = await makeHook(place, { name: 'pager' });
  const path = `${base}/webhooks/${hook.id}`;
  expect((await owner.api.expect(422, 'PATCH', path, { url: 'https://other.example/' })).errors[0].code).toBe(
    'host_not_allowed',
  );
  expect(await owner.api.expect(200, 'PATCH', path, { events: ['device.offline'], offline_after: 1200 })).toMatchObject(
    {
      name: 'pager',
      events: ['device.offline'],
      offline_after: 1200,
    },
  );
  expect(JSON.stringify(await owner.api.expect(200, 'GET', `${base}/webhooks`))).not.toContain('whsec_');
  expect(JSON.stringify(await owner.api.expect(200, 'GET', `${base}/audit`))).not.toContain('whsec_');
  expect((await owner.api.expect(200, 'DELETE', path)).id).toBe(hook.id);
  expect(await owner.api.status('GET', path)).toBe(404);
  expect(server.logged()).not.toContain(hook.secret);

  const off = await start({ webhookHosts: [] });
  const elsewhere = await newPlace(off);
  const problem = await elsewhere.owner.api.expect(422, 'POST', `${elsewhere.base}/webhooks`, body(`http://${where}/`));
  expect(problem.errors[0].detail).toContain('--webhook-hosts');
});

test('a webhook is tested so often in a minute and no more, and others are not concerned', async () => {
  const server = await start();
  const place = await newPlace(server);
  const [hook, other] = [await makeHook(place), await makeHook(place)];
  const statusOf = ({ id }: Json): Promise<number> =>
    place.owner.api.status('POST', `${place.base}/webhooks/${id}/test`);
  const statuses: number[] = [];
  for (let asked = 0; asked < 12; asked += 1) statuses.push(await statusOf(hook));
  expect(statuses).toEqual([...Array<number>(10).fill(200), 429, 429]);
  const refused = await place.owner.api.post(`${place.base}/webhooks/${hook.id}/test`);
  expect([refused.json.code, refused.headers['retry-after']]).toEqual(['rate_limited', '60']);
  expect(await statusOf(other)).toBe(200);
  await until(() => received.length === 11);
});

test('a surge of refused packets is told of once and again when it returns, and so is the start and each end of a trial', async () => {
  const server = await start();
  const place = await newPlace(server);
  const { owner, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'refused' });
  const device = await makeDevice(place, 'edge');
  await makeHook(place);
  let now = Date.now() - 40 * 60_000;
  const refuse = async (packets: number, minutes = 1): Promise<void> => {
    now += minutes * 60_000;
    const tuple = { direction: 'in', verdict: 'refused', far: '100.64.0.7', protocol: 'tcp', port: 22, packets };
    await server.nobody.as(device.device_token).expect(200, 'POST', `${base}/devices/${device.id}/flows`, {
      since: new Date(now - 60_000).toISOString(),
      until: new Date(now).toISOString(),
      observed: 'refused',
      tuples: [tuple],
      not_recorded: 0,
    });
  };
  const surges = (): Json[] => received.map(({ json }) => json).filter(({ type }) => type === 'device.refused_surge');
  // Ten times the usual 20 packets, but not known for ten reports; then 10 minutes ago, so that it is over by now.
  for (let count = 0; count < 9; count += 1) await refuse(20);
  await refuse(199);
  for (let count = 0; count < 10; count += 1) await refuse(20);
  await refuse(900);
  expect(await query(server.databaseUrl, 'SELECT surge_since IS NULL AS none FROM refusal_levels')).toEqual([
    { none: false },
  ]);
  now = Date.now() - 4 * 60_000;
  await refuse(1_000);
  await refuse(1_100);
  await until(() => surges().length > 0);
  expect(surges()[0].data).toMatchObject({ device_id: device.id, hostname: 'edge' });
  expect(surges()[0].data.refused_per_minute).toBeGreaterThanOrEqual(1_000);
  expect(surges()[0].data.usual_per_minute).toBeLessThan(100);
  // It ends by time; a later one is another.
  await query(server.databaseUrl, `UPDATE refusal_levels SET surge_until = now() - interval '1 minute'`);
  await until(async () => (await query(server.databaseUrl, 'SELECT FROM webhook_conditions')).length === 0);
  await refuse(2_000);
  await until(() => surges().length === 2);

  const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'tried' });
  const path = `${base}/security_groups/${group.id}`;
  const attempt = async (port: number, seconds: number): Promise<string> => {
    const body = { inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] };
    return (await owner.api.expect(200, 'PATCH', `${path}?confirm_within=${seconds}`, body)).trial.id;
  };
  const told = (type: string, id: string): boolean =>
    received.filter(({ json }) => json.type === type && json.data.trial_id === id).length === 1;
  const confirmed = await attempt(1, 600);
  await until(() => told('trial.started', confirmed));
  await owner.api.expect(200, 'POST', `${base}/trials/${confirmed}/confirm`);
  const reverted = await attempt(2, 600);
  await owner.api.expect(200, 'POST', `${base}/trials/${reverted}/revert`);
  const expired = await attempt(3, 10);
  await query(server.databaseUrl, `UPDATE trials SET ends_at = now() WHERE id = '${expired}'`);
  await until(() => told('trial.confirmed', confirmed) && told('trial.reverted', reverted));
  await until(() => told('trial.expired', expired));
  expect(surges()).toHaveLength(2);
});

test('a trial that begins before the first look at a webhook is told of, and one that ended before the webhook was made is not', async () => {
  const url = await postgres.freshUrl();
  // It takes webhooks, and never looks at them.
  const first = await start({ url, webhooks: { ...quick, settleMs: 3_600_000 } });
  const place = await newPlace(first);
  const { owner, base } = place;
  const attempt = async (name: string): Promise<string> => {
    const { id } = await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: name });
    const path = `${base}/security_groups/${id}?confirm_within=600`;
    return (await owner.api.expect(200, 'PATCH', path, { group_description: 'tried' })).trial.id;
  };
  const before = await attempt('before');
  await owner.api.expect(200, 'POST', `${base}/trials/${before}/revert`);
  await makeHook(place);
  const after = await attempt('after');
  await start({ url });
  const told = (): readonly unknown[] => received.map(({ json: { type, data } }) => [type, data.trial_id]);
  await until(() => told().length > 0);
  await owner.api.expect(200, 'POST', `${base}/trials/${after}/confirm`);
  await until(() => told().length > 1);
  expect(told()).toEqual([
    ['trial.started', after],
    ['trial.confirmed', after],
  ]);
});

test.each([
  [
    'demoted',
    (place: Place, _server: TestServer) =>
      place.owner.api.expect(200, 'PATCH', `${place.base}/members/${place.member.id}`, { role: 'member' }),
  ],
  [
    'removed from the organization',
    (place: Place) => place.owner.api.expect(200, 'DELETE', `${place.base}/members/${place.member.id}`),
  ],
  [
    'removed from the server',
    (place: Place, server: TestServer) => server.admin.expect(200, 'DELETE', `/api/users/${place.member.id}`),
  ],
] as const)(
  'the webhook of an owner who is %s sends nothing, and says why, until another owner confirms it',
  async (_how, end) => {
    const server = await start();
    const place = await newPlace(server);
    const { owner, member, base } = place;
    await owner.api.expect(200, 'PATCH', `${base}/members/${member.id}`, { role: 'owner' });
    const kept = await makeHook(place);
    const { secret: _secret, ...hook } = await makeHook({ ...place, owner: member });
    const path = `${base}/webhooks/${hook.id}`;
    const toldBy = (id: string): number =>
      received.filter(({ json }) => json.data.webhook_id === id && json.type === 'device.failed').length;
    const fail = async (name: string): Promise<void> => {
      await report(server, place, await makeDevice(place, name), { state: 'failed' });
    };
    await fail('before');
    await until(() => toldBy(hook.id) === 1 && toldBy(kept.id) === 1);

    await end(place, server);
    expect(await owner.api.expect(200, 'GET', path)).toEqual({
      ...hook,
      updated_at: expect.any(String),
      paused: { since: expect.any(String), reason: 'owner_ended', user_id: member.id },
    });
    expect((await owner.api.expect(200, 'GET', `${base}/webhooks/${kept.id}`)).paused).toBeUndefined();
    // The other one is looked at again and again meanwhile.
    for (const [index, name] of ['first', 'second', 'third'].entries()) {
      await fail(name);
      await until(() => toldBy(kept.id) === index + 2);
    }
    expect(toldBy(hook.id)).toBe(1);
    expect(await owner.api.expect(409, 'POST', `${path}/test`)).toMatchObject({ code: 'conflict' });
    await owner.api.expect(422, 'PATCH', path, { paused: true });
    await owner.api.expect(200, 'PATCH', path, { name: 'not confirmed by this' });
    expect((await owner.api.expect(200, 'GET', path)).paused).toBeDefined();

    expect(await owner.api.expect(200, 'PATCH', path, { paused: false })).not.toHaveProperty('paused');
    await until(() => toldBy(hook.id) === 4);
  },
);
