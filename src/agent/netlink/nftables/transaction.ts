/** Owns nf_tables transactions over netlink: the header of a request, and the begin and end messages of a batch. */
import { Batch } from '../batch.ts';
import type { NetlinkChannel } from '../channel.ts';
import { attribute, be16, concat, text } from '../message.ts';

/** The protocol of netlink, and the subsystem of it. */
export const netfilter = 12;
const nfTables = 10;
const inet = 1;

const markOf = { begin: 0x10, end: 0x11 } as const;
const markPayload = concat([Uint8Array.of(0, 0), be16(nfTables)]);
/** Of every message about tables of the family. */
export const inetHead = Uint8Array.of(inet, 0, 0, 0);

/** The type of a message, from the number of what is asked within the subsystem. */
export const messageTypeOf = (asked: number): number => (nfTables << 8) | asked;

const getTable = 1;
const filterMessage = {
  addTable: 0,
  deleteTable: 2,
  addChain: 3,
  addRule: 6,
  deleteRules: 8,
  addSet: 9,
  addElements: 12,
  deleteElements: 14,
  addObject: 18,
} as const;

/** The kind of object that counts. */
export const counterObject = 1;

const noSuchEntry = 2;

/** Whether there is certainly no such table of the family. */
export async function isTableAbsent(channel: NetlinkChannel, table: string): Promise<boolean> {
  const payload = concat([inetHead, attribute(1, text(table))]);
  const [number] = await channel.send(netfilter, [{ type: messageTypeOf(getTable), payload }]);
  return number === noSuchEntry;
}

/** One transaction about tables of the family: what it asks for is done at one instant, or not at all. */
export class FilterBatch extends Batch {
  #sets = 0;

  constructor() {
    super();
    this.#mark(markOf.begin);
  }

  /** Begins what is asked; of every kind, the first attribute is the table's name. */
  ask(asked: keyof typeof filterMessage, flags: number, table: string): void {
    this.begin(messageTypeOf(filterMessage[asked]), flags);
    this.raw(inetHead);
    this.name(1, table);
  }

  /** A number for a set that this batch makes, by which its rules know it. */
  nextSet(): number {
    return ++this.#sets;
  }

  /** Does all that is asked, or none; `timeout` is for its answer, in milliseconds. */
  async run(channel: NetlinkChannel, timeout?: number): Promise<void> {
    if (this.messages === 1) return;
    this.#mark(markOf.end);
    await channel.transact(netfilter, this, timeout);
  }

  #mark(type: number): void {
    this.begin(type, 0);
    this.raw(markPayload);
    this.end();
  }
}
