/** Owns the groups that an agent does not keep in memory, and fetches one when its device needs it. */
import type { SecurityGroup } from '../../api/group.ts';
import { Backoff } from '../../client/backoff.ts';
import type { Clock } from '../../client/clock.ts';

export interface DroppedGroupsOptions {
  readonly fetch: (id: string, signal: AbortSignal) => Promise<SecurityGroup>;
  readonly clock: Clock;
  readonly random: () => number;
  /** Something was fetched, or may be tried again. */
  readonly onChange: () => void;
}

/**
 * It promises that what it finds is the group's newest state as of the revision asked for: every state that the stream
 * shows ends what was fetched before it, and what is newer than the stream waits until the stream has come so far.
 */
export class DroppedGroups {
  readonly #options: DroppedGroupsOptions;
  readonly #backoff: Backoff;
  readonly #fetched = new Map<string, SecurityGroup>();
  readonly #fetching = new Map<string, AbortController>();
  #cancelWait: (() => void) | undefined;

  constructor(options: DroppedGroupsOptions) {
    this.#options = options;
    this.#backoff = new Backoff({ random: options.random });
  }

  /** The stream has shown a state of the group. */
  see(id: string): void {
    this.#end(id);
  }

  /** The group as fetched; nothing while it is not there, or newer than this revision. */
  find(id: string, revision: number): SecurityGroup | undefined {
    const group = this.#fetched.get(id);
    return group !== undefined && group.revision <= revision ? group : undefined;
  }

  /** These are needed now, and no others: fetches them, one after the other, so that no more than one is on its way. */
  need(ids: readonly string[]): void {
    for (const id of [...this.#fetched.keys(), ...this.#fetching.keys()]) if (!ids.includes(id)) this.#end(id);
    if (this.#cancelWait !== undefined || this.#fetching.size > 0) return;
    const next = ids.find((id) => !this.#fetched.has(id));
    if (next !== undefined) void this.#fetch(next);
  }

  /** Ends what is under way. */
  stop(): void {
    for (const id of this.#fetching.keys()) this.#end(id);
    this.#cancelWait?.();
    this.#cancelWait = undefined;
  }

  #end(id: string): void {
    this.#fetching.get(id)?.abort();
    this.#fetching.delete(id);
    this.#fetched.delete(id);
  }

  async #fetch(id: string): Promise<void> {
    const { fetch, clock, onChange } = this.#options;
    const abort = new AbortController();
    this.#fetching.set(id, abort);
    try {
      const group = await fetch(id, abort.signal);
      // An answer that something newer has overtaken is none.
      if (this.#fetching.get(id) !== abort) return;
      this.#fetched.set(id, group);
      this.#backoff.reset();
    } catch {
      if (this.#fetching.get(id) !== abort) return;
      this.#cancelWait ??= clock.after(this.#backoff.next(undefined), () => {
        this.#cancelWait = undefined;
        onChange();
      });
    } finally {
      if (this.#fetching.get(id) === abort) this.#fetching.delete(id);
    }
    onChange();
  }
}
