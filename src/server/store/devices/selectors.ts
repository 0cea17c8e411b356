/** Owns groups that apply by label in SQL: which devices a selector matches, and the table of selectors (reference 1.3). */
import { inOrg, statement } from '../postgres/sql.ts';

/** Whether a device (with `labels`) is named by this group's selectors. */
const hasByLabel = (device: string, group: string): string =>
  `EXISTS (SELECT FROM group_selectors s WHERE s.group_id = ${group} AND ${device}.labels @> s.labels)`;

/** Inserts the selectors of the groups in `from` (`id`, `org_id`, `applies_to`). */
export const keepSelectors = (from: string): string =>
  `INSERT INTO group_selectors (group_id, org_id, labels)
   SELECT ${from}.id, ${from}.org_id, ARRAY(SELECT json_array_elements_text(s.selector -> 'labels'))
   FROM ${from} CROSS JOIN LATERAL json_array_elements(${from}.applies_to::json) AS s (selector)`;

/** Takes away those that they had before. */
export const dropSelectors = (from: string): string =>
  `DELETE FROM group_selectors s USING ${from} WHERE s.group_id = ${from}.id`;

/** The forbids in force on a device: sorted ids. */
const forbidsOn = (labels: string): string =>
  `ARRAY(SELECT DISTINCT s.group_id FROM group_selectors s JOIN security_groups f ON f.id = s.group_id
     WHERE s.org_id = $1 AND f.guardrail = 'forbid' AND f.mode = 'enforce' AND ${labels} @> s.labels ORDER BY 1)`;

const forbids = `security_groups f WHERE f.org_id = $1 AND f.guardrail = 'forbid' AND f.mode = 'enforce'`;
/** Whether the organization, `$1`, forbids anything anywhere. A guardrail always applies by label. */
export const forbidsAnything = `EXISTS (SELECT FROM ${forbids})`;

/**
 * Which forbids stand together on devices that have a group, and on how many; where no device has it, those that stand on all devices. Nothing is
 * looked at in an organization without forbids. Values: organization, group.
 */
export const findForbids = statement<{ forbids: string[]; devices: number }>(
  'find_forbids',
  `WITH any_forbid AS MATERIALIZED (
     SELECT 1 FROM ${forbids} LIMIT 1),
   having_it AS MATERIALIZED (
     SELECT d.labels FROM any_forbid, devices d WHERE d.org_id = $1 AND (d.id IN (SELECT l.device_id FROM device_groups l WHERE l.group_id = $2) OR ${hasByLabel('d', '$2')})),
   sets AS (
     SELECT ${forbidsOn('l.labels')} AS forbids, l.count FROM (SELECT labels, count(*) AS count FROM having_it GROUP BY labels) l
     UNION ALL
     SELECT ${forbidsOn(`'{}'::text[]`)}, 0 FROM any_forbid WHERE NOT EXISTS (SELECT FROM having_it))
   SELECT forbids, sum(count)::bigint AS devices FROM sets WHERE forbids <> '{}' GROUP BY forbids ORDER BY 2 DESC LIMIT 8`,
);

/** Values: organization, ids. */
export const getForbids = statement<{ id: string; revision: number; body: string }>(
  'get_forbids',
  `SELECT g.id, g.revision, g.body FROM security_groups g WHERE g.id = ANY ($2::uuid[]) AND ${inOrg('g')}`,
);
