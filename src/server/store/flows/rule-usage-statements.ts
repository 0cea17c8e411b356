/** Owns the SQL of the usage of rules: what of the traffic is counted, the counts by day and rule, and since when each device has been judged with each of its groups. */
import { isoTime, statement } from '../postgres/sql.ts';

/** Traffic by the hour was counted before it was added up, apart from that of before the counting began. */
export const isUncounted = (flow: string, position: string): string =>
  `(${flow}.id > ${position}.counted AND (NOT ${flow}.is_hourly OR ${flow}.id <= ${position}.hourly_through))`;

/** The first such row of each organization, in the order of an index: asked only whether there is one, PostgreSQL hashes the whole table. Values: organizations (null: all). */
export const findUncounted = statement<{ org_id: string }>(
  'find_uncounted_organizations',
  `SELECT o.id AS org_id FROM organizations o LEFT JOIN usage_positions p ON p.org_id = o.id
   WHERE ($1::uuid[] IS NULL OR o.id = ANY ($1::uuid[])) AND (
     SELECT true FROM flows f WHERE f.org_id = o.id AND f.id > coalesce(p.counted, 0) AND (p.org_id IS NULL OR ${isUncounted('f', 'p')})
     ORDER BY f.id LIMIT 1) IS TRUE
   ORDER BY o.id`,
);

/** A claim of the future is void, too: clocks may go back. */
const isClaimed = `c.at > $2::timestamptz - $3::integer * interval '1 millisecond' AND c.at < $2::timestamptz + $3::integer * interval '1 millisecond'`;
/** Locks nothing where the claim of another holds. Values: organization, time, milliseconds that a claim holds. Gives a row where this one holds. */
export const claimCounting = statement<{ org_id: string }>(
  'claim_usage_counting',
  `INSERT INTO usage_claims AS c (org_id, at)
   SELECT o.id, $2::timestamptz FROM organizations o LEFT JOIN usage_claims c ON c.org_id = o.id WHERE o.id = $1 AND (${isClaimed}) IS NOT TRUE
   ON CONFLICT (org_id) DO UPDATE SET at = excluded.at WHERE NOT (${isClaimed}) RETURNING c.org_id`,
);

/** Another primary may give ids again that a lost one had given. */
const timeline = 'substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)';
/** The last id that any report took. Whoever has taken one may still be writing. */
export const readLastId = statement<{ id: string; timeline: string }>(
  'read_last_flow_id',
  `SELECT last_value::text AS id, ${timeline} AS timeline FROM flows_id_seq`,
);
/** A writer takes its lock before its first id, and gives it back when its rows are visible. Values: transactions that are waited for (null: all). */
export const readWriters = statement<{ writer: string }>(
  'read_flow_writers',
  `SELECT DISTINCT virtualtransaction AS writer FROM pg_locks
   WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = 'flows'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
     AND granted AND ($1::text[] IS NULL OR virtualtransaction = ANY ($1::text[]))`,
);

export interface PositionRow {
  readonly counted: string;
  readonly revision: string;
  readonly synced: string;
  readonly hourly_through: string;
}
/** All traffic that is stored then is counted, by the hour or not. Values: organization, the last id so far, its timeline. */
export const insertPosition = statement<never>(
  'insert_usage_position',
  `INSERT INTO usage_positions (org_id, counted, hourly_through, revision, synced)
   SELECT id, 0, $2::text::bigint, 0, 'epoch' FROM organizations WHERE id = $1 AND ${timeline} = $3 ON CONFLICT (org_id) DO NOTHING`,
);
/** Values: organization. */
export const readPosition = statement<PositionRow>(
  'read_usage_position',
  `SELECT counted::text AS counted, revision::text AS revision, ${isoTime('synced')} AS synced, hourly_through::text AS hourly_through
   FROM usage_positions WHERE org_id = $1`,
);
const movesFrom = 'org_id = $1 AND revision = $2::text::bigint AND synced = $3::timestamptz';
/** Values: organization, revision, the time before, the time now. Gives a row where nobody else has moved it. */
export const moveTime = statement<{ org_id: string }>(
  'move_usage_time',
  `UPDATE usage_positions SET synced = greatest(synced, $4::timestamptz) WHERE ${movesFrom} RETURNING org_id`,
);
/** A pair that is new is judged since the time before: what came later is not counted yet. Values: as above, then the revision now, groups and devices. */
export const moveState = statement<{ org_id: string }>(
  'move_usage_state',
  `WITH moved AS (
     UPDATE usage_positions SET revision = $5::text::bigint, synced = greatest(synced, $4::timestamptz) WHERE ${movesFrom} RETURNING org_id),
   n AS MATERIALIZED (SELECT DISTINCT m.org_id, n.group_id, n.device_id FROM moved m CROSS JOIN unnest($6::uuid[], $7::uuid[]) AS n (group_id, device_id)),
   gone AS (
     DELETE FROM usage_pairs u USING moved m WHERE u.org_id = m.org_id AND NOT EXISTS (SELECT FROM n WHERE n.group_id = u.group_id AND n.device_id = u.device_id)),
   added AS (
     INSERT INTO usage_pairs (org_id, group_id, device_id, since) SELECT org_id, group_id, device_id, $3::timestamptz FROM n
     ON CONFLICT (org_id, group_id, device_id) DO NOTHING)
   SELECT org_id FROM moved`,
);

export interface UncountedRow {
  readonly id: string;
  readonly device_id: string;
  readonly until: string;
  readonly block: Buffer;
}
/** Values: organization, the last id that is counted, the horizon, the last id of traffic by the hour that counts, limit. */
export const readUncounted = statement<UncountedRow>(
  'read_uncounted_flows',
  `SELECT f.id::text AS id, f.device_id, f.until, f.block FROM flows f
   WHERE f.org_id = $1 AND f.id > $2::text::bigint AND f.id <= $3::text::bigint AND (NOT f.is_hourly OR f.id <= $4::text::bigint)
   ORDER BY f.id LIMIT (SELECT $5::bigint)`,
);
/**
 * Counts blocks, and that they are counted, in one. Values: organization, revision, the last id that was counted before, the last id now; then each rule of a day once: groups, days,
 * rules, packets, times of the last hits; and the timeline. Gives a row where nobody else has counted them, the organization is still judged by this state, and the primary is the same.
 */
export const addCounts = statement<{ org_id: string }>(
  'add_rule_usage',
  `WITH moved AS (
     UPDATE usage_positions SET counted = $4::text::bigint WHERE org_id = $1 AND revision = $2::text::bigint AND counted = $3::text::bigint AND ${timeline} = $10 RETURNING org_id),
   added AS (
     INSERT INTO rule_usage AS u (org_id, group_id, day, rule, packets, last_hit)
     SELECT m.org_id, n.group_id, n.day, decode(n.rule, 'hex'), n.packets, n.last_hit
     FROM moved m CROSS JOIN unnest($5::uuid[], $6::date[], $7::text[], $8::bigint[], $9::timestamptz[]) AS n (group_id, day, rule, packets, last_hit)
     ON CONFLICT (org_id, group_id, day, rule) DO UPDATE SET
       packets = least(u.packets, 8e18::bigint) + excluded.packets, last_hit = greatest(u.last_hit, excluded.last_hit))
   SELECT org_id FROM moved`,
);

export interface TimeRow {
  readonly device_id: string;
  readonly day: string;
  readonly refused_seconds: number;
  readonly all_seconds: number;
}
/** Values: organization, since, devices. */
export const readUsageCoverage = statement<TimeRow & { readonly through: string; readonly not_recorded: number }>(
  'read_usage_coverage',
  `SELECT device_id, to_char(day, 'YYYY-MM-DD') AS day, ${isoTime('through')} AS through, refused_seconds, all_seconds, not_recorded FROM flow_coverage
   WHERE org_id = $1 AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND device_id = ANY ($3::uuid[]) ORDER BY day, device_id`,
);
/** Makes a range of the ids after a place: PostgreSQL expects a two-hundredth of the table in a range of unknown ends, and a third of it after an unknown place, for which it reads the whole table. */
const endOfIds = '9223372036854775807';
/** Values: organization. */
export const readUncountedTime = statement<TimeRow>(
  'read_uncounted_flow_time',
  `SELECT t.device_id, to_char(t.day, 'YYYY-MM-DD') AS day,
     coalesce(sum(seconds) FILTER (WHERE NOT observed_all), 0)::integer AS refused_seconds, coalesce(sum(seconds) FILTER (WHERE observed_all), 0)::integer AS all_seconds
   FROM (
     SELECT f.device_id, (f.until AT TIME ZONE 'UTC')::date AS day, f.observed_all, ceil(extract(epoch FROM f.until - f.since)) AS seconds
     FROM flows f LEFT JOIN usage_positions p ON p.org_id = f.org_id
     WHERE f.org_id = $1 AND f.id > coalesce((SELECT counted FROM usage_positions WHERE org_id = $1), 0) AND f.id <= ${endOfIds}
       AND f.part = 0 AND (p.org_id IS NULL OR ${isUncounted('f', 'p')})) AS t
   GROUP BY t.device_id, t.day`,
);
/** Values: organization, group (null: all). */
export const readPairs = statement<{ group_id: string; device_id: string; since: string }>(
  'read_usage_pairs',
  `SELECT group_id, device_id, ${isoTime('since')} AS since FROM usage_pairs WHERE org_id = $1 AND ($2::uuid IS NULL OR group_id = $2::uuid)`,
);
/** Values: organization. */
export const readSynced = statement<{ synced: string }>(
  'read_usage_synced',
  `SELECT ${isoTime('synced')} AS synced FROM usage_positions WHERE org_id = $1`,
);
/** Values: organization, since, group (null: all). */
export const readCounts = statement<{ group_id: string; rule: string; packets: string; last_hit: string }>(
  'read_rule_usage',
  `SELECT group_id, encode(rule, 'hex') AS rule, sum(packets)::text AS packets, ${isoTime('max(last_hit)')} AS last_hit FROM rule_usage
   WHERE org_id = $1 AND ($3::uuid IS NULL OR group_id = $3::uuid) AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date GROUP BY group_id, rule`,
);
/** Values: the oldest time that is kept. */
export const removeOldUsage = statement<never>(
  'remove_old_rule_usage',
  `DELETE FROM rule_usage WHERE day < ($1::timestamptz AT TIME ZONE 'UTC')::date`,
);
