/**
 * Owns the validation of peers and selectors: every problem of any JSON value, with its path and code (reference 2.13).
 */
import { parseAddress, printAddress } from '../address.ts';
import { isUuid } from '../ids.ts';
import { field, isObject, type JsonObject } from '../json.ts';
import { labelLimits } from '../label.ts';
import { at, show, type Problems } from '../problem.ts';
import type { Peer, Selector } from '../rule.ts';
import { readLabels } from './read-labels.ts';
import { peerKey } from './selector.ts';

export interface ReadPeersOptions {
  readonly most: number;
  /** Whether the organization has this device. Absent: ids are not checked. */
  readonly knowsDevice?: ((id: string) => boolean) | undefined;
}

type Key = 'labels' | 'all_devices' | 'device_id' | 'address';
const selectorKeys: readonly Key[] = ['labels', 'all_devices'];
const peerKeys: readonly Key[] = ['labels', 'device_id', 'all_devices'];
const endKeys: readonly Key[] = [...peerKeys, 'address'];

/** The one key of the entry, after every key that it must not have was reported. */
function onlyKey(entry: JsonObject, known: readonly Key[], pointer: string, problems: Problems): Key | undefined {
  const names = Object.keys(entry);
  const strange = names.filter((name) => !(known as readonly string[]).includes(name));
  for (const name of strange) {
    const here = at(pointer, name.slice(0, 100));
    problems.add(here, 'unknown_field', () => `Unknown field ${show(name)}; known fields: ${known.join(', ')}.`);
  }
  const keys = known.filter((name) => names.includes(name));
  if (keys.length > 1 || names.length === 0) {
    problems.add(pointer, 'one_key_only', () => `The entry must have exactly one of ${known.join(', ')}.`);
    return undefined;
  }
  return strange.length === 0 ? keys[0] : undefined;
}

function readSelectorLabels(value: unknown, pointer: string, problems: Problems): Selector | undefined {
  const before = problems.count;
  if (Array.isArray(value) && value.length === 0) {
    problems.add(pointer, 'too_few_items', () => 'A selector must name at least one label.');
  }
  readLabels(value, pointer, problems, labelLimits.perSelector);
  // As it was written: what is shown is what was said.
  return problems.count > before ? undefined : { labels: value as readonly string[] };
}

function readDevice(value: unknown, pointer: string, problems: Problems, options: ReadPeersOptions): Peer | undefined {
  if (!isUuid(value)) {
    problems.add(pointer, 'not_an_id', () => `device_id must be a UUID, got ${show(value)}.`);
    return undefined;
  }
  const device_id = value.toLowerCase();
  if (options.knowsDevice?.(device_id) === false) {
    problems.add(pointer, 'device_unknown', () => `The organization has no device ${device_id}.`);
    return undefined;
  }
  return { device_id };
}

function readEntry(
  entry: unknown,
  known: readonly Key[],
  pointer: string,
  problems: Problems,
  options: ReadPeersOptions,
): Peer | undefined {
  if (!isObject(entry)) {
    problems.add(pointer, 'not_an_object', () => `An entry must be an object, got ${show(entry)}.`);
    return undefined;
  }
  const key = onlyKey(entry, known, pointer, problems);
  if (key === undefined) return undefined;
  const [value, here] = [field(entry, key), at(pointer, key)];
  if (key === 'labels') return readSelectorLabels(value, here, problems);
  if (key === 'device_id') return readDevice(value, here, problems, options);
  if (value === true) return { all_devices: true };
  problems.add(here, 'not_one_of', () => `all_devices must be true, got ${show(value)}.`);
  return undefined;
}

function readEntries(
  value: unknown,
  known: readonly Key[],
  pointer: string,
  problems: Problems,
  options: ReadPeersOptions,
): Peer[] {
  if (value === null) {
    problems.add(pointer, 'null_not_allowed', () => 'The list must be an array; to leave it empty, omit it.');
    return [];
  }
  if (!Array.isArray(value)) {
    problems.add(pointer, 'not_an_array', () => `The list must be an array, got ${show(value)}.`);
    return [];
  }
  if (value.length > options.most) {
    problems.add(
      pointer,
      'too_many_items',
      () => `The list may have at most ${options.most} entries, got ${value.length}.`,
    );
    return [];
  }
  const seen = new Set<string>();
  return (value as readonly unknown[]).flatMap((entry, index): Peer[] => {
    const here = at(pointer, index);
    const peer = readEntry(entry, known, here, problems, options);
    if (peer === undefined) return [];
    const key = peerKey(peer);
    if (seen.has(key)) problems.add(here, 'duplicate', () => 'The entry is already in the list.');
    seen.add(key);
    return [peer];
  });
}

/** Reads a rule's `peers`: every problem goes to `problems`; the answer is complete only where none was added. */
export function readPeers(value: unknown, pointer: string, problems: Problems, options: ReadPeersOptions): Peer[] {
  if (Array.isArray(value) && value.length === 0) {
    problems.add(
      pointer,
      'too_few_items',
      () => 'peers must have at least one entry; omit it if the rule names no devices.',
    );
  }
  return readEntries(value, peerKeys, pointer, problems, options);
}

/** Reads a group's `applies_to`, which may be empty. */
export const readSelectors = (value: unknown, pointer: string, problems: Problems, most: number): Selector[] =>
  readEntries(value, selectorKeys, pointer, problems, { most }).flatMap((peer) => ('device_id' in peer ? [] : [peer]));

/** Devices, or one address, in the form in which addresses are printed. */
export type PeerOrAddress = Peer | { readonly address: string };

/** Reads one entry that names devices or an address. */
export function readPeerOrAddress(value: unknown, pointer: string, problems: Problems): PeerOrAddress | undefined {
  const text = isObject(value) && Object.keys(value).length === 1 ? field(value, 'address') : undefined;
  if (text === undefined) return readEntry(value, endKeys, pointer, problems, { most: 1 });
  const here = at(pointer, 'address');
  if (typeof text !== 'string') {
    problems.add(here, 'not_a_string', () => `address must be a string, got ${show(text)}.`);
    return undefined;
  }
  const address = parseAddress(text);
  if ('fault' in address) {
    problems.add(here, address.fault, () => `${show(text)} ${address.reason}.`);
    return undefined;
  }
  return { address: printAddress(address.family, address.value) };
}
