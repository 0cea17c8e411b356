/** Owns the table of selectors: nobody but servers of earlier versions reads it, while they run beside this one. */

/** Inserts the selectors of the groups in `from` (`id`, `org_id`, `applies_to`). */
export const keepSelectors = (from: string): string =>
  `INSERT INTO group_selectors (group_id, org_id, labels)
   SELECT ${from}.id, ${from}.org_id, ARRAY(SELECT json_array_elements_text(s.selector -> 'labels'))
   FROM ${from} CROSS JOIN LATERAL json_array_elements(${from}.applies_to::json) AS s (selector)`;

/** Takes away those that they had before. */
export const dropSelectors = (from: string): string =>
  `DELETE FROM group_selectors s USING ${from} WHERE s.group_id = ${from}.id`;

/** Whether the organization, `$1`, forbids anything anywhere. A guardrail always applies by label. */
export const forbidsAnything = `EXISTS (SELECT FROM security_groups f WHERE f.org_id = $1 AND f.guardrail = 'forbid' AND f.mode = 'enforce')`;
