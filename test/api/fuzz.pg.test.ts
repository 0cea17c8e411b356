/**
 * Proves the contract by asking everything: random requests over every described route, valid and broken, from every kind of caller.
 * No 5xx, only documented statuses, every answer valid against its schema; every operation succeeds and is refused; the audit counts along.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operations } from '../../src/api/operations.ts';
import type { OperationId } from '../../src/api/paths.ts';
import { Client } from 'pg';
import { Values, type Schema } from '../lib/from-schema.ts';
import type { Answered, Api, Asked, Json } from '../lib/http.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';
import { rounds } from '../lib/thorough.ts';

const requests = Number(process.env['RINGFENCE_FUZZ_REQUESTS'] ?? rounds(1_000, 6_000));
const seed = Number(process.env['RINGFENCE_FUZZ_SEED'] ?? 20_240_611);
const lanes = 8;

const nowhere = '00000000-0000-4000-8000-000000000000';

interface Described {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly query: readonly { readonly name: string; readonly required: boolean; readonly schema: Schema }[];
  readonly body: Schema | undefined;
  readonly responses: Readonly<Record<string, Json>>;
}

let postgres: TestPostgres;
let server: TestServer;
let document: Json;
let described: readonly Described[];
let callers: readonly Api[];
/** The organization that the callers have their roles in. */
let home: string;
/** Ends of a connection, one of which is a device that has an address. */
let ends: readonly string[] = [];
/** A device that nobody deletes, and its own token: only a device reports its traffic. */
let reporter: { readonly id: string; readonly api: Api };
/** Users who stay members at home. */
let members: readonly string[] = [];
/** The audit's newest entry when all was prepared. */
let lastPrepared: string;
/** Ids that answers have named, newest last; of groups, devices and keys those at home. */
const known = new Map<string, string[]>();

/** The newest revision of the place that an answer showed. */
let newest = 0;

function learn(name: string, id: unknown): void {
  // The devices that are needed again are left out, lest they be deleted before.
  if (typeof id !== 'string' || (name === 'org_id' && id === home) || ends.includes(id) || id === reporter?.id) return;
  const ids = known.get(name) ?? [];
  known.set(name, [...ids.slice(-30), id]);
}

function forget(name: string, id: unknown): void {
  known.set(
    name,
    (known.get(name) ?? []).filter((one) => one !== id),
  );
}

beforeAll(async () => {
  postgres = await startPostgres();
  // No program listens there: deliveries fail at once, and stay on this machine.
  const webhookHosts = [{ kind: 'exact', scheme: 'http:', host: '127.0.0.1', port: '9' }] as const;
  server = await startTestServer(postgres, {
    webhookHosts,
    // Named by invitations, and never asked.
    oidcIssuer: ['https://login.example.org'],
    oidcAudience: ['nothing'],
  });
  const place = await newPlace(server);
  const device = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'first' });
  const key = await place.member.api.expect(201, 'POST', `${place.base}/enrollment_keys`, { uses: 50 });
  const reached = { public_key: 'reached', tunnel_ip: '100.64.0.9' };
  const { id: end } = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, reached);
  ends = [end, '192.0.2.9'];
  const reporting = await place.owner.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'reporter' });
  reporter = { id: reporting.id, api: server.nobody.as(reporting.device_token) };
  home = place.org;
  members = [place.owner.id, place.member.id];
  learn('device_id', device.id);
  learn('sg_id', place.defaultGroup);
  // A random request seldom begins a trial, and four operations need one.
  for (const n of [1, 2, 3, 4, 5, 6]) {
    const path = `${place.base}/security_groups?confirm_within=3600`;
    const { trial } = await place.owner.api.expect(201, 'POST', path, { group_name: `tried-${n}` });
    learn('trial_id', trial.id);
  }
  // The callers themselves are left out, lest they be removed from their place.
  for (const username of ['a', 'b'])
    learn('user_id', (await server.admin.expect(201, 'POST', '/api/users', { username })).id);
  const often = (person: { readonly api: Api }, times: number): Api[] =>
    Array.from({ length: times }, () => person.api);
  callers = [
    ...often(place.owner, 12),
    ...often(place.member, 5),
    ...often(place.stranger, 2),
    ...Array.from({ length: 4 }, () => server.admin),
    server.nobody.as(device.device_token),
    server.nobody.as(key.key),
    server.nobody,
    server.nobody.as('nonsense'),
  ];
  const { rows } = await withClient((client) =>
    client.query<{ id: string }>('SELECT id FROM audit ORDER BY id DESC LIMIT 1'),
  );
  lastPrepared = rows[0]?.id ?? nowhere;
  document = (await server.nobody.get('/api/openapi.json')).json;
  described = Object.entries(document.paths as Record<string, Record<string, Json>>).flatMap(([path, methods]) =>
    Object.entries(methods)
      // Ways in and out of a browser's session have tests of their own.
      .filter(([, operation]) => !operation.tags.includes('sign-in'))
      .map(([method, operation]) => ({
        id: operation.operationId,
        method: method.toUpperCase(),
        path,
        query: operation.parameters.filter((parameter: Json) => parameter.in === 'query'),
        body: operation.requestBody?.content['application/json'].schema,
        responses: operation.responses,
      })),
  );
});
afterAll(async () => {
  await server.close();
  await postgres.stop();
});

async function withClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString: server.databaseUrl });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Spellings of a path that must not matter. */
function spell(path: string, choice: number): string {
  const other = path.startsWith('/api/users/') ? path.replace('/users/', '/user/') : path.replace('/user/', '/users/');
  const spelled = choice % 2 === 0 ? path : other;
  return choice % 3 === 0 ? spelled.slice('/api'.length) : spelled;
}

/** Mostly the one place where everything lives; what would end it is aimed elsewhere. */
function pathValue(name: string, id: fc.Arbitrary<string>, operation: string): fc.Arbitrary<string> {
  const recent = fc.nat().map((n) => (known.get(name) ?? []).at(-1 - (n % 8)) ?? known.get(name)?.[0] ?? nowhere);
  const fitting =
    name === 'org_id' && operation !== 'deleteOrganization'
      ? fc.constant(home)
      : name === 'device_id' && operation === 'reportFlows'
        ? fc.constant(reporter.id)
        : name === 'user_id' && operation === 'acceptMember'
          ? fc.constantFrom(...members)
          : recent;
  return fc.oneof(
    { weight: 14, arbitrary: fitting },
    { weight: 1, arbitrary: recent },
    { weight: 1, arbitrary: id },
    {
      weight: 1,
      arbitrary: fc.constantFrom('x', '%00', nowhere, 'é', "'; DROP TABLE users; --").map(encodeURIComponent),
    },
  );
}

interface Ask {
  readonly operation: Described;
  readonly caller: Api;
  readonly path: string;
  readonly asked: Asked;
}

/** Values of parameters that a schema alone does not find. */
const good: Readonly<Record<string, () => fc.Arbitrary<string>>> = {
  // Who waits for what will not come holds a lane for as long.
  wait: () => fc.constantFrom('0', '1', '121'),
  from: () => fc.constantFrom(...ends),
  to: () => fc.constantFrom(...ends),
  protocol: () => fc.constantFrom('tcp', 'udp', 'icmp', '47'),
  confirm_within: () => fc.constantFrom('10', '3600'),
  scope: () => fc.constantFrom('label:canary', 'label:a+b,label:c', 'all-devices'),
};

/** Parameters of a trial, which locks its records, and of owners only: most requests go without. */
const rare: ReadonlySet<string> = new Set(['confirm_within', 'scope', 'skip_tests']);

function asks(values: Values, among: readonly Described[]): fc.Arbitrary<Ask> {
  // Deletions are rarer than what they need, or there would soon be nothing left to ask about.
  const chosen = among.flatMap((one) =>
    Array.from({ length: one.method === 'DELETE' && one.id !== 'removeUser' ? 1 : 4 }, () => one),
  );
  return fc.constantFrom(...chosen).chain((operation) => {
    const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '');
    const params = fc.tuple(...names.map((name) => pathValue(name, values.id(), operation.id)));
    const query = fc.record(
      Object.fromEntries(
        operation.query.map(({ name, schema }) => [
          name,
          fc.oneof(
            { weight: 4, arbitrary: good[name]?.() ?? values.valid(schema).map(String) },
            { weight: 1, arbitrary: fc.constantFrom('', '-1', 'x', '0', '1e3', 'true', '%00') },
          ),
        ]),
      ),
      {
        requiredKeys: operation.query.filter(({ required }) => required).map(({ name }) => name),
        noNullPrototype: true,
      },
    );
    const { body } = operation;
    const payload: fc.Arbitrary<Asked> =
      body === undefined
        ? fc.constant({})
        : fc.oneof(
            { weight: 5, arbitrary: values.valid(body).map((value): Asked => ({ body: value })) },
            // A state to restore is a recent one.
            {
              weight: operation.id === 'restoreSecurityGroup' ? 5 : 0,
              arbitrary: fc.nat(3).map((n): Asked => ({ body: { revision: Math.max(0, newest - n) } })),
            },
            // The times of a report belong together.
            {
              weight: operation.id === 'reportFlows' ? 5 : 0,
              arbitrary: fc.integer({ min: 1, max: 59 }).map((minute): Asked => {
                const times = {
                  since: '2026-11-18T08:00:00Z',
                  until: `2026-11-18T08:${String(minute).padStart(2, '0')}:00Z`,
                };
                return { body: { ...times, observed: 'refused', tuples: [], not_recorded: minute } };
              }),
            },
            // Of an invitation, one field names the person.
            {
              weight: operation.id === 'createInvitation' ? 8 : 0,
              arbitrary: fc.nat(999).map((n): Asked => ({ body: { email: `person-${n}@example.org` } })),
            },
            // The new user of a device is a member.
            {
              weight: operation.id === 'moveDevice' ? 8 : 0,
              arbitrary: fc.constantFrom(...members).map((user_id): Asked => ({ body: { user_id } })),
            },
            // Few random change sets are valid as a whole.
            {
              weight: ['applyChanges', 'simulateChanges'].includes(operation.id) ? 5 : 0,
              arbitrary: fc.nat(999).map((n): Asked => ({ body: { security_groups: [{ group_name: `set-${n}` }] } })),
            },
            // A moment when the device exists: a caller's clock may be a minute ahead.
            {
              weight: operation.id === 'createEvidence' ? 8 : 0,
              arbitrary: fc
                .nat(9)
                .map((n): Asked => ({ body: { at: new Date(Date.now() + 40_000 + n * 1_000).toISOString() } })),
            },
            { weight: 4, arbitrary: values.broken(body).map((value): Asked => ({ body: value })) },
            { weight: 1, arbitrary: fc.string().map((raw): Asked => ({ raw })) },
            { weight: 1, arbitrary: fc.constant<Asked>({ raw: '{}', headers: { 'content-type': 'text/plain' } }) },
          );
    const fitting = operation.id === 'reportFlows' ? callers.map(() => reporter.api) : [];
    const headers = fc.oneof(
      { weight: 20, arbitrary: fc.constant<Record<string, string>>({}) },
      {
        // Of few that would succeed, few have a condition that does not hold.
        weight: /^(update|delete)(Device|SecurityGroup)$/.test(operation.id) ? 20 : 5,
        arbitrary: fc
          .constantFrom('*', '"1"', '"1", "2"', 'x')
          .map((tag): Record<string, string> => ({ 'if-match': tag })),
      },
      { weight: 1, arbitrary: fc.constant<Record<string, string>>({ accept: 'text/html' }) },
    );
    return fc
      .tuple(params, query, payload, headers, fc.constantFrom(...callers, ...fitting), fc.nat(), fc.nat(3))
      .map(([filled, given, asked, more, caller, spelling, chance]) => {
        // Many parameters at once are seldom good together, so some requests have only what they must.
        const isSent = ({ name, required }: Described['query'][number]): boolean =>
          required || (chance !== 1 && (chance === 0 || !rare.has(name)));
        const sent = new Set(operation.query.filter(isSent).map(({ name }) => name));
        const parameters = Object.fromEntries(Object.entries(given).filter(([name]) => sent.has(name)));
        let path = operation.path;
        for (const [index, name] of names.entries()) path = path.replace(`{${name}}`, filled[index] ?? '');
        const search = new URLSearchParams(parameters).toString();
        return {
          operation,
          caller,
          path: `${spell(path, spelling)}${search === '' ? '' : `?${search}`}`,
          asked: { ...asked, headers: { ...asked.headers, ...more } },
        };
      });
  });
}

/** Which path variable the ids in an answer of this operation are for; a deletion takes its id away. */
const gives: Readonly<Record<string, string>> = {
  createOrganization: 'org_id',
  createDevice: 'device_id',
  createSecurityGroup: 'sg_id',
  createUserSecurityGroup: 'sg_id',
  createEnrollmentKey: 'key_id',
  createMyToken: 'token_id',
  createUserToken: 'token_id',
  createUser: 'user_id',
  addMember: 'user_id',
  listOrganizations: 'org_id',
  deleteOrganization: 'org_id',
  listDevicesInOrganization: 'device_id',
  deleteDevice: 'device_id',
  listSecurityGroups: 'sg_id',
  listUserSecurityGroups: 'sg_id',
  deleteSecurityGroup: 'sg_id',
  deleteUserSecurityGroup: 'sg_id',
  listEnrollmentKeys: 'key_id',
  revokeEnrollmentKey: 'key_id',
  revokeToken: 'token_id',
  removeUser: 'user_id',
  createWebhook: 'webhook_id',
  listWebhooks: 'webhook_id',
  deleteWebhook: 'webhook_id',
  applyChanges: 'change_id',
  createInvitation: 'invitation_id',
  listInvitations: 'invitation_id',
  revokeInvitation: 'invitation_id',
};

/** Whether an operation makes what this one's path names. */
const supplies = (id: string, { path }: Described): boolean =>
  (/^(create|add|apply)/.test(id) && path.includes(`{${gives[id]}}`)) ||
  (id === 'createSecurityGroup' && path.includes('{trial_id}'));

/** Asks; of a stream only the beginning is read. Without a tail to come, there may be nothing to wait for. */
async function answerTo({ operation, caller, path, asked }: Ask): Promise<Answered> {
  if (operation.id !== 'watchEvents') return caller.ask(operation.method, path, asked);
  const items: unknown = asked.body;
  const silent = Array.isArray(items) && items.every((item: Json) => item?.at_tail === true);
  return caller.glance(operation.method, path, asked, (text) => silent || documentsOf(text).length > 0);
}

/** The whole documents in a stream's beginning; one that is no JSON is undefined. */
const documentsOf = (text: string): unknown[] =>
  text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      try {
        return JSON.parse(line) as unknown;
      } catch {
        return undefined;
      }
    });

/**
 * How many requests the audit knows since the callers began, and by operation; what a request takes along has entries of its own. Entries without a
 * request are the server's own, as at the end of a trial.
 */
async function auditedRequests(): Promise<{ readonly all: number; readonly by: ReadonlyMap<string, number> }> {
  const { rows } = await withClient((client) =>
    client.query<{ operation: string | null; count: string }>(
      `SELECT operation, count(DISTINCT request_id) FROM audit WHERE id > $1 AND request_id <> ''
        GROUP BY GROUPING SETS ((operation), ())`,
      [lastPrepared],
    ),
  );
  const counted = (of: (operation: string | null) => boolean) =>
    rows.flatMap(({ operation, count }) => (of(operation) ? [[operation ?? '', Number(count)] as const] : []));
  return { all: counted((one) => one === null)[0]?.[1] ?? 0, by: new Map(counted((one) => one !== null)) };
}

test('no request gets an undocumented status, a 5xx, or an answer that its schema does not know', async () => {
  const ajv = new Ajv2020({ strict: false, allErrors: false });
  addFormats.default(ajv);
  ajv.addSchema({ $id: 'https://ringfence.invalid/api', ...document });
  const validators = new Map<string, ValidateFunction>();
  const validator = (schema: Json): ValidateFunction => {
    const text = JSON.stringify(schema).replaceAll('"#/', '"https://ringfence.invalid/api#/');
    const made = validators.get(text) ?? ajv.compile(JSON.parse(text) as Schema);
    validators.set(text, made);
    return made;
  };
  const wrong: string[] = [];
  const statuses = new Map<number, number>();
  const succeeded = new Map<string, number>();
  const dryRuns = new Map<string, number>();
  const refused = new Set<string>();

  const judge = ({ operation, path, asked }: Ask, answer: Answered): void => {
    const said = `${operation.id} ${operation.method} ${path} ${JSON.stringify(asked).slice(0, 300)}: ${answer.status} ${answer.text.slice(0, 300)}`;
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
    const reference = operation.responses[String(answer.status)];
    if (answer.status >= 500 || reference === undefined) return void wrong.push(`undocumented: ${said}`);
    const response =
      reference.$ref === undefined ? reference : document.components.responses[reference.$ref.split('/').at(-1)];
    const [type, content] = Object.entries(response.content as Record<string, { schema: Json }>)[0] ?? ['', undefined];
    if (!String(answer.headers['content-type']).startsWith(type)) return void wrong.push(`content type: ${said}`);
    const validate = validator(content?.schema);
    const isStream = operation.id === 'watchEvents' && answer.status === 200;
    for (const json of isStream ? documentsOf(answer.text) : [answer.json]) {
      if (!validate(json)) return void wrong.push(`${ajv.errorsText(validate.errors)}: ${said}`);
    }
    if (answer.status >= 400) refused.add(operation.id);
    if (answer.status < 300) {
      succeeded.set(operation.id, (succeeded.get(operation.id) ?? 0) + 1);
      // A flag without a value is set.
      if (/[?&]dry_run(=true|=)?(&|$)/.test(path)) dryRuns.set(operation.id, (dryRuns.get(operation.id) ?? 0) + 1);
      const name = gives[operation.id];
      const at = /organizations\/([^/?]+)\/|users?\/([^/?]+)\/security_groups/.exec(path);
      const elsewhere = at !== null && (at[1] ?? at[2]) !== home;
      const rows = Array.isArray(answer.json) ? answer.json : [answer.json];
      if (!elsewhere)
        for (const row of rows.slice(-8)) {
          learn('trial_id', row?.trial?.id);
          if (operation.id === 'createSecurityGroup') newest = Math.max(newest, row.revision);
        }
      if (elsewhere || name === undefined) return undefined;
      for (const row of rows.slice(-8))
        (operation.method === 'DELETE' ? forget : learn)(name, row.id ?? row.change_id ?? row.user_id);
    }
    return undefined;
  };

  const values = new Values(
    document.components.schemas,
    () => [...known.values()].flat(),
    () => home,
    () => known.get('user_id') ?? [],
  );
  const askAll = async (count: number, among: readonly Described[], turn = 0): Promise<void> => {
    const generator = fc.sample(fc.infiniteStream(asks(values, among)), { seed: seed + turn, numRuns: 1 })[0];
    if (generator === undefined) throw new Error('nothing to ask');
    let asked = 0;
    const lane = async (): Promise<void> => {
      while (asked < count) {
        asked += 1;
        const next = generator.next();
        if (next.done === true) return;
        judge(next.value, await answerTo(next.value));
      }
    };
    await Promise.all(Array.from({ length: lanes }, lane));
  };
  await askAll(requests, described);
  // Some succeed only when several things are right at once. They get more turns, with what makes the things that they need.
  const lacking = (): Described[] => described.filter(({ id }) => !succeeded.has(id) || !refused.has(id));
  let turn = 1;
  for (; turn <= 80 && lacking().length > 0; turn += 1) {
    const missing = lacking();
    await askAll(100, [...missing, ...described.filter(({ id }) => missing.some((one) => supplies(id, one)))], turn);
  }
  if (process.env['RINGFENCE_FUZZ_REPORT'] !== undefined)
    process.stderr.write(`${turn} turns, ${JSON.stringify([...statuses])}\n`);
  expect(wrong.slice(0, 20)).toEqual([]);
  // A run that asked too little, or was refused everywhere, would prove nothing.
  const total = [...statuses.values()].reduce((sum, count) => sum + count, 0);
  expect(total).toBeGreaterThanOrEqual(Math.min(5000, requests * 0.9));
  for (const status of [200, 201, 400, 401, 403, 404, 406, 409, 412, 415, 422]) {
    expect(statuses.get(status) ?? 0, `answers of ${status}`).toBeGreaterThan(0);
  }
  const ids = described.map(({ id }) => id);
  expect(ids.filter((id) => !succeeded.has(id))).toEqual([]);
  expect(ids.filter((id) => !refused.has(id))).toEqual([]);
  // A dry run is no write, and leaves no entry.
  const written = [...succeeded]
    .filter(([id]) => operations[id as OperationId].effect === 'write')
    .map(([id, count]) => [id, count - (dryRuns.get(id) ?? 0)] as const);
  const audited = await auditedRequests();
  expect(audited.all).toBe(written.reduce((sum, [, count]) => sum + count, 0));
  expect(written.filter(([id, count]) => (audited.by.get(id) ?? 0) < count)).toEqual([]);
});
