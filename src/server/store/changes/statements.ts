/** Owns the SQL of change sets: the records before the write, the checks after it, and the record of the set. */
import { inOrg, statement } from '../postgres/sql.ts';

/** The devices that list one of these groups, or listed it before the change that is being tried. Values: organization, groups. */
export const devicesListing = statement<{ id: string }>(
  'devices_listing',
  `SELECT d.id FROM devices d WHERE d.listed && $2::uuid[] AND d.listed <> '{}' AND ${inOrg('d')}`,
);

/** Values: id, organization, who, now, first revision, last revision, what it reverts or null, changes. */
export const insertChangeSet = statement<never>(
  'insert_change_set',
  'INSERT INTO change_sets (id, org_id, user_id, at, first, last, reverts, changes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)',
);

export interface ChangeSetRow {
  readonly id: string;
  readonly at: string;
  readonly user_id: string;
  readonly username: string;
  readonly first: number;
  readonly last: number;
  readonly reverts: string | null;
  readonly reverted_by: string | null;
  readonly changes: string;
}

/** Values: organization, id. */
export const getChangeSet = statement<ChangeSetRow>(
  'get_change_set',
  `SELECT c.id, c.at, c.user_id, u.username, c.first, c.last, c.reverts, c.reverted_by, c.changes
   FROM change_sets c JOIN users u ON u.id = c.user_id WHERE c.org_id = $1 AND c.id = $2`,
);

/** Values: organization, id, what reverted it. */
export const markReverted = statement<never>(
  'mark_reverted',
  'UPDATE change_sets SET reverted_by = $3 WHERE org_id = $1 AND id = $2',
);
