/**
 * Owns the members of a peer over time: each state records the change after it, and is written out only when it is
 * read.
 */
import type { Address } from '../address.ts';
import { hasAddress, mergeRanges, type RangeSet } from '../range.ts';
import type { Family, Members } from '../rule.ts';

/** What was gained and lost between two states. */
export interface MembersChange {
  readonly gained: readonly Address[];
  readonly lost: readonly Address[];
}

/** One state. The newest is what is alive; an older one leads to the next, by the one address in which they differ. */
interface State {
  readonly alive: () => Members;
  readonly holds: (address: Address) => boolean;
  next?: { readonly state: State; readonly address: Address; readonly joined: boolean };
  /** Only of the last one that leads no further, though there are newer ones. */
  written?: Members;
}

/** The state behind each `Members` object that this file created. */
const states = new WeakMap<Members, State>();
const unions = new WeakMap<Members, readonly Members[]>();

const listOf = (members: Members, family: Family): RangeSet => (family === 4 ? members.v4 : members.v6);
const keyOf = ({ family, value }: Address): string => `${family} ${value}`;

/** The set without these addresses and with those. */
function changedRanges(
  set: RangeSet,
  changes: readonly { readonly value: bigint; readonly isIn: boolean }[],
): RangeSet {
  if (changes.length === 0) return set;
  const out = changes.flatMap(({ value, isIn }) => (isIn ? [] : [value])).toSorted((a, b) => (a < b ? -1 : 1));
  const ranges = changes.flatMap(({ value, isIn }) => (isIn ? [{ first: value, last: value }] : []));
  let at = 0;
  for (const { first, last } of set) {
    let from = first;
    for (let value = out[at]; value !== undefined && value <= last; value = out[++at]) {
      if (value > from) ranges.push({ first: from, last: value - 1n });
      if (value >= from) from = value + 1n;
    }
    if (from <= last) ranges.push({ first: from, last });
  }
  return mergeRanges(ranges);
}

function write(state: State): Members {
  // Collects the address changes after this state. The first change of an address shows whether it was a member before.
  const before = new Map<string, { readonly family: Family; readonly value: bigint; readonly isIn: boolean }>();
  let last = state;
  for (; last.next !== undefined; last = last.next.state) {
    const { address, joined } = last.next;
    const key = keyOf(address);
    if (!before.has(key)) before.set(key, { ...address, isIn: !joined });
  }
  const known = last.written ?? last.alive();
  const changes = [...before.values()];
  const of = (family: Family): RangeSet =>
    changedRanges(
      listOf(known, family),
      changes.filter((each) => each.family === family),
    );
  return { v4: of(4), v6: of(6) };
}

/** Members that are worked out when somebody looks. A class: an object that is written down with getters costs ten times as much to make. */
class LazyMembers implements Members {
  readonly #make: () => Members;
  /** Kept here and not with the state, which later ones may lead past. */
  #written: Members | undefined;

  constructor(make: () => Members) {
    this.#make = make;
  }

  get v4(): RangeSet {
    return (this.#written ??= this.#make()).v4;
  }
  get v6(): RangeSet {
    return (this.#written ??= this.#make()).v6;
  }
}

/** So many changes are remembered at least before an old state is written out. */
const leastRemembered = 4_096;

/** The states of one peer. It costs as much as there are changes, however many members there are. */
export class MembersHistory {
  readonly #alive: State['alive'];
  readonly #holds: State['holds'];
  #now: State | undefined;
  #given: Members | undefined;
  #remembered = 0;

  /** `alive` are the members now, `holds` whether an address is one of them. */
  constructor(alive: State['alive'], holds: State['holds']) {
    this.#alive = alive;
    this.#holds = holds;
  }

  /** Who the peer is now; the answer stays true of this moment. */
  get now(): Members {
    this.#now ??= this.#newState();
    if (this.#given === undefined) {
      const state = this.#now;
      this.#given = new LazyMembers(() => write(state));
      states.set(this.#given, state);
    }
    return this.#given;
  }

  /** To be called before the address joins or leaves, of `size` that there are. */
  note(address: Address, joined: boolean, size: number, leastKept = leastRemembered): void {
    const before = this.#now;
    if (before === undefined) return;
    this.#given = undefined;
    this.#remembered += 1;
    this.#now = this.#newState();
    if (this.#remembered <= Math.max(leastKept, size)) {
      before.next = { state: this.#now, address, joined };
      return;
    }
    // Older states keep the changes up to this point and do not record later ones.
    this.#remembered = 0;
    before.written = write(before);
  }

  #newState(): State {
    return { alive: this.#alive, holds: this.#holds };
  }
}

/** Everybody that any of these are. */
export function uniteMembers(parts: readonly Members[]): Members {
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const union = (family: Family): RangeSet => mergeRanges(parts.flatMap((each) => [...listOf(each, family)]));
  const members = new LazyMembers(() => ({ v4: union(4), v6: union(6) }));
  unions.set(members, parts);
  return members;
}

/** Whether the address is one of the members; without writing them out where that can be helped. */
export function isMember(members: Members, address: Address): boolean {
  const parts = unions.get(members);
  if (parts !== undefined) return parts.some((part) => isMember(part, address));
  const state = states.get(members);
  if (state === undefined) return hasAddress(listOf(members, address.family), address.value);
  let last = state;
  for (; last.next !== undefined; last = last.next.state) {
    const { address: other, joined } = last.next;
    if (other.family === address.family && other.value === address.value) return !joined;
  }
  return last.written === undefined
    ? last.holds(address)
    : hasAddress(listOf(last.written, address.family), address.value);
}

/** What changed on the way from one state of a peer to a later one; nothing where there is no such way. */
function changeOnTheWay(from: State, to: State): MembersChange | undefined {
  if (from.next?.state === to) {
    const { address, joined } = from.next;
    return joined ? { gained: [address], lost: [] } : { gained: [], lost: [address] };
  }
  const changed = new Map<string, { readonly address: Address; readonly was: boolean; is: boolean }>();
  let at = from;
  for (; at !== to; at = at.next.state) {
    if (at.next === undefined) return undefined;
    const { address, joined } = at.next;
    const known = changed.get(keyOf(address));
    if (known === undefined) changed.set(keyOf(address), { address, was: !joined, is: joined });
    else known.is = joined;
  }
  const all = [...changed.values()];
  return {
    gained: all.flatMap(({ address, was, is }) => (is && !was ? address : [])),
    lost: all.flatMap(({ address, was, is }) => (was && !is ? address : [])),
  };
}

/** Members that this file did not create, such as isolated devices, are compared address by address if they are this few. */
const mostCompared = 1_024;

/** Each address; nothing where there are too many. */
function addressesOf(members: Members): ReadonlyMap<string, Address> | undefined {
  const found = new Map<string, Address>();
  for (const family of [4, 6] as const) {
    for (const { first, last } of listOf(members, family)) {
      if (last - first >= mostCompared - found.size) return undefined;
      for (let value = first; value <= last; value += 1n) found.set(keyOf({ family, value }), { family, value });
    }
  }
  return found;
}

function compareWritten(before: Members, after: Members): MembersChange | undefined {
  const [old, now] = [addressesOf(before), addressesOf(after)];
  if (old === undefined || now === undefined) return undefined;
  return {
    gained: [...now].flatMap(([key, address]) => (old.has(key) ? [] : address)),
    lost: [...old].flatMap(([key, address]) => (now.has(key) ? [] : address)),
  };
}

/**
 * What a peer, or the same peers together, gained and lost between two moments, at the cost of what changed. Nothing where that is not
 * remembered: then both are to be compared whole.
 */
export function changeOfMembers(before: Members, after: Members): MembersChange | undefined {
  if (before === after) return { gained: [], lost: [] };
  const [from, to] = [states.get(before), states.get(after)];
  if (from !== undefined && to !== undefined) {
    const forth = changeOnTheWay(from, to);
    if (forth !== undefined) return forth;
    const back = changeOnTheWay(to, from);
    return back && { gained: back.lost, lost: back.gained };
  }
  const [old, now] = [unions.get(before), unions.get(after)];
  if (from === undefined && to === undefined && old === undefined && now === undefined)
    return compareWritten(before, after);
  if (old === undefined || now === undefined || old.length !== now.length) return undefined;
  const touched = new Map<string, Address>();
  for (const [i, part] of old.entries()) {
    const other = now[i];
    const change = other && changeOfMembers(part, other);
    if (change === undefined) return undefined;
    for (const address of [...change.gained, ...change.lost]) touched.set(keyOf(address), address);
  }
  const all = [...touched.values()].map((address) => ({
    address,
    was: isMember(before, address),
    is: isMember(after, address),
  }));
  return {
    gained: all.flatMap(({ address, was, is }) => (is && !was ? address : [])),
    lost: all.flatMap(({ address, was, is }) => (was && !is ? address : [])),
  };
}
