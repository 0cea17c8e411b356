/**
 * Proves that rights are checked when the write happens (reference 5 (15)): for every operation that writes, and every credential and role that may use
 * it, the right ends while the request is on its way, and nothing is written.
 */
import { randomBytes } from 'node:crypto';
import { Client, Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operations } from '../../src/api/operations.ts';
import { pathFor } from '../../src/api/paths.ts';
import { parseTokenId, parseUserId } from '../../src/policy/ids.ts';
import { digestOf } from '../../src/server/identity/secret.ts';
import { readWebhookHost } from '../../src/server/limits/webhook-hosts.ts';
import { eventually } from '../lib/eventually.ts';
import { audience, startProvider, webClient, type TestProvider } from '../lib/provider.ts';
import { startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';
import { isThorough, rounds } from '../lib/thorough.ts';
import { Held, watchGuards } from './held-request.ts';
import { promised, type Role } from './rights-table.ts';
import {
  newId,
  newUser,
  scenarios,
  unique,
  writeIds,
  type Someone,
  type Stage,
  type Target,
  type WriteId,
} from './write-scenarios.ts';

let provider: TestProvider;
let postgres: TestPostgres;
let server: TestServer;
let database: Client;
let watcher: Pool;
let guards: { restore: () => void };

beforeAll(async () => {
  [provider, postgres] = await Promise.all([startProvider(), startPostgres()]);
  server = await startTestServer(postgres, {
    oidcIssuer: [provider.issuer],
    oidcAudience: [audience],
    oidcClientId: webClient.id,
    // Nothing is sent there: the name is reserved for examples.
    webhookHosts: [readWebhookHost('hooks.example.com')],
    webhooks: { workEveryMs: 3_600_000 },
  });
  provider.serveWeb(server.url, { isPublic: true });
  database = new Client({ connectionString: server.databaseUrl });
  watcher = new Pool({ connectionString: server.databaseUrl, max: 2 });
  await database.connect();
  guards = watchGuards();
});
afterAll(async () => {
  guards?.restore();
  await Promise.all([database?.end(), watcher?.end()]);
  await server?.close();
  await postgres?.stop();
  await provider?.stop();
});

type By = 'user_token' | 'session' | 'access_token' | 'device_token' | 'enrollment_key';
/** What ends: the credential, or what its holder is to the organization, the record or the server. */
type Ending = 'credential' | 'role';

interface Try {
  readonly id: WriteId;
  readonly role: Role;
  readonly by: By;
}

interface Credential {
  readonly id: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Ready extends Try {
  readonly stage: Stage;
  readonly credential: Credential;
  readonly target: Target;
}

const isAllowed = (id: WriteId, role: Role): boolean => ['yes', 'orgs', 'itself'].includes(promised(id, role));
const isInOrganization = (id: WriteId): boolean => operations[id].params.includes('org_id');

const userRoles = ['owner', 'member', 'owning_user', 'device_user', 'administrator', 'stranger'] as const;

/** Every role by a user token, every other credential in the first of its roles. */
const tries: readonly Try[] = writeIds.flatMap((id): Try[] => {
  const roles = userRoles.filter((role) => isAllowed(id, role));
  return [
    ...roles.map((role): Try => ({ id, role, by: 'user_token' })),
    ...roles.slice(0, 1).flatMap((role): Try[] => [
      { id, role, by: 'session' },
      { id, role, by: 'access_token' },
    ]),
    ...(['device_token', 'enrollment_key'] as const).flatMap((by): Try[] =>
      isAllowed(id, by) ? [{ id, role: by, by }] : [],
    ),
  ];
});

/**
 * Whose credential ends: to end it is the same in every role, so the first one does, and all of them in a thorough run. In `npm test`
 * sessions and access tokens take turns.
 */
const firstRoles = <T extends Try>(all: readonly T[]): readonly T[] =>
  isThorough
    ? all
    : all.filter(
        (one, index) =>
          one.by !== (writeIds.indexOf(one.id) % 2 === 0 ? 'session' : 'access_token') &&
          all.findIndex(({ id, by }) => id === one.id && by === one.by) === index,
      );

/** Whether the role can be taken without the credential: a token's user stays its user, and an administrator is a user besides. */
const losesRole = ({ id, role, by }: Try): boolean =>
  by === 'user_token' &&
  (role !== 'owning_user' || isInOrganization(id)) &&
  (role !== 'administrator' || !isAllowed(id, 'stranger'));

async function newActor(by: By): Promise<Someone & { readonly accessToken?: string }> {
  if (by !== 'access_token') return newUser(server);
  const { accessToken } = await provider.signIn(unique());
  const api = server.nobody.as(accessToken);
  return { id: (await api.expect(200, 'GET', '/api/users/me')).id, api, accessToken };
}

async function prepare({ id, role, by }: Try): Promise<Ready> {
  const [keeper, actor] = await Promise.all([newUser(server), newActor(by)]);
  const org = await newId(keeper.api, '/api/organizations', { name: unique() });
  const base = `/api/organizations/${org}`;
  const stage: Stage = { server, role, org, base, keeper, actor };
  if (role === 'administrator') await watcher.query('UPDATE users SET is_admin = true WHERE id = $1', [actor.id]);
  if (['owner', 'member', 'owning_user', 'device_user'].includes(role) && isInOrganization(id)) {
    await keeper.api.expect(201, 'POST', `${base}/members`, { user_id: actor.id });
    if (role === 'owner') await keeper.api.expect(200, 'PATCH', `${base}/members/${actor.id}`, { role: 'owner' });
  }
  const target = await scenarios[id](stage);
  if (by !== 'device_token') {
    const credential = await credentialOf(stage, by, actor.accessToken);
    return { id, role, by, stage, credential, target };
  }
  const { id: device_id, device_token } = await keeper.api.expect(201, 'POST', `${base}/devices`, {
    public_key: unique(),
  });
  const found = await watcher.query<{ id: string }>('SELECT id FROM tokens WHERE device_id = $1', [device_id]);
  const credential = { id: found.rows[0]?.id ?? '', headers: { authorization: `Bearer ${device_token}` } };
  return { id, role, by, stage, credential, target: { ...target, params: { device_id } } };
}

/** One after the other: on a busy machine, many writes at once wait longer for a connection than the server lets them. */
async function prepareAll(part: readonly Try[]): Promise<readonly Ready[]> {
  const ready: Ready[] = [];
  for (const one of part) ready.push(await prepare(one));
  return ready;
}

async function credentialOf(
  { keeper, actor, base }: Stage,
  by: Exclude<By, 'device_token'>,
  accessToken = '',
): Promise<Credential> {
  switch (by) {
    case 'user_token': {
      const { id, token } = await server.admin.expect(201, 'POST', `/api/users/${actor.id}/tokens`, {});
      return { id, headers: { authorization: `Bearer ${token}` } };
    }
    case 'session': {
      const secret = `rf_session_${randomBytes(32).toString('base64url')}`;
      const expires_at = new Date(Date.now() + 3_600_000);
      const vouching = { issuer: provider.issuer, client_id: webClient.id };
      const id = await server.store.sessions.begin(parseUserId(actor.id), {
        digest: digestOf(secret),
        provider: vouching,
        expires_at,
      });
      return { id, headers: { cookie: `ringfence-session=${secret}`, origin: server.url, 'x-ringfence-csrf': '1' } };
    }
    case 'access_token':
      return { id: '', headers: { authorization: `Bearer ${accessToken}` } };
    case 'enrollment_key': {
      const { id, key } = await keeper.api.expect(201, 'POST', `${base}/enrollment_keys`, {});
      return { id, headers: { authorization: `Bearer ${key}` } };
    }
    default:
      return by satisfies never;
  }
}

function send({ id, stage: { org }, target: { params = {}, query = '', body }, credential: { headers } }: Ready): Held {
  const path = pathFor(id, { org_id: org, ...params } as unknown as Parameters<typeof pathFor<WriteId>>[1]);
  return new Held(server.url, { method: operations[id].method, path: `${path}${query}`, headers, body });
}

/** The tables, each with a column that says when something was last used or how often a lock was taken: that one may change. */
const tables: Readonly<Record<string, string>> = {
  users: '',
  tokens: 'last_used_at',
  sessions: 'seen_at',
  organizations: '',
  heads: 'version',
  members: '',
  devices: '',
  device_status: '',
  security_groups: '',
  enrollment_keys: '',
  invitations: '',
  webhooks: '',
  webhook_deliveries: '',
  evidence_keys: '',
  changes: '',
  history: '',
  audit: '',
};
const union = (selects: readonly string[]): string => selects.join(' UNION ALL ');
const rowOf = (table: string, but: string): string => `'${table} ' || (to_jsonb(t) - '${but}')::text AS row`;
/** How many rows each table has, and the rows whose one column may change. */
const countsAndRows = union(
  Object.entries(tables).map(([table, but]) =>
    but === ''
      ? `SELECT '${table} has ' || count(*) AS row FROM ${table}`
      : `SELECT ${rowOf(table, but)} FROM ${table} t`,
  ),
);
/** Rows of the other tables whose transaction had not ended at that moment, but for those of the transaction that looks. */
const writtenSince = union(
  Object.entries(tables)
    .filter(([, but]) => but === '')
    .map(
      ([table, but]) => `SELECT ${rowOf(table, but)} FROM ${table} t
        WHERE NOT pg_visible_in_snapshot(t.xmin::text::xid8, $1::pg_snapshot) AND t.xmin::text IS DISTINCT FROM $2`,
    ),
);

/**
 * What is stored at this moment. To compare it costs little however much that is: every row names the transaction that wrote it, and only
 * rows of later ones are read.
 */
interface Stored {
  readonly rows: ReadonlySet<string>;
  readonly snapshot: string;
  /** The transaction of the one that looks, if it has one. */
  readonly own: string | null;
}

const read = async (statement: string, values: readonly unknown[] = []): Promise<readonly string[]> =>
  (await database.query<{ row: string }>(statement, [...values])).rows.map(({ row }) => row);

async function stored(): Promise<Stored> {
  const { rows } = await database.query<Pick<Stored, 'snapshot' | 'own'>>(
    'SELECT pg_current_snapshot()::text AS snapshot, pg_current_xact_id_if_assigned()::text AS own',
  );
  const { snapshot = '', own = null } = rows[0] ?? {};
  return { rows: new Set(await read(countsAndRows)), snapshot, own };
}

/** Rows that were written since, or that are there only before or only now. */
async function changedSince(before: Stored): Promise<readonly string[]> {
  const now = new Set(await read(countsAndRows));
  return [
    ...[...before.rows].filter((row) => !now.has(row)),
    ...[...now].filter((row) => !before.rows.has(row)),
    ...(await read(writtenSince, [before.snapshot, before.own])),
  ];
}

/** A few at a time, so that setting up takes no longer than it must. */
async function inParts<T>(
  all: readonly T[],
  size: number,
  run: (part: readonly T[]) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const wrong: string[] = [];
  for (let at = 0; at < all.length; at += size) wrong.push(...(await run(all.slice(at, at + size))));
  return wrong;
}

/** What is wrong with the answers to writes whose rights have ended: 401 says that the credential is gone, 403 and 404 that the role is. */
const misjudged = (ending: Ending, part: readonly Try[], statuses: readonly number[]): string[] =>
  part.flatMap(({ id, role, by }, index) => {
    const status = statuses[index] ?? 0;
    const isRight =
      ending === 'credential' && by !== 'access_token' ? status === 401 : [401, 403, 404].includes(status);
    return isRight ? [] : [`${id} as ${role} by ${by}, ${ending} ended: ${status}`];
  });

/** Ends the right as people do. */
async function end(ending: Ending, { id, role, by, stage, credential }: Ready): Promise<void> {
  const { base, keeper, actor } = stage;
  const removal = [server.admin, 'DELETE', `/api/users/${actor.id}`] as const;
  const [api, method, path, body] = ((): readonly [Someone['api'], string, string, object?] => {
    if (ending === 'credential') {
      if (by === 'access_token') return removal;
      if (by === 'enrollment_key') return [keeper.api, 'DELETE', `${base}/enrollment_keys/${credential.id}`];
      return [server.admin, 'DELETE', `/api/tokens/${credential.id}`];
    }
    if (role === 'stranger') return removal;
    if (role === 'owner' && !isAllowed(id, 'member'))
      return [keeper.api, 'PATCH', `${base}/members/${actor.id}`, { role: 'member' }];
    return [keeper.api, 'DELETE', `${base}/members/${actor.id}?keep=devices&detach=true`];
  })();
  if (ending === 'credential' && by === 'session') await server.store.sessions.end(parseTokenId(credential.id));
  else if (ending === 'role' && role === 'administrator')
    await watcher.query('UPDATE users SET is_admin = false WHERE id = $1', [actor.id]);
  else await api.expect(200, method, path, body);
}

describe('a right that ends between the head of a request and its body', () => {
  const attempt =
    (ending: Ending) =>
    async (part: readonly Try[]): Promise<readonly string[]> => {
      const ready = await prepareAll(part);
      const requests = ready.map(send);
      await Promise.all(requests.map(({ admitted }) => admitted));
      await Promise.all(ready.map((one) => end(ending, one)));
      const before = await stored();
      for (const request of requests) request.release();
      const statuses = (await Promise.all(requests.map(({ answer }) => answer))).map(({ status }) => status);
      return [...misjudged(ending, part, statuses), ...(await changedSince(before))];
    };

  test('writes nothing: every operation × every credential that may use it, the credential ended', async () => {
    const ended = firstRoles(tries);
    expect(await inParts(ended, 16, attempt('credential'))).toEqual([]);
    expect(ended.length).toBeGreaterThan(rounds(75, 100));
  });

  test('writes nothing: every operation × every role that may use it, the role taken away', async () => {
    const losing = tries.filter(losesRole);
    expect(await inParts(losing, 16, attempt('role'))).toEqual([]);
    expect(losing.length).toBeGreaterThan(30);
  });

  test('is what refuses them: each of these writes happens while its right holds', async () => {
    const wrong = await inParts(firstRoles(tries), 16, async (part) => {
      const requests = (await prepareAll(part)).map(send);
      await Promise.all(requests.map(({ admitted }) => admitted));
      const before = await stored();
      for (const request of requests) request.release();
      const answers = await Promise.all(requests.map(({ answer }) => answer));
      expect(await changedSince(before)).not.toEqual([]);
      return part.flatMap(({ id, role, by }, index) =>
        answers[index]?.status === operations[id].status ? [] : [`${id} as ${role} by ${by}: ${answers[index]?.text}`],
      );
    });
    expect(wrong).toEqual([]);
  });
});

/** In the transaction that holds what the write waits for: as another server does it. */
async function endHolding(ending: Ending, { id, role, stage, credential, target }: Ready): Promise<void> {
  const { org, actor, keeper } = stage;
  const member = [org, actor.id];
  const { sg_id, device_id, key_id } = target.params ?? {};
  const owned = Object.entries({ security_groups: sg_id, devices: device_id, enrollment_keys: key_id }).filter(
    ([, thing]) => thing !== undefined,
  );
  if (ending === 'credential') await database.query('DELETE FROM tokens WHERE id = $1', [credential.id]);
  else if (role === 'administrator')
    await database.query('UPDATE users SET is_admin = false WHERE id = $1', [actor.id]);
  else if (role === 'stranger') await database.query('UPDATE users SET removed_at = now() WHERE id = $1', [actor.id]);
  else if (role === 'owner' && !isAllowed(id, 'member'))
    await database.query(
      `UPDATE members SET role = 'member', owner_since = NULL, is_pending = false WHERE org_id = $1 AND user_id = $2`,
      member,
    );
  else if ((role === 'owning_user' || role === 'device_user') && owned.length > 0)
    for (const [table, thing] of owned)
      await database.query(`UPDATE ${table} SET user_id = $2 WHERE id = $1`, [thing, keeper.id]);
  else await database.query('DELETE FROM members WHERE org_id = $1 AND user_id = $2', member);
  await database.query('UPDATE heads SET version = version + 1 WHERE org_id = $1', [org]);
}

/** Runs this in a transaction, and takes it back where it fails. */
async function inTransaction<T>(work: () => Promise<T>): Promise<T> {
  await database.query('BEGIN');
  try {
    return await work();
  } finally {
    await database.query('ROLLBACK');
  }
}

/** Resolves when so many wait for the transaction of `database`. */
async function waitingFor(count: number): Promise<void> {
  const {
    rows: [me],
  } = await database.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  await eventually(`${count} wait`, async () => {
    const found = await watcher.query('SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))', [me?.pid]);
    return (found.rowCount ?? 0) >= count;
  });
}

describe('a right that ends between the guard and the commit', () => {
  const attempt =
    (ending: Ending) =>
    async (part: readonly Try[]): Promise<readonly string[]> => {
      const ready = await prepareAll(part);
      return inTransaction(async () => {
        for (const { id, stage } of ready)
          await (isInOrganization(id)
            ? database.query('SELECT FROM heads WHERE org_id = $1 FOR UPDATE', [stage.org])
            : database.query('SELECT FROM users WHERE id = $1 FOR UPDATE', [stage.actor.id]));
        const requests = ready.map(send);
        for (const request of requests) request.release();
        await waitingFor(part.length);
        for (const one of ready) await endHolding(ending, one);
        const before = await stored();
        await database.query('COMMIT');
        const statuses = (await Promise.all(requests.map(({ answer }) => answer))).map(({ status }) => status);
        return [...misjudged(ending, part, statuses), ...(await changedSince(before))];
      });
    };
  // A report does not wait: one statement judges and writes it. A server runs four multi-step writes at a time.
  const waiting = tries.filter(({ id, by }) => by === 'user_token' && operations[id].effect === 'write');

  test('writes nothing: every operation × every role that may use it, the token revoked', async () => {
    expect(await inParts(firstRoles(waiting), 4, attempt('credential'))).toEqual([]);
  });

  test('writes nothing: every operation × every role that may use it, the role taken away', async () => {
    expect(await inParts(waiting.filter(losesRole), 4, attempt('role'))).toEqual([]);
  });
});
