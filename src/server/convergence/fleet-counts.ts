/**
 * Owns the metrics that count devices by state over all organizations. A scrape gets the last counts; they are
 * refreshed at a limited rate.
 */
import { inForceWords, type InForce } from '../../api/enforcement/in-force.ts';
import type { OrganizationId } from '../../policy/ids.ts';
import type { Organizations } from '../store/accounts/organizations.ts';
import type { Convergence } from './contract.ts';

export type Counts = Readonly<Record<InForce, number>>;

export interface FleetCountsOptions {
  readonly store: { readonly organizations: Pick<Organizations, 'ids'> };
  readonly convergence: Pick<Convergence, 'count'>;
  /** Milliseconds that only ever go forward. */
  readonly monotonic: () => number;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** Counts are at least this old before they are refreshed. */
const leastAgeMs = 20_000;
/** Between two rounds is this many times the time that one takes: counting takes a fiftieth of a processor at most. */
const restFactor = 50;
/** Organizations in one read. */
const page = 500;

const none = (): Record<InForce, number> =>
  Object.fromEntries(inForceWords.map((word) => [word, 0])) as Record<InForce, number>;

export class FleetCounts {
  readonly #o: FleetCountsOptions;
  #last: Counts | undefined;
  #counting: Promise<void> | undefined;
  #dueAt = Number.NEGATIVE_INFINITY;
  #closed = false;

  constructor(options: FleetCountsOptions) {
    this.#o = options;
  }

  /** The last counts; undefined before the first. Starts a new count in the background when it is due. */
  read(): Counts | undefined {
    if (this.#o.monotonic() >= this.#dueAt)
      this.#counting ??= this.#round().finally(() => (this.#counting = undefined));
    return this.#last;
  }

  /** Resolves when nothing is being counted. */
  async settled(): Promise<void> {
    await this.#counting;
  }

  /** Counts no further organization. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#counting;
  }

  async #round(): Promise<void> {
    const { monotonic, onWarning } = this.#o;
    const began = monotonic();
    try {
      this.#last = (await this.#count()) ?? this.#last;
    } catch (cause) {
      onWarning('cannot count devices for the metrics', cause);
    }
    const took = monotonic() - began;
    this.#dueAt = monotonic() + Math.max(leastAgeMs, took * restFactor);
  }

  async #count(): Promise<Counts | undefined> {
    const { store, convergence } = this.#o;
    const sum = none();
    for (let after: OrganizationId | undefined; ;) {
      const ids = await store.organizations.ids({ after, limit: page });
      for (const id of ids) {
        if (this.#closed) return undefined;
        const counts = await convergence.count(id);
        for (const word of inForceWords) sum[word] += counts[word];
      }
      after = ids.at(-1);
      if (ids.length < page) return sum;
    }
  }
}
