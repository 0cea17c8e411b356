/** Owns the SQL of observed traffic: blocks of sums by time, and how long each device was observed on each day. */
import { found, isoTime, statement } from '../postgres/sql.ts';
import { reportRefusals } from '../write/right.ts';
import { filterBits, sumsPerBlock } from './sum-block.ts';

/** Reports with the rights that they come by, as rows `n`. Values: organizations, devices, since, until, observed all, not recorded, until by the clocks of the devices, roles, tokens, sessions, users. */
const reports = `(SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::boolean[], $6::bigint[], $7::timestamptz[],
  $8::integer[], $9::bytea[], $10::uuid[], $11::uuid[])
  WITH ORDINALITY AS r (org_id, id, since, until, observed_all, not_recorded, reported, may, token, session, actor, place)) AS n`;

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

const minuteOf = "date_trunc('minute', n.until)";
/** Blocks that the device has of that minute, and may have: as many as the largest report. */
const inMinute = `(SELECT count(*) FROM flows f WHERE f.device_id = n.id AND f.until >= ${minuteOf} AND f.until < ${minuteOf} + interval '1 minute')`;
const blocksPerMinute = 16_384 / sumsPerBlock;
/** An agent sends a report again until it has the answer, and nothing else meanwhile. */
const isAgain = found('refusal_levels l', 'l.device_id = n.id AND l.reported = n.reported');

export interface WrittenRow {
  readonly id: string;
  readonly is_again: boolean;
  /** Parts that were stored now, with commas between them. */
  readonly stored: string;
  /** Sums that found no room. */
  readonly beyond: number;
}

/** A group that was in the report before has the time since it was first in one, without a break. */
const rulesSince = `(SELECT coalesce(jsonb_object_agg(g.key, coalesce(l.rules_since -> g.key, g.value)), '{}') FROM jsonb_each(excluded.rules_since) AS g)`;

/**
 * Values: those of `reports`, each device once; then the blocks: the place of their report from 1, their part, sums, filter, bytes and packets; then of each report the refused
 * packets a minute, since when each of its groups is in force as far as it knows, and packets of unknown rules; then the rules that decided: the place of their report, groups, rules and packets.
 * Gives the devices whose report was taken. Of a minute a device has no more blocks than one report may hold, however many reports it sends.
 */
export const insertFlows = statement<WrittenRow>(
  'insert_flows',
  `WITH allowed AS (
     SELECT n.*, m.rate, m.rules_since, m.rules_unknown, ${isAgain} AS is_again, ${inMinute} AS in_minute FROM ${reports}
     JOIN unnest($18::double precision[], $19::text[], $20::bigint[]) WITH ORDINALITY AS m (rate, rules_since, rules_unknown, place) ON m.place = n.place
     JOIN devices d ON d.id = n.id AND (d.org_id = n.org_id) IS TRUE
     WHERE NOT ${isRefused}),
   blocks AS (
     SELECT a.org_id, a.id, a.since, a.until, a.observed_all, b.*, a.in_minute + b.part < ${blocksPerMinute} AS has_room
     FROM allowed a JOIN unnest($12::integer[], $13::integer[], $14::integer[], $15::text[], $16::bytea[], $17::bigint[]) AS b (place, part, sums, filter, block, packets)
       ON b.place = a.place WHERE NOT a.is_again),
   kept AS (
     INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
     SELECT org_id, id, since, until, part, observed_all, false, sums, filter::bit(${filterBits}), block FROM blocks WHERE has_room
     ON CONFLICT (device_id, until, part) DO NOTHING RETURNING device_id, part),
   beyond AS (SELECT id, sum(sums) AS sums, sum(packets) AS packets FROM blocks WHERE NOT has_room GROUP BY id),
   covered AS (
     INSERT INTO flow_coverage AS c (org_id, device_id, day, last_since, through, refused_seconds, all_seconds, not_recorded, rules_unknown)
     SELECT a.org_id, a.id, (a.until AT TIME ZONE 'UTC')::date, a.since, a.until,
       CASE WHEN a.observed_all THEN 0 ELSE extract(epoch FROM a.until - a.since)::integer END,
       CASE WHEN a.observed_all THEN extract(epoch FROM a.until - a.since)::integer ELSE 0 END, least(a.not_recorded + coalesce(b.packets, 0), 1e15)::bigint,
       least(a.rules_unknown, 1e15)::bigint
     FROM allowed a LEFT JOIN beyond b ON b.id = a.id WHERE NOT a.is_again ORDER BY a.id
     ON CONFLICT (device_id, day) DO UPDATE SET
       refused_seconds = least(86400, c.refused_seconds + CASE WHEN excluded.all_seconds > 0 THEN 0 ELSE ${newSeconds} END),
       all_seconds = least(86400, c.all_seconds + CASE WHEN excluded.all_seconds > 0 THEN ${newSeconds} ELSE 0 END),
       not_recorded = least(c.not_recorded, 1e15::bigint) + excluded.not_recorded,
       rules_unknown = least(c.rules_unknown, 1e15::bigint) + excluded.rules_unknown,
       last_since = excluded.last_since, through = greatest(c.through, excluded.through)),
   levels AS (
     INSERT INTO refusal_levels AS l (device_id, org_id, through, reports, usual, newest, reported, rules_since)
     SELECT a.id, a.org_id, a.until, 1, a.rate, a.rate, a.reported, a.rules_since::jsonb FROM allowed a WHERE NOT a.is_again ORDER BY a.id
     ON CONFLICT (device_id) DO UPDATE SET
       rules_since = ${rulesSince}, through = excluded.through, reported = excluded.reported, newest = excluded.newest, reports = least(l.reports + 1, ${reportsOfDay}),
       usual = l.usual + (least(excluded.newest, ${surgeAt}) - l.usual) / least(l.reports + 1, ${reportsOfDay}),
       surge_since = CASE WHEN ${isSurge} AND (l.surge_until > excluded.through) IS NOT TRUE THEN excluded.through ELSE l.surge_since END,
       surge_until = CASE WHEN ${isSurge} OR ${isHeld} THEN excluded.through + interval '10 minutes' ELSE l.surge_until END
     WHERE excluded.through > l.through),
   used AS (
     INSERT INTO rule_usage AS u (org_id, group_id, day, rule, packets, last_hit)
     SELECT a.org_id, r.group_id, (a.until AT TIME ZONE 'UTC')::date, decode(r.rule, 'hex'), least(sum(r.packets), 1e18)::bigint, max(a.until)
     FROM allowed a JOIN unnest($21::integer[], $22::uuid[], $23::text[], $24::bigint[]) AS r (place, group_id, rule, packets) ON r.place = a.place
     WHERE NOT a.is_again GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
     ON CONFLICT (org_id, group_id, day, rule) DO UPDATE SET
       packets = least(u.packets, 8e18::bigint) + excluded.packets, last_hit = greatest(u.last_hit, excluded.last_hit))
   SELECT a.id, a.is_again, coalesce(k.parts, '') AS stored, coalesce(b.sums, 0)::integer AS beyond FROM allowed a LEFT JOIN beyond b ON b.id = a.id
     LEFT JOIN (SELECT device_id, string_agg(part::text, ',') AS parts FROM kept GROUP BY device_id) AS k ON k.device_id = a.id`,
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
const newest = (which: string, from: string): string =>
  `SELECT f.*, row_number() OVER (${newestFirst}) AS place FROM (
     SELECT f.id, f.org_id, f.device_id, f.since, f.until, f.filter, f.block FROM flows f
     WHERE ${which} AND (f.until, f.id) <= (${from}) ${newestFirst} LIMIT (SELECT $7::bigint)) AS f`;
const isWanted =
  'f.org_id = $1 AND f.until > $2 AND f.since < $3 AND ($5::bit varying IS NULL OR f.filter & $5 = $5 OR f.filter & $8 = $8::bit varying)';
const looked = (blocks: string, wanted: string): string =>
  `SELECT f.id::text AS id, f.device_id, f.since, f.until, f.place::integer AS place, CASE WHEN f.wanted THEN f.block END AS block
   FROM (SELECT f.*, (${wanted}) AS wanted FROM (${blocks}) AS f) AS f WHERE f.wanted OR f.place = $7::bigint ${newestFirst}`;

/** Values: organization, since, until (of the query), until of the last block (this one included), wanted bits, its id, limit, other bits that will do, devices (null: all). */
export const blocksOfOrganization = statement<LookedRow>(
  'flow_blocks_of_organization',
  looked(
    newest('f.org_id = $1', '$4::timestamptz, $6::text::bigint'),
    `($9::uuid[] IS NULL OR f.device_id IN (SELECT unnest($9::uuid[]))) AND ${isWanted}`,
  ),
);
/** Each device has its own last block, and the limit is for each of them. Values: as above, with arrays of times and ids. */
export const blocksOfDevices = statement<LookedRow>(
  'flow_blocks_of_devices',
  looked(
    `SELECT f.* FROM unnest($9::uuid[], $4::timestamptz[], $6::text[]::bigint[]) AS d (id, until, last)
     CROSS JOIN LATERAL (${newest('f.device_id = d.id', 'd.until, d.last')}) AS f`,
    isWanted,
  ),
);

export interface CoverageRow {
  readonly device_id: string;
  readonly day: string;
  readonly through: string;
  readonly refused_seconds: number;
  readonly all_seconds: number;
  readonly not_recorded: number;
}

/** Values: organization, since, devices (null: all). */
export const readCoverage = statement<CoverageRow>(
  'read_flow_coverage',
  `SELECT device_id, to_char(day, 'YYYY-MM-DD') AS day, ${isoTime('through')} AS through, refused_seconds - cut_refused_seconds AS refused_seconds, all_seconds - cut_all_seconds AS all_seconds, not_recorded
   FROM flow_coverage WHERE org_id = $1 AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date AND ($3::uuid[] IS NULL OR device_id = ANY ($3::uuid[]))
     AND (cut_refused_seconds + cut_all_seconds = 0 OR refused_seconds > cut_refused_seconds OR all_seconds > cut_all_seconds) ORDER BY day, device_id`,
);

/** Time of which no sums are kept any more. */
const cut = 'cut_refused_seconds = c.refused_seconds, cut_all_seconds = c.all_seconds';
const isNotCut = '(c.cut_refused_seconds < c.refused_seconds OR c.cut_all_seconds < c.all_seconds)';

/** Values: the oldest time that sums are kept. */
export const cutOldCoverage = statement<never>(
  'cut_old_flow_coverage',
  `UPDATE flow_coverage c SET ${cut} WHERE c.day < ($1::timestamptz AT TIME ZONE 'UTC')::date AND ${isNotCut}`,
);
/** Values: sums that an organization may have. */
export const findFull = statement<{ org_id: string }>(
  'find_full_flows',
  'SELECT org_id FROM flows GROUP BY org_id HAVING sum(sums) > $1::bigint',
);
/**
 * The devices with the most sums give theirs up first, each of them its oldest, until they have equally many: none loses any while it has at most an equal share. The days of
 * which sums were removed are cut. Values: organization, sums that it may have.
 */
export const removeMost = statement<never>(
  'remove_most_flows',
  `WITH totals AS (SELECT device_id, sum(sums) AS total FROM flows WHERE org_id = $1 GROUP BY device_id),
   levels AS (
     SELECT device_id, total, floor(($2::bigint - (sum(total) OVER smallest - total)) / (count(*) OVER () - row_number() OVER smallest + 1)) AS level
     FROM totals WINDOW smallest AS (ORDER BY total, device_id)),
   level AS (SELECT level FROM levels WHERE total > level ORDER BY total, device_id LIMIT 1),
   newest AS (
     SELECT f.id, sum(f.sums) OVER (PARTITION BY f.device_id ORDER BY f.until DESC, f.id DESC) AS newer
     FROM flows f JOIN totals t ON t.device_id = f.device_id WHERE f.org_id = $1 AND t.total > (SELECT level FROM level)),
   removed AS (
     DELETE FROM flows WHERE id IN (SELECT id FROM newest WHERE newer > (SELECT level FROM level)) RETURNING device_id, until)
   UPDATE flow_coverage c SET ${cut}
   FROM (SELECT device_id, max((until AT TIME ZONE 'UTC')::date) AS last FROM removed GROUP BY device_id) AS d
   WHERE c.device_id = d.device_id AND c.day <= d.last AND ${isNotCut}`,
);

export interface HourRow {
  readonly org_id: string;
  readonly device_id: string;
  readonly hour: string;
  readonly sums: number;
  /** The last of its reports. */
  readonly last: string;
}
/** Values: the hour before which sums are added up, limit. */
export const findHours = statement<HourRow>(
  'find_flow_hours',
  `SELECT f.org_id, f.device_id, date_trunc('hour', f.until, 'UTC') AS hour, sum(f.sums)::integer AS sums, max(f.id)::text AS last
   FROM flows f WHERE NOT f.is_hourly AND f.until < $1 GROUP BY 1, 2, 3 ORDER BY 3 LIMIT $2`,
);
/** `IS NOT TRUE` keeps PostgreSQL from the index of all reports that are to be added up: the hour of one device is a small part of it. */
const ofHour =
  "device_id = $1 AND until >= $2 AND until < $2::timestamptz + interval '1 hour' AND is_hourly IS NOT TRUE AND id <= $3::text::bigint";
/** In a transaction. Values: device, hour, its last report. */
export const takeHour = statement<{ since: string; until: string; observed_all: boolean; block: Buffer }>(
  'take_flow_hour',
  `DELETE FROM flows WHERE ${ofHour}
   RETURNING since, until, observed_all, block`,
);
/** The reports of an hour that has too many sums to add up stay as they are. Values: as above. */
export const keepHour = statement<never>('keep_flow_hour', `UPDATE flows SET is_hourly = true WHERE ${ofHour}`);
/** In a transaction. Values: organization, device, since, until, observed all, part, sums, filter, bytes. */
export const insertHour = statement<never>(
  'insert_flow_hour',
  `INSERT INTO flows (org_id, device_id, since, until, part, observed_all, is_hourly, sums, filter, block)
   VALUES ($1, $2, $3, $4, $6, $5, true, $7, $8::text::bit(${filterBits}), $9)
   ON CONFLICT (device_id, until, part) DO NOTHING`,
);

const hostname = "(d.body || '}')::json ->> 'hostname'";
/** Values: places in the outbox of the audit log. */
export const readReports = statement<
  Omit<BlockRow, 'id'> & { readonly org_id: string; readonly hostname: string | null; readonly part: number }
>(
  'read_flow_reports',
  `SELECT f.org_id, f.device_id, ${hostname} AS hostname, f.since, f.until, f.part, f.block
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
  `SELECT l.device_id, ${hostname} AS hostname, l.surge_since AS since, l.newest, l.usual FROM refusal_levels l JOIN devices d ON d.id = l.device_id
   WHERE l.org_id = $1 AND l.surge_until > $2::timestamptz`,
);
