/** Owns the wire text of a device: every field of the record, in the order in which readers get them. */
import { isoTime, jsonText } from '../postgres/sql.ts';

const flag = (name: string, value: string): string =>
  `CASE WHEN ${value} THEN ',"${name}":true' ELSE ',"${name}":false' END`;

/** The body of a device, from a row under this alias. */
export const deviceBody = (row: string): string =>
  `concat(${[
    `'{"id":"', ${row}.id`,
    `'","user_id":"', ${row}.user_id`,
    `'","organization_id":"', ${row}.org_id`,
    `'","public_key":', ${jsonText(`${row}.public_key`)}`,
    `',"local_ip":', ${jsonText(`${row}.local_ip`)}`,
    `',"tunnel_ip":', ${jsonText(`${row}.tunnel_ip`)}`,
    `',"child_prefix":', coalesce(${row}.child_prefix, 'null')`,
    flag('relay', `${row}.relay`),
    flag('discovery', `${row}.discovery`),
    `',"reflexive_ip4":', ${jsonText(`${row}.reflexive_ip4`)}`,
    `',"endpoint_local_address_ip4":', ${jsonText(`${row}.endpoint_local_address_ip4`)}`,
    flag('symmetric_nat', `${row}.symmetric_nat`),
    `',"hostname":', ${jsonText(`${row}.hostname`)}`,
    `CASE WHEN ${row}.security_groups <> '{}' THEN ',"security_groups":' || to_json(${row}.security_groups)::text END`,
    `',"created_at":"', ${isoTime(`${row}.created_at`)}`,
    `'","updated_at":"', ${isoTime(`${row}.updated_at`)}, '"'`,
  ].join(', ')})`;
