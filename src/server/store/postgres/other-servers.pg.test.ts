/** Proves that nothing is sent where nobody else listens, that whoever begins to listen misses nothing, and that nobody is taken for alone who is not. */
import { Client } from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { startPostgres, type TestPostgres } from '../../../../test/lib/postgres.ts';
import { device, makeWorld, openTestStore } from '../store.fixture.ts';
import { clientConfig } from './connection.ts';
import { greeting, listen, OtherServers } from './other-servers.ts';
import type { Done } from './prepared-query.ts';

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await startPostgres();
});
afterAll(() => postgres.stop());

/** A bound, no measure. */
const soon = { timeout: 60_000 };

async function connect(url: string): Promise<Client> {
  const client = new Client(clientConfig(url));
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Who listens and says so, as each server does. */
async function listening(url: string) {
  const client = await connect(url);
  const others = new OtherServers({ askAgainMs: 20 });
  onTestFinished(() => others.end());
  let own = -1;
  client.on('notification', ({ processId }) => {
    if (processId !== own) others.hear();
  });
  own = await listen(client, 'test');
  others.begin(client);
  return { client, others };
}

/** All that is sent on the channel, heard by somebody who does not count as listening, so that it can be seen that nothing is sent. */
async function overhear(url: string): Promise<string[]> {
  const client = await connect(url);
  const heard: string[] = [];
  client.on('notification', ({ payload }) => heard.push(payload ?? ''));
  await client.query('LISTEN ringfence');
  return heard;
}

test('a server that is alone sends nothing; whoever begins to listen hears what was told last, and from then on all', async () => {
  const { store, url, org, owner } = await makeWorld(postgres);
  const heard = await overhear(url);
  await vi.waitFor(async () => {
    const before = heard.length;
    await store.devices.create(org, owner, device(owner.user_id));
    // A hint would go out now, and be heard before the next: it follows upon the answer to the one before.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(heard).toHaveLength(before);
  }, soon);
  const other = await openTestStore(url);
  const there: string[] = [];
  other.log.onHint(({ organizations }) => there.push(...organizations));
  await vi.waitFor(() => expect(heard.at(-1)).toContain(`o${org}`), soon);
  expect(heard).toContain(greeting);
  there.length = 0;
  await store.devices.create(org, owner, device(owner.user_id));
  await vi.waitFor(() => expect(there).toContain(org), soon);
});

test('who is alone knows it, whoever comes is noticed by both, and who stays behind is alone again', async () => {
  const url = await postgres.emptyUrl();
  const first = await listening(url);
  await vi.waitFor(() => expect(first.others.none).toBe(true), soon);
  const second = await listening(url);
  await vi.waitFor(() => expect(first.others.none).toBe(false), soon);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect([first.others.none, second.others.none]).toEqual([false, false]);
  first.others.end();
  await first.client.end();
  await vi.waitFor(() => expect(second.others.none).toBe(true), soon);
});

/** A connection whose answers the test gives. */
function held() {
  const asked: Done[] = [];
  const client = { query: (query: unknown) => asked.push((query as { callback: Done }).callback) };
  const answer = async (alone: boolean | Error): Promise<void> => {
    const done = asked.shift();
    if (alone instanceof Error) done?.(alone, { rows: [] });
    else done?.(null, { rows: [{ alone }] });
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { client, answer };
}

test('until the answer is there, when it fails, and when somebody was heard meanwhile, nobody is taken for alone', async () => {
  const others = new OtherServers();
  onTestFinished(() => others.end());
  const { client, answer } = held();
  others.begin(client);
  expect(others.none).toBe(false);
  others.hear();
  await answer(true);
  expect(others.none).toBe(false);
  others.begin(client);
  await answer(new Error('lost'));
  expect(others.none).toBe(false);
  others.begin(client);
  others.end();
  await answer(true);
  expect(others.none).toBe(false);
  others.begin(client);
  await answer(true);
  expect(others.none).toBe(true);
  others.hear();
  expect(others.none).toBe(false);
});
