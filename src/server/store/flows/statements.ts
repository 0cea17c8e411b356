/** Owns the SQL of observed traffic: blocks of sums by time, and how long each device was observed on each day. */
import { statement } from '../postgres/sql.ts';
import { reportRefusals } from '../write/right.ts';
import { filterBits } from './sum-block.ts';

/** Reports with the rights that they come by, as rows `n`. Values: organizations, devices, since, until, observed all, not recorded, sums, roles, tokens, sessions, users. */
const reports = `(SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::boolean[], $6::bigint[], $7::integer[],
  $8::integer[], $9::bytea[], $10::uuid[], $11::uuid[])
  WITH ORDINALITY AS r (org_id, id, since, until, observed_all, not_recorded, sums, may, token, session, actor, place)) AS n`;

const isRefused = `(CASE ${reportRefusals} END) IS NOT NULL`;
/** Seconds that a report adds to what was observed before: none that an earlier report has told of. */
const newSeconds = `greatest(0, extract(epoch FROM excluded.through - greatest(excluded.last_since, c.through)))::integer`;

/** Packets a minute from which refusals are a surge, and how many times the usual level. Half of both keeps it going. */
const surgeAt = 'greatest(100, 10 * l.usual)';
/** Reports before which no level is known. */
const leastReports = 10;
/** The usual level is a mean over the reports of about a day. A surge counts in it only as much as the least one would. */
const reportsOfDay = 1_440;
const isSurge = `(l.reports >= ${leastReports} AND excluded.newest >= ${surgeAt})`;
const isHeld = `(l.surge_until > excluded.through AND excluded.newest >= ${surgeAt} / 2)`;

/**
 * Values: those of `reports`, each device once; then the blocks: the place of their report from 1, their part, sums, filter and bytes; then the refused packets a minute of
 * each report. Gives the devices whose report was taken.
 */
export const insertFlows = statement<{ id: string }>(
  'insert_flows',
  `WITH allowed AS (
     SELECT n.* FROM ${reports} JOIN devices d ON d.id = n.id AND (d.org_id = n.org_id) IS TRUE
     WHERE NOT ${isRefused}),
   kept AS (
     INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
     SELECT a.org_id, a.id, a.since, a.until, b.part, a.observed_all, false, b.sums, b.filter::bit(${filterBits}), b.block
     FROM allowed a JOIN unnest($12::integer[], $13::integer[], $14::integer[], $15::text[], $16::bytea[]) AS b (place, part, sums, filter, block) ON b.place = a.place
     ON CONFLICT (device_id, until, part) DO NOTHING),
   covered AS (
     INSERT INTO flow_coverage AS c (org_id, device_id, day, last_since, through, refused_seconds, all_seconds, not_recorded)
     SELECT a.org_id, a.id, (a.until AT TIME ZONE 'UTC')::date, a.since, a.until,
       CASE WHEN a.observed_all THEN 0 ELSE extract(epoch FROM a.until - a.since)::integer END,
       CASE WHEN a.observed_all THEN extract(epoch FROM a.until - a.since)::integer ELSE 0 END, a.not_recorded
     FROM allowed a ORDER BY a.id
     ON CONFLICT (device_id, day) DO UPDATE SET
       refused_seconds = least(86400, c.refused_seconds + CASE WHEN excluded.all_seconds > 0 THEN 0 ELSE ${newSeconds} END),
       all_seconds = least(86400, c.all_seconds + CASE WHEN excluded.all_seconds > 0 THEN ${newSeconds} ELSE 0 END),
       not_recorded = CASE WHEN excluded.through > c.through THEN least(c.not_recorded, 1e15::bigint) + excluded.not_recorded ELSE c.not_recorded END,
       last_since = excluded.last_since, through = greatest(c.through, excluded.through)),
   levels AS (
     INSERT INTO refusal_levels AS l (device_id, org_id, through, reports, usual, newest)
     SELECT a.id, a.org_id, a.until, 1, r.rate, r.rate
     FROM allowed a JOIN unnest($17::double precision[]) WITH ORDINALITY AS r (rate, place) ON r.place = a.place ORDER BY a.id
     ON CONFLICT (device_id) DO UPDATE SET
       through = excluded.through, newest = excluded.newest, reports = least(l.reports + 1, ${reportsOfDay}),
       usual = l.usual + (least(excluded.newest, ${surgeAt}) - l.usual) / least(l.reports + 1, ${reportsOfDay}),
       surge_since = CASE WHEN ${isSurge} AND (l.surge_until > excluded.through) IS NOT TRUE THEN excluded.through ELSE l.surge_since END,
       surge_until = CASE WHEN ${isSurge} OR ${isHeld} THEN excluded.through + interval '10 minutes' ELSE l.surge_until END
     WHERE excluded.through > l.through)
   SELECT id FROM allowed`,
);

/** Why reports were not taken. Values: those of `reports`. */
export const findFlowRefusals = statement<{ id: string; refusal: 'credential_ended' | 'forbidden' | null }>(
  'find_flow_refusals',
  `SELECT n.id, CASE ${reportRefusals} END AS refusal FROM ${reports}`,
);

export interface BlockRow {
  readonly id: string;
  readonly device_id: string;
  readonly since: string;
  readonly until: string;
  readonly block: Buffer;
}

/** A block that may hold what is wanted, or the last one that a read has looked at; without its bytes where it holds nothing wanted. */
export interface LookedRow extends Omit<BlockRow, 'block'> {
  readonly block: Buffer | null;
  /** Its place among the blocks that this read has looked at, of its device where those of each device are read, from 1. */
  readonly place: number;
}

const newestFirst = 'ORDER BY f.until DESC, f.id DESC';
/**
 * The newest of the blocks that `which` names, wanted or not: a search that finds nothing looks at no more than one that does. The limit is a query, so that
 * PostgreSQL plans for a tenth of the rows. Planned for a number, it sometimes sorts all of them, above all before it has statistics.
 */
const newest = (which: string): string =>
  `SELECT f.*, row_number() OVER (${newestFirst}) AS place FROM (
     SELECT f.id, f.org_id, f.device_id, f.since, f.until, f.filter, f.block FROM flows f
     WHERE ${which} AND (f.until, f.id) <= ($4::timestamptz, $6::text::bigint) ${newestFirst} LIMIT (SELECT $7::bigint)) AS f`;
const isWanted =
  'f.org_id = $1 AND f.until > $2 AND f.since < $3 AND ($5::bit varying IS NULL OR f.filter & $5 = $5 OR f.filter & $8 = $8::bit varying)';
const looked = (blocks: string, wanted: string): string =>
  `SELECT f.id::text AS id, f.device_id, f.since, f.until, f.place::integer AS place, CASE WHEN f.wanted THEN f.block END AS block
   FROM (SELECT f.*, (${wanted}) AS wanted FROM (${blocks}) AS f) AS f WHERE f.wanted OR f.place = $7::bigint ${newestFirst}`;

/** Values: organization, since, until (of the query), until of the last block (this one included), wanted bits, its id, limit, other bits that will do, devices (null: all). */
export const blocksOfOrganization = statement<LookedRow>(
  'flow_blocks_of_organization',
  looked(newest('f.org_id = $1'), `($9::uuid[] IS NULL OR f.device_id IN (SELECT unnest($9::uuid[]))) AND ${isWanted}`),
);
/** The limit is for each device. Values: as above. */
export const blocksOfDevices = statement<LookedRow>(
  'flow_blocks_of_devices',
  looked(
    `SELECT f.* FROM (SELECT DISTINCT unnest($9::uuid[])) AS d (id) CROSS JOIN LATERAL (${newest('f.device_id = d.id')}) AS f`,
    isWanted,
  ),
);

export interface CoverageRow {
  readonly device_id: string;
  readonly day: string;
  readonly refused_seconds: number;
  readonly all_seconds: number;
  readonly not_recorded: number;
}

/** Values: organization, since, devices (null: all). */
export const readCoverage = statement<CoverageRow>(
  'read_flow_coverage',
  `SELECT device_id, to_char(day, 'YYYY-MM-DD') AS day, refused_seconds, all_seconds, not_recorded FROM flow_coverage
   WHERE org_id = $1 AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND ($3::uuid[] IS NULL OR device_id = ANY ($3::uuid[])) ORDER BY day, device_id`,
);

/** Values: the oldest time that is kept. */
export const removeOld = statement<never>('remove_old_flows', 'DELETE FROM flows WHERE until < $1');
export const removeOldCoverage = statement<never>(
  'remove_old_flow_coverage',
  `DELETE FROM flow_coverage WHERE day < ($1::timestamptz AT TIME ZONE 'UTC')::date`,
);

/** Values: sums that an organization may have. */
export const findFull = statement<{ org_id: string }>(
  'find_full_flows',
  'SELECT org_id FROM flows GROUP BY org_id HAVING sum(sums) > $1::bigint',
);
/** Values: organization, sums that it may have. */
export const removeOldest = statement<never>(
  'remove_oldest_flows',
  `DELETE FROM flows WHERE id IN (
     SELECT id FROM (SELECT id, sum(sums) OVER (ORDER BY until DESC, id DESC) AS newer FROM flows WHERE org_id = $1) AS f WHERE newer > $2::bigint)`,
);

/** A day of which sums were removed was not observed as a whole: nothing may be called unused for it. Values: organization. */
export const removeCoverageOfRemoved = statement<never>(
  'remove_coverage_of_removed_flows',
  `DELETE FROM flow_coverage WHERE org_id = $1
   AND day <= (SELECT (min(since) AT TIME ZONE 'UTC')::date FROM flows WHERE org_id = $1)`,
);

export interface HourRow {
  readonly org_id: string;
  readonly device_id: string;
  readonly hour: string;
}
/** Values: time before which sums are added up by the hour, limit. */
export const findHours = statement<HourRow>(
  'find_flow_hours',
  `SELECT org_id, device_id, date_trunc('hour', until, 'UTC') AS hour FROM flows WHERE NOT is_hourly AND until < $1
   GROUP BY 1, 2, 3 ORDER BY 3 LIMIT $2`,
);
/** `IS NOT TRUE` keeps PostgreSQL from the index of all reports that are to be added up: the hour of one device is a small part of it. In a transaction. Values: device, hour. */
export const takeHour = statement<{ since: string; until: string; observed_all: boolean; block: Buffer }>(
  'take_flow_hour',
  `DELETE FROM flows WHERE device_id = $1 AND until >= $2 AND until < $2::timestamptz + interval '1 hour' AND is_hourly IS NOT TRUE
   RETURNING since, until, observed_all, block`,
);
/** In a transaction. Values: organization, device, since, until, observed all, part, sums, filter, bytes. */
export const insertHour = statement<never>(
  'insert_flow_hour',
  `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
   VALUES ($1, $2, $3, $4, $6, $5, true, $7, $8::text::bit(${filterBits}), $9)
   ON CONFLICT (device_id, until, part) DO NOTHING`,
);

/** Values: places in the outbox of the audit log. */
export const readReports = statement<
  Omit<BlockRow, 'id'> & { readonly org_id: string; readonly hostname: string | null; readonly part: number }
>(
  'read_flow_reports',
  `SELECT f.org_id, f.device_id, d.hostname, f.since, f.until, f.part, f.block
   FROM audit_outbox o JOIN flows f ON f.device_id = o.device_id AND f.until = o.until AND f.part = o.part
   LEFT JOIN devices d ON d.id = f.device_id WHERE o.n = ANY ($1::text[]::bigint[]) ORDER BY o.n`,
);

/** Values: organization, now. */
export const readSurges = statement<{
  readonly device_id: string;
  readonly hostname: string;
  readonly since: string;
  readonly newest: number;
  readonly usual: number;
}>(
  'read_refusal_surges',
  `SELECT l.device_id, d.hostname, l.surge_since AS since, l.newest, l.usual FROM refusal_levels l JOIN devices d ON d.id = l.device_id
   WHERE l.org_id = $1 AND l.surge_until > $2::timestamptz`,
);
/** Values: the oldest time that is kept. */
export const removeOldLevels = statement<never>(
  'remove_old_refusal_levels',
  'DELETE FROM refusal_levels l WHERE l.through < $1 OR NOT EXISTS (SELECT FROM devices d WHERE d.id = l.device_id)',
);
