/**
 * Owns numbered port sets: within one list, equal sets have equal numbers, and the list maps each number to its ports.
 */

/** The numbers of the empty set and of all ports from 0 to 65535; others begin at `firstMixed`. */
export const noPorts = 0;
export const allPorts = 1;
export const firstMixed = 2;

export const portCount = 65_536;

const mix = (left: number, right: number): number => {
  const mixed = Math.imul(left, 0x9e37_79b1) ^ Math.imul(right ^ (left >>> 15), 0x85eb_ca6b);
  return (mixed ^ (mixed >>> 15)) >>> 0;
};

/**
 * Each mixed set is the pair of its halves: the number of the lower half of its ports, then of the upper half. A pair gets
 * the next number when it is first asked for, so the list says everything about a number that is in it.
 */
export class PortSets {
  /** The halves of set `firstMixed + n` are at `2 n` and `2 n + 1`. */
  #halves = new Int32Array(64);
  #size = 0;
  /** Open addressing: the place of a pair in the list plus one, or 0. At most half of the slots are in use. */
  #slots = new Int32Array(128);

  get halves(): Int32Array {
    return this.#halves.subarray(0, 2 * this.#size);
  }

  /** The lower half of a set's ports. The halves of the empty set are empty, those of the full one full. */
  lower(set: number): number {
    return set < firstMixed ? set : (this.#halves[2 * (set - firstMixed)] ?? noPorts);
  }

  upper(set: number): number {
    return set < firstMixed ? set : (this.#halves[2 * (set - firstMixed) + 1] ?? noPorts);
  }

  /** The set whose lower and upper half are these. */
  join(lower: number, upper: number): number {
    if (lower === upper && lower < firstMixed) return lower;
    const last = this.#slots.length - 1;
    let slot = mix(lower, upper) & last;
    for (let place = this.#slots[slot] ?? 0; place > 0; place = this.#slots[slot] ?? 0) {
      if (this.#halves[2 * place - 2] === lower && this.#halves[2 * place - 1] === upper) return place + 1;
      slot = (slot + 1) & last;
    }
    if (2 * this.#size === this.#halves.length) this.#grow();
    this.#halves[2 * this.#size] = lower;
    this.#halves[2 * this.#size + 1] = upper;
    this.#size += 1;
    this.#enter(this.#size);
    return this.#size + 1;
  }

  #grow(): void {
    const halves = new Int32Array(2 * this.#halves.length);
    halves.set(this.#halves);
    this.#halves = halves;
    this.#slots = new Int32Array(2 * this.#slots.length);
    for (let place = 1; place <= this.#size; place += 1) this.#enter(place);
  }

  #enter(place: number): void {
    const last = this.#slots.length - 1;
    let slot = mix(this.#halves[2 * place - 2] ?? 0, this.#halves[2 * place - 1] ?? 0) & last;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & last;
    this.#slots[slot] = place;
  }
}

/** No number yet: something below the node changed. */
const unknown = -1;

/**
 * A binary tree over all ports, so that its shape depends on nothing that a policy says. Each node counts the ranges that
 * cover all of it and no larger node. Only nodes that ranges touch exist.
 */
class PortTree {
  readonly #sets: PortSets;
  /** Node 0 represents every node that does not exist; node 1 holds all ports. */
  readonly #lower = [0, 0];
  readonly #upper = [0, 0];
  readonly #covers = [0, 0];
  readonly #numbers = [noPorts, noPorts];

  constructor(sets: PortSets) {
    this.#sets = sets;
  }

  get number(): number {
    return this.#numberOf(1);
  }

  /** So many more ranges, or fewer, that reach from a port to the one before `end`. */
  change(from: number, end: number, by: number): void {
    this.#change(1, 0, portCount, from, end, by);
  }

  #numberOf(node: number): number {
    const known = this.#numbers[node] ?? noPorts;
    if (known !== unknown) return known;
    const number =
      (this.#covers[node] ?? 0) > 0
        ? allPorts
        : this.#sets.join(this.#numberOf(this.#lower[node] ?? 0), this.#numberOf(this.#upper[node] ?? 0));
    this.#numbers[node] = number;
    return number;
  }

  #change(node: number, low: number, high: number, from: number, end: number, by: number): void {
    this.#numbers[node] = unknown;
    if (from <= low && high <= end) {
      this.#covers[node] = (this.#covers[node] ?? 0) + by;
      return;
    }
    const middle = (low + high) >> 1;
    if (from < middle) this.#change(this.#child(this.#lower, node), low, middle, from, end, by);
    if (end > middle) this.#change(this.#child(this.#upper, node), middle, high, from, end, by);
  }

  #child(side: number[], node: number): number {
    const known = side[node] ?? 0;
    if (known !== 0) return known;
    const child = this.#covers.length;
    this.#lower.push(0);
    this.#upper.push(0);
    this.#covers.push(0);
    this.#numbers.push(noPorts);
    side[node] = child;
    return child;
  }
}

/** Port ranges by the order in which they were first named. */
export class PortRanges {
  readonly #places = new Map<number, number>();
  readonly #from: number[] = [];
  readonly #to: number[] = [];

  placeOf(from: number, to: number): number {
    const key = from * portCount + to;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    this.#places.set(key, this.#from.length);
    this.#from.push(from);
    return this.#to.push(to) - 1;
  }

  from(place: number): number {
    return this.#from[place] ?? 0;
  }

  to(place: number): number {
    return this.#to[place] ?? 0;
  }
}

/** Port ranges that come and go, and the number of their union. */
export class PortUnion {
  readonly #ranges: PortRanges;
  readonly #tree: PortTree;
  /** How often each range is here, and how often the tree has it. */
  readonly #counts: number[] = [];
  readonly #inTree: number[] = [];
  /** Where the two may differ. */
  #changed: number[] = [];
  /** How many ranges are here, and the XOR of their places: where one is alone, its place. */
  #here = 0;
  #places = 0;
  /** The numbers of ranges that were alone before: most addresses are matched by one rule. */
  readonly #alone: number[] = [];

  constructor(sets: PortSets, ranges: PortRanges) {
    this.#tree = new PortTree(sets);
    this.#ranges = ranges;
  }

  change(place: number, by: 1 | -1): void {
    const before = this.#counts[place] ?? 0;
    if (before === (this.#inTree[place] ?? 0)) this.#changed.push(place);
    this.#counts[place] = before + by;
    if (before === 0 || before + by === 0) {
      this.#here += by;
      this.#places ^= place;
    }
  }

  /** The same set never adds to the list twice, whatever ranges it is made of. */
  get number(): number {
    if (this.#here === 0) return noPorts;
    const alone = this.#here === 1 ? this.#places : undefined;
    const known = alone === undefined ? undefined : this.#alone[alone];
    if (known !== undefined) return known;
    this.#updateTree();
    const { number } = this.#tree;
    if (alone !== undefined) this.#alone[alone] = number;
    return number;
  }

  #updateTree(): void {
    const changed = this.#changed;
    this.#changed = [];
    for (const place of changed) {
      const [wanted, had] = [this.#counts[place] ?? 0, this.#inTree[place] ?? 0];
      if (wanted > 0 !== had > 0) {
        this.#tree.change(this.#ranges.from(place), this.#ranges.to(place) + 1, wanted > 0 ? 1 : -1);
      }
      this.#inTree[place] = wanted;
    }
  }
}
