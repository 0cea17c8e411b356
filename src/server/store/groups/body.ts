/** Owns the JSON text of a security group: every field of the record, in wire order. */
import type { StoredBody } from '../write/newer-record.ts';
import { isoTime, jsonText } from '../postgres/sql.ts';

/** The body of a security group, from a row under this alias. */
export const groupBody = (row: string): string =>
  `concat(${[
    `'{"id":"', ${row}.id`,
    `'","group_name":', ${jsonText(`${row}.group_name`)}`,
    `',"group_description":', ${jsonText(`${row}.group_description`)}`,
    `',"org_id":"', ${row}.org_id, '"'`,
    `CASE WHEN ${row}.user_id IS NOT NULL THEN ',"user_id":"' || ${row}.user_id || '"' END`,
    `CASE WHEN ${row}.is_default THEN ',"is_default":true' END`,
    `CASE WHEN ${row}.applies_to <> '[]' THEN ',"applies_to":' || ${row}.applies_to END`,
    `CASE WHEN ${row}.guardrail IS NOT NULL THEN ',"guardrail":"' || ${row}.guardrail || '"' END`,
    `CASE WHEN ${row}.mode <> 'enforce' THEN ',"mode":"' || ${row}.mode || '"' END`,
    `CASE WHEN ${row}.inbound_rules <> '[]' THEN ',"inbound_rules":' || ${row}.inbound_rules END`,
    `CASE WHEN ${row}.outbound_rules <> '[]' THEN ',"outbound_rules":' || ${row}.outbound_rules END`,
    `CASE WHEN ${row}.trial IS NOT NULL THEN ',"trial":' || ${row}.trial END`,
    `',"created_at":"', ${isoTime(`${row}.created_at`)}`,
    `'","updated_at":"', ${isoTime(`${row}.updated_at`)}, '"'`,
  ].join(', ')})`;

/** The body of a security group as it is stored, in a row under this alias. */
export const storedGroupBody = (row: string): StoredBody => ({
  body: `${row}.body`,
  written: groupBody(row),
  isFlat: `${row}.inbound_rules = '[]' AND ${row}.outbound_rules = '[]' AND ${row}.applies_to = '[]' AND ${row}.trial IS NULL`,
});
