/**
 * Owns changes of set and map elements over netlink: it splits added and removed elements into as many messages as
 * needed.
 */
import type { Command } from '../../../nft/ast.ts';
import { flag } from '../message.ts';
import type { FilterBatch } from './transaction.ts';

export const listAttribute = { set: 2, elements: 3, id: 4 } as const;
export const elementAttribute = { key: 1, data: 2, flags: 3, userdata: 6, object: 9 } as const;
export const dataAttribute = { value: 1, verdict: 2 } as const;
/** The type of each entry of a list. */
export const listElement = 1;

/** Bytes of a message from which on the next one has the rest: the length of its list is a number of two bytes. */
export const fullMessage = 60_000;

interface ElementChange {
  readonly verb: 'add' | 'delete';
  readonly table: string;
  readonly set: string;
}

/** Asks for the change; `write` writes one element. Very many elements become several messages. */
export function writeElements<Element>(
  batch: FilterBatch,
  { verb, table, set }: ElementChange,
  elements: readonly Element[],
  write: (element: Element) => void,
): void {
  const waiting = elements.values();
  for (let next = waiting.next(); next.done !== true;) {
    if (verb === 'add') batch.ask('addElements', flag.create, table);
    else batch.ask('deleteElements', 0, table);
    batch.name(listAttribute.set, set);
    const list = batch.open(listAttribute.elements);
    for (; next.done !== true && batch.length < fullMessage; next = waiting.next()) write(next.value);
    batch.close(list);
    batch.end();
  }
}

/** Asks that addresses join a map from addresses to counters, or leave it. */
export function writeMembers(
  batch: FilterBatch,
  command: Extract<Command, { kind: 'addElements' | 'deleteElements' }>,
): void {
  const { table = 'service', map: set, family } = command;
  const write = (address: bigint, counter?: string): void => {
    const element = batch.open(listElement);
    const key = batch.open(elementAttribute.key);
    batch.address(dataAttribute.value, family, address);
    batch.close(key);
    if (counter !== undefined) batch.name(elementAttribute.object, counter);
    batch.close(element);
  };
  if (command.kind === 'addElements') {
    writeElements(batch, { verb: 'add', table, set }, command.elements, ([address, counter]) =>
      write(address, counter),
    );
  } else writeElements(batch, { verb: 'delete', table, set }, command.addresses, (address) => write(address));
}
