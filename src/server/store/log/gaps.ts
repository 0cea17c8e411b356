/**
 * Owns the revisions from which readers cannot resume, and the removal of old deletions, which creates such gaps.
 *
 * A reader at revision R needs the deletion of every record that existed at R. So removing a deletion at D of a record
 * created at B makes a gap from B to D - 1 for its kind. A deletion is removed only when no record has a revision in
 * that range. Listings give the revisions of records, so a reader that just listed is never in a gap, also one that
 * resumes two kinds from the greater revision.
 */
import type { WatchKind } from '../../../api/kinds.ts';
import { parseOrganizationId, type OrganizationId } from '../../../policy/ids.ts';
import type { EraStart, Resumption } from '../data/change-log.ts';
import { refuse } from '../../problems.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import type { Context } from '../write/context.ts';

interface GapRow {
  readonly kind: WatchKind | null;
  readonly first: number;
  readonly last: number;
}

/** Values: organization. The last part is what servers of earlier versions have forgotten, of every kind. */
const selectGaps = statement<GapRow>(
  'read_gaps',
  `SELECT kind, first, last FROM revision_gaps WHERE org_id = $1
   UNION ALL SELECT NULL, 0, purged - 1 FROM heads WHERE org_id = $1 AND purged > 0`,
);

/** Values: organization. */
const selectEras = statement<EraStart>(
  'read_eras',
  'SELECT first, era FROM era_starts WHERE org_id = $1 ORDER BY first',
);

export async function readResumption(reads: Runner, org: OrganizationId): Promise<Resumption> {
  const [gaps, eras] = await Promise.all([reads.run(selectGaps, [org]), reads.run(selectEras, [org])]);
  return { gaps: gaps.map(({ kind, first, last }) => ({ kind: kind ?? undefined, first, last })), eras };
}

/** Values: organization, revision. Deletions do not matter to a listing, but discarded revisions do. */
const judgeListing = statement<{ gone: boolean }>(
  'judge_listing',
  `SELECT $2::bigint > h.revision OR EXISTS (
     SELECT FROM revision_gaps g WHERE g.org_id = $1 AND g.kind IS NULL AND $2::bigint BETWEEN g.first AND g.last) AS gone
   FROM heads h WHERE h.org_id = $1`,
);

export async function checkListing(reads: Runner, org: OrganizationId, revision = 0): Promise<void> {
  if (revision === 0) return;
  const [row] = await reads.run(judgeListing, [org, revision]);
  if (row?.gone === true) refuse({ code: 'revision_gone' });
}

/** Whether a record has a revision from `first` up to, but not including, `end`. */
const isLive = ({ org, first, end }: Record<'org' | 'first' | 'end', string>): string =>
  `(${['devices', 'device_identities', 'security_groups']
    .map(
      (table) =>
        `EXISTS (SELECT FROM ${table} r WHERE r.org_id = ${org} AND r.revision >= ${first} AND r.revision < ${end})`,
    )
    .join(' OR ')})`;

/** Values: retention. Records only leave old revisions: what no reader needs once, none will ever need. */
const markUnneeded = statement<never>(
  'mark_unneeded_deletions',
  `UPDATE changes c SET unneeded_since = clock_timestamp()
   WHERE c.type = 'delete' AND c.unneeded_since IS NULL AND c.committed_at < clock_timestamp() - $1 * interval '1 millisecond'
     AND NOT ${isLive({ org: 'c.org_id', first: 'c.born', end: 'c.revision' })}`,
);

/** A reader may have listed just before a record left the revision that it got: so long it has to come back. */
const graceMs = 86_400_000;
/** Deletions that one transaction forgets, about. */
const batch = 10_000;

/** Values: grace, limit. */
const findUnneeded = statement<{ org_id: string; kind: WatchKind; born: number; revision: number }>(
  'find_unneeded_deletions',
  `SELECT org_id, kind, born, revision FROM changes
   WHERE type = 'delete' AND unneeded_since <= clock_timestamp() - $1 * interval '1 millisecond' ORDER BY org_id, revision LIMIT $2`,
);

const lockForGaps = statement<never>('lock_for_gaps', 'UPDATE heads SET gaps = gaps + 1 WHERE org_id = $1');
const selectForgotten = statement<GapRow & { readonly kind: WatchKind }>(
  'read_forgotten',
  'SELECT kind, first, last FROM revision_gaps WHERE org_id = $1 AND kind IS NOT NULL',
);
const clearForgotten = statement<never>(
  'clear_forgotten',
  'DELETE FROM revision_gaps WHERE org_id = $1 AND kind IS NOT NULL',
);
/** Values: organization, kind, firsts, lasts. */
const insertGaps = statement<never>(
  'insert_gaps',
  'INSERT INTO revision_gaps SELECT $1, $2, r.* FROM unnest($3::bigint[], $4::bigint[]) AS r',
);
/** Values: organization, revisions. */
const dropDeletions = statement<never>(
  'drop_deletions',
  `DELETE FROM changes WHERE org_id = $1 AND revision = ANY ($2::bigint[]) AND type = 'delete'`,
);
/** Values: organization, ends of ranges, and where the next ones begin. Gives the ends behind which no record has a revision. */
const selectBridgeable = statement<{ last: number }>(
  'read_bridgeable',
  `SELECT b.last FROM unnest($2::bigint[], $3::bigint[]) AS b (last, next)
   WHERE NOT ${isLive({ org: '$1', first: 'b.last + 1', end: 'b.next' })}`,
);

export interface Range {
  readonly first: number;
  readonly last: number;
}

/** Ascending, with those that touch or overlap made one, and those too that only revisions behind one of `bridged` separate. */
export function mergeRanges(ranges: readonly Range[], bridged: ReadonlySet<number> = new Set()): readonly Range[] {
  const merged: Range[] = [];
  for (const range of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = merged.at(-1);
    if (before !== undefined && (range.first <= before.last + 1 || bridged.has(before.last)))
      merged[merged.length - 1] = { first: before.first, last: Math.max(before.last, range.last) };
    else merged.push(range);
  }
  return merged;
}

/** Ranges of one kind and organization. Beyond that the older half is joined where no record lies between: these revisions are refused too. */
const mostRanges = 1_000;

const asText = (numbers: readonly number[]): readonly string[] => numbers.map(String);

async function bounded(tx: Runner, org: string, ranges: readonly Range[]): Promise<readonly Range[]> {
  if (ranges.length <= mostRanges) return ranges;
  const older = ranges.slice(0, ranges.length - mostRanges / 2);
  const ends = asText(older.slice(0, -1).map(({ last }) => last));
  const nexts = asText(older.slice(1).map(({ first }) => first));
  const rows = await tx.run(selectBridgeable, [org, ends, nexts]);
  return mergeRanges(ranges, new Set(rows.map(({ last }) => last)));
}

/** The gaps and the forgetting are one transaction: no reader sees the one without the other. */
async function forget(
  tx: Runner,
  org: OrganizationId,
  unneeded: readonly { readonly kind: WatchKind; readonly born: number; readonly revision: number }[],
): Promise<void> {
  await tx.run(lockForGaps, [org]);
  const known = await tx.run(selectForgotten, [org]);
  const added = unneeded.map(({ kind, born, revision }) => ({ kind, first: born, last: revision - 1 }));
  await tx.run(clearForgotten, [org]);
  for (const kind of new Set([...known, ...added].map((range) => range.kind))) {
    const all = [...known, ...added].filter((range) => range.kind === kind);
    const ranges = await bounded(tx, org, mergeRanges(all));
    await tx.run(insertGaps, [
      org,
      kind,
      asText(ranges.map(({ first }) => first)),
      asText(ranges.map(({ last }) => last)),
    ]);
  }
  await tx.run(dropDeletions, [org, asText(unneeded.map(({ revision }) => revision))]);
}

/** Forgets deletions that are older than the retention and that no reader needs. */
export async function forgetDeletions(
  { writes, transactions }: Pick<Context, 'writes' | 'transactions'>,
  retentionMs: number,
): Promise<void> {
  await writes.run(markUnneeded, [retentionMs]);
  for (;;) {
    const rows = await writes.run(findUnneeded, [Math.min(graceMs, retentionMs), batch]);
    for (const org of new Set(rows.map(({ org_id }) => org_id))) {
      const unneeded = rows.filter(({ org_id }) => org_id === org);
      await transactions.run((tx) => forget(tx, parseOrganizationId(org), unneeded));
    }
    if (rows.length < batch) return;
  }
}
