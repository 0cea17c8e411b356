/** Owns the SQL of security groups. */
import { quickOperation } from '../write/quick.ts';
import { found, groupBody, inOrg, statement } from '../postgres/sql.ts';

export interface GroupRow {
  readonly id: string;
  readonly user_id: string | null;
  readonly is_default: boolean;
  readonly is_applied: boolean;
  readonly left_at: number;
  readonly revision: number;
}

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

/** Who may see it, in SQL: `$2` is the reader (reference 5 (2)). */
const visible = '(g.user_id IS NULL OR g.user_id = $2 OR g.is_applied)';
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

/** Who alone may see a user's group that no device holds. */
const onlyFor = (row: string): string =>
  `CASE WHEN ${row}.user_id IS NOT NULL AND NOT ${row}.is_applied THEN ${row}.user_id END`;

const member = (user: string): string => found('members m', `m.org_id = $1 AND m.user_id = ${user}`);

const logChanges = `, log AS (
  INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
  SELECT n.org_id, n.revision, 'security-groups', 'change', n.id, n.body, ${onlyFor('n')}, n.left_at FROM new n)`;

const columns =
  'org_id, id, user_id, is_default, is_applied, left_at, group_name, group_description, inbound_rules, outbound_rules, created_at, updated_at, revision';
const insert = (source: string): string => `
  new AS (INSERT INTO security_groups (${columns}, body) SELECT ${columns}, ${groupBody('n')} FROM ${source} n RETURNING *)`;

const texts = { group_name: 'text', group_description: 'text', inbound_rules: 'text', outbound_rules: 'text' };
const textColumns = Object.keys(texts);

export const createGroup = quickOperation('create_group', {
  columns: { id: 'uuid', user_id: 'uuid', ...texts, at: 'timestamptz', actor: 'uuid' },
  select: `h.org_id, n.id, n.user_id, false AS is_default, false AS is_applied, 0::bigint AS left_at,
    ${textColumns.map((column) => `n.${column}`).join(', ')}, n.at AS created_at, n.at AS updated_at`,
  refusal: `CASE WHEN NOT ${member('n.actor')} OR (n.user_id IS NOT NULL AND NOT ${member('n.user_id')}) THEN 'not_a_member' END`,
  write: insert('accepted'),
  log: logChanges,
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
  refusal: `CASE WHEN NOT ${member('n.actor')} THEN 'not_a_member'
    WHEN g.id IS NULL OR coalesce(g.user_id::text, '') <> n.owner THEN 'not_found'
    WHEN g.revision <> n.expected THEN 'precondition_failed'
    WHEN (${patched.join(', ')}) = (${textColumns.map((column) => `g.${column}`).join(', ')}) THEN 'unchanged' END`,
  write: `new AS (
    UPDATE security_groups g SET ${textColumns.map((column) => `${column} = n.${column}`).join(', ')},
      updated_at = n.updated_at, revision = n.revision, body = ${groupBody('n')}
    FROM accepted n WHERE g.id = n.id RETURNING g.*)`,
  log: logChanges,
  oldBody: 'g.body',
  standing: 'g.revision',
});

/** Careful. Values: organization, id, is default, name, description, inbound, outbound, now, revision. */
export const insertGroup = statement<BodyRow>(
  'insert_group',
  `WITH ${insert(`(SELECT $1::uuid AS org_id, $2::uuid AS id, NULL::uuid AS user_id, $3::boolean AS is_default, false AS is_applied, 0::bigint AS left_at,
     $4::text AS group_name, $5::text AS group_description, $6::text AS inbound_rules, $7::text AS outbound_rules,
     $8::timestamptz AS created_at, $8::timestamptz AS updated_at, $9::bigint AS revision)`)}
   ${logChanges} SELECT id, revision, body FROM new`,
);

/** Careful. Values: organization, ids. */
export const findGroups = statement<GroupRow>(
  'find_groups',
  `SELECT id, user_id, is_default, is_applied, left_at, revision FROM security_groups g WHERE id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);

/** Careful: a user's group is held by its first device. Values: organization, id, revision. */
export const enterView = statement<never>(
  'enter_view',
  `WITH new AS (UPDATE security_groups SET is_applied = true, revision = $3 WHERE id = $2 AND ${inOrg('security_groups')} RETURNING *)
   INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
   SELECT org_id, revision, 'security-groups', 'change', id, body, NULL, left_at FROM new`,
);

/** Careful: of these users' groups, those that no device holds any more. Values: organization, ids. */
export const findLeft = statement<{ id: string }>(
  'find_left',
  `SELECT g.id FROM security_groups g WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')} AND g.user_id IS NOT NULL AND g.is_applied
   AND NOT EXISTS (SELECT FROM device_groups d WHERE d.group_id = g.id) ORDER BY g.id`,
);

/** Careful: a user's group lost its last device. Values: organization, id, revision. */
export const leaveView = statement<never>(
  'leave_view',
  `WITH new AS (UPDATE security_groups SET is_applied = false, left_at = $3, revision = $3 WHERE id = $2 AND ${inOrg('security_groups')} RETURNING *)
   INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
   SELECT org_id, revision, 'security-groups', 'change', id, body, user_id, left_at FROM new`,
);

/** Careful. Values: group. */
export const findHolders = statement<{ id: string; hostname: string; security_groups: string[] }>(
  'find_holders',
  `SELECT d.id, d.hostname, d.security_groups FROM device_groups g JOIN devices d ON d.id = g.device_id WHERE g.group_id = $1 ORDER BY d.id`,
);

/** Careful. Values: organization, id, revision of the deletion. */
export const deleteGroup = statement<BodyRow>(
  'delete_group',
  `WITH gone AS (DELETE FROM security_groups WHERE id = $2 AND ${inOrg('security_groups')} RETURNING *)
   INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
   SELECT org_id, $3, 'security-groups', 'delete', id, body, ${onlyFor('gone')}, left_at FROM gone
   RETURNING id, revision, body`,
);

/** Careful. Values: organization, user, the revision before the first. */
export const deleteGroupsOf = statement<never>(
  'delete_groups_of',
  `WITH gone AS (DELETE FROM security_groups WHERE org_id = $1 AND user_id = $2 RETURNING *)
   INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
   SELECT org_id, $3 + row_number() OVER (ORDER BY id), 'security-groups', 'delete', id, body, ${onlyFor('gone')}, left_at FROM gone`,
);
