/** Owns the reading of our tables' counters from nft's JSON. */
import { tableFamily, type TableName } from '../ast.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';
import { NoListing } from './listing.ts';

/** One counter at one moment. */
export interface CounterReading {
  readonly table: TableName;
  readonly name: string;
  /** Differs wherever the counter was made anew, and so began at zero, as long as the machine runs. */
  readonly incarnation: string;
  readonly packets: number;
  readonly bytes: number;
}

/** The entries of one kind that are in the table, or are it. */
function entriesOf(listing: unknown, kind: string, table: TableName): JsonObject[] {
  const entries = isObject(listing) ? field(listing, 'nftables') : undefined;
  if (!Array.isArray(entries)) throw new NoListing('the value is no JSON listing of nft');
  return (entries as readonly unknown[]).flatMap((entry) => {
    const content = isObject(entry) ? field(entry, kind) : undefined;
    if (!isObject(content) || field(content, 'family') !== tableFamily) return [];
    return field(content, kind === 'table' ? 'name' : 'table') === table ? [content] : [];
  });
}

const number = (record: JsonObject, key: string): number => {
  const value = field(record, key);
  return typeof value === 'number' && value >= 0 ? value : 0;
};

/**
 * Reads the counters from `nft -j list tables inet` and `nft -j list counters table inet …`. The first listing
 * identifies the table, because a table that is created again starts its counters again too.
 */
export function parseCounterReadings(
  tables: unknown,
  counters: unknown,
  table: TableName = 'service',
): readonly CounterReading[] {
  const [own] = entriesOf(tables, 'table', table);
  if (own === undefined) return [];
  return entriesOf(counters, 'counter', table).flatMap((counter) => {
    const name = field(counter, 'name');
    if (typeof name !== 'string') return [];
    const incarnation = `${number(own, 'handle')}.${number(counter, 'handle')}`;
    return [{ table, name, incarnation, packets: number(counter, 'packets'), bytes: number(counter, 'bytes') }];
  });
}
