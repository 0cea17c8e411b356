/** Owns the databases of the growth benchmark: an open store with one organization, and the ways to make it old, large or crowded. */
import { Client } from 'pg';
import type { DeviceId, GroupId, OrganizationId } from '../../src/policy/ids.ts';
import { parseDeviceId, parseGroupId } from '../../src/policy/ids.ts';
import { serverRole } from '../../src/server/database/cluster.ts';
import type { Database } from '../../src/server/database/supervise.ts';
import { asServer, type Actor } from '../../src/server/store/data/actor.ts';
import { type Store, type StoreOptions, openStore } from '../../src/server/store/open.ts';
import { device, group } from '../../src/server/store/store.fixture.ts';
import { asSuperuser } from '../../test/lib/postgres.ts';
import { updateNote } from '../lib/pgbench.ts';

export interface Place {
  readonly url: string;
  readonly store: Store;
  readonly org: OrganizationId;
  readonly owner: Actor;
  readonly devices: readonly DeviceId[];
  readonly groups: readonly GroupId[];
  readonly query: <Row>(sql: string, values?: readonly unknown[]) => Promise<readonly Row[]>;
  /** The same with fresh connections, which have planned nothing yet. */
  again(options?: Partial<StoreOptions>): Promise<Place>;
  close(): Promise<void>;
}

/** Runs `work` for each number, so many at once. */
export async function each<T>(count: number, atOnce: number, work: (n: number) => Promise<T>): Promise<readonly T[]> {
  const results: T[] = [];
  let next = 0;
  const run = async (): Promise<void> => {
    while (next < count) {
      const n = next;
      next += 1;
      results[n] = await work(n);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
  return results;
}

let databases = 0;

const quotas = { devices: 1_000_000, groups: 1_000_000, organizations: 1_000_000 };

export async function makePlace(
  database: Database,
  { devices, groups }: { readonly devices: number; readonly groups: number },
): Promise<Place> {
  databases += 1;
  const name = `growth_${databases}`;
  const client = new Client({ connectionString: asSuperuser(database.url) });
  await client.connect();
  await client.query(`CREATE DATABASE ${name} OWNER ${serverRole}`);
  await client.end();
  const url = database.url.replace('/postgres?', `/${name}?`);
  const store = await openStore({ url, phase: 3, quotas });
  const { id: user_id } = await store.users.create({ username: 'bench' }, asServer);
  const owner: Actor = { user_id, ...asServer, audit: updateNote(user_id) };
  const { id: org } = await store.organizations.create(user_id, { name: 'bench', description: '' }, asServer);
  const groupIds = await each(groups, 64, async (n) =>
    parseGroupId((await store.groups.create(org, owner, 'organization', group({ group_name: `group ${n}` }))).id),
  );
  const deviceIds = await each(devices, 64, async (n) => {
    const made = device(user_id, {
      fields: { hostname: `host-${n}` },
      security_groups: groupIds.slice(n % 8, (n % 8) + 1),
    });
    return parseDeviceId((await store.devices.create(org, owner, made)).id);
  });
  return placeOf({ url, store, org, owner, devices: deviceIds, groups: groupIds });
}

function placeOf(parts: Omit<Place, 'query' | 'again' | 'close'>): Place {
  return {
    ...parts,
    query: async <Row>(sql: string, values: readonly unknown[] = []) => {
      const client = new Client({ connectionString: parts.url });
      await client.connect();
      try {
        return (await client.query(sql, [...values])).rows as Row[];
      } finally {
        await client.end();
      }
    },
    async again(options = {}) {
      await parts.store.close();
      return placeOf({ ...parts, store: await openStore({ url: parts.url, phase: 3, quotas, ...options }) });
    },
    close: () => parts.store.close(),
  };
}

const day = 86_400_000;
/** The oldest entry is so old. */
export const ageMs = 300 * day;

/**
 * So many changes of the devices in turn, in the audit, the history and the log, as if they had been made over the last 300 days. The log, which is kept
 * for minutes, has them over the last ten minutes. Put in beside the store to save time.
 */
export async function makeOld({ query, org, owner }: Place, entries: number): Promise<void> {
  const [head] = await query<{ revision: string }>('SELECT revision FROM heads WHERE org_id = $1', [org]);
  const from = Number(head?.revision);
  const numbered = `FROM (SELECT array_agg(id ORDER BY id) AS ids, array_agg(body ORDER BY id) AS bodies FROM devices WHERE org_id = $1) AS all_devices
    CROSS JOIN generate_series(1, $2::bigint) AS n
    CROSS JOIN LATERAL (SELECT ids[1 + n % cardinality(ids)] AS id, bodies[1 + n % cardinality(ids)] AS body) AS d`;
  const at = `clock_timestamp() - (($2::bigint - n)::float8 / $2::bigint) * interval '${ageMs} milliseconds'`;
  const values = [org, entries, owner.user_id, from];
  await query(
    `INSERT INTO audit (id, at, org_id, operation, subject_id, revision, fields, user_id, credential, credential_id, address, request_id, before, after)
     SELECT (lpad(to_hex((extract(epoch FROM a.at) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
       a.at, $1, 'updateDevice', d.id, $4 + n, ARRAY['hostname'], $3, 'user_token', $3, '127.0.0.1', 'request', '{"hostname":"a"}', '{"hostname":"b"}'
     ${numbered} CROSS JOIN LATERAL (SELECT ${at} AS at) AS a ORDER BY n`,
    values,
  );
  await query(
    `INSERT INTO history (org_id, kind, id, revision, type, user_id, at, body) SELECT $1, 'device', d.id, $4 + n, 'change', $3, ${at}, d.body ${numbered} ORDER BY n`,
    values,
  );
  await query(
    `INSERT INTO changes (org_id, revision, kind, type, id, body, left_at, committed_at)
     SELECT $1, $3 + n, 'device', 'change', d.id, d.body, 0, clock_timestamp() - (($2::bigint - n)::float8 / $2::bigint) * interval '10 minutes' ${numbered} ORDER BY n`,
    [org, entries, from],
  );
  await query('UPDATE heads SET revision = revision + $2 WHERE org_id = $1', [org, entries]);
}
