/**
 * Owns eras, and the revision leap that ends an era whose history was cut.
 *
 * An era is what one run of one database has written. Wherever a history can be cut (a standby takes over, a snapshot
 * or a dump is restored), the database restarts or its tables are new, so no write succeeds before the server has
 * verified it here. The verification begins an era at the next revision of every organization. So the lost part of a
 * history and the part that replaces it are never of the same era.
 */
import type { Runner } from '../postgres/connection.ts';
import { StoreError } from '../../problems.ts';
import { sqlState } from '../postgres/failure.ts';
import { statement } from '../postgres/sql.ts';

export interface DatabaseIdentity {
  readonly started_at: string;
  /** Another text where the system, the timeline, the database or the tables are others. */
  readonly place: string;
}

interface IdentityRow extends DatabaseIdentity {
  readonly standby: boolean;
}

const identityWith = (system: string, timeline: string): string =>
  `SELECT pg_is_in_recovery() AS standby, pg_postmaster_start_time()::text AS started_at,
     concat_ws(' ', ${system}, ${timeline}, (SELECT oid FROM pg_database WHERE datname = current_database()), 'heads'::regclass::oid) AS place`;
/** The timeline of what is written now: that of the last checkpoint is the old one for a while after a promotion. */
const readIdentity = statement<IdentityRow>(
  'read_identity',
  identityWith(
    '(SELECT system_identifier FROM pg_control_system())',
    `CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END`,
  ),
);
/** Where our role may not ask for more, or the database does not have these functions. */
const readLittleIdentity = statement<IdentityRow>('read_little_identity', identityWith(`'-'`, `'-'`));

/** Which database this is. Fails with `unavailable` on a standby. */
export async function identityOf(reads: Runner): Promise<DatabaseIdentity> {
  const [row] = await reads.run(readIdentity, []).catch((error: unknown) => {
    // After any other error, the little identity would look like another database, and every organization would leap for nothing.
    if (!(error instanceof StoreError) || !/^(42501|42883|0A000)$/.test(sqlState(error.cause) ?? '')) throw error;
    return reads.run(readLittleIdentity, []);
  });
  if (row === undefined || row.standby) {
    throw new StoreError({ code: 'unavailable' }, { message: 'the database is a standby' });
  }
  return row;
}

/** What a server knows of a history, to find out whether it was cut. */
export interface KnownHistory {
  /** The greatest revision of organizations that it has seen. */
  readonly heads: ReadonlyMap<string, number>;
  /** A transaction that had ended before: the counter of a database that went back is below it. */
  readonly transaction: bigint;
  /** The eras that it knows. */
  readonly eras: ReadonlySet<string>;
}

/** For a restore that has replaced a database and knows only the heads of the replaced one. */
export const replacedHistory = (heads: ReadonlyMap<string, number>): KnownHistory => ({
  heads,
  transaction: 1n << 64n,
  eras: new Set(),
});

interface EraRow {
  readonly id: string;
  readonly place: string;
  readonly leapt: boolean;
  readonly is_cut: boolean;
  readonly is_running: boolean;
}

const lock = statement<{ started_at: string; transaction: string }>(
  'lock_eras',
  `SELECT pg_advisory_xact_lock(7264651003), pg_postmaster_start_time()::text AS started_at,
     pg_snapshot_xmin(pg_current_snapshot())::text AS transaction`,
);
const readAllEras = statement<EraRow>(
  'read_all_eras',
  `SELECT id, place, leapt, is_cut, started_at = pg_postmaster_start_time() AS is_running FROM eras ORDER BY serial`,
);
/** Values: organizations, revisions that were seen. Whether a head is below, and whether a leap has discarded one: null without organizations. */
const compareHeads = statement<{ below: boolean | null; discarded: boolean | null }>(
  'compare_heads',
  `SELECT bool_or(h.revision < s.revision) AS below,
     bool_or(EXISTS (SELECT FROM revision_gaps g WHERE g.org_id = s.org_id AND g.kind IS NULL AND s.revision BETWEEN g.first AND g.last)) AS discarded
   FROM unnest($1::uuid[], $2::bigint[]) AS s (org_id, revision) JOIN heads h ON h.org_id = s.org_id`,
);
/** Values: organizations. */
const readHeadsNow = statement<{ org_id: string; revision: number }>(
  'read_heads_now',
  'SELECT org_id, revision FROM heads WHERE org_id = ANY ($1::uuid[])',
);
/** Values: eras. */
const dropStarts = statement<{ org_id: string; first: number }>(
  'drop_era_starts',
  'DELETE FROM era_starts WHERE era = ANY ($1::uuid[]) RETURNING org_id, first',
);
/** Values: place, whether everything leaps, whether receipts from before prove nothing. */
const beginEra = statement<{ id: string }>(
  'begin_era',
  `INSERT INTO eras (started_at, heads_table, place, leapt, is_cut)
   VALUES (pg_postmaster_start_time(), 'heads'::regclass, $1, $2, $3) RETURNING id`,
);
/** Values: era. */
const markCut = statement<never>('mark_cut', 'UPDATE eras SET is_cut = true WHERE id = $1');
/** Values: era, organizations, and where it begins for each; for others it begins behind the head. */
const startEra = statement<never>(
  'start_era',
  `INSERT INTO era_starts (org_id, first, era)
   SELECT h.org_id, coalesce(f.first, h.revision + 1), $1 FROM heads h LEFT JOIN unnest($2::uuid[], $3::bigint[]) AS f (org_id, first) ON f.org_id = h.org_id
   ON CONFLICT (org_id, first) DO UPDATE SET era = excluded.era`,
);

/** Far more than is given while a leap is on its way. */
const margin = 1_000_000;

/**
 * Values: organizations, and the revisions that readers are known to have seen of each; organizations, and from where the history of each is discarded,
 * which is behind the head for others. Every head leaps past what was seen and past the milliseconds since 1970: an organization changes less
 * than a thousand times a second, so that this exceeds also what databases gave that nothing is left of.
 */
const leap = statement<never>(
  'leap',
  `WITH seen AS (SELECT org_id, max(revision) AS revision FROM unnest($1::uuid[], $2::bigint[]) AS s (org_id, revision) GROUP BY org_id),
   moved AS (
     SELECT h.org_id, coalesce(f.first, h.revision + 1) AS first,
       greatest(h.revision + ${margin}, seen.revision + ${margin}, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS new
     FROM heads h LEFT JOIN seen ON seen.org_id = h.org_id LEFT JOIN unnest($3::uuid[], $4::bigint[]) AS f (org_id, first) ON f.org_id = h.org_id),
   discarded AS (INSERT INTO revision_gaps (org_id, kind, first, last) SELECT org_id, NULL, first, new - 1 FROM moved)
   UPDATE heads h SET revision = moved.new + h.revision + 1 - moved.first, version = h.version + ${margin}, gaps = h.gaps + 1
   FROM moved WHERE h.org_id = moved.org_id`,
);

/** Moves a column past the leap if its revision is discarded. */
const pastLeap = (column: string): string =>
  `${column} = CASE WHEN r.${column} >= f.first THEN r.${column} + f.by ELSE r.${column} END`;
const moveDiscarded = (table: string, ...columns: readonly string[]): string =>
  `UPDATE ${table} r SET ${columns.join(', ')} FROM forks f WHERE r.org_id = f.org_id AND r.revision BETWEEN f.first AND f.last`;
/**
 * Values: organizations, from where the history of each is discarded, era. What a server wrote there before the cut was found takes new revisions behind the
 * leap, in the same order. So no record has a revision from which nobody can resume. The history and the audit keep the revisions of the time.
 */
const moveForks = statement<never>(
  'move_forks',
  `WITH forks AS (
     SELECT f.org_id, f.first, g.last, g.last - f.first + 2 AS by
     FROM unnest($1::uuid[], $2::bigint[]) AS f (org_id, first)
     CROSS JOIN LATERAL (SELECT max(g.last) AS last FROM revision_gaps g WHERE g.org_id = f.org_id AND g.kind IS NULL) AS g),
   moved_devices AS (${moveDiscarded('devices', pastLeap('revision'), pastLeap('born'))}),
   moved_identities AS (${moveDiscarded('device_identities', pastLeap('revision'))}),
   moved_groups AS (${moveDiscarded('security_groups', pastLeap('revision'), pastLeap('born'), pastLeap('left_at'))})
   ${moveDiscarded('changes', pastLeap('revision'), pastLeap('born'), pastLeap('left_at'), 'era = $3::uuid')}`,
);

const columns = (map: ReadonlyMap<string, number>): [readonly string[], readonly string[]] => [
  [...map.keys()],
  [...map.values()].map(String),
];

/**
 * What a verification found out that nobody knew before:
 * - `cut`: what this server has seen is missing.
 * - `replaced`: the history goes on in other tables, or this server has seen nothing of it. A part may be missing.
 * - `moved`: another primary goes on with all that this server has seen.
 */
export type HistoryChange = 'none' | 'moved' | 'replaced' | 'cut';

export interface VerifiedHistory {
  /** All that the database knows. */
  readonly eras: readonly string[];
  /** The heads of the organizations that the server knows. */
  readonly heads: ReadonlyMap<string, number>;
  readonly change: HistoryChange;
}

/** A place without its timeline: it stays when a standby takes over. */
const tablesOf = (place: string): string => place.split(' ').toSpliced(1, 1).join(' ');

/**
 * After a crash, PostgreSQL gives the numbers of transactions again that ended without a commit and had not reached the disk. At most so many: what is
 * older than its WAL writer's delay is on disk. A history that was cut by fewer transactions shows in the heads.
 */
const reusedTransactions = 1_000n;

/**
 * Compares the database with what is known of its history. Begins an era where the database was started again or is another one. Lets every
 * organization leap where a part of the history is or may be lost; however many servers find that out, once.
 *
 * What devices reported before a cut proves nothing: they may have followed what is lost. Where a standby that has everything took over, it still
 * counts. So the era says which of the two it is. The server that begins the era may have seen less than another one, which corrects it.
 */
export async function verifyHistory(
  tx: Runner,
  identity: DatabaseIdentity,
  { heads, transaction, eras: known }: KnownHistory,
): Promise<VerifiedHistory> {
  const [now] = await tx.run(lock, []);
  if (now?.started_at !== identity.started_at) {
    throw new StoreError({ code: 'unavailable' }, { message: 'another database answers than a moment ago' });
  }
  const isBack = BigInt(now.transaction) + reusedTransactions < transaction;
  const eras = await tx.run(readAllEras, []);
  const newest = eras.at(-1);
  // What began after the last era that this server knows too: others have verified the database before.
  const since = known.size === 0 ? [] : eras.slice(eras.findLastIndex(({ id }) => known.has(id)) + 1);
  const [compared] = await tx.run(compareHeads, columns(heads));
  const isElsewhere = newest !== undefined && newest.place !== identity.place;
  /** What this server has seen is missing here, and no leap has followed. */
  const isCut = (isBack && !since.some((one) => one.leapt)) || compared?.below === true;
  const isMissing = isBack || isCut || compared?.discarded === true;
  const leapt = isElsewhere || isCut;
  /** Another server saw nothing missing when it let everything leap. */
  const corrected = isMissing && !leapt ? since.findLast((one) => one.leapt && !one.is_cut) : undefined;
  if (corrected !== undefined) await tx.run(markCut, [corrected.id]);
  const isMoved = known.size > 0 && newest !== undefined && tablesOf(newest.place) === tablesOf(identity.place);
  const found = isMissing ? 'cut' : isMoved ? 'moved' : 'replaced';
  const change = leapt || corrected !== undefined ? found : 'none';
  const verified = async (...begun: readonly string[]): Promise<VerifiedHistory> => {
    const rows = await tx.run(readHeadsNow, [[...heads.keys()]]);
    return {
      eras: [...eras.map(({ id }) => id), ...begun],
      heads: new Map(rows.map(({ org_id, revision }) => [org_id, revision])),
      change,
    };
  };
  if (!leapt && newest?.is_running === true) return verified();

  // Who verified before knew of no cut. What was written since is of the same era as the first of them, and all of it is discarded. Where nothing is missing,
  // eras that this server does not know are those that others began while it had nothing to write: they belong to the history.
  const began = isCut ? await tx.run(dropStarts, [since.map(({ id }) => id)]) : [];
  const forks = new Map<string, number>();
  for (const { org_id, first } of began) forks.set(org_id, Math.min(first, forks.get(org_id) ?? first));
  const [begun] = await tx.run(beginEra, [identity.place, leapt, leapt && found !== 'moved']);
  if (begun === undefined) throw new StoreError({ code: 'unexpected' });
  await tx.run(startEra, [begun.id, ...columns(forks)]);
  if (leapt) await tx.run(leap, [...columns(heads), ...columns(forks)]);
  if (forks.size > 0) await tx.run(moveForks, [...columns(forks), begun.id]);
  return verified(begun.id);
}
