/** Owns how SQL is written in this room: named statements with typed rows, and the one spelling of each record's wire text. */

declare const rows: unique symbol;

/** A statement that each connection prepares once, by name. `Row` is what it gives back. */
export interface Statement<Row> {
  readonly name: string;
  readonly text: string;
  readonly [rows]?: Row;
}

export type Value = string | number | boolean | null | Buffer | readonly string[];

const names = new Set<string>();

/** Names are unique, because a connection keeps one text for each. */
export function statement<Row>(name: string, text: string): Statement<Row> {
  if (names.has(name)) throw new Error(`two statements are named ${name}`);
  names.add(name);
  return { name, text };
}

/**
 * A row found by its own id must also be of the organization `$1`. Written so that no index of the organization offers itself: planned
 * on empty tables, a statement could otherwise end up searching a whole organization for one row.
 */
export const inOrg = (row: string): string => `(${row}.org_id = $1) IS TRUE`;

/**
 * Whether there is such a row, by a unique key. Not EXISTS: over a set of rows PostgreSQL would turn that into a hash of the whole table,
 * and look at every device for the sake of one.
 */
export const found = (table: string, where: string): string => `((SELECT true FROM ${table} WHERE ${where}) IS TRUE)`;

const iso = (value: string): string => `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
const text = (value: string): string => `to_json(${value})::text`;

/**
 * A record's *body* is its wire text without the revision and the closing brace: the same body serves a change and
 * the deletion that follows, and is stored beside the columns so that listings and streams never build JSON.
 */
export const withRevision = (body: string, revision: number): string => `${body},"revision":${revision}}`;

const flag = (name: string, value: string): string =>
  `CASE WHEN ${value} THEN ',"${name}":true' ELSE ',"${name}":false' END`;

/** The body of a device, from a row under this alias. */
export const deviceBody = (row: string): string =>
  `concat(${[
    `'{"id":"', ${row}.id`,
    `'","user_id":"', ${row}.user_id`,
    `'","organization_id":"', ${row}.org_id`,
    `'","public_key":', ${text(`${row}.public_key`)}`,
    `',"local_ip":', ${text(`${row}.local_ip`)}`,
    `',"tunnel_ip":', ${text(`${row}.tunnel_ip`)}`,
    `',"child_prefix":', coalesce(${row}.child_prefix, 'null')`,
    flag('relay', `${row}.relay`),
    flag('discovery', `${row}.discovery`),
    `',"reflexive_ip4":', ${text(`${row}.reflexive_ip4`)}`,
    `',"endpoint_local_address_ip4":', ${text(`${row}.endpoint_local_address_ip4`)}`,
    flag('symmetric_nat', `${row}.symmetric_nat`),
    `',"hostname":', ${text(`${row}.hostname`)}`,
    `CASE WHEN ${row}.security_groups <> '{}' THEN ',"security_groups":' || to_json(${row}.security_groups)::text END`,
    `',"created_at":"', ${iso(`${row}.created_at`)}`,
    `'","updated_at":"', ${iso(`${row}.updated_at`)}, '"'`,
  ].join(', ')})`;

/** The body of a security group, from a row under this alias. */
export const groupBody = (row: string): string =>
  `concat(${[
    `'{"id":"', ${row}.id`,
    `'","group_name":', ${text(`${row}.group_name`)}`,
    `',"group_description":', ${text(`${row}.group_description`)}`,
    `',"org_id":"', ${row}.org_id, '"'`,
    `CASE WHEN ${row}.user_id IS NOT NULL THEN ',"user_id":"' || ${row}.user_id || '"' END`,
    `CASE WHEN ${row}.is_default THEN ',"is_default":true' END`,
    `CASE WHEN ${row}.inbound_rules <> '[]' THEN ',"inbound_rules":' || ${row}.inbound_rules END`,
    `CASE WHEN ${row}.outbound_rules <> '[]' THEN ',"outbound_rules":' || ${row}.outbound_rules END`,
    `',"created_at":"', ${iso(`${row}.created_at`)}`,
    `'","updated_at":"', ${iso(`${row}.updated_at`)}, '"'`,
  ].join(', ')})`;
