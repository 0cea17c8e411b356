/** Owns the removal of what is no longer kept. Observed traffic that is an hour old is added up by the way. */
import type { DueWork } from './scheduling/due-work.ts';
import type { Retention } from './store/retention.ts';

const everyMs = 300_000;

export const removalOfOld = (
  kinds: readonly Retention[],
  onWarning: (message: string, cause: unknown) => void,
): DueWork => ({
  task: 'remove what is no longer kept',
  lease: { work: 'retention', forMs: everyMs },
  firstMs: everyMs,
  async run(stopped) {
    for (const kind of kinds) {
      if (stopped.aborted) break;
      // What fails for one kind holds up no other one, and waits for the next time.
      await kind.forget().catch((cause: unknown) => onWarning(`cannot remove old ${kind.what}`, cause));
    }
    return everyMs;
  },
});
