/** Owns how the store writes SQL: named statements with typed rows, and the values that they take. */
import type { Page } from '../contract/page.ts';

declare const rows: unique symbol;

/** A statement that each connection prepares once, by name. `Row` is what it gives back. */
export interface Statement<Row> {
  readonly name: string;
  readonly text: string;
  readonly [rows]?: Row;
}

export type Value = string | number | boolean | null | Buffer | readonly (string | null)[];

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

/** A time as records show it. */
export const isoTime = (value: string): string =>
  `to_char(${value} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
/** A text as JSON. */
export const jsonText = (value: string): string => `to_json(${value})::text`;

/**
 * A record's *body* is its wire text without the revision and the closing brace: the same body serves a change and
 * the deletion that follows, and is stored beside the columns so that listings and streams never build JSON.
 */
export const withRevision = (body: string, revision: number): string => `${body},"revision":${revision}}`;

const firstId = '00000000-0000-0000-0000-000000000000';

/** The two values that end every paged statement: `id > $n` and `LIMIT $n+1` (null is no limit). */
export const pageValues = (page: Page | undefined): [string, number | null] => [
  page?.after ?? firstId,
  page?.limit ?? null,
];
