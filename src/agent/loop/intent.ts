/** Owns the intent of an update: the policy is on disk before the kernel switches to it. */
import { setImmediate } from 'node:timers/promises';
import type { BeforeSwitch } from '../kernel/enforcer.ts';
import { NftError } from '../kernel/nft.ts';
import type { LastGoodPolicy } from '../state/last-good-policy.ts';
import type { PreparedIntent, StateFolder } from '../state/state-folder.ts';

/** After these the kernel may have turned to the rules all the same. */
const isUnclear = (error: unknown): boolean =>
  !(error instanceof NftError) || error.code === 'interrupted' || error.code === 'timed_out';

/** Without it a crash costs the revision of what is in force, not more: to write it may fail, the update does not for that. */
export class Intent implements BeforeSwitch {
  readonly #folder: StateFolder;
  readonly #record: LastGoodPolicy;
  #prepared: Promise<PreparedIntent | undefined> | undefined;
  #isPlaced = false;

  constructor(folder: StateFolder, record: LastGoodPolicy) {
    this.#folder = folder;
    this.#record = record;
  }

  /** Written down while the kernel takes the new parts, and in its place before it turns to them. */
  readonly whileStaging = (): (() => Promise<void>) => {
    const prepared = (this.#prepared ??= this.#prepare());
    return async () => (await prepared)?.place().catch(() => {});
  };

  readonly atOnce = (): void => {
    if (this.#isPlaced) return;
    this.#isPlaced = true;
    this.#write(this.#record);
  };

  /**
   * The update failed. Where the kernel has certainly not changed, this restores the earlier intent: it may be the only
   * record of which policy the kernel's rules belong to.
   */
  async giveUp(before: LastGoodPolicy | undefined, error: unknown): Promise<void> {
    await (await this.#prepared)?.discard();
    if (this.#isPlaced && before !== undefined && !isUnclear(error)) this.#write(before);
  }

  async #prepare(): Promise<PreparedIntent | undefined> {
    // What goes to the kernel goes first.
    await setImmediate();
    return this.#folder.prepareIntent(this.#record).catch(() => undefined);
  }

  #write(record: LastGoodPolicy): void {
    try {
      this.#folder.writeIntent(record);
    } catch {
      // See above.
    }
  }
}
