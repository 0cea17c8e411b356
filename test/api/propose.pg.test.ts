/** Proves proposals over HTTP and against a real database: rules that would admit the observed traffic, and what they would refuse (reference 4.23). */
import { describe, expect, test } from 'vitest';
import type { Json } from '../lib/http.ts';
import { newPlace, type Place } from '../lib/server.ts';
import { useServer } from '../lib/stage.ts';

const stage = useServer();

let serial = 0;
const device = ({ owner, base }: Place, hostname: string, fields: object = {}): Promise<Json> => {
  serial += 1;
  return owner.api.expect(201, 'POST', `${base}/devices`, { public_key: `propose-${serial}`, hostname, ...fields });
};
const tuple = (far: string, port: number | undefined, more: object = {}): object => ({
  direction: 'in',
  verdict: 'admitted',
  far,
  protocol: 'tcp',
  port,
  packets: 3,
  ...more,
});
const report = ({ base }: Place, made: Json, tuples: readonly object[]): Promise<Json> =>
  stage.server.nobody.as(made.device_token).expect(200, 'POST', `${base}/devices/${made.id}/flows`, {
    since: new Date(Date.now() - 60_000).toISOString(),
    until: new Date().toISOString(),
    observed: 'all',
    tuples,
    not_recorded: 0,
  });
const propose = ({ owner, base }: Place, body: object): Promise<Json> =>
  owner.api.expect(200, 'POST', `${base}/propose`, body);
const tcp = (port: number, more: object): object => ({ ip_protocol: 'tcp', from_port: port, to_port: port, ...more });

/** Two open databases, three applications of which two connect to them, and a laptop without labels. */
async function observed() {
  const place = await newPlace(stage.server);
  await place.owner.api.expect(200, 'PATCH', place.base, { observe: 'all' });
  const db = await device(place, 'db-1', { labels: ['db'] });
  const other = await device(place, 'db-2', { labels: ['db'] });
  const apps: Json[] = [];
  for (const n of [1, 2, 3])
    apps.push(await device(place, `app-${n}`, { labels: ['app', 'eu', 'prod'], tunnel_ip: `100.64.0.${n}/32` }));
  await device(place, 'mail', { labels: ['eu', 'prod'] });
  const laptop = await device(place, 'laptop', { tunnel_ip: '100.64.0.9/32' });
  return { place, db, other, apps, laptop };
}

describe('a proposal', () => {
  test('names far ends by the narrowest label, by device or by address, with its evidence, and the group refuses nothing of it', async () => {
    const { place, db, other, apps, laptop } = await observed();
    await report(place, db, [
      tuple('100.64.0.1', 5432, { packets: 5 }),
      tuple('100.64.0.2', 5432),
      tuple('100.64.0.9', 22),
      tuple('192.0.2.7', 22, { packets: 1 }),
      tuple('198.51.100.1', 443, { direction: 'out' }),
      tuple('100.64.0.1', undefined, { protocol: 'icmp' }),
      tuple('203.0.113.5', 23, { verdict: 'refused', packets: 9 }),
    ]);
    await report(place, other, [tuple('100.64.0.2', 5432)]);
    const answer = await propose(place, { labels: ['db'] });
    expect(answer).toMatchObject({
      devices: 2,
      not_recorded: 0,
      admitted_packets: 21,
      refused_packets: 9,
      not_covered: { packets: 0, sums: 0, flows: [] },
    });
    expect(answer.observed).toBeGreaterThan(0);
    expect(answer.rules.map(({ direction, rule }: Json) => [direction, rule])).toEqual([
      ['inbound', { ip_protocol: 'icmp', from_port: 0, to_port: 0, peers: [{ labels: ['app'] }] }],
      ['inbound', tcp(22, { ip_ranges: ['192.0.2.7'], peers: [{ device_id: laptop.id }] })],
      ['inbound', tcp(5432, { peers: [{ labels: ['app'] }] })],
      ['outbound', tcp(443, { ip_ranges: ['198.51.100.1'] })],
    ]);
    const [echo, ssh, postgres] = answer.rules;
    expect(echo.assumes_echo).toBe(true);
    expect(ssh).toMatchObject({ seen_once: 1, far_end_count: 2, also_admits_count: 0 });
    expect(postgres).toMatchObject({
      packets: 11,
      device_count: 2,
      devices: [{ hostname: 'db-1' }, { hostname: 'db-2' }],
      far_end_count: 2,
      also_admits_count: 1,
      also_admits: [{ device_id: apps[2].id, hostname: 'app-3' }],
    });
    expect(postgres.far_ends.map(({ far, hostname, packets }: Json) => [far, hostname, packets])).toEqual([
      ['100.64.0.2', 'app-2', 6],
      ['100.64.0.1', 'app-1', 5],
    ]);
    expect(postgres).not.toHaveProperty('assumes_echo');

    expect(answer.group).toMatchObject({
      group_name: 'proposed: db',
      mode: 'observe',
      applies_to: [{ labels: ['db'] }],
    });
    const made = await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, answer.group);
    expect(made.inbound_rules).toEqual(answer.group.inbound_rules);
    const path = `${place.base}/security_groups/${made.id}/observation`;
    expect(await place.owner.api.expect(200, 'GET', path)).toMatchObject({
      devices: 2,
      admitted_packets: 21,
      would_refuse: { packets: 0 },
    });
  });

  test('says what its rules would refuse: what no rule expresses, what is too much, and what a guardrail forbids', async () => {
    const { place, db, laptop } = await observed();
    const many = Array.from({ length: 52 }, (_, n) => tuple(`192.0.2.${n + 1}`, 443, { packets: n < 2 ? 1 : 3 }));
    await report(place, db, [
      ...many,
      // As the port of a rule, 0 means any port.
      tuple('100.64.0.9', 0, { packets: 4 }),
      tuple('100.64.0.9', undefined, { protocol: '47', packets: 5 }),
      tuple('100.64.0.9', 23, { packets: 6 }),
      tuple('100.64.0.9', undefined, { direction: 'out', protocol: '47' }),
    ]);
    await place.owner.api.expect(201, 'POST', `${place.base}/security_groups`, {
      group_name: 'no telnet',
      guardrail: 'forbid',
      applies_to: [{ all_devices: true }],
      inbound_rules: [tcp(23, {})],
    });
    const answer = await propose(place, { device_ids: [db.id, laptop.id] });
    expect(answer.rules.map(({ rule }: Json) => [rule.from_port, rule.ip_ranges.length, rule.peers])).toEqual([
      [443, 50, undefined],
    ]);
    const { packets, sums, flows } = answer.not_covered;
    expect([packets, sums]).toEqual([17, 5]);
    expect(flows.map((flow: Json) => [flow.reason, flow.protocol, flow.port, flow.packets, flow.hostname])).toEqual([
      ['forbidden', 'tcp', 23, 6, 'db-1'],
      ['not_expressible', '47', undefined, 5, 'db-1'],
      ['not_expressible', 'tcp', 0, 4, 'db-1'],
      ['too_many', 'tcp', 443, 1, 'db-1'],
      ['too_many', 'tcp', 443, 1, 'db-1'],
    ]);
    // Without outbound rules everything may go out, so that nothing of it is refused.
    expect(answer.group).toMatchObject({ group_name: 'proposed: 2 devices', outbound_rules: [] });
    expect(answer.group).not.toHaveProperty('applies_to');
  });

  test('uses several labels where no label covers every far end', async () => {
    const { place, db } = await observed();
    await device(place, 'monitor', { labels: ['monitoring'], tunnel_ip: '100.64.0.20/32' });
    await report(
      place,
      db,
      ['100.64.0.1', '100.64.0.2', '100.64.0.9', '100.64.0.20'].map((far) => tuple(far, 5432)),
    );
    const [{ rule }] = (await propose(place, { device_ids: [db.id.toUpperCase()] })).rules;
    expect(rule.peers.map((peer: Json) => peer.labels?.[0] ?? 'device')).toEqual(['app', 'monitoring', 'device']);
  });

  test('learns nothing from connections that the far end refused, unless it is asked to', async () => {
    const { place, db, other, apps } = await observed();
    const { api } = place.owner;
    await api.expect(200, 'PATCH', `${place.base}/devices/${db.id}`, { tunnel_ip: '100.64.0.50/32' });
    await api.expect(200, 'PATCH', `${place.base}/devices/${other.id}`, { tunnel_ip: '100.64.0.51/32' });
    const [app] = apps as [Json];
    await report(place, app, [
      tuple('100.64.0.50', 5432, { direction: 'out', packets: 7 }),
      tuple('100.64.0.51', 5432, { direction: 'out', packets: 2 }),
      tuple('100.64.0.50', 22, { direction: 'out', packets: 4 }),
    ]);
    await report(place, db, [
      tuple('100.64.0.1', 5432, { verdict: 'refused', packets: 7 }),
      // Of another sender: it says nothing about this one.
      tuple('100.64.0.2', 22, { verdict: 'refused' }),
    ]);
    const body = { device_ids: [app.id] };
    const answer = await propose(place, body);
    expect(answer.rules.map(({ rule, packets }: Json) => [rule.from_port, packets])).toEqual([
      [22, 4],
      [5432, 2],
    ]);
    expect(answer.refused_by_far_end).toMatchObject({
      packets: 7,
      sums: 1,
      flows: [{ hostname: 'app-1', direction: 'out', far: '100.64.0.50', protocol: 'tcp', port: 5432 }],
    });
    const all = await propose(place, { ...body, include_refused: true });
    expect(
      all.rules.map(({ rule, packets, refused_by_far_end }: Json) => [rule.from_port, packets, refused_by_far_end]),
    ).toEqual([
      [22, 4, undefined],
      [5432, 9, 7],
    ]);
    // What the far end admits now counts again.
    await report(place, db, [tuple('100.64.0.1', 5432)]);
    expect((await propose(place, body)).refused_by_far_end.packets).toBe(0);
  });

  test('is for owners, writes nothing, and refuses a question that is not clear', async () => {
    const { place, db } = await observed();
    const { api } = place.owner;
    const state = async () => [
      (await api.expect(200, 'GET', `${place.base}/convergence`)).revision,
      (await api.expect(200, 'GET', `${place.base}/audit`)).length,
    ];
    const before = await state();
    expect((await propose(place, { labels: ['nothing'] })).group.inbound_rules).toEqual([]);
    expect(await propose(place, { device_ids: [db.id] })).toMatchObject({ devices: 1, observed: 0, rules: [] });
    const body = { device_ids: [db.id] };
    expect((await place.member.api.post(`${place.base}/propose`, body)).status).toBe(403);
    const stranger = '00000000-0000-4000-8000-000000000000';
    for (const [wrong, problem] of [
      [{}, { pointer: '', code: 'one_key_only' }],
      [
        { ...body, labels: ['db'] },
        { pointer: '', code: 'one_key_only' },
      ],
      [{ device_ids: [db.id, stranger] }, { pointer: '/device_ids/1', code: 'device_unknown' }],
      [
        { ...body, since: new Date(Date.now() + 86_400_000).toISOString() },
        { pointer: '/since', code: 'out_of_range' },
      ],
      [{ labels: [] }, { pointer: '/labels' }],
      [
        { ...body, mode: 'enforce' },
        { pointer: '/mode', code: 'unknown_field' },
      ],
    ] as const)
      expect((await api.expect(422, 'POST', `${place.base}/propose`, wrong)).errors).toMatchObject([problem]);
    expect(await state()).toEqual(before);
  });
});

describe('an address that somebody lists', () => {
  const peersFor = (answer: Json, port: number): unknown => {
    const { rule } = answer.rules.find((one: Json) => one.rule.from_port === port);
    return { peers: rule.peers, ip_ranges: rule.ip_ranges };
  };

  test('is no trust in the member who lists it: the rule names the address, and the member gains nothing by moving', async () => {
    const { place, db } = await observed();
    const { owner, member, base } = place;
    await owner.api.expect(200, 'PATCH', `${base}/devices/${db.id}`, { tunnel_ip: '100.64.0.50/32' });
    const web = await device(place, 'web-1', { labels: ['web'], tunnel_ip: '100.64.0.30/32' });
    const mine = await member.api.expect(201, 'POST', `${base}/devices`, {
      public_key: `propose-mine-${serial}`,
      hostname: 'web-0',
      tunnel_ip: '100.64.0.30/32',
    });
    await report(place, db, [tuple('100.64.0.30', 5432)]);
    const answer = await propose(place, { labels: ['db'] });
    expect(peersFor(answer, 5432)).toEqual({ peers: undefined, ip_ranges: ['100.64.0.30'] });
    const both = [
      { device_id: mine.id, hostname: 'web-0' },
      { device_id: web.id, hostname: 'web-1' },
    ];
    expect(answer.rules[0]).toMatchObject({
      ambiguous: both,
      ambiguous_count: 2,
      seen_once: 0,
      far_ends: [{ far: '100.64.0.30', ambiguous: both }],
    });
    expect(answer.rules[0].far_ends[0]).not.toHaveProperty('device_id');

    await owner.api.expect(201, 'POST', `${base}/security_groups`, { ...answer.group, mode: 'enforce' });
    await member.api.expect(200, 'PATCH', `${base}/devices/${mine.id}`, { tunnel_ip: '100.64.0.31/32' });
    const verdict = async (from: string): Promise<string> =>
      (await owner.api.expect(200, 'GET', `${base}/explain?from=${from}&to=${db.id}&protocol=tcp&port=5432`)).verdict;
    expect([await verdict('100.64.0.31'), await verdict('100.64.0.30')]).toEqual(['refused', 'allowed']);
  });

  test('stands for a label only if every device that lists it carries the label, and did when the traffic was seen', async () => {
    const { place, db } = await observed();
    const { api } = place.owner;
    await device(place, 'web-1', { labels: ['web', 'eu'], tunnel_ip: '100.64.0.30/32' });
    await device(place, 'web-2', { labels: ['web'], addresses: ['100.64.0.30'] });
    // Of a member, so that only a label can name them.
    const [late, moved] = await Promise.all(
      ['late', 'moved'].map((hostname) =>
        place.member.api.expect(201, 'POST', `${place.base}/devices`, {
          public_key: `propose-${place.org}-${hostname}`,
          hostname,
          tunnel_ip: hostname === 'late' ? '100.64.0.32/32' : '',
        }),
      ),
    );
    await api.expect(200, 'PATCH', `${place.base}/devices/${moved.id}`, { labels: ['web'] });
    await report(
      place,
      db,
      [1, 2, 3].map((n) => tuple(`100.64.0.3${n === 1 ? 0 : n}`, 8000 + n)),
    );
    await api.expect(200, 'PATCH', `${place.base}/devices/${late.id}`, { labels: ['web'] });
    await api.expect(200, 'PATCH', `${place.base}/devices/${moved.id}`, { addresses: ['100.64.0.33'] });
    const answer = await propose(place, { device_ids: [db.id] });
    expect([8001, 8002, 8003].map((port) => peersFor(answer, port))).toEqual([
      { peers: [{ labels: ['web'] }], ip_ranges: undefined },
      { peers: undefined, ip_ranges: ['100.64.0.32'] },
      { peers: undefined, ip_ranges: ['100.64.0.33'] },
    ]);
    // Traffic that comes with the label is evidence for it.
    await report(place, db, [tuple('100.64.0.32', 8002)]);
    expect(peersFor(await propose(place, { device_ids: [db.id] }), 8002)).toEqual({
      peers: [{ labels: ['web'] }],
      ip_ranges: undefined,
    });
  });

  test("stands for a device only if an owner gave it before the traffic, or it enrolled with an owner's key", async () => {
    const { place, db } = await observed();
    const { owner, member, base } = place;
    const keyOf = async ({ api }: typeof owner): Promise<string> =>
      (await api.expect(201, 'POST', `${base}/enrollment_keys`, {})).key;
    const enroll = async (key: string, hostname: string, address: string): Promise<Json> =>
      stage.server.nobody.as(key).expect(201, 'POST', `${base}/devices`, {
        public_key: `propose-${place.org}-${hostname}`,
        hostname,
        tunnel_ip: `${address}/32`,
      });
    const given = await device(place, 'given', { tunnel_ip: '100.64.0.40/32' });
    const enrolled = await enroll(await keyOf(owner), 'enrolled', '100.64.0.41');
    await enroll(await keyOf(member), 'of-a-member', '100.64.0.42');
    const taken = await device(place, 'taken', { user_id: member.id });
    await member.api.expect(200, 'PATCH', `${base}/devices/${taken.id}`, { tunnel_ip: '100.64.0.43/32' });
    // To leave it as it is gives nothing.
    await owner.api.expect(200, 'PATCH', `${base}/devices/${taken.id}`, {
      hostname: 'taken-2',
      tunnel_ip: '100.64.0.43/32',
    });
    const ports = [0, 1, 2, 3, 4];
    await report(
      place,
      db,
      ports.map((n) => tuple(`100.64.0.4${n}`, 8000 + n)),
    );
    const late = await device(place, 'late', { tunnel_ip: '100.64.0.44/32' });
    await report(place, db, [tuple('100.64.0.44', 8004)]);
    const answer = await propose(place, { device_ids: [db.id] });
    expect(ports.map((n) => peersFor(answer, 8000 + n))).toEqual([
      { peers: [{ device_id: given.id }], ip_ranges: undefined },
      { peers: [{ device_id: enrolled.id }], ip_ranges: undefined },
      ...[2, 3, 4].map((n) => ({ peers: undefined, ip_ranges: [`100.64.0.4${n}`] })),
    ]);
    expect(answer.rules.at(-1).ambiguous).toEqual([{ device_id: late.id, hostname: 'late' }]);
  });
});
