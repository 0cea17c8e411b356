/** Proves the bounds of requests (reference 8): what is too large, too deep or too much is refused in few words, before it costs anything. */
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
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
let place: Place;
let device: { id: string; device_token: string };
beforeAll(async () => {
  postgres = await startPostgres();
  server = await startTestServer(postgres);
  place = await newPlace(server);
  device = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'k' });
});
afterAll(async () => {
  await server?.close();
  await postgres?.stop();
});

const groups = (): string => `${place.base}/security_groups`;
const events = (): string => `${place.base}/events`;
const range = (index: number): string => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
const rule = (ip_ranges: readonly string[]) => ({ ip_protocol: 'tcp', from_port: 1, to_port: 1, ip_ranges });

describe('an answer tells at most 100 problems, then how many more there are', () => {
  test('of ranges, each wrong in itself', async () => {
    const answer = await place.owner.api.post(groups(), {
      group_name: 'wrong',
      inbound_rules: [rule(Array.from({ length: 5000 }, () => ''))],
    });
    expect(answer.status).toBe(422);
    expect(answer.json.errors).toHaveLength(100);
    expect(answer.json.more_errors).toBe(4900);
    expect(answer.json.detail).toMatch(/ And 4999 more\.$/);
    expect(answer.text.length).toBeLessThan(32_768);
  });

  test('of fields that nobody knows', async () => {
    const body = Object.fromEntries(Array.from({ length: 3000 }, (_, index) => [`f${index}`, 0]));
    for (const [api, method, path] of [
      [place.owner.api, 'POST', groups()],
      [place.owner.api, 'POST', '/api/organizations'],
      [place.owner.api, 'POST', `${place.base}/devices`],
      [server.nobody.as(device.device_token), 'PUT', `${place.base}/devices/${device.id}/status`],
    ] as const) {
      const answer = await api.ask(method, path, { body });
      expect([answer.status, answer.json.errors.length], path).toEqual([422, 100]);
      expect(answer.json.more_errors, path).toBeGreaterThanOrEqual(2900);
    }
    const watched = await server.nobody.as(device.device_token).post(events(), [{ kind: 'device', ...body }]);
    expect([watched.status, watched.json.errors.length, watched.json.more_errors]).toEqual([422, 100, 2900]);
  });

  test('of groups in the lists of several devices', async () => {
    const unknown = Array.from({ length: 60 }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`);
    const devices = await Promise.all(
      Array.from({ length: 3 }, async (_, n) => {
        const made = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: `list ${n}` });
        return { id: made.id, security_groups: unknown };
      }),
    );
    const answer = await place.member.api.post(`${place.base}/simulate`, { devices });
    expect(answer.status).toBe(422);
    expect([answer.json.errors.length, answer.json.more_errors]).toEqual([100, 80]);
  });

  test('of tuples in a report of traffic', async () => {
    const tuples = Array.from({ length: 5_000 }, () => ({
      direction: 'in',
      verdict: 'refused',
      far: 'nowhere',
      protocol: 'tcp',
      port: 1,
      packets: 1,
    }));
    const now = Date.now();
    const [since, until] = [new Date(now - 60_000).toISOString(), new Date(now).toISOString()];
    const body = { since, until, observed: 'all', tuples, not_recorded: 0 };
    const agent = server.nobody.as(device.device_token);
    const answer = await agent.post(`${place.base}/devices/${device.id}/flows`, body);
    expect(answer.status).toBe(422);
    expect([answer.json.errors.length, answer.json.more_errors]).toEqual([100, 4_900]);
  });

  test('and few problems are all told, with no word of more', async () => {
    const answer = await place.owner.api.post('/api/organizations', { name: 5, more: null });
    expect(answer.json.errors).toHaveLength(2);
    expect(answer.json).not.toHaveProperty('more_errors');
  });
});

describe('a body is as large as its operation may need', () => {
  const padded = (bytes: number): string => `{"name":"x"${' '.repeat(bytes - 12)}}`;

  test('64 KiB where no rules are written', async () => {
    const post = (raw: string) => place.owner.api.ask('POST', '/api/organizations', { raw });
    expect((await post(padded(65_536))).status).toBe(201);
    const large = await post(padded(65_537));
    expect([large.status, large.json.code]).toEqual([413, 'payload_too_large']);
    const watch = await place.owner.api.ask('POST', events(), { raw: `[{"kind":"device"}${' '.repeat(65_536)}]` });
    expect(watch.status).toBe(413);
  });

  test('4 MiB where rules are written', async () => {
    const post = (bytes: number) =>
      place.owner.api.ask('POST', groups(), { raw: `{"group_name":"x"${' '.repeat(bytes - 18)}}` });
    expect((await post(4 * 1024 * 1024)).status).toBe(201);
    expect((await post(4 * 1024 * 1024 + 1)).status).toBe(413);
  });
});

describe('a document is bounded before it is built', () => {
  test('it nests at most 32 deep, wherever, whatever stands in its texts', async () => {
    const post = (depth: number) =>
      place.owner.api.ask('POST', groups(), {
        raw: `{"group_name":"\\"[[{${'['.repeat(40)}","x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`,
      });
    const good = await post(32);
    expect([good.status, good.json.errors[0].code]).toEqual([422, 'unknown_field']);
    const deep = await post(33);
    expect([deep.status, deep.json.errors]).toEqual([
      422,
      [{ pointer: '', code: 'too_deep', detail: expect.any(String) }],
    ]);
  });

  test('objects and fields are counted', async () => {
    const objects = await place.owner.api.ask('POST', groups(), { raw: `[${'{},'.repeat(100_000)}{}]` });
    expect([objects.status, objects.json.errors[0].code]).toEqual([422, 'too_many_values']);
    const fields = Array.from({ length: 100_000 }, (_, index) => `"${index}":0`).join(',');
    const wide = await place.owner.api.ask('POST', groups(), { raw: `{${fields}}` });
    expect([wide.status, wide.json.errors[0].code]).toEqual([422, 'too_many_values']);
    const entries = await place.owner.api.ask('POST', groups(), {
      raw: `{"group_name":[${'"",'.repeat(1_300_000)}""]}`,
    });
    expect([entries.status, entries.json.errors[0].code]).toEqual([422, 'too_many_values']);
  });

  test('texts of other languages have room for every name and description, and not for megabytes', async () => {
    const post = (name: string, description: string) =>
      place.owner.api.post(groups(), { group_name: name, group_description: description });
    expect((await post('名'.repeat(255), '🦊'.repeat(4_096))).status).toBe(201);
    const long = await post('é'.repeat(1_000_000), '');
    expect([long.status, long.json.errors.map(({ code }: { code: string }) => code)]).toEqual([422, ['text_too_long']]);
  });

  test('a group that is as large as the limits allow is taken, and one that has more is told so in words', async () => {
    const ranges = Array.from({ length: 10_000 }, (_, index) => range(index));
    const rules = Array.from({ length: 1000 }, (_, index) => ({
      ...rule(ranges.slice(index * 5, index * 5 + 5)),
      from_port: index + 1,
      to_port: index + 1,
    }));
    const outbound = rules.map((one, index) => ({
      ...one,
      ip_ranges: ranges.slice(5000 + index * 5, 5005 + index * 5),
    }));
    const whole = { group_name: 'largest', inbound_rules: rules, outbound_rules: outbound };
    expect((await place.owner.api.post(groups(), whole)).status).toBe(201);
    const rangesToo = await place.owner.api.post(groups(), {
      group_name: 'more ranges',
      inbound_rules: [rule(Array.from({ length: 200_000 }, () => ''))],
    });
    expect([rangesToo.status, rangesToo.json.errors.map(({ code }: { code: string }) => code)]).toEqual([
      422,
      ['too_many_ranges'],
    ]);
    const rulesToo = await place.owner.api.post(groups(), {
      group_name: 'more rules',
      inbound_rules: [...rules, ...rules].slice(0, 1001),
    });
    expect([rulesToo.status, rulesToo.json.errors[0].code]).toEqual([422, 'too_many_rules']);
  });

  test('one address range is no longer than an address range can be', async () => {
    const answer = await place.owner.api.post(groups(), {
      group_name: 'spaces',
      inbound_rules: [rule([`10.0.0.1${' '.repeat(200)}-10.0.0.2`])],
    });
    expect([answer.status, answer.json.errors[0].code]).toEqual([422, 'address_invalid']);
  });
});

describe('a body is read only where an operation takes one, after the credential was judged', () => {
  /** Sends a head that promises a body, and the body never. What answers has not waited for it. */
  const headOnly = (method: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<string> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(server.url);
      const lines = Object.entries({
        Host: 'x',
        'Content-Type': 'application/json',
        'Content-Length': '4000000',
        ...headers,
      });
      const socket = connect(Number(port), hostname, () =>
        socket.write(
          `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n[[[`,
        ),
      );
      socket.once('data', (chunk: Buffer) => {
        resolve(chunk.toString().slice(9, 12));
        socket.destroy();
      });
      socket.on('error', reject);
    });
  const by = (token: string) => ({ Authorization: `Bearer ${token}` });

  test('an unknown path, a wrong method, no credential, a bad one, no right: none waits for the body', async () => {
    expect(await headOnly('POST', '/nope')).toBe('404');
    expect(await headOnly('PUT', groups())).toBe('405');
    expect(await headOnly('POST', groups())).toBe('401');
    expect(await headOnly('POST', groups(), by(`rf_user_${'x'.repeat(43)}`))).toBe('401');
    expect(await headOnly('POST', groups(), by(place.stranger.token))).toBe('404');
    expect(await headOnly('POST', groups(), by(device.device_token))).toBe('403');
  });

  test('a body that says itself that it is far too large is refused before it comes', async () => {
    const large = { ...by(place.owner.token), 'Content-Length': '99999999999' };
    expect(await headOnly('POST', groups(), large)).toBe('413');
    expect(await headOnly('POST', '/api/organizations', large)).toBe('413');
  });

  test('an operation without a body does not read one, whatever it is', async () => {
    const { id } = await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', {});
    expect(await headOnly('POST', `/api/tokens/${id}/rotate`, by(place.owner.token))).toBe('200');
    expect(await headOnly('DELETE', `/api/tokens/${id}`, by(place.owner.token))).toBe('200');
  });

  test('what is no JSON does not matter where nobody reads it', async () => {
    const raw = '['.repeat(100_000);
    expect((await server.nobody.ask('POST', '/nope', { raw })).status).toBe(404);
    const { id } = await place.owner.api.expect(201, 'POST', '/api/users/me/tokens', {});
    expect((await place.owner.api.ask('DELETE', `/api/tokens/${id}`, { raw })).status).toBe(200);
  });
});
