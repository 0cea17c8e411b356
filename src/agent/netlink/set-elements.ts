/** Owns changes of the elements of sets and maps over netlink (nf_tables): one transaction, whatever else the table holds. */
import type { Family } from '../../policy/rule.ts';
import type { NetlinkChannel, Request } from './channel.ts';
import { addressBytes, attribute, be16, concat, flag, nested, text } from './message.ts';

/** The protocol of netlink, and the subsystem of it. */
const netfilter = 12;
const nfTables = 10;
const inet = 1;

const messageType = { add: (nfTables << 8) | 12, delete: (nfTables << 8) | 14 } as const;
const listAttribute = { table: 1, set: 2, elements: 3 } as const;
const elementAttribute = { key: 1, object: 9 } as const;
const listElement = 1;
const dataValue = 1;

const mark = (type: number): Request => ({ type, payload: concat([Uint8Array.of(0, 0), be16(nfTables)]) });
const marks = { begin: mark(0x10), end: mark(0x11) };

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

function* requestsOf({ verb, table, set, family, addresses, counter }: ElementChange): Generator<Request> {
  const object = counter === undefined ? [] : [attribute(elementAttribute.object, text(counter))];
  for (let at = 0; at < addresses.length; at += mostElements) {
    const elements = addresses
      .slice(at, at + mostElements)
      .map((address) =>
        nested(
          listElement,
          nested(elementAttribute.key, attribute(dataValue, addressBytes(family, address))),
          ...(verb === 'add' ? object : []),
        ),
      );
    const payload = concat([
      Uint8Array.of(inet, 0, 0, 0),
      attribute(listAttribute.table, text(table)),
      attribute(listAttribute.set, text(set)),
      nested(listAttribute.elements, ...elements),
    ]);
    yield { type: messageType[verb], flags: verb === 'add' ? flag.create : 0, payload };
  }
}

/**
 * Makes all these changes or none. Each look-up of a packet sees the old elements or the new ones, but a packet that meets
 * two look-ups may see the old of one and the new of the other: whoever moves somebody widens first, and narrows in a later call.
 */
export const changeElements = (channel: NetlinkChannel, changes: readonly ElementChange[]): Promise<void> =>
  channel.transact(
    netfilter,
    marks,
    changes.flatMap((change) => [...requestsOf(change)]),
  );
