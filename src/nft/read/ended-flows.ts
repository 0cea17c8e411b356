/**
 * Owns the reading of the table for ended connections: the connections it holds, and whether its rules are unchanged.
 */
import { parseAddress, printAddress } from '../../policy/address.ts';
import { field, isObject, type JsonObject } from '../../policy/json.ts';
import { endedKinds, type EndedElement, type EndedKind } from '../ended-flows.ts';
import { NoListing } from './listing.ts';

/** The content of the table as `nft -j list table` prints it. */
export interface EndedListing {
  /** Elements whose notes are ours. */
  readonly elements: readonly EndedElement[];
  /** Chains and rules as text: equal texts mean that they have not changed. */
  readonly rules: string;
}

const noNumber = -1;
const numberIn = (value: unknown): number => (typeof value === 'number' ? value : noNumber);
const addressIn = (value: unknown): string => {
  const address = typeof value === 'string' ? parseAddress(value) : undefined;
  return address === undefined || 'fault' in address ? '' : printAddress(address.family, address.value);
};

/** The parts of an element's key besides the protocol, which `nft` writes as a name that the note has as a number. */
function readKey(
  kind: EndedKind,
  parts: readonly unknown[],
): Omit<EndedElement, 'kind' | 'protocol' | 'direction' | 'port'> {
  const none = { remote: '', local: '', remotePort: 0, localPort: 0 };
  if (kind === 'port-inbound') return { ...none, localPort: numberIn(parts[1]) };
  if (kind === 'port-outbound') return { ...none, remotePort: numberIn(parts[1]) };
  const ends = { ...none, remote: addressIn(parts[0]), local: addressIn(parts[1]) };
  return kind.startsWith('pair') ? ends : { ...ends, remotePort: numberIn(parts[3]), localPort: numberIn(parts[4]) };
}

function readElement(kind: EndedKind, entry: unknown): EndedElement | undefined {
  const element = isObject(entry) ? field(entry, 'elem') : undefined;
  if (!isObject(element)) return undefined;
  const [value, comment] = [field(element, 'val'), field(element, 'comment')];
  const parts = isObject(value) ? field(value, 'concat') : undefined;
  if (!Array.isArray(parts) || typeof comment !== 'string') return undefined;
  const [direction, protocol, port, forwarded] = comment.split(' ');
  if (direction !== 'inbound' && direction !== 'outbound') return undefined;
  const isForwarded = forwarded === 'redirected' || forwarded === 'translated';
  return {
    kind,
    ...readKey(kind, parts),
    protocol: Number(protocol),
    direction,
    port: Number(port),
    ...(isForwarded && { forwarded }),
  };
}

/** A rule or a chain without the numbers that the kernel gives it. */
const withoutHandle = (content: JsonObject): string =>
  JSON.stringify(content, (key, value: unknown) => (key === 'handle' ? undefined : value));

/** Reads a listing of the table. Throws `NoListing` where it is none. */
export function readEnded(listing: unknown): EndedListing {
  const entries = isObject(listing) ? field(listing, 'nftables') : undefined;
  if (!Array.isArray(entries)) throw new NoListing('the value is no JSON listing of nft');
  const elements: EndedElement[] = [];
  const rules: string[] = [];
  for (const entry of entries as readonly unknown[]) {
    if (!isObject(entry)) continue;
    const set = field(entry, 'set');
    const kind = isObject(set) ? endedKinds.find((each) => each === field(set, 'name')) : undefined;
    const content = isObject(set) ? field(set, 'elem') : undefined;
    if (kind !== undefined && Array.isArray(content)) {
      for (const each of content as readonly unknown[]) {
        const element = readElement(kind, each);
        if (element !== undefined) elements.push(element);
      }
    }
    for (const part of ['chain', 'rule']) {
      const found = field(entry, part);
      if (isObject(found)) rules.push(withoutHandle(found));
    }
  }
  return { elements, rules: rules.join('\n') };
}
