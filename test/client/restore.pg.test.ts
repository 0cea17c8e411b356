/** Proves that a restored backup misleads no reader: who resumes from beyond it is told to start afresh, and ends without ghosts. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client as Database } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client } from '../../src/client/http.ts';
import { createInformer } from '../../src/client/informer.ts';
import { backup, restore } from '../../src/server/backup.ts';
import { serverConfig } from '../../src/server/options/config.ts';
import { Api } from '../lib/http.ts';
import { Proxy } from '../lib/proxy.ts';
import { newPlace, startPostgres, startTestServer, type TestPostgres, type TestServer } from '../lib/server.ts';

let postgres: TestPostgres;
let folder: string;
beforeAll(async () => {
  postgres = await startPostgres();
  folder = await mkdtemp(join(tmpdir(), 'rf-restore-'));
});
afterAll(async () => {
  await postgres?.stop();
  await rm(folder, { recursive: true, force: true });
});

const at = (databaseUrl: string) => serverConfig({ databaseUrl }, { env: {}, isRoot: false });

/** As if the backup had been put back by other means than ours, which leap ahead of everything that was ever told. */
async function withoutLeap(url: string): Promise<void> {
  const database = new Database({ connectionString: url });
  await database.connect();
  await database.query('UPDATE heads SET revision = revision - 1000000, purged = 0, version = version - 1000000');
  await database.end();
}

test.each([
  ['ringfence restore, below which nothing is resumed', false],
  ['other means, after which the revisions that were told lie ahead', true],
] as const)('after a backup was put back by %s: 410, and an informer starts afresh', async (how, other) => {
  const file = join(folder, other ? 'other' : 'ours');
  let server: TestServer = await startTestServer(postgres);
  const proxy = await Proxy.start(server.url);
  const stop = new AbortController();
  try {
    const place = await newPlace(server);
    const newDevice = (key: string) =>
      place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: key });
    const kept = await newDevice('kept');
    const lost = await newDevice('deleted after the backup');
    await backup(at(server.databaseUrl), file);

    const client = new Client({ url: proxy.url, token: place.member.token });
    const informer = createInformer({
      client,
      organization: place.org,
      kinds: ['device'],
      silence: 2_000,
      backoff: { first: 20, longest: 200 },
    });
    const run = informer.run({ signal: stop.signal });
    const hosts = (): string[] => [...informer.view('device')].map(({ public_key }) => public_key).toSorted();
    await place.member.api.expect(200, 'DELETE', `${place.base}/devices/${lost.id}`);
    await place.member.api.expect(200, 'PATCH', `${place.base}/devices/${kept.id}`, { hostname: 'later' });
    let last = 0;
    for (let n = 0; n < 20; n += 1) last = (await newDevice(`ghost ${n}`)).revision;
    await expect.poll(() => hosts().length).toBe(21);

    await server.close();
    const url = await postgres.emptyUrl();
    await restore(at(url), file, { replace: false });
    if (other) await withoutLeap(url);
    server = await startTestServer(postgres, { url });
    const api = new Api(server.url, place.member.token);
    const events = `${place.base}/events`;
    const gone = await api.post(events, [{ kind: 'device', gt_revision: last }]);
    expect([gone.status, gone.json.code], how).toEqual([410, 'revision_gone']);
    expect(gone.headers['content-type']).toMatch(/^application\/problem\+json/);
    // Two kinds, one of them from too far ahead: the whole request is refused, before a stream begins.
    const both = await api.post(events, [{ kind: 'security-groups' }, { kind: 'device', gt_revision: last }]);
    expect(both.status).toBe(410);
    api.close();

    proxy.pointAt(server.url);
    await expect.poll(hosts).toEqual(['deleted after the backup', 'kept']);
    expect(informer.view('device').get(kept.id)?.hostname).toBe('');
    const fresh = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'after the restore' });
    await expect.poll(() => informer.view('device').get(fresh.id)?.revision).toBe(fresh.revision);
    stop.abort();
    await run.catch(() => undefined);
  } finally {
    stop.abort();
    await proxy.close();
    await server.close();
  }
});
