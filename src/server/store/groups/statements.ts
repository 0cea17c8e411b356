/** Owns the SQL of security groups. */
import { inOrg, statement } from '../postgres/sql.ts';
import { isMember, isVisible, onlyFor } from '../schema/fragments.ts';
import { quickOperation } from '../write/quick.ts';
import { headVersion, logChanges, takeRevision, takeRevisions } from '../write/revisions.ts';
import { groupBody } from './body.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

const visible = isVisible('g', '$2');
/** `$3`: all owners (null), the organization (''), or one user's id. */
const ownedBy = `($3::text IS NULL OR coalesce(g.user_id::text, '') = $3)`;

/** Values: organization, reader, owner, greater than this revision, after this id, limit. */
export const listGroups = statement<BodyRow>(
  'list_groups',
  `SELECT g.id, g.revision, g.body FROM security_groups g
   WHERE g.org_id = $1 AND ${visible} AND ${ownedBy} AND g.revision > $4 AND g.id > $5 ORDER BY g.id LIMIT $6`,
);

/** Values: organization, reader, owner, id. */
export const getGroup = statement<BodyRow>(
  'get_group',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = $4 AND ${inOrg('g')} AND ${visible} AND ${ownedBy}`,
);

const log = (type: 'change' | 'delete', from: string): string =>
  logChanges({ kind: 'security-groups', type, from, onlyFor: onlyFor(from), leftAt: `${from}.left_at` });

const columns =
  'org_id, id, user_id, is_default, is_applied, left_at, group_name, group_description, inbound_rules, outbound_rules, created_at, updated_at, revision';

const texts = { group_name: 'text', group_description: 'text', inbound_rules: 'text', outbound_rules: 'text' };
const textColumns = Object.keys(texts);

/** The organization's default group says so by `is_default`. */
export const createGroup = quickOperation('create_group', {
  columns: { id: 'uuid', user_id: 'uuid', is_default: 'boolean', ...texts, at: 'timestamptz', actor: 'uuid' },
  select: `h.org_id, n.id, n.user_id, coalesce(n.is_default, false) AS is_default, false AS is_applied, 0::bigint AS left_at,
    ${textColumns.map((column) => `n.${column}`).join(', ')}, n.at AS created_at, n.at AS updated_at`,
  refusal: `CASE WHEN NOT ${isMember('n.actor')} OR (n.user_id IS NOT NULL AND NOT ${isMember('n.user_id')}) THEN 'not_a_member' END`,
  write: `new AS (INSERT INTO security_groups (${columns}, body) SELECT ${columns}, ${groupBody('n')} FROM numbered n RETURNING *)`,
  log: `log AS (${log('change', 'new')})`,
  oldBody: 'NULL',
  standing: 'NULL::bigint',
});

const patched = textColumns.map((column) => `coalesce(n.${column}, g.${column})`);

/** `owner` as in `ownedBy`; a text that is null stays. */
export const updateGroup = quickOperation('update_group', {
  columns: { id: 'uuid', owner: 'text', expected: 'bigint', ...texts, at: 'timestamptz', actor: 'uuid' },
  select: `h.org_id, n.id, g.user_id, g.is_default, g.is_applied, g.left_at,
    ${textColumns.map((column, index) => `${patched[index]} AS ${column}`).join(', ')}, g.created_at, n.at AS updated_at`,
  from: `LEFT JOIN security_groups g ON g.id = n.id AND ${inOrg('g')}`,
  refusal: `CASE WHEN NOT ${isMember('n.actor')} THEN 'not_a_member'
    WHEN g.id IS NULL OR coalesce(g.user_id::text, '') <> n.owner THEN 'not_found'
    WHEN g.revision <> n.expected THEN 'precondition_failed'
    WHEN (${patched.join(', ')}) = (${textColumns.map((column) => `g.${column}`).join(', ')}) THEN 'unchanged' END`,
  write: `new AS (
    UPDATE security_groups g SET ${textColumns.map((column) => `${column} = n.${column}`).join(', ')},
      updated_at = n.updated_at, revision = n.revision, body = ${groupBody('n')}
    FROM numbered n WHERE g.id = n.id RETURNING g.*)`,
  log: `log AS (${log('change', 'new')})`,
  oldBody: 'g.body',
  standing: 'g.revision',
});

/** Careful. Values: organization, id. */
export const findGroup = statement<{ user_id: string | null; is_default: boolean; revision: number }>(
  'find_group',
  `SELECT user_id, is_default, revision FROM security_groups g WHERE id = $2 AND ${inOrg('g')}`,
);

/** Careful. Values: group. */
export const findHolders = statement<{ id: string; hostname: string; security_groups: string[] }>(
  'find_holders',
  `SELECT d.id, d.hostname, d.security_groups FROM device_groups g JOIN devices d ON d.id = g.device_id WHERE g.group_id = $1 ORDER BY d.id`,
);

/** Careful: keys that still admit devices with this group. Values: organization, group, now. */
export const findKeys = statement<{ id: string; name: string }>(
  'find_keys_of_group',
  `SELECT k.id, k.name FROM enrollment_keys k
   WHERE k.org_id = $1 AND $2 = ANY (k.security_groups) AND k.uses_left > 0 AND k.expires_at > $3 ORDER BY k.id`,
);
/** Careful. Values: organization, keys. */
export const endKeys = statement<never>(
  'end_keys',
  `DELETE FROM enrollment_keys k WHERE k.id = ANY ($2::uuid[]) AND ${inOrg('k')}`,
);

const deleteGroups = (which: string, revisions: string): string =>
  `WITH gone AS (DELETE FROM security_groups g WHERE ${which} RETURNING g.org_id, g.id, g.user_id, g.is_applied, g.left_at, g.body, ${headVersion}),
   ${revisions} ${log('delete', 'numbered')} RETURNING id, revision, body`;
/** Careful. Values: organization, id. */
export const deleteGroup = statement<BodyRow>(
  'delete_group',
  deleteGroups(`g.id = $2 AND ${inOrg('g')}`, takeRevision('gone')),
);
/** Careful. Values: organization, user. */
export const deleteMemberGroups = statement<BodyRow>(
  'delete_member_groups',
  deleteGroups('g.org_id = $1 AND g.user_id = $2', takeRevisions('gone', 'ORDER BY gone.id')),
);
