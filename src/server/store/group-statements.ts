/** Owns the SQL of security groups. */
import type { QuickRow } from './context.ts';
import { groupBody, statement } from './sql.ts';

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
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.org_id = $1 AND ${visible} AND ${ownedBy} AND g.id = $4`,
);

const columns =
  'org_id, id, user_id, is_default, is_applied, left_at, group_name, group_description, inbound_rules, outbound_rules, created_at, updated_at';

/** Who alone may see a user's group that no device holds. */
const onlyFor = (row: string): string =>
  `CASE WHEN ${row}.user_id IS NOT NULL AND NOT ${row}.is_applied THEN ${row}.user_id END`;

const insertAndLog = (source: string): string => `
  new AS (
    INSERT INTO security_groups (${columns}, revision, body)
    SELECT ${columns}, revision, ${groupBody('n')} FROM (${source}) n
    RETURNING *),
  log AS (
    INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
    SELECT n.org_id, n.revision, 'security-groups', 'change', n.id, n.body, ${onlyFor('n')}, 0 FROM new n)`;

const newGroup = `$1::uuid AS org_id, $2::uuid AS id, $3::uuid AS user_id, $4::boolean AS is_default, false AS is_applied, 0::bigint AS left_at,
  $5::text AS group_name, $6::text AS group_description, $7::text AS inbound_rules, $8::text AS outbound_rules,
  $9::timestamptz AS created_at, $9::timestamptz AS updated_at`;

/** Quick. Values: organization, id, owning user or null, is default, name, description, inbound, outbound, now, actor. */
export const createGroup = statement<QuickRow>(
  'create_group',
  `WITH seen AS MATERIALIZED (
    SELECT h.version, ${newGroup},
      CASE WHEN NOT EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $10) THEN 'not_a_member'
           WHEN $3::uuid IS NOT NULL AND NOT EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $3) THEN 'not_a_member'
      END AS refusal
    FROM heads h WHERE h.org_id = $1),
  bump AS (
    UPDATE heads h SET revision = h.revision + 1, version = h.version + 1 FROM seen
    WHERE h.org_id = $1 AND h.version = seen.version AND seen.refusal IS NULL
    RETURNING h.revision),
  ${insertAndLog('SELECT seen.*, bump.revision FROM seen, bump')}
  SELECT $2::uuid AS id, seen.refusal, NULL::bigint AS standing, new.revision, new.body FROM seen LEFT JOIN new ON true`,
);

/** Careful. Values: as above up to now, then the revision. */
export const insertGroup = statement<BodyRow>(
  'insert_group',
  `WITH ${insertAndLog(`SELECT ${newGroup}, $10::bigint AS revision`)} SELECT id, revision, body FROM new`,
);

/**
 * Quick. Values: organization, id, owner as in `ownedBy`, expected revision or null, name, description, inbound, outbound
 * (each null: stays), now, actor.
 */
export const updateGroup = statement<QuickRow>(
  'update_group',
  `WITH seen AS MATERIALIZED (
    SELECT h.version, g.org_id, g.id, g.user_id, g.is_default, g.is_applied, g.left_at, g.revision AS standing, g.body AS old_body,
      coalesce($5, g.group_name) AS group_name, coalesce($6, g.group_description) AS group_description,
      coalesce($7, g.inbound_rules) AS inbound_rules, coalesce($8, g.outbound_rules) AS outbound_rules,
      g.created_at, $9::timestamptz AS updated_at,
      CASE WHEN NOT EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $10) THEN 'not_a_member'
           WHEN g.id IS NULL OR NOT ${ownedBy} THEN 'not_found'
           WHEN g.revision <> $4 THEN 'precondition_failed'
           WHEN (coalesce($5, g.group_name), coalesce($6, g.group_description), coalesce($7, g.inbound_rules), coalesce($8, g.outbound_rules))
              = (g.group_name, g.group_description, g.inbound_rules, g.outbound_rules) THEN 'unchanged'
      END AS refusal
    FROM heads h LEFT JOIN security_groups g ON g.org_id = h.org_id AND g.id = $2 WHERE h.org_id = $1),
  bump AS (
    UPDATE heads h SET revision = h.revision + 1, version = h.version + 1 FROM seen
    WHERE h.org_id = $1 AND h.version = seen.version AND seen.refusal IS NULL
    RETURNING h.revision),
  new AS (
    UPDATE security_groups g SET group_name = n.group_name, group_description = n.group_description,
      inbound_rules = n.inbound_rules, outbound_rules = n.outbound_rules, updated_at = n.updated_at,
      revision = bump.revision, body = ${groupBody('n')}
    FROM seen n, bump WHERE g.org_id = $1 AND g.id = $2
    RETURNING g.*),
  log AS (
    INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
    SELECT n.org_id, n.revision, 'security-groups', 'change', n.id, n.body, ${onlyFor('n')}, n.left_at FROM new n)
  SELECT $2::uuid AS id, seen.refusal, seen.standing, new.revision, coalesce(new.body, seen.old_body) AS body FROM seen LEFT JOIN new ON true`,
);

/** Careful. Values: organization, ids. */
export const findGroups = statement<GroupRow>(
  'find_groups',
  'SELECT id, user_id, is_default, is_applied, left_at, revision FROM security_groups WHERE org_id = $1 AND id = ANY ($2::uuid[])',
);

/** Careful: a user's group is held by its first device. Values: organization, id, revision. */
export const enterView = statement<never>(
  'enter_view',
  `WITH new AS (UPDATE security_groups SET is_applied = true, revision = $3 WHERE org_id = $1 AND id = $2 RETURNING *)
   INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
   SELECT org_id, revision, 'security-groups', 'change', id, body, NULL, left_at FROM new`,
);

/** Careful: of these users' groups, those that no device holds any more. Values: organization, ids. */
export const findLeft = statement<{ id: string }>(
  'find_left',
  `SELECT g.id FROM security_groups g WHERE g.org_id = $1 AND g.id = ANY ($2::uuid[]) AND g.user_id IS NOT NULL AND g.is_applied
   AND NOT EXISTS (SELECT FROM device_groups d WHERE d.org_id = $1 AND d.group_id = g.id) ORDER BY g.id`,
);

/** Careful: a user's group lost its last device. Values: organization, id, revision. */
export const leaveView = statement<never>(
  'leave_view',
  `WITH new AS (UPDATE security_groups SET is_applied = false, left_at = $3, revision = $3 WHERE org_id = $1 AND id = $2 RETURNING *)
   INSERT INTO changes (org_id, revision, kind, type, id, body, only_for, left_at)
   SELECT org_id, revision, 'security-groups', 'change', id, body, user_id, left_at FROM new`,
);

/** Careful. Values: organization, group. */
export const findHolders = statement<{ id: string; hostname: string; security_groups: string[] }>(
  'find_holders',
  `SELECT d.id, d.hostname, d.security_groups FROM device_groups g JOIN devices d ON d.org_id = g.org_id AND d.id = g.device_id
   WHERE g.org_id = $1 AND g.group_id = $2 ORDER BY d.id`,
);

/** Careful. Values: organization, id, revision of the deletion. */
export const deleteGroup = statement<BodyRow>(
  'delete_group',
  `WITH gone AS (DELETE FROM security_groups WHERE org_id = $1 AND id = $2 RETURNING *)
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
