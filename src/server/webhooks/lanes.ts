/**
 * Owns how deliveries in flight share a process. There are two lanes. Every organization begins in the prompt lane; a batch that takes long moves to the
 * slow lane, where its organization then begins for a while. So receivers that hang, however many organizations have them, leave the prompt lane
 * to others within a moment. When the slow lane is full, its oldest batch is ended. No effects.
 */
import type { OrganizationId } from '../../policy/ids.ts';

export interface LaneSettings {
  /** Deliveries that a lane has in flight at a time. */
  readonly places: number;
  /** How long an organization whose receivers were slow begins in the slow lane. */
  readonly slowForMs: number;
}

/** Deliveries of one organization that are under way together. */
export interface Batch {
  readonly organization: OrganizationId;
  readonly size: number;
  /** Ends them as if their time were over. */
  readonly cut: () => void;
}

export class Lanes {
  readonly #settings: LaneSettings;
  readonly #prompt = new Set<Batch>();
  /** The oldest first. */
  readonly #slow = new Set<Batch>();
  /** Organizations that begin in the slow lane, and until when. */
  readonly #slowUntil = new Map<OrganizationId, number>();

  constructor(settings: LaneSettings) {
    this.#settings = settings;
  }

  /** Organizations that begin in the slow lane now. */
  slowOrganizations(now: number): readonly OrganizationId[] {
    for (const [organization, until] of this.#slowUntil) if (until <= now) this.#slowUntil.delete(organization);
    return [...this.#slowUntil.keys()];
  }

  /** Organizations with deliveries in flight: each has one batch at a time. */
  busyOrganizations(): readonly OrganizationId[] {
    return [...this.#prompt, ...this.#slow].map(({ organization }) => organization);
  }

  freePlaces(lane: 'prompt' | 'slow'): number {
    return Math.max(0, this.#settings.places - sizeOf(lane === 'prompt' ? this.#prompt : this.#slow));
  }

  begin(lane: 'prompt' | 'slow', batch: Batch): void {
    (lane === 'prompt' ? this.#prompt : this.#slow).add(batch);
  }

  /** To be called when a batch has taken long. */
  becomeSlow(batch: Batch, now: number): void {
    if (!this.#prompt.delete(batch) && !this.#slow.has(batch)) return;
    this.#slow.add(batch);
    this.#slowUntil.set(batch.organization, now + this.#settings.slowForMs);
    for (const oldest of this.#slow) {
      if (sizeOf(this.#slow) <= this.#settings.places) break;
      this.#slow.delete(oldest);
      oldest.cut();
    }
  }

  end(batch: Batch): void {
    this.#prompt.delete(batch);
    this.#slow.delete(batch);
  }
}

const sizeOf = (batches: ReadonlySet<Batch>): number => [...batches].reduce((sum, { size }) => sum + size, 0);
