/** Owns the SQL of security groups. */
import { inOrg, statement, withinBytes, type PageRow } from '../postgres/sql.ts';
import { isVisible } from '../schema/fragments.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

const visible = isVisible('g', '$2');
/** `$3`: all owners (null), the organization (''), or one user's id. */
const ownedBy = `($3::text IS NULL OR coalesce(g.user_id::text, '') = $3)`;

/** Values: organization, reader, owner, greater than this revision, after this id, limit, bytes. */
export const listGroups = statement<BodyRow & PageRow>(
  'list_groups',
  withinBytes(
    `SELECT g.id, g.revision, g.body FROM security_groups g
     WHERE g.org_id = $1 AND ${visible} AND ${ownedBy} AND g.revision > $4 AND g.id > $5 ORDER BY g.id LIMIT $6`,
    { bytes: '$7', length: 'octet_length(p.body)', order: 'p.id' },
  ),
);

/** Values: organization, reader, owner, id. */
export const getGroup = statement<BodyRow>(
  'get_group',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = $4 AND ${inOrg('g')} AND ${visible} AND ${ownedBy}`,
);

/** Values: organization, ids. */
export const findGroups = statement<BodyRow>(
  'groups_by_id',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);

/** Values: organization, name, owner as in `ownedBy`, the group that is not counted. */
export const findSameName = statement<{ id: string }>(
  'groups_same_name',
  `SELECT g.id FROM security_groups g WHERE g.org_id = $1 AND g.group_name = $2 AND ${ownedBy} AND g.id <> $4 ORDER BY g.id LIMIT 8`,
);

/**
 * Values: organization, from when, until when. The moments in between at which rules of a group expire, and since when the group has had rules that
 * expire then, as far as the history goes back.
 */
export const findExpiringRules = statement<{
  id: string;
  group_name: string;
  expires_at: string;
  rules: number;
  since: Date;
}>(
  'expiring_rules',
  `SELECT g.id, g.group_name, e.expires_at, e.rules,
     coalesce((SELECT min(h.at) FROM history h WHERE h.org_id = g.org_id AND h.kind = 'security-groups' AND h.id = g.id
       AND position('"expires_at":"' || e.expires_at || '"' IN h.body) > 0), (r.record ->> 'updated_at')::timestamptz) AS since
   FROM security_groups g CROSS JOIN LATERAL (SELECT (g.body || '}')::json AS record) AS r, LATERAL (
     SELECT r ->> 'expires_at' AS expires_at, count(*)::integer AS rules
     FROM (SELECT json_array_elements(r.record -> 'inbound_rules') AS r UNION ALL SELECT json_array_elements(r.record -> 'outbound_rules')) AS all_rules
     WHERE r ->> 'expires_at' IS NOT NULL GROUP BY 1) e
   WHERE g.org_id = $1 AND position('"expires_at":' IN g.body) > 0
     AND e.expires_at::timestamptz > $2::timestamptz AND e.expires_at::timestamptz <= $3::timestamptz
   ORDER BY g.id, e.expires_at LIMIT 1000`,
);

/** Values: organization, reader, ids. */
export const findVisibleGroups = statement<BodyRow>(
  'visible_groups_by_id',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = ANY ($3::uuid[]) AND ${inOrg('g')} AND ${visible}`,
);

/** Values: organization. */
export const sumBytes = statement<{ bytes: string }>(
  'sum_group_bytes',
  'SELECT bytes::text AS bytes FROM group_sums WHERE org_id = $1 AND owner_id = $1',
);

/** Which of these ids a group has, in any organization. Values: ids. */
export const takenGroupIds = statement<{ id: string }>(
  'taken_group_ids',
  'SELECT g.id FROM security_groups g WHERE g.id = ANY ($1::uuid[])',
);

/** Values: organization, user. */
export const groupsOfUser = statement<{ id: string }>(
  'groups_of_user',
  'SELECT id FROM security_groups WHERE org_id = $1 AND user_id = $2 ORDER BY id',
);
