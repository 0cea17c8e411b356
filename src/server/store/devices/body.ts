/** Owns the JSON text of a device, as a full record and by identity: every field, in wire order. */
import type { StoredBody } from '../write/newer-record.ts';
import { isoTime, jsonText } from '../postgres/sql.ts';

const flag = (name: string, value: string): string =>
  `CASE WHEN ${value} THEN ',"${name}":true' ELSE ',"${name}":false' END`;

/** Omitted when empty. */
const list = (name: string, value: string): string =>
  `CASE WHEN ${value} <> '{}' THEN ',"${name}":' || to_json(${value})::text END`;

/** Omitted while the device is not isolated. */
const isolation = (row: string): string => `CASE WHEN ${row}.isolated <> '' THEN ',"isolated":' || ${row}.isolated END`;

/** The change of its list that is being tried, as it is kept. */
const trial = (row: string): string => `CASE WHEN ${row}.trial IS NOT NULL THEN ',"trial":' || ${row}.trial END`;

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
    list('addresses', `${row}.addresses`),
    list('labels', `${row}.labels`),
    list('security_groups', `${row}.security_groups`),
    isolation(row),
    trial(row),
    `',"created_at":"', ${isoTime(`${row}.created_at`)}`,
    `'","updated_at":"', ${isoTime(`${row}.updated_at`)}, '"'`,
  ].join(', ')})`;

/** The body of a device as it is stored, in a row under this alias. */
export const storedDeviceBody = (row: string): StoredBody => ({
  body: `${row}.body`,
  written: deviceBody(row),
  isFlat: `${row}.isolated = '' AND ${row}.trial IS NULL`,
});

/** The columns that say what a device is and which groups it has: the view `identity` shows these and no other. */
export const identityColumns = ['hostname', 'tunnel_ip', 'addresses', 'labels', 'security_groups', 'isolated'] as const;

/** The body of a device as the view `identity` shows it, from a row under this alias. */
export const identityBody = (row: string): string =>
  `concat(${[
    `'{"id":"', ${row}.id`,
    `'","hostname":', ${jsonText(`${row}.hostname`)}`,
    `',"tunnel_ip":', ${jsonText(`${row}.tunnel_ip`)}`,
    list('addresses', `${row}.addresses`),
    list('labels', `${row}.labels`),
    list('security_groups', `${row}.security_groups`),
    isolation(row),
    trial(row),
  ].join(', ')})`;
