/** Owns the check whether a name that a user chose is ambiguous: it may equal another thing's name or id. */
import { isUuid } from '../../policy/ids.ts';

export interface NamedThing {
  readonly id: string;
  /** What it is called, most telling first; an empty one is none. People choose these, so they may look like anything. */
  readonly names: readonly string[];
  /** A note that distinguishes it from another one of the same name. */
  readonly note?: string;
}

/** At least as many digits as tables show of an id. */
const shortest = 8;
export const isPartOfId = (text: string): boolean => text.length >= shortest && /^[0-9a-f-]+$/i.test(text);

/** Whether the text is the end of the id, by which commands find a thing. */
export const isEndOfId = (id: string, text: string): boolean => isPartOfId(text) && id.endsWith(text.toLowerCase());

/** Whether a person who writes the text may mean the thing with this id. */
export const couldMean = (id: string, text: string): boolean =>
  isPartOfId(text) && (id.endsWith(text.toLowerCase()) || id.startsWith(text.toLowerCase()));

/** Returns the word for each of these things: its first name where that is unambiguous, otherwise its id. */
export function wordsFor<T>(things: readonly T[], read: (thing: T) => NamedThing): (thing: T) => string {
  const owners = new Map<string, Set<string>>();
  /** Ids by their first and last digits: a fleet may have ten thousand host names that look like ids. */
  const parts = new Map<string, string[]>();
  for (const { id, names } of things.map(read)) {
    for (const name of names) owners.set(name, (owners.get(name) ?? new Set()).add(id));
    for (const part of [id.slice(0, shortest), id.slice(-shortest)]) {
      const ids = parts.get(part) ?? [];
      if (ids.length === 0) parts.set(part, ids);
      ids.push(id);
    }
  }
  const looksLikeAnother = (id: string, name: string): boolean => {
    const lower = name.toLowerCase();
    const near = [...(parts.get(lower.slice(0, shortest)) ?? []), ...(parts.get(lower.slice(-shortest)) ?? [])];
    return near.some((other) => other !== id && couldMean(other, name));
  };
  return (thing) => {
    const { id, names } = read(thing);
    const [name = ''] = names;
    const isClear =
      name !== '' &&
      name === name.trim() &&
      // Commands would take it for an option.
      !name.startsWith('-') &&
      !isUuid(name) &&
      owners.get(name)?.size === 1 &&
      !looksLikeAnother(id, name);
    return isClear ? name : id;
  };
}
