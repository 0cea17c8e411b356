/** Owns the meaning of a port map free of its form: at which ports another set of addresses begins to hold, and which. */
import type { PortedRange, PortMap, PortNode } from '../canonical.ts';
import type { Family } from '../rule.ts';
import {
  emptyFingerprint,
  joinFingerprints,
  rangeFingerprint,
  sameFingerprint,
  setFingerprint,
  type Fingerprint,
} from './fingerprint.ts';

/** From this port on, until the next step, the addresses of this fingerprint are matched. */
export interface Step {
  readonly port: number;
  readonly addresses: Fingerprint;
}

/** Steps that change nothing are none. */
function withoutRepeats(steps: readonly Step[]): Step[] {
  let before = emptyFingerprint;
  return steps.filter(({ addresses }) => {
    const isNew = !sameFingerprint(addresses, before);
    before = addresses;
    return isNew;
  });
}

/** The union of ranges that come and go, in pieces between all their borders: how often each piece is covered. */
class Coverage {
  readonly #borders: readonly bigint[];
  readonly #family: Family;
  readonly #counts: Int32Array;
  readonly #wholes: (Fingerprint | undefined)[] = [];
  readonly #sums: Fingerprint[] = [];

  constructor(family: Family, ranges: readonly PortedRange[]) {
    this.#family = family;
    const all = new Set<bigint>();
    for (const { first, last } of ranges) all.add(first).add(last + 1n);
    this.#borders = [...all].toSorted((a, b) => (a < b ? -1 : 1));
    this.#counts = new Int32Array(4 * this.#borders.length);
  }

  get fingerprint(): Fingerprint {
    return this.#sums[1] ?? emptyFingerprint;
  }

  change({ first, last }: PortedRange, by: 1 | -1): void {
    this.#change(1, 0, this.#borders.length - 1, this.#place(first), this.#place(last + 1n), by);
  }

  #place(border: bigint): number {
    let [low, high] = [0, this.#borders.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#borders[middle] as bigint) < border) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** A segment tree: a node covers the pieces from `low` up to `high`, and is covered itself or by its halves. */
  #change(node: number, low: number, high: number, begin: number, end: number, by: number): void {
    if (end <= low || high <= begin) return;
    const middle = (low + high) >> 1;
    if (begin <= low && high <= end) this.#counts[node] = (this.#counts[node] ?? 0) + by;
    else {
      this.#change(2 * node, low, middle, begin, end, by);
      this.#change(2 * node + 1, middle, high, begin, end, by);
    }
    if ((this.#counts[node] ?? 0) > 0) this.#sums[node] = this.#whole(node, low, high);
    else if (high - low > 1) {
      const halves = [this.#sums[2 * node] ?? emptyFingerprint, this.#sums[2 * node + 1] ?? emptyFingerprint] as const;
      this.#sums[node] = joinFingerprints(...halves);
    } else this.#sums[node] = emptyFingerprint;
  }

  #whole(node: number, low: number, high: number): Fingerprint {
    const [first, end] = [this.#borders[low] ?? 0n, this.#borders[high] ?? 0n];
    const whole = this.#wholes[node] ?? rangeFingerprint(this.#family, { first, last: end - 1n });
    this.#wholes[node] = whole;
    return whole;
  }
}

function rangesAt(node: PortNode, family: Family): readonly PortedRange[] {
  const key = family === 4 ? 'v4' : 'v6';
  if (!('addresses' in node)) return node.shares.flatMap((share) => share[key]);
  const { from, to } = node;
  return node.addresses[key].map(({ first, last }) => ({ first, last, from, to }));
}

/** The steps of ranges that each hold on ports of their own, whatever overlaps. */
function sweep(ranges: readonly PortedRange[], family: Family): Step[] {
  const coverage = new Coverage(family, ranges);
  const changes = ranges
    .flatMap((range) => [
      { port: range.from, range, by: 1 as const },
      { port: range.to + 1, range, by: -1 as const },
    ])
    .toSorted((a, b) => a.port - b.port || b.by - a.by);
  const steps: Step[] = [];
  for (const [index, { port, range, by }] of changes.entries()) {
    coverage.change(range, by);
    if (changes[index + 1]?.port !== port) steps.push({ port, addresses: coverage.fingerprint });
  }
  return steps;
}

/** The steps of one family: equal for port maps that match the same packets. */
export function portSteps(ports: PortMap, family: Family): readonly Step[] {
  if (ports.kind === 'tree') {
    return withoutRepeats(
      sweep(
        ports.layers.flatMap((layer) => layer.flatMap((node) => rangesAt(node, family))),
        family,
      ),
    );
  }
  const steps: Step[] = [];
  for (const [index, { from, to, addresses }] of ports.intervals.entries()) {
    steps.push({ port: from, addresses: setFingerprint(family, family === 4 ? addresses.v4 : addresses.v6) });
    if (ports.intervals[index + 1]?.from !== to + 1) steps.push({ port: to + 1, addresses: emptyFingerprint });
  }
  return withoutRepeats(steps);
}
