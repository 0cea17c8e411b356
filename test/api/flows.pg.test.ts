/** Proves what agents report of the traffic and who may read it, over HTTP and against a real database (reference 4.17). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Api, Json } from '../lib/http.ts';
import {
  newPlace,
  startPostgres,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
} from '../lib/server.ts';

let postgres: TestPostgres;
let server: TestServer;
beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres);
});
afterAll(async () => {
  await server.close();
  await postgres.stop();
});

interface Agent {
  readonly id: string;
  readonly path: string;
  readonly api: Api;
  readonly token: string;
}

async function newAgent({ base }: Place, user: Api, body: object): Promise<Agent> {
  const { id, device_token } = await user.expect(201, 'POST', `${base}/devices`, body);
  return { id, path: `${base}/devices/${id}/flows`, api: server.nobody.as(device_token), token: device_token };
}

let serial = 0;
const key = (): string => `flows-${(serial += 1)}`;

const minuteAgo = (minutes: number, now = Date.now()): string => new Date(now - minutes * 60_000).toISOString();
const reportOf = (tuples: readonly object[], more: object = {}): object => {
  // One look at the clock: a report of a minute and a millisecond is one of two minutes.
  const now = Date.now();
  const times = { since: minuteAgo(1, now), until: minuteAgo(0, now) };
  return { ...times, observed: 'all', tuples, not_recorded: 0, ...more };
};
const refusedTuple = {
  direction: 'in',
  verdict: 'refused',
  far: '100.64.0.7',
  protocol: 'tcp',
  port: 5432,
  packets: 3,
} as const;
const admittedTuple = { ...refusedTuple, verdict: 'admitted', direction: 'out', port: 443, packets: 1 } as const;

test('owners set what agents record and how refusals answer, the audit has it, and every agent is told with its next report', async () => {
  const place = await newPlace(server);
  const { owner, member, base } = place;
  expect(await owner.api.expect(200, 'GET', base)).toMatchObject({ observe: 'counters', refuse_with: 'drop' });
  await member.api.expect(403, 'PATCH', base, { observe: 'all' });
  for (const bad of [{ observe: 'some' }, { refuse_with: 'tarpit' }, { observe: null }]) {
    await owner.api.expect(422, 'PATCH', base, bad);
  }
  const agent = await newAgent(place, member.api, { public_key: key() });
  const status = (): Promise<Json> =>
    agent.api.expect(200, 'PUT', `${base}/devices/${agent.id}/status`, { state: 'starting' });
  expect((await status()).settings).toEqual({ observe: 'counters', refuse_with: 'drop' });
  const { revision } = await owner.api.expect(200, 'GET', base);
  const changed = await owner.api.expect(200, 'PATCH', base, { observe: 'refused', refuse_with: 'reject' });
  expect(changed).toMatchObject({ observe: 'refused', refuse_with: 'reject', revision: revision + 1 });
  expect((await status()).settings).toEqual({ observe: 'refused', refuse_with: 'reject' });
  // The same again is no change.
  expect((await owner.api.expect(200, 'PATCH', base, { observe: 'refused' })).revision).toBe(revision + 1);
  const entries: Json[] = await owner.api.expect(200, 'GET', `${base}/audit`);
  expect(entries.find(({ after }) => after?.observe !== undefined)).toMatchObject({
    operation: 'updateOrganization',
    user_id: owner.id,
    before: { observe: 'counters', refuse_with: 'drop' },
    after: { observe: 'refused', refuse_with: 'reject' },
  });
});

test('packet counts are kept while the organization observes, and dropped with off, whatever an agent sends', async () => {
  const place = await newPlace(server);
  const { owner, base } = place;
  const agent = await newAgent(place, owner.api, { public_key: key() });
  const [group] = (await owner.api.expect(200, 'GET', base)).security_groups as string[];
  const group_packets = [{ group_id: group, inbound: 5, outbound: 7 }];
  const reported = async (): Promise<Json> => {
    const body = { state: 'starting', packets: { admitted: 3, refused: 4 }, group_packets };
    await agent.api.expect(200, 'PUT', `${base}/devices/${agent.id}/status`, body);
    return (await owner.api.expect(200, 'GET', `${base}/device_statuses`))[0].status;
  };
  expect(await reported()).toEqual({ state: 'starting', group_packets });
  await owner.api.expect(200, 'PATCH', base, { observe: 'off' });
  expect(await reported()).toEqual({ state: 'starting' });
});

test('a change of the settings asks every agent on its stream to report, and the answer has them', async () => {
  const place = await newPlace(server);
  const agent = await newAgent(place, place.owner.api, { public_key: key() });
  const ended = new AbortController();
  const response = await fetch(`${server.url}${place.base}/events`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${agent.token}`,
      'content-type': 'application/json',
      prefer: 'report-lines',
    },
    body: JSON.stringify([{ kind: 'device', view: 'identity' }]),
    signal: ended.signal,
  });
  const { revision } = await place.owner.api.expect(200, 'PATCH', place.base, { observe: 'all' });
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk).toString();
    if (text.includes('"report"')) break;
  }
  ended.abort();
  expect(text).toContain(`{"type":"report","revision":${revision}}`);
});

test('an agent reports only for itself, and the server keeps only what the organization observes', async () => {
  const place = await newPlace(server);
  const { owner, member, base } = place;
  const [agent, other] = [
    await newAgent(place, member.api, { public_key: key() }),
    await newAgent(place, owner.api, { public_key: key() }),
  ];
  const tuples = [refusedTuple, admittedTuple];
  const send = (more: object = {}): Promise<Json> => agent.api.expect(200, 'POST', agent.path, reportOf(tuples, more));
  expect(await send()).toEqual({
    device_id: agent.id,
    received: 0,
    settings: { observe: 'counters', refuse_with: 'drop' },
  });
  await owner.api.expect(200, 'PATCH', base, { observe: 'refused' });
  expect((await send()).received).toBe(1);
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  expect((await send()).received).toBe(2);
  await agent.api.expect(403, 'POST', other.path, reportOf(tuples));
  for (const person of [owner, member]) await person.api.expect(403, 'POST', agent.path, reportOf(tuples));
  await owner.api.expect(200, 'DELETE', `${base}/devices/${agent.id}`);
  await agent.api.expect(401, 'POST', agent.path, reportOf(tuples));
});

test('what cannot be is refused with its place, and a report holds no more than its time allows', async () => {
  const place = await newPlace(server);
  await place.owner.api.expect(200, 'PATCH', place.base, { observe: 'all' });
  const agent = await newAgent(place, place.owner.api, { public_key: key() });
  const rows: readonly (readonly [object, string])[] = [
    [reportOf([{ ...refusedTuple, far: 'db-1' }]), '/tuples/0/far'],
    [reportOf([refusedTuple, { ...refusedTuple, far: '10.0.0.0/8' }]), '/tuples/1/far'],
    [reportOf([{ ...refusedTuple, port: undefined }]), '/tuples/0/port'],
    [reportOf([{ ...refusedTuple, protocol: 'icmp' }]), '/tuples/0/port'],
    [reportOf([{ ...refusedTuple, port: 65_536 }]), '/tuples/0/port'],
    [reportOf([{ ...refusedTuple, protocol: '256' }]), '/tuples/0/protocol'],
    [reportOf([{ ...refusedTuple, packets: 0 }]), '/tuples/0/packets'],
    [reportOf([{ ...refusedTuple, payload: 'x' }]), '/tuples/0/payload'],
    [reportOf([], { since: minuteAgo(0), until: minuteAgo(1) }), '/until'],
    [reportOf([], { since: minuteAgo(62) }), '/until'],
    [reportOf([], { observed: 'counters' }), '/observed'],
  ];
  for (const [body, pointer] of rows) {
    const { errors } = await agent.api.expect(422, 'POST', agent.path, body);
    expect(errors[0].pointer).toBe(pointer);
  }
  const far = (index: number): string => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
  const fill = (count: number) => Array.from({ length: count }, (_, index) => ({ ...refusedTuple, far: far(index) }));
  const { errors } = await agent.api.expect(422, 'POST', agent.path, reportOf(fill(4_097)));
  expect(errors).toMatchObject([{ pointer: '/tuples', code: 'too_many_items' }]);
  const times = { since: minuteAgo(2), until: minuteAgo(0) };
  expect(await agent.api.expect(200, 'POST', agent.path, reportOf(fill(4_097), times))).toMatchObject({
    received: 4_097,
  });
  const all = [4, 6].flatMap((family) =>
    ['in', 'out'].flatMap((direction) =>
      Array.from({ length: 4_096 }, (_, index) => ({
        ...refusedTuple,
        direction,
        far: family === 4 ? far(index) : `fd00::${index.toString(16)}`,
      })),
    ),
  );
  const full = reportOf(all, { since: minuteAgo(3), until: minuteAgo(2) });
  expect((await agent.api.expect(200, 'POST', agent.path, full)).received).toBe(16_384);
  await agent.api.expect(422, 'POST', agent.path, reportOf([...all, refusedTuple]));
});

test('a refusal names the nearest rule and what did not match, an admission its rule, and far ends their devices', async () => {
  const place = await newPlace(server);
  const { owner, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const group = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'db',
    inbound_rules: [
      { ip_protocol: 'udp', from_port: 53, to_port: 53 },
      { ip_protocol: 'tcp', from_port: 5432, to_port: 5432, peers: [{ labels: ['app'] }] },
    ],
  });
  const db = await newAgent(place, owner.api, {
    public_key: key(),
    hostname: 'db-1',
    tunnel_ip: '100.64.0.1',
    security_groups: [group.id],
  });
  const [app, web] = await Promise.all(
    [
      { hostname: 'app-1', tunnel_ip: '100.64.0.7', labels: ['app', 'prod'] },
      { hostname: 'web-1', tunnel_ip: '100.64.0.8' },
    ].map((body) => newAgent(place, owner.api, { public_key: key(), ...body })),
  );
  await db.api.expect(
    200,
    'POST',
    db.path,
    reportOf([
      { ...refusedTuple, verdict: 'admitted' },
      { ...refusedTuple, far: '100.64.0.8' },
      { ...refusedTuple, port: 5433 },
      { ...refusedTuple, far: '192.0.2.1', protocol: 'icmp', port: undefined },
      { ...refusedTuple, direction: 'out', verdict: 'admitted', far: '192.0.2.1', port: 443 },
    ]),
  );
  const flows: Json[] = await owner.api.expect(200, 'GET', `${base}/flows?device_id=${db.id}`);
  const reference = { group_id: group.id, group_name: 'db', index: 1 };
  expect(flows).toMatchObject([
    {
      device_id: db.id,
      hostname: 'db-1',
      direction: 'in',
      verdict: 'admitted',
      far: '100.64.0.7',
      far_devices: [{ device_id: app?.id, hostname: 'app-1', labels: ['app', 'prod'] }],
      protocol: 'tcp',
      port: 5432,
      packets: 3,
      decision: { verdict: 'admitted', reason: 'rule', rule: { ...reference, rule: { peers: [{ labels: ['app'] }] } } },
    },
    {
      far_devices: [{ device_id: web?.id, hostname: 'web-1', labels: [] }],
      decision: { verdict: 'refused', reason: 'no-rule', nearest: { ...reference, differs: ['far'] } },
    },
    { port: 5433, decision: { verdict: 'refused', nearest: { ...reference, differs: ['port'] } } },
    {
      protocol: 'icmp',
      far_devices: [],
      decision: { reason: 'no-rule', nearest: { group_id: group.id, index: 0, differs: ['ip_protocol'] } },
    },
    { direction: 'out', decision: { verdict: 'admitted', reason: 'open' } },
  ]);
  expect(flows[3]).not.toHaveProperty('port');
  expect(flows[1]?.decision).not.toHaveProperty('rule');
  const count = async (query: string): Promise<number> =>
    (await owner.api.expect(200, 'GET', `${base}/flows?${query}`)).length;
  expect(await count('verdict=refused')).toBe(3);
  expect(await count(`far=${app?.id}`)).toBe(2);
  expect(await count('far=100.64.0.0/24&verdict=refused')).toBe(2);
  expect(await count('protocol=icmp')).toBe(1);
  expect(await count('port=5432')).toBe(2);
  expect(await count('direction=out')).toBe(1);
  expect(await count('direction=outbound')).toBe(1);
  expect(await count('direction=inbound')).toBe(await count('direction=in'));
  expect(await count(`group_id=${group.id}`)).toBe(5);
  expect(await count(`group_id=${web?.id}`)).toBe(0);
  expect(await count(`since=${minuteAgo(-1)}`)).toBe(0);
  expect(await count(`until=${minuteAgo(5)}`)).toBe(0);
  for (const bad of [
    'far=db-1',
    'verdict=maybe',
    'direction=sideways',
    'protocol=quic',
    'after=x',
    'port=70000',
    'since=yesterday',
    'device_id=1',
  ])
    await owner.api.expect(422, 'GET', `${base}/flows?${bad}`);
  // Names and rules are those of now.
  await owner.api.expect(200, 'PATCH', `${base}/security_groups/${group.id}`, {
    inbound_rules: [{ ip_protocol: 'tcp', from_port: 5433, to_port: 5433 }],
  });
  expect((await owner.api.expect(200, 'GET', `${base}/flows?port=5433`))[0]).toMatchObject({
    verdict: 'refused',
    decision: { verdict: 'admitted', rule: { index: 0 } },
  });
});

test('owners read all flows in pages, and a member those of its own devices and no others', async () => {
  const place = await newPlace(server);
  const { owner, member, stranger, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const [mine, theirs] = [
    await newAgent(place, member.api, { public_key: key() }),
    await newAgent(place, owner.api, { public_key: key() }),
  ];
  for (const agent of [mine, theirs])
    await agent.api.expect(200, 'POST', agent.path, { ...reportOf([refusedTuple, admittedTuple]), not_recorded: 7 });
  const devicesSeen = async (api: Api, query = ''): Promise<string[]> => {
    const flows: Json[] = await api.expect(200, 'GET', `${base}/flows${query}`);
    return [...new Set(flows.map(({ device_id }) => String(device_id)))].toSorted();
  };
  expect(await devicesSeen(owner.api)).toEqual([mine.id, theirs.id].toSorted());
  expect(await devicesSeen(member.api)).toEqual([mine.id]);
  expect(await devicesSeen(member.api, `?device_id=${theirs.id}`)).toEqual([]);
  expect(await devicesSeen(member.api, `?device_id=${mine.id}`)).toEqual([mine.id]);
  const reporting = async (api: Api, query = ''): Promise<Json> =>
    api.expect(200, 'GET', `${base}/flows/coverage${query}`);
  expect(await reporting(owner.api)).toMatchObject({ devices: 2, not_recorded: 14 });
  expect(await reporting(owner.api, `?device_id=${theirs.id}`)).toMatchObject({ devices: 1, not_recorded: 7 });
  expect(await reporting(member.api)).toMatchObject({ devices: 1, not_recorded: 7 });
  expect(await reporting(member.api, `?device_id=${theirs.id}`)).toMatchObject({ devices: 0, not_recorded: 0 });
  await stranger.api.expect(404, 'GET', `${base}/flows`);
  await mine.api.expect(403, 'GET', `${base}/flows`);
  // A device that changes hands takes its flows along.
  await owner.api.expect(200, 'DELETE', `${base}/members/${member.id}?keep=devices`);
  await member.api.expect(404, 'GET', `${base}/flows`);
  const seen = new Set<string>();
  let path = `${base}/flows?limit=1`;
  for (let pages = 0; pages < 4; pages += 1) {
    const answer = await owner.api.get(path);
    expect(answer).toMatchObject({ status: 200 });
    const [flow] = answer.json as Json[];
    seen.add(`${flow?.device_id} ${flow?.verdict}`);
    path = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link ?? ''))?.[1] ?? '';
  }
  expect(seen.size).toBe(4);
  expect(path).toBe('');
});

test('a time that the database does not know is refused wherever it is written, and takes no report of another device with it', async () => {
  const place = await newPlace(server);
  const { owner, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const [attacker, other] = [
    await newAgent(place, owner.api, { public_key: key() }),
    await newAgent(place, owner.api, { public_key: key() }),
  ];
  for (const time of ['0000-12-31T23:59:59Z', '0001-01-01T00:00:00+14:00', '9999-12-31T23:59:59-12:00']) {
    // Reports that come together are one write.
    const statuses = await Promise.all([
      attacker.api.post(attacker.path, reportOf([refusedTuple], { since: time, until: time })),
      other.api.post(other.path, reportOf([refusedTuple])),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([422, 200]);
    const text = encodeURIComponent(time);
    for (const path of [
      `flows?since=${text}`,
      `flows?until=${text}`,
      `flows/coverage?since=${text}`,
      `devices?at=${text}`,
    ])
      await owner.api.expect(422, 'GET', `${base}/${path}`);
    // Before, the record could not be read again, and every agent of the organization held its policy.
    await owner.api.expect(422, 'POST', `${base}/devices/${other.id}/isolate`, { reason: 'x', until: time });
  }
  for (const time of ['0001-01-01T00:00:00Z', '1969-12-31T23:59:59Z'])
    expect(
      await attacker.api.expect(200, 'POST', attacker.path, reportOf([refusedTuple], { since: time, until: time })),
    ).toMatchObject({ received: 0 });
  const last = '9999-12-31T23:59:59.999Z';
  await owner.api.expect(200, 'POST', `${base}/devices/${other.id}/isolate`, { reason: 'x', until: last });
  await owner.api.expect(200, 'GET', `${base}/flows?since=0001-01-01T00:00:00Z&until=${last}`);
  for (const after of ['999999999999999.1.0', '1700000000000.9999999999999999999.0', '1700000000000.1'])
    await owner.api.expect(422, 'GET', `${base}/flows?after=${after}`);
});

test('a device changes nothing of what is long past: its packets of then only count as not recorded', async () => {
  const place = await newPlace(server);
  const { owner, base } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const agent = await newAgent(place, owner.api, { public_key: key() });
  const late = (minutes: number): object =>
    reportOf([refusedTuple], { since: minuteAgo(minutes + 1), until: minuteAgo(minutes), not_recorded: 4 });
  // An agent keeps the reports of an hour for a server that is away.
  expect(await agent.api.expect(200, 'POST', agent.path, late(100))).toMatchObject({ received: 1 });
  const old = late(121);
  for (const again of [old, old])
    expect(await agent.api.expect(200, 'POST', agent.path, again)).toMatchObject({ received: 0 });
  expect(await owner.api.expect(200, 'GET', `${base}/flows`)).toHaveLength(1);
  const { not_recorded } = await owner.api.expect(200, 'GET', `${base}/flows/coverage`);
  expect(not_recorded).toBe(4 + 4 + refusedTuple.packets);
});

test('a report of a device whose clock is ahead is about now, and counts once however often it comes', async () => {
  const place = await newPlace(server);
  const { owner, base, org } = place;
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const agent = await newAgent(place, owner.api, { public_key: key() });
  const ahead = reportOf([refusedTuple], { since: minuteAgo(-59), until: minuteAgo(-60) });
  for (const again of [ahead, ahead, ahead]) await agent.api.expect(200, 'POST', agent.path, again);
  const flows: Json[] = await owner.api.expect(200, 'GET', `${base}/flows`);
  expect(flows).toHaveLength(1);
  expect(Date.parse(flows[0]?.until)).toBeLessThanOrEqual(Date.now());
  const metrics = await server.admin.get('/metrics');
  expect(metrics.text).toContain(`ringfence_refused_packets_total{organization="${org}"} ${refusedTuple.packets}\n`);
});

test('a page ends earlier where the rules that it names are large, and the pages together hold every sum', async () => {
  const { owner, base } = await newPlace(server);
  await owner.api.expect(200, 'PATCH', base, { observe: 'all' });
  const { id: group } = await owner.api.expect(201, 'POST', `${base}/security_groups`, {
    group_name: 'of one large rule',
    inbound_rules: [
      {
        ip_protocol: 'tcp',
        from_port: 1,
        to_port: 1_000,
        ip_ranges: Array.from(
          { length: 10_000 },
          (_, n) => `2001:db8:aaaa:bbbb:cccc::${n.toString(16)}-2001:db8:aaaa:bbbb:cccc:dddd:eeee:${n.toString(16)}`,
        ),
      },
    ],
  });
  const agent = await newAgent({ base } as Place, owner.api, {
    public_key: key(),
    tunnel_ip: '100.64.0.1',
    security_groups: [group],
  });
  const tuples = Array.from({ length: 40 }, (_, n) => ({ ...refusedTuple, port: 2_000 + n }));
  await agent.api.expect(200, 'POST', agent.path, reportOf(tuples));
  const ports: number[] = [];
  let pages = 0;
  for (let path: string | undefined = `${base}/flows?limit=1000`; path !== undefined; pages += 1) {
    const page = await owner.api.get(path);
    expect(page.status).toBe(200);
    expect(page.text.length).toBeLessThanOrEqual(16 * 1024 * 1024);
    ports.push(...page.json.map(({ port }: { port: number }) => port));
    path = /<(.+)>; rel="next"/.exec(String(page.headers.link ?? ''))?.[1];
  }
  expect(pages).toBe(2);
  expect(ports.toSorted((a, b) => a - b)).toEqual(tuples.map(({ port }) => port));
});
