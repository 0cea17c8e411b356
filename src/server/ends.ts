/** Owns the timely end of trials and isolations: every process looks which end next, and the first one to act ends each of them. */
import type { DueWork } from './scheduling/due-work.ts';
import type { Ends, Ending } from './store/trials/ends.ts';
import { StoreError } from './problems.ts';

export interface EndsOptions {
  readonly ends: Ends;
  readonly clock: () => number;
  readonly onWarning: (message: string, cause: unknown) => void;
}

/** Trials last ten seconds or longer, so that every process learns of each before it ends. Agents do not wait for the end of an isolation. */
const lookEveryMs = 2_000;

/** Another process was first, or somebody has changed the device: then it is looked at again. */
const endedElsewhere: ReadonlySet<StoreError['code']> = new Set(['precondition_failed', 'not_found', 'not_a_member']);

/** Sleeps until the next end where that is earlier than the next look. The transaction decides whether there is still something to end. */
export function endsOfTime({ ends, clock, onWarning }: EndsOptions): DueWork {
  /** What a server of a later version has to end: one warning is enough for each. */
  const left = new Set<string>();

  async function end(ending: Ending): Promise<void> {
    try {
      await ends.end(ending);
    } catch (cause) {
      if (!(cause instanceof StoreError)) throw cause;
      if (endedElsewhere.has(cause.code)) return;
      if (cause.code !== 'newer_record') throw cause;
      const what = ending.kind === 'trial' ? `the trial ${ending.id}` : `the isolation of the device ${ending.id}`;
      if (!left.has(ending.id)) onWarning(`a server of a later version has to end ${what}, whose time is over`, cause);
      left.add(ending.id);
    }
  }

  return {
    task: 'end trials and isolations whose time is over',
    async run(stopped) {
      const failures: unknown[] = [];
      let restMs = lookEveryMs;
      for (const ending of await ends.next(lookEveryMs)) {
        restMs = Math.min(Math.max(ending.at - clock(), 0), lookEveryMs);
        if (restMs > 0 || stopped.aborted) break;
        await end(ending).catch((cause: unknown) => failures.push(cause));
        restMs = lookEveryMs;
      }
      if (failures.length > 0) throw failures[0];
      return restMs;
    },
  };
}
