/** Owns the lists of policy changes of devices. Devices with the same changes share one list. */
import type { PolicyChange } from './verdict.ts';

/** Changes that are kept for each device. A request that waits for a revision needs them when later changes have followed. */
const mostChanges = 8;

export const noPolicyChanges: readonly PolicyChange[] = Object.freeze([]);

/** A policy change, and the lists that it made of others. */
interface SharedChange {
  readonly policyChange: PolicyChange;
  readonly lists: Map<readonly PolicyChange[], readonly PolicyChange[]>;
}

/**
 * A change may touch ten thousand devices, one after the other. A list for each of them would be most of the garbage that following a change
 * leaves, so the lists of the change before are looked up by which list they were made of.
 */
export class PolicyChangeLists {
  /** By the key of the policy change. */
  readonly #made = new Map<string, SharedChange>();
  #revision = Number.NaN;

  /** The list with this policy change at its end; the earliest are forgotten. */
  after(policyChanges: readonly PolicyChange[], policyChange: PolicyChange): readonly PolicyChange[] {
    const { key, revision } = policyChange;
    // Lists of another change are not needed again.
    if (revision !== this.#revision) this.#made.clear();
    this.#revision = revision;
    let made = this.#made.get(key);
    if (made === undefined || made.policyChange.atLatest !== policyChange.atLatest) {
      made = { policyChange, lists: new Map() };
      this.#made.set(key, made);
    }
    const known = made.lists.get(policyChanges);
    if (known !== undefined) return known;
    const list = [...policyChanges.slice(1 - mostChanges), made.policyChange];
    made.lists.set(policyChanges, list);
    return list;
  }
}
