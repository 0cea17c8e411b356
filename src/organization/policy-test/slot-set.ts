/**
 * Owns sets of small numbers: the numbers of addresses. Only the words of the bit field that are not empty are held, so that a set costs as much as it
 * has members, however large the organization is.
 */

export interface SlotSet {
  /** Which words of the bit field, ascending, and what is in them. */
  readonly at: Uint32Array;
  readonly bits: Uint32Array;
}

/** A part of a set: for each of its words, in their order, the members that are meant. */
export type Marks = Uint32Array;

export const noSlots: SlotSet = { at: new Uint32Array(0), bits: new Uint32Array(0) };

/** The numbers must ascend; a number may come several times. */
export function slotSet(numbers: ArrayLike<number> & Iterable<number>): SlotSet {
  let size = 0;
  let last = -1;
  for (const each of numbers) {
    if (each >>> 5 !== last) size += 1;
    last = each >>> 5;
  }
  const set = { at: new Uint32Array(size), bits: new Uint32Array(size) };
  let word = -1;
  for (const each of numbers) {
    if (word < 0 || set.at[word] !== each >>> 5) set.at[(word += 1)] = each >>> 5;
    set.bits[word] = (set.bits[word] ?? 0) | (1 << (each & 31));
  }
  return set;
}

/** Every number from `first` up to, and without, `end` of each span. The spans ascend and do not overlap. */
export function slotSpans(spans: readonly { readonly first: number; readonly end: number }[]): SlotSet {
  const [at, bits]: [number[], number[]] = [[], []];
  for (const { first, end } of spans) {
    for (let from = first; from < end; from = (from | 31) + 1) {
      const word = from >>> 5;
      const upTo = Math.min(end, (word + 1) * 32) - word * 32;
      const filled = (upTo === 32 ? 0xffff_ffff : (1 << upTo) - 1) & (0xffff_ffff << (from & 31));
      if (at.at(-1) === word) bits[bits.length - 1] = (bits.at(-1) ?? 0) | filled;
      else {
        at.push(word);
        bits.push(filled);
      }
    }
  }
  return { at: Uint32Array.from(at), bits: Uint32Array.from(bits) };
}

/** The first word of the set, from `low` on, that is not before `at`. */
function wordFrom({ at: words }: SlotSet, at: number, low: number): number {
  let [first, end] = [low, words.length];
  while (first < end) {
    const middle = (first + end) >>> 1;
    if ((words[middle] as number) < at) first = middle + 1;
    else end = middle;
  }
  return first;
}

/** A search in the larger set pays off where it has more than so many times the words of the smaller one. */
const searchFactor = 8;

/** About how many words `eachCommonWord` looks at. */
export const stepsFor = (a: SlotSet, b: SlotSet): number =>
  Math.min(a.at.length + b.at.length, 2 * searchFactor * Math.min(a.at.length, b.at.length)) + 2;

/** Calls back with each word that both have, by its place in `a`. */
function eachCommonWord(a: SlotSet, b: SlotSet, found: (place: number, bits: number) => void): void {
  const [one, other] = [a.at, b.at];
  const jumpsA = one.length > searchFactor * other.length;
  const jumpsB = other.length > searchFactor * one.length;
  let [i, j] = [0, 0];
  while (i < one.length && j < other.length) {
    const [x, y] = [one[i] as number, other[j] as number];
    if (x === y) {
      const bits = (a.bits[i] as number) & (b.bits[j] as number);
      if (bits !== 0) found(i, bits);
      i += 1;
      j += 1;
    } else if (x < y) i = jumpsA ? wordFrom(a, y, i + 1) : i + 1;
    else j = jumpsB ? wordFrom(b, x, j + 1) : j + 1;
  }
}

/** Marks what `set` holds of `of`. */
export const mark = (marks: Marks, of: SlotSet, set: SlotSet): void =>
  eachCommonWord(of, set, (word, bits) => void (marks[word] = (marks[word] ?? 0) | bits));

export const unmark = (marks: Marks, of: SlotSet, set: SlotSet): void =>
  eachCommonWord(of, set, (word, bits) => void (marks[word] = (marks[word] ?? 0) & ~bits));

/** The marked members as a set. */
export function markedSlots(of: SlotSet, marks: Marks): SlotSet {
  let size = 0;
  for (const bits of marks) if (bits !== 0) size += 1;
  const set = { at: new Uint32Array(size), bits: new Uint32Array(size) };
  let word = 0;
  for (let from = 0; from < marks.length; from += 1) {
    if (marks[from] === 0) continue;
    set.at[word] = of.at[from] ?? 0;
    set.bits[word] = marks[from] ?? 0;
    word += 1;
  }
  return set;
}

/** The members of both. */
export function commonSlots(a: SlotSet, b: SlotSet): SlotSet {
  const marks = new Uint32Array(a.at.length);
  mark(marks, a, b);
  return markedSlots(a, marks);
}

/** The members of `a` that are not in `b`. */
export function slotsBut(a: SlotSet, b: SlotSet): SlotSet {
  const marks = Uint32Array.from(a.bits);
  unmark(marks, a, b);
  return markedSlots(a, marks);
}

export function isSameSet(a: SlotSet, b: SlotSet): boolean {
  if (a === b) return true;
  if (a.at.length !== b.at.length) return false;
  for (let word = 0; word < a.at.length; word += 1)
    if (a.at[word] !== b.at[word] || a.bits[word] !== b.bits[word]) return false;
  return true;
}

/** The numbers, ascending. */
export function* eachSlot({ at, bits }: SlotSet): Generator<number> {
  for (let word = 0; word < at.length; word += 1) {
    for (let left = bits[word] as number; left !== 0; left &= left - 1)
      yield (at[word] as number) * 32 + 31 - Math.clz32(left & -left);
  }
}
