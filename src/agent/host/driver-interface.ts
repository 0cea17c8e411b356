/**
 * Owns the choice of the driver interface, the interface that the policy applies to: by name or by pattern, also after
 * a rename.
 */
import { parseInterfaceName, type InterfaceName } from '../../nft/names.ts';

/** A network interface as the kernel reports it. */
export interface Link {
  /** Stays with the interface for its whole life, also when it is renamed. */
  readonly index: number;
  readonly name: string;
  /** Whether it does neighbour discovery: neither point-to-point nor NOARP. */
  readonly discovers: boolean;
  /** What receives its traffic: a bridge, bond or VRF that it is a member of, or a macvlan over it in the mode `passthru`; absent where nothing does. */
  readonly master?: string;
}

export type Selector =
  | { readonly kind: 'name'; readonly name: InterfaceName }
  /** `*` matches any characters, `?` matches one. */
  | { readonly kind: 'pattern'; readonly pattern: string };

export interface Driver {
  readonly name: InterfaceName;
  /** Absent while the interface is not there. */
  readonly index: number | undefined;
  readonly neighbourDiscovery: boolean;
  /** The interface that takes its traffic, so that no rule for this one sees it; absent where there is none. */
  readonly master?: string;
}

/** What an operator should know about the choice. */
export type Note =
  | { readonly kind: 'renamed'; readonly from: string; readonly to: string }
  | { readonly kind: 'replaced'; readonly index: number; readonly now: string }
  | { readonly kind: 'several'; readonly chosen: string; readonly others: readonly string[] }
  | { readonly kind: 'gone'; readonly name: string };

/** The selector that the text is. Throws `BadName`. */
export function parseSelector(text: string): Selector {
  if (!/[*?]/.test(text)) return { kind: 'name', name: parseInterfaceName(text) };
  // What could stand for the pattern's wild parts is at least a letter; so the rest must be a name.
  parseInterfaceName(text.replaceAll(/[*?]+/g, 'x'));
  return { kind: 'pattern', pattern: text };
}

export const printSelector = (selector: Selector): string =>
  selector.kind === 'name' ? selector.name : selector.pattern;

function matches(pattern: string, name: string): boolean {
  const expression = [...pattern]
    .map((c) => (c === '*' ? '.*' : c === '?' ? '.' : c.replaceAll(/[^A-Za-z0-9]/g, '\\$&')))
    .join('');
  return new RegExp(`^${expression}$`, 'su').test(name);
}

function nameOf(link: Link): InterfaceName | undefined {
  try {
    return parseInterfaceName(link.name);
  } catch {
    return undefined; // nft cannot hold this name, so it cannot come from our configuration.
  }
}

function driverOf(link: Link): Driver | undefined {
  const name = nameOf(link);
  const { index, discovers: neighbourDiscovery, master } = link;
  return name && { name, index, neighbourDiscovery, ...(master !== undefined && { master }) };
}

/**
 * The driver interface among these links. An interface that was the driver stays it under any name; only a given name
 * that appears on another interface wins over it. While there is none, the last name is kept: rules may stand before
 * their interface does. Without a link or a name to go by there is no answer.
 */
export function chooseDriver(
  selector: Selector,
  links: readonly Link[],
  before: Driver | undefined,
): { readonly driver: Driver | undefined; readonly notes: readonly Note[] } {
  const candidates = links
    .filter(({ name }) => (selector.kind === 'name' ? name === selector.name : matches(selector.pattern, name)))
    .toSorted((a, b) => a.index - b.index);
  const same = before?.index === undefined ? undefined : links.find(({ index }) => index === before.index);
  const notes: Note[] = [];
  const named = selector.kind === 'name' ? candidates[0] : undefined;
  const chosen = named ?? same ?? candidates[0];
  if (chosen !== undefined) {
    const driver = driverOf(chosen);
    if (driver !== undefined) {
      if (before !== undefined && same !== undefined && same !== chosen) {
        notes.push({ kind: 'replaced', index: same.index, now: same.name });
      } else if (before !== undefined && same !== undefined && same.name !== before.name) {
        notes.push({ kind: 'renamed', from: before.name, to: same.name });
      }
      const others = selector.kind === 'pattern' ? candidates.filter((each) => each !== chosen) : [];
      if (others.length > 0) {
        notes.push({ kind: 'several', chosen: driver.name, others: others.map(({ name }) => name) });
      }
      return { driver, notes };
    }
  }
  if (before?.index !== undefined) notes.push({ kind: 'gone', name: before.name });
  const name = selector.kind === 'name' ? selector.name : before?.name;
  const neighbourDiscovery = before?.neighbourDiscovery ?? false;
  return { driver: name && { name, index: undefined, neighbourDiscovery }, notes };
}
