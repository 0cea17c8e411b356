/** Owns labels as pages show them: which are in use, on how many devices, how many fit a line, the validation of a typed one, and how a choice names a group. */
import type { Device } from '../../api/device.ts';
import { parseLabel } from '../../policy/label.ts';
import type { SecurityGroup } from '../../api/group.ts';
import { shortId } from '../../client/words/short-id.ts';

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
