/** Owns the question which groups are in effect on a device, and why (reference 4.2 (1)). */
import type { AppliedGroup } from '../contract/records.ts';
import { groupsByLabel, isReplacedByLabel } from './selectors.ts';
import { inOrg, statement } from '../postgres/sql.ts';

/** In the order in which they apply. No row: no such device. Values: organization, device. */
export const listApplied = statement<{ group_id: string; by: AppliedGroup['by'] }>(
  'list_applied_groups',
  `WITH device AS MATERIALIZED (SELECT d.security_groups, d.labels FROM devices d WHERE d.id = $2 AND ${inOrg('d')})
   SELECT group_id, by FROM (
     SELECT l.group_id, 'list' AS by, 3 AS part, l.place FROM device d, unnest(d.security_groups) WITH ORDINALITY AS l (group_id, place)
     UNION ALL
     SELECT g.id, CASE WHEN g.guardrail IS NULL THEN 'label' ELSE 'guardrail' END, CASE g.guardrail WHEN 'forbid' THEN 1 WHEN 'require' THEN 2 ELSE 4 END, 0
     FROM device d JOIN security_groups g ON g.id IN ${groupsByLabel('d')} AND g.id <> ALL (d.security_groups)
     UNION ALL
     SELECT g.id, 'default', 5, 0 FROM device d JOIN security_groups g ON g.org_id = $1 AND g.is_default
     WHERE d.security_groups = '{}' AND NOT ${isReplacedByLabel('d.labels')}
   ) AS applied ORDER BY part, place, group_id`,
);
