/** Owns changes of the elements of sets and maps over netlink (nf_tables): one transaction, whatever else the table holds. */
import type { Family } from '../../policy/rule.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import { addressBytes, attributeSize, AttributeWriter, flag } from './message.ts';
import { inetHead, messageTypeOf, transactFilter } from './nf-tables.ts';

const messageType = { add: messageTypeOf(12), delete: messageTypeOf(14) } as const;
const listAttribute = { table: 1, set: 2, elements: 3 } as const;
const elementAttribute = { key: 1, object: 9 } as const;
const listElement = 1;
const dataValue = 1;

/** Addresses that join or leave a set of addresses, or a map from addresses to counters. */
export interface ElementChange {
  readonly verb: 'add' | 'delete';
  readonly table: string;
  readonly set: string;
  readonly family: Family;
  readonly addresses: readonly bigint[];
  /** The counter that the addresses lead to; only where it is a map, and they join. */
  readonly counter?: string;
}

/** Elements of one message: its list's length is a number of two bytes. */
const mostElements = 1_000;

/** The message's part behind its header: the table, the set, and its elements from one place to another. */
function payloadOf(
  { verb, table, set, family, addresses, counter }: ElementChange,
  from: number,
  to: number,
): Uint8Array {
  const object = verb === 'add' ? counter : undefined;
  const address = family === 4 ? 4 : 16;
  const key = attributeSize(address);
  const element = attributeSize(key) + (object === undefined ? 0 : attributeSize(object.length + 1));
  const elements = (to - from) * attributeSize(element);
  const names = attributeSize(table.length + 1) + attributeSize(set.length + 1);
  const out = new AttributeWriter(inetHead.length + names + attributeSize(elements));
  out.put(inetHead);
  out.name(listAttribute.table, table);
  out.name(listAttribute.set, set);
  out.beginNested(listAttribute.elements, elements);
  for (let at = from; at < to; at += 1) {
    out.beginNested(listElement, element);
    out.beginNested(elementAttribute.key, key);
    out.begin(dataValue, address);
    out.put(addressBytes(family, addresses[at] ?? 0n));
    if (object !== undefined) out.name(elementAttribute.object, object);
  }
  return out.bytes;
}

/** What asks for the change: several requests where there are very many addresses. */
export function elementRequests(change: ElementChange): Request[] {
  const { verb, addresses } = change;
  const requests: Request[] = [];
  for (let from = 0; from < addresses.length; from += mostElements) {
    const payload = payloadOf(change, from, Math.min(from + mostElements, addresses.length));
    requests.push({ type: messageType[verb], flags: verb === 'add' ? flag.create : 0, payload });
  }
  return requests;
}

/**
 * Makes all these changes or none. Each look-up of a packet sees the old elements or the new ones, but a packet that meets
 * two look-ups may see the old of one and the new of the other: whoever moves somebody widens first, and narrows in a later call.
 */
export function changeElements(channel: NetlinkChannel, changes: readonly ElementChange[]): Promise<void> {
  const requests: Request[] = [];
  for (const change of changes) requests.push(...elementRequests(change));
  return transactFilter(channel, requests);
}
