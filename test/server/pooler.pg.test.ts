/** Proves that servers work through a real PgBouncer in both modes: writes, transactions, streams, and hints between servers. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { DatabaseNode } from '../lib/database-node.ts';
import type { Api } from '../lib/http.ts';
import { startPgbouncer } from '../lib/pgbouncer.ts';
import {
  newPlace,
  startTestServer,
  type TestPostgres,
  type TestServer,
  type TestServerOptions,
} from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

let node: DatabaseNode;
/** Databases are made beside the pooler. */
let direct: TestPostgres;

beforeAll(async () => {
  node = await DatabaseNode.primary({ max_connections: '200' });
  let made = 0;
  const emptyUrl = async (): Promise<string> => {
    made += 1;
    await node.query(`CREATE DATABASE d${made}`);
    return `postgres://ringfence@127.0.0.1:${node.port}/d${made}`;
  };
  direct = { emptyUrl, freshUrl: emptyUrl, stop: () => Promise.resolve() };
});
afterAll(() => node.remove());

async function startServers(
  mode: 'session' | 'transaction',
  poolSize: number,
  options: (directUrl: string) => TestServerOptions = () => ({}),
): Promise<readonly [TestServer, TestServer]> {
  const pgbouncer = await startPgbouncer(node, mode, poolSize);
  const directUrl = await direct.emptyUrl();
  const url = directUrl.replace(`:${node.port}/`, `:${new URL(pgbouncer.url).port}/`);
  // Both migrate at the same time.
  const servers = await Promise.all([1, 2].map(() => startTestServer(direct, { url, ...options(directUrl) })));
  onTestFinished(async () => {
    await Promise.all(servers.map((server) => server.close()));
    await pgbouncer.close();
  });
  const [here, there] = servers;
  if (here === undefined || there === undefined) throw new Error('there are no servers');
  return [here, there];
}

const notices = (server: TestServer): number => server.logged().split('behind a connection pooler').length - 1;

const deafLines = (server: TestServer): number =>
  server.logged().split('cannot listen for changes of other servers').length - 1;

test('a --database-listen-url that leads through a pooler in transaction mode is noticed: changes are polled, and the way is taken once it works', async () => {
  const listening = await startPgbouncer(node, 'transaction', 3);
  const port = Number(new URL(listening.url).port);
  let isListening = true;
  onTestFinished(() => (isListening ? listening.close() : undefined));
  const [here, there] = await startServers('transaction', 3, (directUrl) => ({
    databaseListenUrl: directUrl.replace(`:${node.port}/`, `:${port}/`),
  }));
  const { org, base, owner } = await newPlace(here);
  const stream = new EventStream(there.url, owner.token, org, [{ kind: 'security-groups' }]);
  onTestFinished(() => stream.close());
  await stream.tail();
  await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'polled' });
  await stream.until('the change', ({ documents }) => documents.some(({ value }) => value?.group_name === 'polled'));
  expect([deafLines(here), deafLines(there)]).toEqual([1, 1]);
  expect(here.logged()).toContain('PgBouncer in transaction mode, or to another database');

  await listening.close();
  isListening = false;
  const other = await startPgbouncer(node, 'session', 10, port);
  onTestFinished(() => other.close());
  const isHeard = (server: TestServer): boolean => server.logged().includes('are heard of at once again');
  await expect.poll(() => [isHeard(here), isHeard(there)]).toEqual([true, true]);
  const heard: string[] = [];
  there.store.log.onHint(({ organizations }) => heard.push(...organizations));
  await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'told' });
  await expect.poll(() => heard).toContain(org);
  expect([deafLines(here), deafLines(there)]).toEqual([1, 1]);
});

test('a --database-listen-url that leads to another database is noticed', async () => {
  const url = await direct.emptyUrl();
  const server = await startTestServer(direct, { url, databaseListenUrl: await direct.emptyUrl() });
  onTestFinished(() => server.close());
  expect(deafLines(server)).toBe(1);
});

describe.each([
  // So few sessions that each serves both servers in turn.
  { mode: 'transaction', poolSize: 3 },
  { mode: 'session', poolSize: 60 },
] as const)('through PgBouncer in $mode mode', ({ mode, poolSize }) => {
  test('two servers write side by side, and a stream of each shows every change once and in order', async () => {
    const [here, there] = await startServers(mode, poolSize);
    const { org, base, owner } = await newPlace(here);
    const streams = [here, there].map(
      (server) => new EventStream(server.url, owner.token, org, [{ kind: 'security-groups' }]),
    );
    await Promise.all(streams.map((stream) => stream.tail()));
    const other = there.nobody.as(owner.token);
    const apiOf = (index: number): Api => (index % 2 === 0 ? owner.api : other);
    const groups = await Promise.all(
      Array.from({ length: 60 }, (_, index) =>
        apiOf(index).expect(201, 'POST', `${base}/security_groups`, { group_name: `g${index}` }),
      ),
    );
    // Each deletion is a transaction of several statements, whose answers are looked at in between.
    await Promise.all(
      groups.map((group, index) => apiOf(index).expect(200, 'DELETE', `${base}/security_groups/${group.id}`)),
    );
    for (const stream of streams) {
      await stream.until(
        'every change',
        ({ documents }) => documents.filter(({ type }) => type === 'delete').length === 60,
      );
      const revisions = stream.documents.flatMap(({ value }) =>
        value?.revision === undefined ? [] : [value.revision],
      );
      expect(revisions).toEqual([...new Set(revisions)].toSorted((a, b) => a - b));
      expect(stream.documents.filter(({ type }) => type === 'change')).toHaveLength(61);
    }
    expect([notices(here), notices(there)]).toEqual([1, 1]);
    for (const server of [here, there]) expect(server.logged()).not.toMatch(/prepared statement|was lost/);
  });

  test('with --database-listen-url the servers hear of each other as without a pooler', async () => {
    const [here, there] = await startServers(mode, poolSize, (directUrl) => ({ databaseListenUrl: directUrl }));
    const { org, base, owner } = await newPlace(here);
    const heard: string[] = [];
    there.store.log.onHint(({ organizations }) => heard.push(...organizations));
    await owner.api.expect(201, 'POST', `${base}/security_groups`, { group_name: 'web' });
    await expect.poll(() => heard).toContain(org);
    expect([notices(here), notices(there)]).toEqual([0, 0]);
  });
});
