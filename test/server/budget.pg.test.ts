/**
 * Proves that every request has a budget: the worst that any route accepts blocks the server's event loop for no longer than a fixed
 * multiple of what a plain request costs it, on the same machine in the same run. What is measured is the processor time of the thread
 * that runs the loop, the least of several tries: what else the machine does hardly shows in it.
 *
 * `worst` (worst-requests.ts) holds the worst request of every operation; a new operation does not compile without one.
 */
import { rm } from 'node:fs/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { limits } from '../../src/api/limits.ts';
import { operations } from '../../src/api/operations.ts';
import { operationIds, type OperationId } from '../../src/api/paths.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { worstPolicy, worstShapes, type Shape } from '../../src/policy/worst-policies.fixture.ts';
import { Api, type Answered, type Json } from '../lib/http.ts';
import { startPostgres, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { Program, type Run } from '../lib/run.ts';
import { rounds, sample } from '../lib/thorough.ts';
import { forgetPeak, loopMs, peakMiB, Turns } from '../lib/turns.ts';
import { Victim } from '../lib/victim.ts';
import { bodies, credentials, groups, heads, paths, type Input } from './budget-inputs.ts';
import { makeScene, worst as worstOf, type Scene, type Shot } from './worst-requests.ts';

/** What a request may cost, in plain requests. A body of 4 MiB is read, scanned and parsed; the others are hardly more than their heads. */
const budgets = { head: 12, plain: 25, rules: 150, answer: 400 } as const;
type Size = keyof typeof budgets;

const token = `rf_user_${'b'.repeat(43)}`;
let program: Program;
let postgres: TestPostgres;
let data: string;
let turns: Turns;
let run: Run;
let admin: Api;
let nobody: Api;
let described: readonly Route[];
let plain: number;
const variables: Record<string, string> = {};

interface Route {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  /** Undefined where no body is taken. */
  readonly body?: Size;
}

/** Microseconds that the thread of the event loop has run. */
const loopTime = (): number => loopMs(run.child.pid ?? 0) * 1_000;

/** Microseconds of the loop that a request costs: the least of several tries. */
async function cost(ask: () => Promise<unknown>, tries: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let tried = 0; tried < tries; tried += 1) {
    const before = loopTime();
    await ask();
    // What a request leaves for later, as its line in the log, belongs to it.
    await nobody.get('/healthz');
    least = Math.min(least, loopTime() - before);
  }
  return least;
}

beforeAll(async () => {
  [program, postgres, data] = await Promise.all([Program.build(), startPostgres(), temporaryDirectory()]);
  turns = new Turns();
  const options = [
    '--workers',
    '1',
    '--rate-limit',
    '0',
    '--log-level',
    'info',
    '--webhook-hosts',
    'hooks.example.com',
  ];
  run = program.run(['server', '--listen', '127.0.0.1:0', '--data', data, ...options], {
    RINGFENCE_ADMIN_TOKEN: token,
    RINGFENCE_DATABASE_URL: await postgres.freshUrl(),
    ...turns.env,
  });
  nobody = new Api(await run.url());
  admin = nobody.as(token);
  const { id: org_id } = await admin.expect(201, 'POST', '/api/organizations', { name: 'x' });
  const base = `/api/organizations/${org_id}`;
  const group = await admin.expect(201, 'POST', `${base}/security_groups`, { group_name: 'x' });
  const mine = await admin.expect(201, 'POST', `/api/user/${org_id}/security_groups`, { group_name: 'mine' });
  const device = await admin.expect(201, 'POST', `${base}/devices`, { public_key: 'x' });
  const absent = '00000000-0000-4000-8000-000000000000';
  Object.assign(variables, {
    org_id,
    sg_id: group.id,
    user_group: mine.id,
    device_id: device.id,
    user_id: absent,
    token_id: absent,
    key_id: absent,
    webhook_id: absent,
  });
  const document = (await nobody.get('/api/openapi.json')).json;
  described = Object.entries(
    document.paths as Record<string, Record<string, { operationId: string; requestBody?: unknown }>>,
  )
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId: id, requestBody }]): Route => {
        const body =
          requestBody === undefined
            ? {}
            : { body: /security_groups(?:\/\{sg_id\})?$/.test(path) ? ('rules' as const) : ('plain' as const) };
        return { id, method: method.toUpperCase(), path, ...body };
      }),
    )
    // What is deleted is gone for those who come after.
    .filter(({ method, path }) => method !== 'DELETE' || !/\{org_id\}$|\{sg_id\}$|\{device_id\}$/.test(path));
  // The program is warm before anything is measured.
  for (let asked = 0; asked < 300; asked += 1) await admin.get('/api/users/me');
  plain = await cost(() => admin.get('/api/users/me'), 20);
});
afterAll(async () => {
  nobody?.close();
  await program?.close();
  await postgres?.stop();
  turns?.close();
  await rm(data, { recursive: true, force: true });
});

const pages: readonly Route[] = [
  '/',
  '/ui/',
  '/ui/nothing',
  '/healthz',
  '/readyz',
  '/metrics',
  '/api/docs',
  '/nope',
  '/api/nope/x/y',
].map((path) => ({ id: path, method: 'GET', path }));

/** The user-scoped paths know user-owned groups only. */
const groupAt = (path: string): string | undefined => variables[path.startsWith('/api/user/') ? 'user_group' : 'sg_id'];

const worst = new Map<string, { readonly times: number; readonly name: string }>();

/** Sends the input to the route as these people; gives what cost more than it may, in words. */
async function over(route: Route, inputs: readonly Input[], size: Size, as: readonly Api[]): Promise<string[]> {
  const found: string[] = [];
  for (const { name, query = '', variable, headers = {}, raw } of inputs) {
    const path = route.path.replace(
      /\{(\w+)\}/g,
      (_, given: string) => variable ?? (given === 'sg_id' ? groupAt(route.path) : variables[given]) ?? '',
    );
    if (variable !== undefined && path === route.path) continue;
    for (const api of as) {
      const ask = (): Promise<number> =>
        api.status(route.method, `${path}${query}`, { ...(raw === undefined ? {} : { raw }), headers });
      let times = (await cost(ask, 1)) / plain;
      // Noise only ever adds: what seems too much is tried more often before it counts.
      if (times > budgets[size] / 3) times = Math.min(times, (await cost(ask, 5)) / plain);
      const key = `${route.id} ${size}`;
      if ((worst.get(key)?.times ?? 0) < times) worst.set(key, { times, name });
      if (times > budgets[size])
        found.push(`${route.method} ${route.path}, ${name}: ${times.toFixed(1)} plain requests`);
    }
  }
  return found;
}

test('the program tells how long its loop ran, and a plain request costs it something', () => {
  expect(plain).toBeGreaterThan(20);
  expect(plain).toBeLessThan(20_000);
  expect(described.length).toBeGreaterThan(40);
});

test('no path, query or header costs much, at any route, with or without a credential', async () => {
  const found: string[] = [];
  // In `npm test` each route meets some of the inputs, and each input some of the routes.
  for (const [turn, route] of [...described.filter(({ id }) => id !== 'watchEvents'), ...pages].entries()) {
    found.push(...(await over(route, sample(heads, 12, turn), 'head', [nobody, admin])));
  }
  for (const [turn, route] of described.entries())
    found.push(...(await over(route, sample(credentials, 8, turn), 'head', [nobody])));
  found.push(...(await over({ id: 'nowhere', method: 'GET', path: '/nope' }, paths, 'head', [nobody])));
  expect(found).toEqual([]);
});

test('no body costs much that no operation reads: unknown paths, no credential, no right', async () => {
  const found: string[] = [];
  const large = bodies(4 * 1024 * 1024, (value) => value).filter(({ name }) =>
    ['brackets', 'empty objects', 'spaces'].includes(name),
  );
  const routes = [{ id: 'nope', method: 'POST', path: '/nope' }, ...described.filter(({ body }) => body !== undefined)];
  for (const [turn, route] of routes.entries()) {
    found.push(...(await over(route, sample(large, 3, turn), 'plain', [nobody])));
  }
  expect(found).toEqual([]);
});

test('no small body costs much, whatever is in it', async () => {
  const found: string[] = [];
  for (const [turn, route] of described.filter(({ body }) => body === 'plain').entries()) {
    const wrap = (value: string): string =>
      route.id === 'watchEvents' ? `[{"kind":${value}}]` : `{"name":${value},"username":${value}}`;
    found.push(...(await over(route, sample(bodies(64 * 1024, wrap), 12, turn), 'plain', [admin])));
  }
  expect(found).toEqual([]);
});

test('no body with rules costs more than reading it, whatever is in it', async () => {
  const found: string[] = [];
  for (const [turn, route] of described.filter(({ body }) => body === 'rules').entries()) {
    const wrap = (value: string): string => `{"group_name":${value}}`;
    found.push(
      ...(await over(route, sample([...bodies(4 * 1024 * 1024, wrap), ...groups()], 3, turn), 'rules', [admin])),
    );
  }
  expect(found).toEqual([]);
});

/** What an owner can bring about within all limits, and what the dearest answers about it cost. */
test('no answer about the largest policy costs more than reading it: whether it is in force, why, since when, and what it was', async () => {
  const { id: org } = await admin.expect(201, 'POST', '/api/organizations', { name: 'large' });
  const base = `/api/organizations/${org}`;
  const policy = worstPolicy(worstShapes['three groups of 10,000 interleaved ranges, overlapping ports'] as Shape);
  const made: Json[] = [];
  for (const { inbound, outbound } of policy.groups) {
    const body = { group_name: 'large', inbound_rules: inbound, outbound_rules: outbound };
    made.push(await admin.expect(201, 'POST', `${base}/security_groups`, body));
  }
  const labels = Array.from({ length: 32 }, (_, i) => `l${i}`);
  const device = async (n: number): Promise<Json> =>
    admin.expect(201, 'POST', `${base}/devices`, {
      public_key: `key ${n}`,
      tunnel_ip: `100.64.0.${n}`,
      security_groups: made.map(({ id }) => id),
      labels,
    });
  const [one, other] = [await device(1), await device(2)];
  const { revision } = await admin.expect(200, 'GET', `${base}/convergence`);
  const policy_digest = policyDigest(canonicalize(policy));
  for (const { id } of [one, other]) {
    const status = {
      state: 'applied',
      revision,
      policy_digest,
      policy_digest_form: digestForm,
      detail: 'x'.repeat(1_000),
    };
    await admin.expect(200, 'PUT', `${base}/devices/${id}/status`, status);
  }
  // Worked out by the program, of its own rules, and equal to what the test worked out.
  expect(await admin.expect(200, 'GET', `${base}/convergence`)).toMatchObject({ devices: 2, in_force: 2, pending: [] });

  const [group] = made;
  const at = `${base}/security_groups/${group.id}`;
  const renamed = await admin.expect(200, 'PATCH', at, { group_name: 'renamed' });
  const toggled = (n: number) => ({ inbound_rules: policy.groups[n % 2]?.inbound ?? [] });
  let turn = 0;
  const asked: Readonly<Record<string, () => Promise<unknown>>> = {
    'readConvergence after a change of rules': async () => {
      await admin.expect(200, 'PATCH', at, toggled((turn += 1)));
      await admin.expect(200, 'GET', `${base}/convergence`);
    },
    readConvergence: () => admin.expect(200, 'GET', `${base}/convergence?revision=${renamed.revision}`),
    listDeviceStatuses: () => admin.expect(200, 'GET', `${base}/device_statuses`),
    explainConnection: () =>
      admin.expect(200, 'GET', `${base}/explain?from=${one.id}&to=${other.id}&protocol=tcp&port=65535`),
    readOverview: () => admin.expect(200, 'GET', `${base}/overview?hours=336`),
    listGroupHistory: () => admin.expect(200, 'GET', `${at}/history`),
    'listGroups of an earlier revision': () =>
      admin.expect(200, 'GET', `${base}/security_groups?at_revision=${renamed.revision}`),
    restoreGroup: async () => {
      const { revision: before } = await admin.expect(200, 'PATCH', at, toggled((turn += 1)));
      await admin.expect(200, 'PATCH', at, toggled((turn += 1)));
      await admin.expect(200, 'POST', `${at}/restore`, { revision: before });
    },
    listAppliedGroups: () => admin.expect(200, 'GET', `${base}/devices/${one.id}/groups`),
    'updateDevice, labels': () => {
      const some = labels.slice(0, 31 + ((turn += 1) % 2));
      return admin.expect(200, 'PATCH', `${base}/devices/${one.id}`, { labels: some });
    },
  };
  const found: string[] = [];
  for (const [name, ask] of Object.entries(asked)) {
    const times = (await cost(ask, 2)) / plain;
    worst.set(`${name} answered`, { times, name: 'three groups of 10,000 ranges' });
    if (times > budgets.answer) found.push(`${name}: ${times.toFixed(1)} plain requests`);
  }
  expect(found).toEqual([]);
});

/** A person with a token. */
async function person(username: string): Promise<{ readonly id: string; readonly token: string; readonly api: Api }> {
  const { id } = await admin.expect(201, 'POST', '/api/users', { username });
  const issued = await admin.expect(201, 'POST', `/api/users/${id}/tokens`, {});
  return { id, token: issued.token, api: admin.as(issued.token) };
}

/** What one operation may do to others. Turns and waits are processor time of the loop, in plain requests. */
const most = { turn: 500, wait: 700, memoryMiB: 600, answer: limits.answer } as const;
/** Where reading the body is all the work: it is parsed in one piece, and checked in slices. */
const mostTurn: Partial<Record<OperationId, number>> = { reportFlows: 40 };
/** Answers of megabytes, of which a user may ask for many at once. */
const atOnce: Partial<Record<OperationId, number>> = { listSecurityGroupHistory: 32, listAudit: 32 };

interface Effect {
  readonly turn: number;
  readonly wait: number;
  readonly memoryMiB: number;
  readonly answer: number;
  /** On the clock, in milliseconds: for the docs, and no part of the test. */
  readonly clockMs: number;
  readonly problems: readonly string[];
}

/** A stream has no end: it is read up to the tails of its two kinds. */
function send(id: OperationId, shot: Shot, { owner, org }: Scene): Promise<Answered> {
  const { method, path } = operations[id];
  const { as = owner.api, params = {}, query = '', body, raw } = shot;
  const values: Readonly<Record<string, string>> = { org_id: org, ...params };
  const at = `${path.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '')}${query}`;
  const asked = raw === undefined ? { body } : { raw };
  let tails = 0;
  let seen = 0;
  const isListed = (text: string): boolean => {
    tails += text.slice(Math.max(0, seen - 20)).split('"tail"').length - 1;
    seen = text.length;
    return tails >= 2;
  };
  return id === 'watchEvents' ? as.glance(method, at, asked, isListed) : as.ask(method, at, asked);
}

async function effectOf(id: OperationId, shots: readonly Shot[], scene: Scene, victim: Victim): Promise<Effect> {
  const pid = run.child.pid ?? 0;
  // What was done to prepare it, the upkeep of the server among it, does not count.
  await nobody.get('/healthz');
  turns.longest();
  await victim.waited();
  forgetPeak(pid);
  const answers = await Promise.all(shots.map((shot) => send(id, shot, scene)));
  const waited = await victim.waited();
  const problems = answers.flatMap(({ status, text }, index) => {
    const expected = shots[index]?.status ?? operations[id].status;
    // Work that costs more than its budget, and work beside too much other work, is refused. Of many long lists at once, the last may wait for too long.
    const isRefused = operations[id].cost === 'organization' && (status === 422 || status === 429);
    const isLate = atOnce[id] !== undefined && status === 429;
    return status === expected || isRefused || isLate ? [] : [`${id}: ${status} ${text.slice(0, 300)}`];
  });
  if (atOnce[id] !== undefined && answers.every(({ status }) => status === 429))
    problems.push(`${id}: nobody was answered`);
  if (waited.refused > 0) problems.push(`${id}: ${waited.refused} requests of somebody else were not answered`);
  return {
    turn: (turns.longest() * 1_000) / plain,
    wait: (waited.loopMs * 1_000) / plain,
    memoryMiB: peakMiB(pid),
    answer: Math.max(...answers.map(({ text }) => Buffer.byteLength(text))),
    clockMs: waited.ms,
    problems,
  };
}

const effects = new Map<OperationId, Effect>();

test(
  'the worst request of every operation, several at once, blocks nobody, fits into memory and has an answer of a size',
  { timeout: 1_200_000 },
  async () => {
    const scene = await makeScene(admin, person);
    const { token: ofVictim } = await person('victim');
    const victim = new Victim({ url: await run.url(), token: ofVictim, pid: run.child.pid ?? 0 });
    onTestFinished(() => victim.stop());
    const found: string[] = [];
    for (const id of operationIds) {
      const shots: Shot[] = [];
      for (let i = 0; i < (atOnce[id] ?? rounds(2, 4)); i += 1) shots.push(await worstOf[id](scene));
      const effect = await effectOf(id, shots, scene, victim);
      effects.set(id, effect);
      found.push(...effect.problems);
      const { turn, wait, memoryMiB, answer } = effect;
      if (turn > (mostTurn[id] ?? most.turn)) found.push(`${id}: a turn of ${turn.toFixed(0)} plain requests`);
      if (wait > most.wait) found.push(`${id}: somebody else waited for ${wait.toFixed(0)} plain requests`);
      if (memoryMiB > most.memoryMiB) found.push(`${id}: ${memoryMiB.toFixed(0)} MiB of memory`);
      if (operations[id].cost !== 'fixed' && answer > most.answer) found.push(`${id}: an answer of ${answer} bytes`);
    }
    expect(found).toEqual([]);
  },
);

test('the table of what each costs can be printed for the docs', () => {
  const rows = [...worst].map(([key, { times, name }]) => `| ${key} | ${name} | ${times.toFixed(1)} |`);
  expect(rows.length).toBeGreaterThan(50);
  if (process.env['RINGFENCE_BUDGET'] === 'print')
    console.log([`plain request: ${plain.toFixed(0)} µs`, ...rows, '', ...effectRows()].join('\n'));
});

const effectRows = (): readonly string[] => [
  '| operation | longest turn | longest wait of somebody else | … on the clock, ms | memory, MiB | answer, KiB |',
  ...[...effects].map(
    ([id, { turn, wait, clockMs, memoryMiB, answer }]) =>
      `| ${[id, ...[turn, wait, clockMs, memoryMiB, answer / 1_024].map((number) => number.toFixed(0))].join(' | ')} |`,
  ),
];
