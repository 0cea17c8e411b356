/** Owns the leap: how all organizations move past every revision that was ever given, when a part of their history is discarded. */
import type { ClientBase } from 'pg';

/** Far more than is given while a leap is on its way. */
const margin = 1_000_000;

/**
 * Values: organizations, and revisions that readers are known to have seen of each. Every head leaps past both, and past the milliseconds since 1970:
 * an organization changes less than a thousand times a second, so that this exceeds also what databases gave that nothing is left of.
 * Resuming at or below the head that is found goes on; what lies between it and the new one is discarded.
 */
const leap = `
  WITH seen AS (SELECT org_id, max(revision) AS revision FROM unnest($1::uuid[], $2::bigint[]) AS s (org_id, revision) GROUP BY org_id),
  moved AS (
    SELECT h.org_id, h.revision AS old, greatest(h.revision + ${margin}, seen.revision + ${margin}, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS new
    FROM heads h LEFT JOIN seen USING (org_id)),
  discarded AS (INSERT INTO revision_gaps (org_id, kind, first, last) SELECT org_id, NULL, old + 1, new - 1 FROM moved),
  forgotten AS (DELETE FROM device_status)
  UPDATE heads h SET revision = moved.new, version = h.version + ${margin}, gaps = h.gaps + 1 FROM moved WHERE h.org_id = moved.org_id`;

export async function leapAll(client: ClientBase, seen: ReadonlyMap<string, number>): Promise<void> {
  await client.query(leap, [[...seen.keys()], [...seen.values()].map(String)]);
}
