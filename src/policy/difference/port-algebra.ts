/** Owns operations on numbered port sets: differences, and the ports that a number represents. */
import { allPorts, firstMixed, noPorts, portCount, PortSets } from '../digest/port-sets.ts';
import type { PortSpan } from './traffic.ts';

/** Larger than any number of a set. */
const base = 2 ** 26;

export class PortAlgebra {
  readonly sets = new PortSets();
  readonly #differences = new Map<number, number>();
  readonly #spanCounts = new Map<number, number>();
  readonly #spans = new Map<number, readonly PortSpan[]>();

  /** The ports of `a` that are not in `b`. */
  minus(a: number, b: number): number {
    if (a === noPorts || b === allPorts || a === b) return noPorts;
    if (b === noPorts) return a;
    const key = a * base + b;
    const known = this.#differences.get(key);
    if (known !== undefined) return known;
    const { sets } = this;
    const difference = sets.join(this.minus(sets.lower(a), sets.lower(b)), this.minus(sets.upper(a), sets.upper(b)));
    this.#differences.set(key, difference);
    return difference;
  }

  /** The ports of either. */
  union(a: number, b: number): number {
    return this.minus(allPorts, this.minus(this.minus(allPorts, a), b));
  }

  /** The ports of both. */
  intersection(a: number, b: number): number {
    return this.minus(a, this.minus(a, b));
  }

  /** How many spans the set has, at no more than the cost of its halves. */
  countSpans(set: number): number {
    if (set < firstMixed) return set;
    const known = this.#spanCounts.get(set);
    if (known !== undefined) return known;
    const [lower, upper] = [this.sets.lower(set), this.sets.upper(set)];
    const isOneSpan = this.#endOf(lower, 'upper') === allPorts && this.#endOf(upper, 'lower') === allPorts;
    const count = this.countSpans(lower) + this.countSpans(upper) - Number(isOneSpan);
    this.#spanCounts.set(set, count);
    return count;
  }

  /** Whether the set holds its first or its last port, as the number of all ports or of none. */
  #endOf(set: number, side: 'lower' | 'upper'): number {
    let end = set;
    while (end >= firstMixed) end = this.sets[side](end);
    return end;
  }

  spans(set: number): readonly PortSpan[] {
    const known = this.#spans.get(set);
    if (known !== undefined) return known;
    const spans: { from: number; to: number }[] = [];
    const walk = (part: number, from: number, size: number): void => {
      if (part === noPorts) return;
      if (part !== allPorts) {
        walk(this.sets.lower(part), from, size / 2);
        walk(this.sets.upper(part), from + size / 2, size / 2);
        return;
      }
      const last = spans.at(-1);
      if (last?.to === from - 1) last.to = from + size - 1;
      else spans.push({ from, to: from + size - 1 });
    };
    walk(set, 0, portCount);
    this.#spans.set(set, spans);
    return spans;
  }
}
