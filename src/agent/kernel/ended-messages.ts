/** Owns elements of the table for ended connections as the kernel takes them over netlink. */
import { endedTable, noteOf, type EndedCommand, type EndedElement } from '../../nft/ended/flows.ts';
import { parseAddress } from '../../policy/address.ts';
import { addressBytes, concat, flag } from '../netlink/message.ts';
import type { FilterBatch } from '../netlink/nf-tables.ts';
import { fullMessage } from '../netlink/set-elements.ts';

const listAttribute = { set: 2, elements: 3 } as const;
const elementAttribute = { key: 1, userdata: 6 } as const;
const listElement = 1;
const dataValue = 1;
/** What `nft` calls a comment. */
const comment = 0;

/** Every part of a key takes whole words of four bytes. */
const word = 4;

/** What elements have in common: very many connections are with the same far end. */
interface Known {
  readonly starts: Map<string, Uint8Array>;
  readonly notes: Map<string, Uint8Array>;
}

function addressOf(text: string): Uint8Array {
  const address = parseAddress(text);
  if ('fault' in address) throw new RangeError(`${JSON.stringify(text)} is no address`);
  return addressBytes(address.family, address.value);
}

function known(map: Map<string, Uint8Array>, name: string, make: () => Uint8Array): Uint8Array {
  const before = map.get(name);
  if (before !== undefined) return before;
  const made = make();
  map.set(name, made);
  return made;
}

/** The key up to its ports. */
function startOf({ kind, remote, local, protocol }: EndedElement): Uint8Array {
  const ends = kind.startsWith('port') ? [] : [addressOf(remote), addressOf(local)];
  return concat([...ends, Uint8Array.of(protocol, 0, 0, 0)]);
}

/** Asks for one element: a key, and where it joins what is noted about it. */
function writeElement(batch: FilterBatch, element: EndedElement, { starts, notes }: Known, joins: boolean): void {
  const { kind, remote, local, protocol, remotePort, localPort } = element;
  const start = known(starts, `${remote} ${local} ${protocol}`, () => startOf(element));
  const place = batch.open(listElement);
  const key = batch.open(elementAttribute.key);
  const ports = kind.startsWith('tuple') ? 2 : kind.startsWith('port') ? 1 : 0;
  const bytes = new Uint8Array(start.length + word * ports);
  bytes.set(start);
  const first = kind === 'port-inbound' ? localPort : remotePort;
  const at = start.length;
  if (ports > 0) bytes[at] = first >>> 8;
  if (ports > 0) bytes[at + 1] = first;
  if (ports > 1) bytes[at + word] = localPort >>> 8;
  if (ports > 1) bytes[at + word + 1] = localPort;
  batch.bytes(dataValue, bytes);
  batch.close(key);
  if (joins) {
    const note = noteOf(element);
    batch.bytes(
      elementAttribute.userdata,
      known(notes, note, () => userdataOf(note)),
    );
  }
  batch.close(place);
}

function userdataOf(note: string): Uint8Array {
  const bytes = new Uint8Array(note.length + 3);
  bytes[0] = comment;
  bytes[1] = note.length + 1;
  for (let i = 0; i < note.length; i += 1) bytes[i + 2] = note.charCodeAt(i);
  return bytes;
}

/** Asks for the change: several times where there are very many elements. */
export function writeEnded(
  batch: FilterBatch,
  { kind, of, elements }: Extract<EndedCommand, { kind: 'addEnded' | 'deleteEnded' }>,
): void {
  const common: Known = { starts: new Map(), notes: new Map() };
  for (let at = 0; at < elements.length;) {
    if (kind === 'addEnded') batch.ask('addElements', flag.create, endedTable);
    else batch.ask('deleteElements', 0, endedTable);
    batch.name(listAttribute.set, of);
    const list = batch.open(listAttribute.elements);
    for (; at < elements.length && batch.length < fullMessage; at += 1) {
      const element = elements[at];
      if (element === undefined) continue;
      writeElement(batch, element, common, kind === 'addEnded');
    }
    batch.close(list);
    batch.end();
  }
}
