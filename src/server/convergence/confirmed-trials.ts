/**
 * Owns when the changes of trials were confirmed. A device that tries a change goes back by itself at the end, unless it
 * knows of the confirmation. Its rules do not show whether it does.
 */
import type { TrialRecord } from '../store/data/trials.ts';

export class ConfirmedTrials {
  /** By the id of the group or device whose change was tried. */
  readonly #revisions = new Map<string, number>();

  /** Trials from before the log is followed. */
  load(trials: readonly Pick<TrialRecord, 'state' | 'revision' | 'security_groups' | 'devices'>[]): void {
    for (const { state, revision, security_groups, devices } of trials) {
      if (state !== 'confirmed') continue;
      for (const id of [...security_groups, ...devices]) this.add(id, Math.max(revision, this.#revisions.get(id) ?? 0));
    }
  }

  add(id: string, revision: number): void {
    this.#revisions.set(id, revision);
  }

  delete(id: string): void {
    this.#revisions.delete(id);
  }

  /** When the newest of the trials of these records was confirmed; 0 where there is none. */
  newest(ids: readonly string[]): number {
    return this.#revisions.size === 0 ? 0 : Math.max(0, ...ids.map((id) => this.#revisions.get(id) ?? 0));
  }
}
