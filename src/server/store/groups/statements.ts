/** Owns the SQL of security groups. */
import { found, inOrg, statement, withinBytes, type PageRow } from '../postgres/sql.ts';
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

/** Values: organization, reader, owner, ids, whether all of them whoever may see them. */
export const findGroups = statement<BodyRow>(
  'groups_by_id',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = ANY ($4::uuid[]) AND ${inOrg('g')} AND ($5::boolean OR ${visible}) AND ${ownedBy}`,
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

/** Values: organization. */
export const sumBytes = statement<{ bytes: string }>(
  'sum_group_bytes',
  'SELECT bytes::text AS bytes FROM group_sums WHERE org_id = $1 AND owner_id = $1',
);

/**
 * Of these ids, which a group has, in any organization; and which a new group cannot have: those, and what a group had that may come back, and what a device
 * of the organization has or had. Values: organization, ids.
 */
export const usedGroupIds = statement<{ id: string; is_taken: boolean; is_used: boolean }>(
  'used_group_ids',
  `SELECT a.id, ${found('security_groups g', 'g.id = a.id')} AS is_taken, ${found('devices d', 'd.id = a.id')}
     OR ${found('history s', `s.kind = 'security-groups' AND s.type = 'delete' AND s.id = a.id LIMIT 1`)}
     OR ${found('history s', `s.org_id = $1 AND s.kind = 'device' AND s.id = a.id LIMIT 1`)} AS is_used FROM unnest($2::uuid[]) AS a (id)`,
);
