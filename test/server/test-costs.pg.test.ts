/**
 * Proves that policy tests and selectors have a price: what judging them costs one organization is paid in short steps, so that nobody else waits, and tests
 * that cost too much are refused when they are written. What the loop holds is measured in processor time of its thread, between two answers to somebody else.
 */
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Api, type Json } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';

const token = `rf_user_${'b'.repeat(43)}`;
let program: Program;
let postgres: TestPostgres;
let data: string;
let run: Run;
let admin: Api;
let victim: Api;

/** What is measured is what the loop holds: a busy machine has all the time that it needs for an answer. */
const patience = ['--answer-timeout', '300'];

beforeAll(async () => {
  [program, postgres, data] = await Promise.all([Program.build(), startPostgres(), temporaryDirectory()]);
  run = program.run(
    ['server', '--listen', '127.0.0.1:0', '--data', data, '--workers', '1', '--rate-limit', '0', ...patience],
    {
      RINGFENCE_ADMIN_TOKEN: token,
      RINGFENCE_DATABASE_URL: await postgres.freshUrl(),
    },
  );
  admin = new Api(await run.url()).as(token);
  const { id } = await admin.expect(201, 'POST', '/api/users', { username: 'victim' });
  victim = admin.as((await admin.expect(201, 'POST', `/api/users/${id}/tokens`, {})).token);
});
afterAll(async () => {
  admin?.close();
  await program?.close();
  await postgres?.stop();
  await rm(data, { recursive: true, force: true });
});

/** Milliseconds that the thread of the event loop has run. */
const loopMs = (): number =>
  Number(readFileSync(`/proc/${run.child.pid}/schedstat`, 'utf8').split(' ')[0] ?? '') / 1_000_000;

/** The longest that the loop ran until it answered somebody else, while something was asked. */
async function longestHold<T>(ask: () => Promise<T>): Promise<{ readonly answer: T; readonly heldMs: number }> {
  const over = new AbortController();
  let heldMs = 0;
  const asking = ask().finally(() => over.abort());
  while (!over.signal.aborted) {
    const before = loopMs();
    await victim.expect(200, 'GET', '/api/users/me');
    heldMs = Math.max(heldMs, loopMs() - before);
  }
  return { answer: await asking, heldMs };
}

/** Devices with a group each, which admits the next device to many ports. No two groups say the same of a port. */
async function crowd(name: string, size: number): Promise<string> {
  const { id: org } = await admin.expect(201, 'POST', '/api/organizations', { name });
  const base = `/api/organizations/${org}`;
  const numbers = Array.from({ length: size }, (_, n) => n);
  const devices: Json[] = [];
  for (const n of numbers)
    devices.push(
      await admin.expect(201, 'POST', `${base}/devices`, {
        public_key: `${name} ${n}`,
        hostname: `host-${n}`,
        tunnel_ip: `100.64.${n >> 8}.${n & 255}`,
      }),
    );
  const rules = (n: number, far: number): object[] => [
    {
      ip_protocol: 'tcp',
      from_port: 1 + (n % 900),
      to_port: 2_000,
      peers: [{ device_id: devices[(n + far) % size]?.id }],
    },
  ];
  const groups = numbers.map(() => crypto.randomUUID());
  await admin.expect(200, 'POST', `${base}/changes`, {
    security_groups: numbers.map((n) => ({
      id: groups[n],
      group_name: `group ${n}`,
      inbound_rules: rules(n, 1),
      outbound_rules: rules(n, 2),
    })),
  });
  await admin.expect(200, 'POST', `${base}/changes`, {
    devices: devices.map(({ id }, n) => ({ id, security_groups: [groups[n]] })),
  });
  return base;
}

const all = { all_devices: true };
const tests = (count: number): Json[] =>
  Array.from({ length: count }, (_, n) => ({
    name: `t${n}`,
    from: all,
    to: all,
    protocol: 'tcp',
    port: n + 1,
    expect: 'refuse',
  }));

test('a thousand tests on 300 and 600 devices with a group each hold nobody up, wherever they are judged, and what costs too much is refused', async () => {
  for (const size of [300, 600]) {
    const base = await crowd(`crowd ${size}`, size);
    const ask = (method: string, path: string, body?: unknown) =>
      longestHold(() => admin.ask(method, `${base}${path}`, body === undefined ? {} : { body }));
    expect(JSON.stringify(tests(1_000)).length).toBeLessThan(120_000);
    const put = await ask('PUT', '/policy_tests', tests(1_000));
    const simulated = await ask('POST', '/simulate', { policy_tests: tests(1_000) });
    for (const { answer } of [put, simulated]) {
      expect([200, 422]).toContain(answer.status);
      if (answer.status === 200) continue;
      expect(answer.json).toMatchObject({ errors: [{ pointer: '', code: 'tests_too_costly' }] });
      expect(answer.json.detail).toMatch(/These take the most: "t\d+", "t\d+"/);
    }
    // Somebody with 600 policies and 1,000 questions about each of them asks for too much.
    if (size === 600) expect(put.answer.status).toBe(422);
    const few = await ask('PUT', '/policy_tests', tests(50));
    expect(few.answer.status).toBe(200);
    const write = await ask('POST', '/security_groups', {
      group_name: 'everybody',
      applies_to: [all],
      inbound_rules: [{ ip_protocol: 'tcp', from_port: 30_000, to_port: 30_000 }],
    });
    expect(write.answer.status).toBe(201);
    const [read, overview] = [await ask('GET', '/policy_tests'), await ask('GET', '/overview')];
    expect([read.answer.status, overview.answer.status]).toEqual([200, 200]);
    const held = Object.entries({ put, simulated, few, write, read, overview }).filter(
      ([, { heldMs }]) => heldMs > 250,
    );
    expect(held.map(([name, { heldMs }]) => `${name}: ${heldMs.toFixed(0)} ms`)).toEqual([]);
  }
});

test('tests that are skipped have a price, too, and fewer can be written', async () => {
  const base = await crowd('skipped', 600);
  const refused = await admin.expect(422, 'PUT', `${base}/policy_tests?skip_tests=true`, tests(1_000));
  expect(refused.errors).toMatchObject([{ pointer: '', code: 'tests_too_costly' }]);
  expect(await admin.expect(200, 'GET', `${base}/policy_tests`)).toEqual([]);
  await admin.expect(200, 'PUT', `${base}/policy_tests`, tests(3));
});

test('thousands of selectors hold nobody up, whatever is written', async () => {
  const { id: org } = await admin.expect(201, 'POST', '/api/organizations', { name: 'selectors' });
  const base = `/api/organizations/${org}`;
  const label = (n: number): string => `l${n % 600}`;
  const devices: Json[] = [];
  for (let n = 0; n < 300; n += 1)
    devices.push(
      await admin.expect(201, 'POST', `${base}/devices`, {
        public_key: `selected ${n}`,
        labels: Array.from({ length: 32 }, (_, i) => label(n + i * 7)),
      }),
    );
  const selectors = (g: number): object[] =>
    Array.from({ length: 64 }, (_, i) => ({ labels: [label(g * 64 + i), label(g * 64 + 8 * i + 7), `q${i}`] }));
  const groups = Array.from({ length: 300 }, (_, g) => ({
    id: crypto.randomUUID(),
    group_name: `group ${g}`,
    applies_to: selectors(g),
    ...(g % 2 === 0
      ? { inbound_rules: [{ ip_protocol: 'tcp', from_port: 1 + g, to_port: 1 + g }] }
      : { guardrail: 'forbid' }),
  }));
  const ask = (method: string, path: string, body: unknown) =>
    longestHold(() => admin.ask(method, `${base}${path}`, { body }));
  const [path, device] = [`/security_groups/${groups[0]?.id}`, `/devices/${devices[0]?.id}`];
  const asked = {
    created: await ask('POST', '/changes', { security_groups: groups }),
    described: await ask('PATCH', path, { group_description: 'other' }),
    ruled: await ask('PATCH', path, { inbound_rules: [{ ip_protocol: 'tcp', from_port: 9, to_port: 9 }] }),
    applied: await ask('PATCH', path, { applies_to: selectors(601) }),
    labelled: await ask('PATCH', device, { labels: [label(1)] }),
    simulated: await ask('POST', '/simulate', { security_groups: [{ id: groups[2]?.id, applies_to: [all] }] }),
    deleted: await ask('DELETE', `${path}?detach=true`, undefined),
  };
  const wrong = Object.entries(asked).flatMap(([name, { answer, heldMs }]) =>
    answer.status === 200 && heldMs <= 250
      ? []
      : `${name}: ${answer.status}, ${heldMs.toFixed(0)} ms: ${answer.text.slice(0, 200)}`,
  );
  expect(wrong).toEqual([]);
});
