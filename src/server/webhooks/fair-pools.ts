/**
 * Owns how the concurrent work of many organizations shares a process: deliveries, and looks at conditions. There are two
 * pools. Every organization begins in the fast pool. A batch that takes long moves to the slow pool, where its organization
 * then begins for a while. So hanging receivers, of any number of organizations, free the fast pool within a moment. When
 * the slow pool is full, its oldest batch is ended. No effects.
 */
import type { OrganizationId } from '../../policy/ids.ts';

export interface FairPoolSettings {
  /** Deliveries or looks that a pool has under way at a time. */
  readonly places: number;
  /** How long an organization that was slow begins in the slow pool. */
  readonly slowForMs: number;
}

/** Deliveries of one organization that are under way together, or one look. */
export interface Batch {
  readonly organization: OrganizationId;
  readonly size: number;
  /** Ends them as if their time were over. */
  readonly cut: () => void;
}

export class FairPools {
  readonly #settings: FairPoolSettings;
  readonly #fast = new Set<Batch>();
  /** The oldest first. */
  readonly #slow = new Set<Batch>();
  /** Organizations that begin in the slow pool, and until when. */
  readonly #slowUntil = new Map<OrganizationId, number>();

  constructor(settings: FairPoolSettings) {
    this.#settings = settings;
  }

  /** Organizations that begin in the slow pool now. */
  slowOrganizations(now: number): readonly OrganizationId[] {
    for (const [organization, until] of this.#slowUntil) if (until <= now) this.#slowUntil.delete(organization);
    return [...this.#slowUntil.keys()];
  }

  /** Organizations with a batch under way: each has one at a time. */
  busyOrganizations(): readonly OrganizationId[] {
    return [...this.#fast, ...this.#slow].map(({ organization }) => organization);
  }

  freePlaces(pool: 'fast' | 'slow'): number {
    return Math.max(0, this.#settings.places - sizeOf(pool === 'fast' ? this.#fast : this.#slow));
  }

  begin(pool: 'fast' | 'slow', batch: Batch): void {
    (pool === 'fast' ? this.#fast : this.#slow).add(batch);
  }

  /** To be called when a batch has taken long. */
  becomeSlow(batch: Batch, now: number): void {
    if (!this.#fast.delete(batch) && !this.#slow.has(batch)) return;
    this.#slow.add(batch);
    this.#slowUntil.set(batch.organization, now + this.#settings.slowForMs);
    for (const oldest of this.#slow) {
      if (sizeOf(this.#slow) <= this.#settings.places) break;
      this.#slow.delete(oldest);
      oldest.cut();
    }
  }

  end(batch: Batch): void {
    this.#fast.delete(batch);
    this.#slow.delete(batch);
  }
}

const sizeOf = (batches: ReadonlySet<Batch>): number => [...batches].reduce((sum, { size }) => sum + size, 0);
