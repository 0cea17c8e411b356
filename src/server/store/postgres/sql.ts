/** Owns how the store writes SQL: named statements with typed rows, and the values that they take. */
import type { Page, Rows } from '../data/page.ts';

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
/**
 * A record's *body* is its wire text without the revision and the closing brace: the same body serves a change and
 * the deletion that follows, and is stored beside the columns so that listings and streams never build JSON.
 */
export const withRevision = (body: string, revision: number): string => `${body},"revision":${revision}}`;

/**
 * The rows of a page, in this order, up to so many bytes (a value; null: any number), and the row that goes beyond them, with those of the same place. So a statement reads no more than that
 * and one row, whatever the sizes of records are: PostgreSQL knows the length of a stored text without reading it.
 */
export const withinBytes = (
  page: string,
  { bytes, length, order }: { readonly bytes: string; readonly length: string; readonly order: string },
): string =>
  `SELECT p.* FROM (
     SELECT p.*, count(*) OVER ()::integer AS page_rows, sum(${length}) OVER (ORDER BY ${order} GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
     FROM (${page}) AS p) AS p
   WHERE coalesce(p.bytes_before < ${bytes}::bigint, true) ORDER BY ${order}`;

/** What a statement `withinBytes` gives: how many rows the page has without the bound. */
export interface PageRow {
  readonly page_rows: number;
}

/** The rows of a statement `withinBytes`, as what they are shown as. */
export function rowsWithin<Row extends PageRow, T>(given: readonly Row[], show: (row: Row) => T): Rows<T> {
  const shown = given.map(show);
  return given.length < (given[0]?.page_rows ?? 0) ? Object.assign(shown, { isCut: true as const }) : shown;
}

const firstId = '00000000-0000-0000-0000-000000000000';

/** The two values that end every paged statement: `id > $n` and `LIMIT $n+1` (null is no limit). */
export const pageValues = (page: Page | undefined): [string, number | null] => [
  page?.after ?? firstId,
  page?.limit ?? null,
];
