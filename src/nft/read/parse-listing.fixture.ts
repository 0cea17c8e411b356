/** Owns the reading of a complete listing at once, for tests; the agent reads it incrementally. */
import { field, isObject } from '../../policy/json.ts';
import type { TableName } from '../ast.ts';
import { NoListing, TableReader, type Installed } from './listing.ts';

/**
 * A table of ours out of a listing of it, or of the whole ruleset; nothing where the listing does not hold it.
 * The value comes from outside: whatever its shape, this answers or throws `NoListing`.
 */
export function parseListing(value: unknown, table: TableName = 'service'): Installed | undefined {
  const entries = isObject(value) ? field(value, 'nftables') : undefined;
  if (!Array.isArray(entries)) throw new NoListing('the value is no JSON listing of nft');
  const reader = new TableReader(table);
  for (const entry of entries as readonly unknown[]) reader.add(entry);
  return reader.installed;
}
