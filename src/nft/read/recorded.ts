/** Owns the reading of recorded tuples out of nft's JSON: what packets have put into the sets of the recorder. */
import { parseAddress } from '../../policy/address.ts';
import { field, isObject } from '../../policy/json.ts';
import type { Direction, Family } from '../../policy/rule.ts';
import { tableFamily } from '../ast.ts';
import { readRecordSetName, type RecordedVerdict } from '../recording.ts';
import { isNumberBetween, tagged } from './json.ts';
import { NoListing } from './listing.ts';

/** First packets of one direction, to or from one far end, by protocol and port. */
export interface RecordedTuple {
  readonly direction: Direction;
  readonly verdict: RecordedVerdict;
  readonly family: Family;
  readonly far: bigint;
  /** Its number. */
  readonly protocol: number;
  /** Of TCP and UDP only. */
  readonly port?: number;
  /** At least 1: for some the kernel had no memory for a count. */
  readonly packets: number;
}

/** The elements of one set out of `nft -j list set`. Throws `NoListing` where the value is none, or is not about the set. */
export function elementsOf(listing: unknown, name: string): readonly unknown[] {
  const entries = isObject(listing) ? field(listing, 'nftables') : undefined;
  for (const entry of Array.isArray(entries) ? (entries as readonly unknown[]) : []) {
    const set = isObject(entry) ? field(entry, 'set') : undefined;
    if (!isObject(set) || field(set, 'name') !== name || field(set, 'family') !== tableFamily) continue;
    const elements = field(set, 'elem') ?? [];
    if (Array.isArray(elements)) return elements as readonly unknown[];
  }
  throw new NoListing('the listing does not contain the set');
}

/** The tuples that the set of this name holds. What cannot be read is left out: only our rules put elements there. */
export function tuplesOf(name: string, elements: readonly unknown[]): readonly RecordedTuple[] {
  const kind = readRecordSetName(name);
  if (kind === undefined) return [];
  const { direction, verdict, family, ports } = kind;
  return elements.flatMap((element): RecordedTuple[] => {
    const content = tagged(element, 'elem');
    if (!isObject(content)) return [];
    const [counter, key] = [field(content, 'counter'), tagged(field(content, 'val'), 'concat')];
    const packets = isObject(counter) ? field(counter, 'packets') : 1;
    const [address, protocol, port] = Array.isArray(key) ? (key as readonly unknown[]) : [];
    const far = typeof address === 'string' ? parseAddress(address) : undefined;
    if (far === undefined || 'fault' in far || far.family !== family) return [];
    if (!isNumberBetween(protocol, 0, 255) || typeof packets !== 'number' || packets < 1) return [];
    if (ports && !isNumberBetween(port, 0, 65_535)) return [];
    const tuple = { direction, verdict, family, far: far.value, protocol, packets };
    return [ports ? { ...tuple, port: port as number } : tuple];
  });
}
