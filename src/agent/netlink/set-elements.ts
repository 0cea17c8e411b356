/** Owns changes of the elements of sets and maps over netlink (nf_tables): one transaction, whatever else the table holds. */
import type { Family } from '../../policy/rule.ts';
import type { NetlinkChannel } from './channel.ts';
import { flag } from './message.ts';
import { FilterBatch } from './nf-tables.ts';

const listAttribute = { set: 2, elements: 3 } as const;
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

/** Bytes of a message from which on the next one has the rest: the length of its list is a number of two bytes. */
export const fullMessage = 60_000;

/** Asks for the change: several times where there are very many addresses. */
export function writeElements(batch: FilterBatch, change: ElementChange): void {
  const { verb, table, set, family, addresses, counter } = change;
  for (let at = 0; at < addresses.length;) {
    if (verb === 'add') batch.ask('addElements', flag.create, table);
    else batch.ask('deleteElements', 0, table);
    batch.name(listAttribute.set, set);
    const list = batch.open(listAttribute.elements);
    for (; at < addresses.length && batch.length < fullMessage; at += 1) {
      const element = batch.open(listElement);
      const key = batch.open(elementAttribute.key);
      batch.address(dataValue, family, addresses[at] ?? 0n);
      batch.close(key);
      if (verb === 'add' && counter !== undefined) batch.name(elementAttribute.object, counter);
      batch.close(element);
    }
    batch.close(list);
    batch.end();
  }
}

/**
 * Makes all these changes or none. Each look-up of a packet sees the old elements or the new ones, but a packet that meets
 * two look-ups may see the old of one and the new of the other: whoever moves somebody widens first, and narrows in a later call.
 */
export async function changeElements(channel: NetlinkChannel, changes: readonly ElementChange[]): Promise<void> {
  const batch = new FilterBatch();
  for (const change of changes) writeElements(batch, change);
  await batch.run(channel);
}
