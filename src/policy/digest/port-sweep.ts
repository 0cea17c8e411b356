/** Owns the meaning of a port map free of its form: at which ports another set of addresses begins to hold, and which. */
import type { PortedRange, PortMap, PortNode } from '../canonical.ts';
import type { Family } from '../rule.ts';
import {
  borderFingerprint,
  emptyFingerprint,
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

/** A range by the places of its borders among all borders. */
interface Placed {
  readonly begin: number;
  readonly end: number;
}

const lanes = 4;

/**
 * The union of ranges that come and go, in pieces between all their borders: how often each piece is covered. A segment
 * tree: each node covers some pieces, by itself or by its halves, and knows the fingerprint of what is covered there.
 */
class Coverage {
  readonly #places: ReadonlyMap<bigint, number>;
  /** Of borders and of nodes, four numbers each. */
  readonly #hashes: Int32Array;
  readonly #sums: Int32Array;
  readonly #counts: Int32Array;

  constructor(family: Family, ranges: readonly PortedRange[]) {
    const all = new Set<bigint>();
    for (const { first, last } of ranges) all.add(first).add(last + 1n);
    const borders = [...all].toSorted((a, b) => (a < b ? -1 : 1));
    this.#places = new Map(borders.map((border, place) => [border, place]));
    this.#hashes = new Int32Array(lanes * borders.length);
    for (const [place, border] of borders.entries()) {
      this.#hashes.set(borderFingerprint(family, border), lanes * place);
    }
    this.#counts = new Int32Array(4 * borders.length);
    this.#sums = new Int32Array(lanes * 4 * borders.length);
  }

  get fingerprint(): Fingerprint {
    const lane = (i: number): number => this.#sums[lanes + i] ?? 0;
    return [lane(0), lane(1), lane(2), lane(3)];
  }

  placed({ first, last }: PortedRange): Placed {
    return { begin: this.#places.get(first) ?? 0, end: this.#places.get(last + 1n) ?? 0 };
  }

  change(range: Placed, by: 1 | -1): void {
    this.#change(1, 0, this.#places.size - 1, range, by);
  }

  #change(node: number, low: number, high: number, range: Placed, by: 1 | -1): void {
    if (range.end <= low || high <= range.begin) return;
    const whole = range.begin <= low && high <= range.end;
    if (whole) this.#counts[node] = (this.#counts[node] ?? 0) + by;
    else {
      const middle = (low + high) >> 1;
      this.#change(2 * node, low, middle, range, by);
      this.#change(2 * node + 1, middle, high, range, by);
    }
    if ((this.#counts[node] ?? 0) > 0) this.#join(node, this.#hashes, low, high);
    else if (high - low > 1) this.#join(node, this.#sums, 2 * node, 2 * node + 1);
    else this.#sums.fill(0, lanes * node, lanes * (node + 1));
  }

  /** What is covered at a node: between two borders, or what its halves say. */
  #join(node: number, of: Int32Array, one: number, other: number): void {
    for (let lane = 0; lane < lanes; lane += 1) {
      this.#sums[lanes * node + lane] = (of[lanes * one + lane] ?? 0) ^ (of[lanes * other + lane] ?? 0);
    }
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
    .flatMap((each) => {
      const range = coverage.placed(each);
      return [
        { port: each.from, range, by: 1 as const },
        { port: each.to + 1, range, by: -1 as const },
      ];
    })
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
