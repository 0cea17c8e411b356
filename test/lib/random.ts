/** Owns chance in tests: a small seeded generator, so that every failure can be played again from its seed. */

export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** 32 random bits (a counter passed through a bit mixer). */
  bits(): number {
    this.#state = (this.#state + 0x9e37_79b9) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0_aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a_2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }

  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number {
    return low + Math.floor((this.bits() / 2 ** 32) * (high - low + 1));
  }

  /** A big number of that many bits. */
  big(bits: number): bigint {
    let value = 0n;
    for (let have = 0; have < bits; have += 32) value = (value << 32n) | BigInt(this.bits());
    return value & ((1n << BigInt(bits)) - 1n);
  }

  chance(probability: number): boolean {
    return this.bits() / 2 ** 32 < probability;
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error('nothing to pick from');
    return items[this.int(0, items.length - 1)] as T;
  }

  /** That many items, each drawn anew. */
  many<T>(count: number, draw: () => T): T[] {
    return Array.from({ length: count }, draw);
  }

  /** The items in a random order. */
  shuffled<T>(items: readonly T[]): T[] {
    const copy = [...items];
    for (let i = copy.length - 1; i > 0; i--) {
      const j = this.int(0, i);
      [copy[i], copy[j]] = [copy[j] as T, copy[i] as T];
    }
    return copy;
  }
}
