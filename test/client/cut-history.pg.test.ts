/**
 * Proves that a database that loses a part of its history under a running server misleads no reader: an informer, the policy source of an agent and a reader
 * that sends nothing but `gt_revision` end equal to the database, without a ghost and without a missed change (reference 4.3 (27)).
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client as Database } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { InformerSource } from '../../src/agent/source/informer-policy-source.ts';
import { RingfenceError } from '../../src/client/error.ts';
import { Client } from '../../src/client/http.ts';
import { createInformer } from '../../src/client/informer.ts';
import { watch } from '../../src/client/watch.ts';
import { canonicalize } from '../../src/policy/canonicalize.ts';
import { digestForm } from '../../src/policy/digest/digest-form.ts';
import { policyDigest } from '../../src/policy/digest/digest.ts';
import { parseGroupId } from '../../src/policy/ids.ts';
import { dumpDatabase } from '../../src/server/database/dump.ts';
import { openDatabase, type Database as Supervised } from '../../src/server/database/supervise.ts';
import { asSuperuser, temporaryDirectory, type TestPostgres } from '../lib/postgres.ts';
import { pgRestore } from '../lib/pg-restore.ts';
import { newPlace, startTestServer, type Place, type TestServer } from '../lib/server.ts';
import { EventStream } from '../lib/stream.ts';

const run = promisify(execFile);
const settings = { fsync: 'off', full_page_writes: 'off' };

let dir: string;
let snapshots: string;
let database: Supervised;
beforeAll(async () => {
  dir = await temporaryDirectory();
  snapshots = await mkdtemp(`${dir}-snapshots-`);
  database = await openDatabase({ dir, settings });
});
afterAll(async () => {
  await database?.stop();
  await rm(dir, { recursive: true, force: true });
  await rm(snapshots, { recursive: true, force: true });
});

const files = (): string => join(dir, 'postgres');
const snapshot = (): string => join(snapshots, 'postgres');

const copyFiles = async (from: string, to: string): Promise<void> => {
  await rm(to, { recursive: true, force: true });
  // With owner and mode, which PostgreSQL insists on.
  await run('cp', ['-a', from, to]);
};

/** Ways to take a copy of the database at one moment, and to put it back under a running server. */
const ways: readonly (readonly [
  title: string,
  way: { readonly take: () => Promise<void>; readonly putBack: () => Promise<void> },
])[] = [
  [
    'a snapshot of its files is put back',
    {
      take: async () => {
        await database.stop();
        await copyFiles(files(), snapshot());
        database = await openDatabase({ dir, settings });
      },
      putBack: async () => {
        await database.stop();
        await copyFiles(snapshot(), files());
        database = await openDatabase({ dir, settings });
      },
    },
  ],
  [
    'a standby takes over that lacks the last commits',
    {
      take: async () => {
        await rm(snapshot(), { recursive: true, force: true });
        await database.stop();
        await copyFiles(files(), snapshot());
        await writeFile(join(snapshot(), 'standby.signal'), '');
        database = await openDatabase({ dir, settings });
      },
      putBack: async () => {
        await database.stop();
        await copyFiles(snapshot(), files());
        database = await openDatabase({ dir, settings });
        const client = new Database({ connectionString: asSuperuser(database.url) });
        await client.connect();
        await client.query('SELECT pg_promote()');
        await client.end();
      },
    },
  ],
  [
    'pg_restore puts a dump back',
    {
      take: async () => {
        await rm(join(snapshots, 'dump'), { force: true });
        await dumpDatabase({ ...database, file: join(snapshots, 'dump') });
      },
      putBack: () => pgRestore({ ...database, file: join(snapshots, 'dump') }),
    },
  ],
];

/** A reader of the specification alone: the last revision that it received is all that it knows. */
class PlainReader {
  readonly held = new Map<string, { readonly public_key: string }>();
  #after = 0;

  async follow(client: Client, org: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let listed: Set<string> | undefined = this.#after === 0 ? new Set() : undefined;
      try {
        const item = { kind: 'device', ...(this.#after > 0 && { gt_revision: this.#after }) } as const;
        for await (const event of watch(client, org, [item], { signal, silence: 2_000 })) {
          if (event.type === 'tail') {
            for (const id of this.held.keys()) if (listed?.has(id) === false) this.held.delete(id);
            listed = undefined;
            continue;
          }
          this.#after = Math.max(this.#after, event.revision);
          if (event.type === 'delete') this.held.delete(event.id);
          else this.held.set(event.id, event.value);
          listed?.add(event.id);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof RingfenceError)) throw error;
        if (error.code === 'revision_gone' || listed !== undefined) this.#after = 0;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  }
}

/** Asks until the server takes it: the database may be away for a moment. */
async function persist<T>(ask: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries === 600) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

const write = async (place: Place, name: string): Promise<number[]> => {
  const revisions: number[] = [];
  for (let n = 0; n < 15; n += 1) {
    const body = { public_key: `${name} ${n}` };
    revisions.push((await persist(() => place.member.api.expect(201, 'POST', `${place.base}/devices`, body))).revision);
  }
  return revisions;
};

const keysOf = (records: Iterable<{ readonly public_key: string }>): string[] =>
  [...records].map(({ public_key }) => public_key).toSorted();

test.each(ways)('%s under a running server: 0 missed, 0 ghosts', async (_title, { take, putBack }) => {
  const postgres = { freshUrl: () => Promise.resolve(database.url) } as unknown as TestPostgres;
  const server: TestServer = await startTestServer(postgres, { answerTimeout: 10 });
  const stop = new AbortController();
  try {
    const place = await newPlace(server);
    const setPolicy = (port: number): Promise<unknown> =>
      persist(() =>
        place.owner.api.expect(200, 'PATCH', `${place.base}/security_groups/${place.defaultGroup}`, {
          inbound_rules: [{ ip_protocol: 'tcp', from_port: port, to_port: port }],
        }),
      );
    await setPolicy(22);
    const mine = await place.member.api.expect(201, 'POST', `${place.base}/devices`, { public_key: 'mine' });
    const kept = await write(place, 'kept');
    const {
      id: groupId,
      group_name,
      inbound_rules,
    } = await place.owner.api.expect(200, 'GET', `${place.base}/security_groups/${place.defaultGroup}`);
    const policy = { id: parseGroupId(groupId), name: group_name, inbound: inbound_rules, outbound: [] };
    const receipt = {
      state: 'applied',
      revision: kept.at(-1),
      policy_digest: policyDigest(canonicalize({ source: 'default', groups: [policy] })),
      policy_digest_form: digestForm,
    };
    const inForce = async (): Promise<string> => {
      const statuses = await place.owner.api.expect(200, 'GET', `${place.base}/device_statuses`);
      return statuses.find(({ device_id }: { device_id: string }) => device_id === mine.id)?.in_force;
    };
    const report = (): Promise<unknown> =>
      server.nobody.as(mine.device_token).expect(200, 'PUT', `${place.base}/devices/${mine.id}/status`, receipt);
    await report();
    expect(await inForce()).toBe('yes');
    await take();
    await persist(() => place.member.api.expect(200, 'GET', `${place.base}/devices`));

    const client = new Client({ url: server.url, token: place.member.token });
    const organization = place.org;
    const patience = { silence: 2_000, backoff: { first: 20, longest: 200 } };
    const informer = createInformer({ client, organization, kinds: ['device', 'security-groups'], ...patience });
    const onFault = (fault: unknown): never => {
      throw fault;
    };
    const source = new InformerSource({ client, organization, device: mine.id, onFault });
    const plain = new PlainReader();
    const { signal } = stop;
    const runs = [informer.run({ signal }), source.run({ signal }), plain.follow(client, organization, signal)];
    const port = (): number | undefined => {
      const known = source.read();
      return known.kind === 'known' ? known.policy.groups[0]?.inbound[0]?.from_port : undefined;
    };
    const followed = async (expected: readonly string[], open: number): Promise<void> => {
      await expect.poll(() => keysOf(informer.view('device'))).toEqual(expected);
      await expect.poll(() => keysOf(plain.held.values())).toEqual(expected);
      await expect.poll(port).toBe(open);
    };
    const own = [...kept.map((_, n) => `kept ${n}`), 'mine'];
    const lost = await write(place, 'lost');
    receipt.revision = lost.at(-1);
    await report();
    expect(await inForce()).toBe('yes');
    await setPolicy(80);
    await followed([...own, ...lost.map((_, n) => `lost ${n}`)].toSorted(), 80);

    await putBack();
    // At once, before anybody has looked whether the database is the same.
    const later = await write(place, 'later');
    const listed = keysOf(await place.member.api.expect(200, 'GET', `${place.base}/devices`));
    expect(listed).toEqual([...own, ...later.map((_, n) => `later ${n}`)].toSorted());
    await followed(listed, 22);
    expect(new Set([...kept, ...lost, ...later]).size).toBe(45);

    // What a device proved before is no more, whether the copy has it or not: it has followed what is lost since. The same digest with a revision of this history counts.
    expect(await inForce()).not.toBe('yes');
    await report();
    expect(await inForce()).not.toBe('yes');
    receipt.revision = later.at(-1);
    await report();
    expect(await inForce()).toBe('yes');

    for (const gt_revision of lost) {
      const { status } = await place.member.api.post(`${place.base}/events`, [{ kind: 'device', gt_revision }]);
      expect(status, `from ${gt_revision}`).toBe(410);
    }
    // What the copy holds is one history with what came after it.
    const items = [{ kind: 'device', gt_revision: kept.at(-1) }];
    const stream = await new EventStream(server.url, place.member.token, place.org, items).tail();
    expect(stream.told).toEqual([...later.map((revision) => `change ${revision}`), 'tail']);
    stream.close();
    // Once, independent of which server noticed it.
    const head = (await place.member.api.expect(200, 'GET', place.base)).revision;
    expect(head).toBe(later.at(-1));
    stop.abort();
    await Promise.allSettled(runs);
  } finally {
    stop.abort();
    await server.close();
  }
});

test('a snapshot that is put back while no server runs misleads no reader with tokens, although all lost revisions are given again', async () => {
  const postgres = { freshUrl: () => Promise.resolve(database.url) } as unknown as TestPostgres;
  const [, way] = ways[0] ?? [];
  let server: TestServer = await startTestServer(postgres);
  try {
    const made = await newPlace(server);
    /** The same place on the server that runs now. */
    const place = (): Place => ({ ...made, member: { ...made.member, api: server.nobody.as(made.member.token) } });
    const restarted = async (meanwhile: (() => Promise<void>) | undefined): Promise<void> => {
      await server.close();
      await meanwhile?.();
      server = await startTestServer(postgres);
    };
    const follow = (item: object): EventStream => {
      const headers = { Prefer: 'history-tokens' };
      return new EventStream(server.url, made.member.token, made.org, [{ kind: 'device', ...item }], { headers });
    };
    const tokenAt = async (revision: number): Promise<string> => {
      const stream = await follow({ gt_revision: revision - 1 }).tail();
      stream.close();
      return stream.documents.find(({ value }) => value?.revision === revision)?.token;
    };
    const kept = (await write(place(), 'kept')).at(-1) ?? 0;
    await restarted(way?.take);
    const lost = await write(place(), 'lost');
    const last = lost.at(-1) ?? 0;
    const [token, common] = [await tokenAt(last), await tokenAt(kept)];
    await restarted(way?.putBack);
    // No server has seen what is lost, so none lets the organization leap.
    expect(await write(place(), 'later')).toEqual(lost);
    const answer = async (item: object): Promise<number> =>
      (await place().member.api.post(`${made.base}/events`, [{ kind: 'device', ...item }])).status;
    expect(await answer({ gt_revision: last, token })).toBe(410);
    expect(await tokenAt(last)).not.toBe(token);
    // What both histories have in common can be resumed from, and goes on with the history of now.
    const stream = await follow({ gt_revision: kept, token: common }).tail();
    expect(keysOf(stream.documents.flatMap(({ value }) => value ?? []))).toEqual(
      lost.map((_, n) => `later ${n}`).toSorted(),
    );
    stream.close();
  } finally {
    await server.close();
  }
});
