/** Owns the encoding of the elements of the table for ended connections as netlink messages. */
import { endedTable, isTuple, noteOf, type EndedCommand, type EndedElement } from '../../../nft/ended-flows.ts';
import { parseAddress } from '../../../policy/address.ts';
import { addressBytes, attribute, concat, nested } from '../message.ts';
import { dataAttribute, elementAttribute, listElement, writeElements } from './elements.ts';
import type { FilterBatch } from './transaction.ts';

/** What `nft` calls a comment. */
const comment = 0;

/** Every part of a key takes whole words of four bytes. */
const word = 4;
/** Before the key are the heads of the element, of its key and of that key's value. */
const keyAt = 12;

function addressOf(text: string): Uint8Array {
  const address = parseAddress(text);
  if ('fault' in address) throw new RangeError(`${JSON.stringify(text)} is not an address`);
  return addressBytes(address.family, address.value);
}

function userdataOf(note: string): Uint8Array {
  const bytes = new Uint8Array(note.length + 3);
  bytes[0] = comment;
  bytes[1] = note.length + 1;
  for (let i = 0; i < note.length; i += 1) bytes[i + 2] = note.charCodeAt(i);
  return bytes;
}

/** An element whose ports are still missing, and where they go. */
interface Template {
  readonly of: EndedElement;
  readonly bytes: Uint8Array;
  readonly portsAt: number;
  readonly ports: 0 | 1 | 2;
}

function templateOf(element: EndedElement, joins: boolean): Template {
  const { kind, remote, local, protocol } = element;
  const ends = kind.startsWith('port') ? [] : [addressOf(remote), addressOf(local)];
  const start = concat([...ends, Uint8Array.of(protocol, 0, 0, 0)]);
  const ports = isTuple(kind) ? 2 : kind.startsWith('port') ? 1 : 0;
  const key = concat([start, new Uint8Array(word * ports)]);
  const notes = joins ? [attribute(elementAttribute.userdata, userdataOf(noteOf(element)))] : [];
  const bytes = nested(listElement, nested(elementAttribute.key, attribute(dataAttribute.value, key)), ...notes);
  return { of: element, bytes, portsAt: keyAt + start.length, ports };
}

/** Whether both differ in their ports at most: very many connections are with the same far end. */
const isLike = (a: EndedElement, b: EndedElement): boolean =>
  a.remote === b.remote &&
  a.local === b.local &&
  a.protocol === b.protocol &&
  a.port === b.port &&
  a.direction === b.direction &&
  a.forwarded === b.forwarded;

/** One copy for each element: a thousand may be written at once, by code that seldom runs. */
function writeElement(batch: FilterBatch, { bytes, portsAt, ports }: Template, element: EndedElement): void {
  const { kind, remotePort, localPort } = element;
  if (ports > 0) {
    const first = kind === 'port-inbound' ? localPort : remotePort;
    bytes[portsAt] = first >>> 8;
    bytes[portsAt + 1] = first;
  }
  if (ports === 2) {
    bytes[portsAt + word] = localPort >>> 8;
    bytes[portsAt + word + 1] = localPort;
  }
  batch.raw(bytes);
}

/** Asks that connections join a set of the table for ended connections, or leave it. */
export function writeEnded(
  batch: FilterBatch,
  { kind, of, elements }: Extract<EndedCommand, { kind: 'addEnded' | 'deleteEnded' }>,
): void {
  let template: Template | undefined;
  const verb = kind === 'addEnded' ? 'add' : 'delete';
  writeElements(batch, { verb, table: endedTable, set: of }, elements, (element) => {
    if (template === undefined || !isLike(template.of, element)) template = templateOf(element, verb === 'add');
    writeElement(batch, template, element);
  });
}
