/** Owns what the counters of our tables have counted, as nft's JSON tells it. */
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
 * The counters out of `nft -j list tables inet` and `nft -j list counters table inet …`: the one tells which table
 * this is, because one that is made anew counts its objects anew too.
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
