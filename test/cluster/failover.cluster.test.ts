/** Proves what happens to servers on a primary with a standby: failover, an old primary that returns, commits in doubt. */
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import { DatabaseNode } from '../lib/database-node.ts';
import { eventually } from '../lib/eventually.ts';
import { freePort } from '../lib/free-port.ts';
import { Api } from '../lib/http.ts';
import { temporaryDirectory } from '../lib/postgres.ts';
import { Program } from '../lib/run.ts';
import {
  newPlace,
  startTestServer,
  type Place,
  type TestPostgres,
  type TestServer,
  type TestServerOptions,
} from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

const none: TestPostgres = {
  freshUrl: () => Promise.reject(new Error('a URL is given')),
  emptyUrl: () => Promise.reject(new Error('a URL is given')),
  stop: () => Promise.resolve(),
};

async function startNodes(): Promise<{ readonly a: DatabaseNode; readonly b: DatabaseNode; readonly url: string }> {
  const a = await DatabaseNode.primary();
  onTestFinished(() => a.remove());
  const b = await a.standby();
  onTestFinished(() => b.remove());
  const url = `postgres://ringfence@127.0.0.1:${a.port},127.0.0.1:${b.port}/postgres?target_session_attrs=read-write`;
  return { a, b, url };
}

async function startOn(url: string, options: TestServerOptions = {}): Promise<TestServer> {
  const server = await startTestServer(none, { ...options, url });
  onTestFinished(() => server.close());
  return server;
}

const create = (server: TestServer, { base, owner }: Place, name: string) =>
  server.nobody.as(owner.token).post(`${base}/security_groups`, { group_name: name });

const namesOn = async (node: DatabaseNode): Promise<readonly string[]> =>
  (await node.query<{ name: string }>('SELECT group_name AS name FROM security_groups')).map(({ name }) => name);

async function eventuallyCreates(server: TestServer, place: Place, name: string): Promise<void> {
  let attempt = 0;
  await eventually(`the group ${name} is made`, async () => {
    attempt += 1;
    return (await create(server, place, `${name}-${attempt}`)).status === 201;
  });
}

test('servers follow a failover, and write nothing to the old primary when it returns alone', async () => {
  const { a, b, url } = await startNodes();
  const servers = [await startOn(url), await startOn(url)];
  const [here, there] = servers;
  if (here === undefined || there === undefined) throw new Error('there are no servers');
  const place = await newPlace(here);
  const stream = new EventStream(there.url, place.owner.token, place.org, [{ kind: 'security-groups' }]);
  await stream.tail();
  expect((await create(here, place, 'before')).status).toBe(201);
  await stream.shows('"before"');
  await eventually('the standby has it', async () => (await namesOn(b)).includes('before'));

  await a.kill();
  const refused = await create(here, place, 'nowhere');
  expect([refused.status, refused.json.code]).toEqual([503, expect.stringMatching(/^(unavailable|outcome_unknown)$/)]);
  await b.promote();
  await eventuallyCreates(here, place, 'after');
  await eventuallyCreates(there, place, 'also');
  await stream.shows('"after-');
  await stream.shows('"also-');

  // The new primary goes away, and the old one comes back, and knows nothing of the other.
  await b.kill();
  await a.start();
  for (let round = 0; round < 20; round += 1) {
    for (const server of servers) expect((await create(server, place, 'stale')).status).toBe(503);
  }
  const late = new EventStream(there.url, place.owner.token, place.org, [{ kind: 'security-groups' }]);
  await late.answered();
  expect(late.status).toBe(503);
  expect(await namesOn(a)).not.toContain('stale');

  await b.start();
  await eventuallyCreates(here, place, 'again');
  await eventuallyCreates(there, place, 'once-more');
  expect((await namesOn(a)).filter((name) => /^(stale|again|once-more)/.test(name))).toEqual([]);

  // A server that starts now takes the newer of the two primaries, though the other is named first.
  const late2 = await startOn(url);
  await eventuallyCreates(late2, place, 'newcomer');
  expect((await namesOn(a)).filter((name) => name.startsWith('newcomer'))).toEqual([]);
});

test('a standby alone is refused at the start, in words', async () => {
  const { b } = await startNodes();
  await expect(startTestServer(none, { url: b.url })).rejects.toThrow(/it is a standby/);
});

test('a commit whose synchronous standby is not awaited is outcome_unknown, and no stream of any server shows it until it is safe', async () => {
  const { a, b } = await startNodes();
  const [here, there] = [await startOn(a.url), await startOn(a.url)];
  const place = await newPlace(here);
  await b.kill();
  const streams = [here, there].map(
    (server) => new EventStream(server.url, place.owner.token, place.org, [{ kind: 'security-groups' }]),
  );
  await Promise.all(streams.map((stream) => stream.tail()));
  await a.reload({ synchronous_standby_names: 'standby' });
  const waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
  const cancelled = async <T>(what: string, asked: Promise<T>): Promise<T> => {
    let isAnswered = false;
    const answer = asked.finally(() => (isAnswered = true));
    // Other commits of the servers may wait before it.
    await eventually(`${what} waits for the standby, and is answered`, async () => {
      await a.query(waits);
      return isAnswered;
    });
    return answer;
  };
  const answer = await cancelled('the commit', create(here, place, 'doubtful'));
  expect([answer.status, answer.json.code]).toEqual([503, 'outcome_unknown']);
  // Who only reads has changed nothing that may or may not have happened.
  const watch = there.nobody.as(place.owner.token).post(`${place.base}/events`, [{ kind: 'security-groups' }]);
  const unread = await cancelled('a new stream', watch);
  expect([unread.status, unread.json.code]).toEqual([503, 'unavailable']);
  // It is there, and everybody who reads the table sees it.
  expect(await namesOn(a)).toContain('doubtful');
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  for (const stream of streams) expect(stream.raw).not.toContain('doubtful');
  await b.start();
  for (const stream of streams) await stream.shows('"doubtful"');
});

test('a failover that loses nothing leaves what devices reported: they stay in force while they are away, and no alert comes twice', async () => {
  const { a, b, url } = await startNodes();
  await a.reload({ synchronous_standby_names: 'standby' });
  const server = await startOn(url, {
    webhookHosts: [{ kind: 'exact', scheme: 'http:', host: '127.0.0.1', port: '9' }],
    webhooks: { settleMs: 0, scanEveryMs: 20, workEveryMs: 10, firstRetryMs: 20, longestRetryMs: 50 },
  });
  const place = await newPlace(server);
  const { api } = place.owner;
  const device = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'edge' });
  const group = await api.expect(200, 'GET', `${place.base}/security_groups/${place.defaultGroup}`);
  const policy = {
    id: parseGroupId(group.id),
    name: group.group_name,
    inbound: group.inbound_rules,
    outbound: group.outbound_rules ?? [],
  };
  const receipt = {
    state: 'applied',
    revision: device.revision,
    policy_digest: policyDigest(canonicalize({ source: 'default', groups: [policy] })),
    policy_digest_form: digestForm,
    drift_repairs: 1,
  };
  const hook = { url: 'http://127.0.0.1:9/hook', events: ['device.drift_repaired'] };
  const { id } = await api.expect(201, 'POST', `${place.base}/webhooks`, hook);
  const looks = async (node: DatabaseNode): Promise<number> =>
    (await node.query<{ looks: number }>('SELECT looks FROM webhooks'))[0]?.looks ?? 0;
  const looksAgain = async (node: DatabaseNode): Promise<void> => {
    const before = await looks(node);
    await eventually('the webhook is looked at twice', async () => (await looks(node)) > before + 1);
  };
  const alerts = async (): Promise<number> =>
    (await api.expect(200, 'GET', `${place.base}/webhooks/${id}/deliveries`)).length;
  const report = () =>
    server.nobody.as(device.device_token).expect(200, 'PUT', `${place.base}/devices/${device.id}/status`, receipt);
  const status = async () => (await api.expect(200, 'GET', `${place.base}/device_statuses`))[0];
  // Repairs from before the first look are no news.
  await looksAgain(a);
  await report();
  await eventually('the alert is there', async () => (await alerts()) === 1);
  const before = await status();
  expect(before).toMatchObject({ in_force: 'yes', online: false });

  await a.kill();
  await b.promote();
  await eventuallyCreates(server, place, 'after');
  expect(await status()).toEqual(before);
  await looksAgain(b);
  await report();
  await looksAgain(b);
  expect(await alerts()).toBe(1);
  expect(server.logged()).toMatch(/another primary took over/);
  expect(server.logged()).not.toMatch(/lost a part of its history/);
});

test('a worker that replaces another one refuses the old primary that returns alone, though it never met the new one', async () => {
  const { a, b, url } = await startNodes();
  const [program, data] = await Promise.all([Program.build(), temporaryDirectory()]);
  onTestFinished(async () => {
    await program.close();
    await rm(data, { recursive: true, force: true });
  });
  const token = 'operator-token-0123456789-0123456789';
  // With any free port, it would be another one once no worker has it.
  const place = ['--listen', `127.0.0.1:${await freePort()}`, '--data', data, '--database-url', url];
  const run = program.run(['server', ...place, '--workers', '2', '--database-wait', '1'], {
    RINGFENCE_ADMIN_TOKEN: token,
  });
  const at = await run.url();
  let attempt = 0;
  const isMade = async (name: string): Promise<boolean> => {
    attempt += 1;
    const { status } = await new Api(at).as(token).post('/api/users', { username: `${name}-${attempt}` });
    return status === 201;
  };
  const workers = (): readonly string[] =>
    readFileSync(`/proc/${run.child.pid}/task/${run.child.pid}/children`, 'utf8').split(' ').filter(Boolean);
  await eventually('the standby has the administrator', async () => (await b.query('SELECT FROM users')).length > 0);

  await a.kill();
  await b.promote();
  await eventually('the promoted primary takes writes', () => isMade('after'));
  await b.kill();
  await a.start();
  for (const pid of workers()) process.kill(Number(pid), 'SIGKILL');
  await run.shows(/a worker cannot serve: .*another primary has replaced it/);

  await b.start();
  await eventually('the promoted primary takes writes again', () => isMade('again').catch(() => false));
  expect(await a.query(`SELECT FROM users WHERE username LIKE 'again%'`)).toEqual([]);
});
