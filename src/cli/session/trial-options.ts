/** Owns what `--confirm-within` and `--on` say: a write that is tried, for how long and where. */
import { limits } from '../../api/limits.ts';
import { usageError } from '../terminal/exit.ts';
import { durationMs } from '../terminal/time.ts';

export interface TrialValues {
  /** Of commands that write what can be tried: the time in which somebody has to keep it. */
  readonly confirmWithin?: string;
  /** The devices that try it; absent: all of them. */
  readonly on?: readonly string[];
}

/** What makes a write a trial, as the server takes it; empty where it is none. */
export interface TrialQuery {
  readonly confirm_within?: number;
  readonly scope?: string;
}

/** Selectors as policy files write them: `label:canary`, `label:edge+prod`, `all-devices`. */
export const scopeText = (on: readonly string[]): string => on.map((text) => text.trim()).join(',');

export function trialQuery({ confirmWithin, on }: TrialValues): TrialQuery {
  if (confirmWithin === undefined) {
    if (on === undefined) return {};
    throw usageError('--on needs --confirm-within: only a change that is tried can be limited to some devices');
  }
  const seconds = (durationMs(confirmWithin) ?? Number.NaN) / 1_000;
  const { least, most } = limits.trialSeconds;
  if (!(seconds >= least && seconds <= most))
    throw usageError(
      `\`${confirmWithin}\` is not a time for a trial: give one from ${least}s to ${most / 3_600}h, such as 2m`,
    );
  return { confirm_within: seconds, ...(on && { scope: scopeText(on) }) };
}
