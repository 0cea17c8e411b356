/** Owns what the counters of our table have counted, as nft's JSON tells it. */
import { table } from './ast.ts';
import { field, isRecord, type JsonRecord } from './json.ts';
import { NoListing } from './listing.ts';

/** One counter at one moment. */
export interface Reading {
  readonly name: string;
  /** Differs wherever the counter was made anew, and so began at zero, as long as the machine runs. */
  readonly incarnation: string;
  readonly packets: number;
  readonly bytes: number;
}

/** The entries of one kind that are in our table, or are it. */
function ours(listing: unknown, kind: string): JsonRecord[] {
  const entries = isRecord(listing) ? field(listing, 'nftables') : undefined;
  if (!Array.isArray(entries)) throw new NoListing('the value is no JSON listing of nft');
  return (entries as readonly unknown[]).flatMap((entry) => {
    const content = isRecord(entry) ? field(entry, kind) : undefined;
    if (!isRecord(content) || field(content, 'family') !== table.family) return [];
    return field(content, kind === 'table' ? 'name' : 'table') === table.name ? [content] : [];
  });
}

const number = (record: JsonRecord, key: string): number => {
  const value = field(record, key);
  return typeof value === 'number' && value >= 0 ? value : 0;
};

/**
 * The counters out of `nft -j list tables inet` and `nft -j list counters table inet service`: the one tells which table
 * this is, because one that is made anew counts its objects anew too.
 */
export function parseReadings(tables: unknown, counters: unknown): readonly Reading[] {
  const [own] = ours(tables, 'table');
  if (own === undefined) return [];
  return ours(counters, 'counter').flatMap((counter) => {
    const name = field(counter, 'name');
    if (typeof name !== 'string') return [];
    const incarnation = `${number(own, 'handle')}.${number(counter, 'handle')}`;
    return [{ name, incarnation, packets: number(counter, 'packets'), bytes: number(counter, 'bytes') }];
  });
}
