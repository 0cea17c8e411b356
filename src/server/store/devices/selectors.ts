/** Owns groups that apply by label in SQL: which devices a selector matches, and the table of selectors (reference 1.3). */
import { inOrg, statement } from '../postgres/sql.ts';

/** Whether a device (with `labels`) is named by this group's selectors. */
export const hasByLabel = (device: string, group: string): string =>
  `EXISTS (SELECT FROM group_selectors s WHERE s.group_id = ${group} AND ${device}.labels @> s.labels)`;

/** The groups of organization `$1` that a device has by label, guardrails included. */
export const groupsByLabel = (device: string): string =>
  `(SELECT s.group_id FROM group_selectors s WHERE s.org_id = $1 AND ${device}.labels @> s.labels)`;

/** Whether a list of groups has one that enforces: those that are watch only count for nothing. */
export const enforcesAny = (list: string): string =>
  `(${list} <> '{}' AND EXISTS (SELECT FROM security_groups e WHERE e.id = ANY (${list}) AND e.mode = 'enforce'))`;

/** The mode of a group when its trial has ended and nobody has confirmed it. */
export const modeAfterTrials = (group: string): string =>
  `CASE WHEN ${group}.trial IS NULL THEN ${group}.mode ELSE coalesce(${group}.trial::json -> 'before' ->> 'mode', 'enforce') END`;

/** The same when every trial has ended and nobody has confirmed it. */
export const enforcesAnyAfterTrials = (list: string): string =>
  `(${list} <> '{}' AND EXISTS (SELECT FROM security_groups e WHERE e.id = ANY (${list}) AND ${modeAfterTrials('e')} = 'enforce'))`;

/** Whether a device with these labels has a group by label that takes the place of the default group. */
export const isReplacedByLabel = (labels: string): string =>
  `EXISTS (SELECT FROM group_selectors s JOIN security_groups l ON l.id = s.group_id
     WHERE s.org_id = $1 AND ${labels} @> s.labels AND l.guardrail IS NULL AND l.mode = 'enforce')`;

/** The same when every trial has ended and nobody has confirmed it: groups are then what they were before. */
export const isReplacedAfterTrials = (labels: string): string =>
  `(EXISTS (SELECT FROM group_selectors s JOIN security_groups l ON l.id = s.group_id
     WHERE s.org_id = $1 AND ${labels} @> s.labels AND l.guardrail IS NULL AND l.trial IS NULL AND l.mode = 'enforce')
   OR EXISTS (SELECT FROM security_groups l CROSS JOIN LATERAL json_array_elements(l.trial::json -> 'before' -> 'applies_to') AS b (selector)
     WHERE l.org_id = $1 AND l.trial IS NOT NULL AND l.guardrail IS NULL AND ${modeAfterTrials('l')} = 'enforce'
       AND ${labels} @> ARRAY(SELECT json_array_elements_text(b.selector -> 'labels'))))`;

/** Whether a device with these labels tries the change of this record: it is in the scope of the trial. */
export const isInScope = (trial: string, labels: string): string =>
  `(${trial}::json -> 'scope' IS NULL OR EXISTS (SELECT FROM json_array_elements(${trial}::json -> 'scope') AS sc (selector)
     WHERE ${labels} @> ARRAY(SELECT json_array_elements_text(sc.selector -> 'labels'))))`;

/** Whether a list of groups has one that enforces on a device with these labels, which is inside the scope of some trials and outside of others. */
export const enforcesAnyInScope = (list: string, labels: string): string =>
  `EXISTS (SELECT FROM security_groups e WHERE e.id = ANY (${list})
     AND CASE WHEN e.trial IS NULL OR ${isInScope('e.trial', labels)} THEN e.mode
       WHEN json_typeof(e.trial::json -> 'before') = 'null' THEN NULL ELSE ${modeAfterTrials('e')} END = 'enforce')`;

/** Whether such a device has a group by label that takes the place of the default group. */
export const isReplacedInScope = (labels: string): string =>
  `(EXISTS (SELECT FROM group_selectors s JOIN security_groups l ON l.id = s.group_id
     WHERE s.org_id = $1 AND ${labels} @> s.labels AND l.guardrail IS NULL AND l.mode = 'enforce' AND (l.trial IS NULL OR ${isInScope('l.trial', labels)}))
   OR EXISTS (SELECT FROM security_groups l CROSS JOIN LATERAL json_array_elements(l.trial::json -> 'before' -> 'applies_to') AS b (selector)
     WHERE l.org_id = $1 AND l.trial IS NOT NULL AND l.guardrail IS NULL AND ${modeAfterTrials('l')} = 'enforce' AND NOT ${isInScope('l.trial', labels)}
       AND ${labels} @> ARRAY(SELECT json_array_elements_text(b.selector -> 'labels'))))`;

/** Inserts the selectors of the groups in `from` (`id`, `org_id`, `applies_to`). */
export const keepSelectors = (from: string): string =>
  `INSERT INTO group_selectors (group_id, org_id, labels)
   SELECT ${from}.id, ${from}.org_id, ARRAY(SELECT json_array_elements_text(s.selector -> 'labels'))
   FROM ${from} CROSS JOIN LATERAL json_array_elements(${from}.applies_to::json) AS s (selector)`;

/** Takes away those that they had before. */
export const dropSelectors = (from: string): string =>
  `DELETE FROM group_selectors s USING ${from} WHERE s.group_id = ${from}.id`;

/** The first of the devices that have a group by label. Values: organization, group. */
export const findByLabel = statement<{ id: string; hostname: string }>(
  'find_devices_by_label',
  `SELECT d.id, d.hostname FROM devices d WHERE d.org_id = $1 AND ${hasByLabel('d', '$2')} ORDER BY d.id LIMIT 1001`,
);

/** Which of these devices are not in the organization. Values: organization, ids. */
export const findUnknown = statement<{ id: string }>(
  'find_unknown_devices',
  `SELECT a.id FROM unnest($2::uuid[]) AS a (id) WHERE NOT EXISTS (SELECT FROM devices d WHERE d.id = a.id AND ${inOrg('d')})`,
);

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
