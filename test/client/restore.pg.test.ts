/**
 * Proves that a restored backup misleads no reader: a reader that resumes from beyond it must list again, and ends
 * without ghosts.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client as Database } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Client } from '../../src/client/http.ts';
import { createInformer } from '../../src/client/informer.ts';
import { InformerSource } from '../../src/agent/source/informer-policy-source.ts';
import { backup, restore } from '../../src/server/backup.ts';
import { serverConfig } from '../../src/server/options/config.ts';
import { Api } from '../lib/http.ts';
import { Proxy } from '../lib/proxy.ts';
import { EventStream } from '../lib/stream.ts';
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

/** Simulates a restore by other tools than ours: ours raises the revision above every revision ever sent. */
async function withoutLeap(url: string): Promise<void> {
  const database = new Database({ connectionString: url });
  await database.connect();
  await database.query(
    'UPDATE heads h SET revision = g.first - 1, gaps = 0 FROM revision_gaps g WHERE g.org_id = h.org_id AND g.kind IS NULL',
  );
  await database.query('DELETE FROM revision_gaps');
  await database.end();
}

test.each([
  ['ringfence restore, which discards what came after it', false],
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

test.each([
  ['in the place of the database', true],
  ['into an empty one, as if nothing else were left', false],
] as const)(
  'a backup is restored twice, %s: what either restore undid is gone for every reader',
  async (_how, replace) => {
    const file = join(folder, `twice-${replace}`);
    let url = await postgres.freshUrl();
    let server: TestServer = await startTestServer(postgres, { url });
    const proxy = await Proxy.start(server.url);
    const stop = new AbortController();
    try {
      const place = await newPlace(server);
      const asMember = (): Api => new Api(server.url, place.member.token);
      const write = async (name: string): Promise<number[]> => {
        const api = asMember();
        const revisions = [];
        for (let n = 0; n < 3; n += 1) {
          const made = await api.expect(201, 'POST', `${place.base}/devices`, { public_key: `${name} ${n}` });
          revisions.push(made.revision);
        }
        api.close();
        return revisions;
      };
      const policyOf = (port: number) => ({ inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }] });
      const setPolicy = (port: number): Promise<unknown> =>
        new Api(server.url, place.owner.token).expect(
          200,
          'PATCH',
          `${place.base}/security_groups/${place.defaultGroup}`,
          policyOf(port),
        );
      const again = async (): Promise<void> => {
        await server.close();
        if (!replace) url = await postgres.emptyUrl();
        await restore(at(url), file, { replace });
        server = await startTestServer(postgres, { url });
        proxy.pointAt(server.url);
      };
      await setPolicy(22);
      const mine = await asMember().expect(201, 'POST', `${place.base}/devices`, { public_key: 'mine' });
      const [, , head = 0] = await write('kept');
      await backup(at(url), file);

      const client = new Client({ url: proxy.url, token: place.member.token });
      const patience = { silence: 2_000, backoff: { first: 20, longest: 200 } };
      const informer = createInformer({ client, organization: place.org, kinds: ['device'], ...patience });
      const source = new InformerSource({
        client,
        organization: place.org,
        device: mine.id,
        onFault: (fault) => {
          throw fault;
        },
      });
      const runs = [informer.run({ signal: stop.signal }), source.run({ signal: stop.signal })];
      const keys = (): string[] => [...informer.view('device')].map(({ public_key }) => public_key).toSorted();
      const kept = ['kept 0', 'kept 1', 'kept 2', 'mine'];
      const port = (): number | undefined => {
        const known = source.read();
        return known.kind === 'known' ? known.policy.groups[0]?.inbound[0]?.from_port : undefined;
      };
      await setPolicy(80);
      const first = await write('undone');
      await expect.poll(keys).toEqual([...kept, 'undone 0', 'undone 1', 'undone 2']);
      await expect.poll(port).toBe(80);

      await again();
      await setPolicy(443);
      const second = await write('undone too');
      await expect.poll(keys).toEqual([...kept, 'undone too 0', 'undone too 1', 'undone too 2']);
      await expect.poll(port).toBe(443);

      await again();
      const third = await write('last');
      await expect.poll(keys).toEqual([...kept.slice(0, 3), 'last 0', 'last 1', 'last 2', 'mine']);
      await expect.poll(port).toBe(22);
      expect(new Set([...first, ...second, ...third]).size).toBe(9);
      const api = asMember();
      for (const gt_revision of [...first, ...second]) {
        const { status } = await api.post(`${place.base}/events`, [{ kind: 'device', gt_revision }]);
        expect(status, `from ${gt_revision}`).toBe(410);
        expect((await api.get(`${place.base}/devices?gt_revision=${gt_revision}`)).status).toBe(410);
      }
      api.close();
      // What the backup holds is one history with what came after the last restore.
      const stream = await new EventStream(server.url, place.member.token, place.org, [
        { kind: 'device', gt_revision: head },
      ]).tail();
      expect(stream.told).toEqual([...third.map((revision) => `change ${revision}`), 'tail']);
      stream.close();
      stop.abort();
      await Promise.allSettled(runs);
    } finally {
      stop.abort();
      await proxy.close();
      await server.close();
    }
  },
);
