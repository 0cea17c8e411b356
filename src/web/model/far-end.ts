/** Owns how pages name devices: far ends of rules as chips (addresses, `label:app`, `device:web-1`, `all-devices`), read and written, the labels in use, and choices of groups that share a name. */
import type { Device } from '../../api/device.ts';
import { wordsFor } from '../../client/words/naming.ts';
import { nearPeerWord } from '../../client/words/near-peer-word.ts';
import type { Peer, SecurityRule, Selector } from '../../policy/rule.ts';
import { parseLabel } from '../../policy/label.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { shortId } from '../../client/words/short-id.ts';

/** Devices by the names that chips give them. */
export interface DeviceNames {
  /** The id of the device that the chip means; the text itself where it is an id, no device is called so, or the name could mean another one. */
  readonly idOf: (text: string) => string;
  /** How a chip names the device; its id for one that is gone. */
  readonly nameOf: (id: string) => string;
  readonly isGone: (id: string) => boolean;
}

export const noNames: DeviceNames = { idOf: (text) => text, nameOf: (id) => id, isGone: () => false };

/** What a chip can hold without being taken apart. */
const isPlain = (name: string): boolean => /^[^\s,;+]+$/.test(name);

export function deviceNames(devices: readonly Device[]): DeviceNames {
  const wordFor = wordsFor(devices, ({ id, hostname }) => ({ id, names: [hostname] }));
  const byId = new Map<string, Device>(devices.map((device) => [device.id, device]));
  const byName = new Map(devices.map((device) => [device.hostname, device]));
  const nameOf = (id: string): string => {
    const device = byId.get(id);
    const word = device === undefined ? id : wordFor(device);
    return isPlain(word) ? word : id;
  };
  return {
    // A name is taken only where it means nothing else: a full id is always an id.
    idOf: (text) => {
      const device = byName.get(text);
      return device !== undefined && wordFor(device) === text ? device.id : text;
    },
    nameOf,
    isGone: (id) => !byId.has(id),
  };
}

export const allDevicesChip = 'all-devices';
export const labelChip = (labels: readonly string[]): string => `label:${labels.join('+')}`;
export const deviceChip = (name: string): string => `device:${name}`;

export const selectorChip = (selector: Selector): string =>
  'all_devices' in selector ? allDevicesChip : labelChip(selector.labels);
const peerChip = (peer: Peer, names: DeviceNames): string =>
  'device_id' in peer ? deviceChip(names.nameOf(peer.device_id)) : selectorChip(peer);

/** Chips for all that the rule names. */
export const chipsOf = ({ peers = [], ip_ranges = [] }: SecurityRule, names: DeviceNames): readonly string[] => [
  ...peers.map((peer) => peerChip(peer, names)),
  ...ip_ranges,
];

/**
 * Reads a chip that selects devices by label, or all devices; undefined for any other chip. The common validation
 * checks the labels.
 */
export function readSelectorChip(chip: string): Selector | undefined {
  if (/^all[-_ ]devices$/i.test(chip)) return { all_devices: true };
  const labels = /^labels?:(.*)$/is.exec(chip)?.[1];
  return labels === undefined ? undefined : { labels: labels.split('+').map((label) => label.trim()) };
}

function readPeerChip(chip: string, names: DeviceNames): Peer | undefined {
  const device = /^device:(.*)$/is.exec(chip)?.[1]?.trim();
  return device === undefined ? readSelectorChip(chip) : { device_id: names.idOf(device) };
}

interface FarEnd {
  readonly ip_ranges?: readonly string[];
  readonly peers?: readonly Peer[];
}

/** What the chips mean, not judged yet. */
export function readChips(chips: readonly string[], names: DeviceNames): FarEnd {
  const ranges: string[] = [];
  const peers: Peer[] = [];
  for (const chip of chips) {
    const peer = readPeerChip(chip, names);
    if (peer === undefined) ranges.push(chip);
    else peers.push(peer);
  }
  return { ...(ranges.length > 0 && { ip_ranges: ranges }), ...(peers.length > 0 && { peers }) };
}

/** What is wrong with a chip that is nearly a word for devices, such as `lable:app`; undefined for other chips. */
export function misspelt(chip: string): string | undefined {
  const near = readPeerChip(chip, noNames) === undefined ? nearPeerWord(chip) : undefined;
  return near === undefined ? undefined : `“${chip}” names no devices. Did you mean “${near}”?`;
}

/** How many devices carry each label, by name. */
export function countLabels(devices: readonly Device[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { labels = [] } of devices) for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1);
  return new Map([...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** What was typed or pasted, each label once. */
export const splitLabels = (texts: readonly string[]): readonly string[] => [
  ...new Set(texts.flatMap((text) => text.split(/[\s,;]+/)).filter((text) => text !== '')),
];

/** Why these are no labels, in one sentence; undefined where they are. */
export function labelFault(labels: readonly string[]): string | undefined {
  for (const text of labels) {
    const label = parseLabel(text);
    if (typeof label !== 'string') return `“${text}” ${label.reason}.`;
  }
  return undefined;
}

/** Approximate pixels of a letter, and of the space around a label. A label that does not fit ends in an ellipsis. */
const [letter, around] = [7.6, 18];

/** The labels that fit into so many pixels, with room for the number of those that do not; never fewer than `least`. */
export function fittingLabels(labels: readonly string[], room: number, least = 2): readonly string[] {
  const widthOf = (text: string): number => text.length * letter + around;
  let left = room;
  const fit = labels.findIndex((label, place) => {
    left -= widthOf(label);
    return left < (place === labels.length - 1 ? 0 : widthOf('+9'));
  });
  return fit === -1 ? labels : labels.slice(0, Math.max(fit, least));
}

/** `web`, and where several are called so `web · organization · 564e23ea`. */
export function groupLabel(group: SecurityGroup, all: readonly SecurityGroup[]): string {
  const { id, group_name, user_id } = group;
  const isShared = all.some((other) => other.id !== id && other.group_name === group_name);
  if (!isShared) return group_name;
  return [group_name, ...(user_id === undefined ? ['organization'] : []), shortId(id)].join(' · ');
}
