/** Owns the phases of a policy over time: a phase ends when a rule expires, and each phase has its own digest. */

/** The parts of a policy, and the moments at which time alone changes it. */
export interface TimedPolicy {
  readonly key: string;
  /** Milliseconds since the epoch, ascending; absent where time changes nothing. */
  readonly moments?: readonly number[] | undefined;
  /** The newest revision of the records that say what time changes, as far as that was seen. */
  readonly timedAt?: number | undefined;
}

export interface Phase {
  /** Identifies this phase of this policy. */
  readonly key: string;
  /** A moment in it. */
  readonly at: number;
}

/**
 * For this long before and after a moment, a device may be in either phase: a minute for its clock (beyond that, it
 * reports `clock_off`), and half a minute for its report.
 */
export const graceMs = 90_000;

const phaseFrom = (key: string, moment: number | undefined): Phase =>
  moment === undefined ? { key, at: Number.NEGATIVE_INFINITY } : { key: `${key}\nat ${moment}`, at: moment };

/** The phases that a device may be in at a time, the earliest first. */
export function phasesAround({ key, moments }: TimedPolicy, time: number): readonly Phase[] {
  if (moments === undefined) return [phaseFrom(key, undefined)];
  const before = moments.findLast((moment) => moment <= time - graceMs);
  const near = moments.filter((moment) => Math.abs(moment - time) < graceMs || moment === time + graceMs);
  return [phaseFrom(key, before), ...near.map((moment) => phaseFrom(key, moment))];
}

/** Until when `phasesAround` answers the same as at this time. */
export function samePhasesUntil({ moments = [] }: TimedPolicy, time: number): number {
  let until = Number.POSITIVE_INFINITY;
  for (const moment of moments) {
    for (const border of [moment - graceMs, moment + graceMs]) if (border > time) until = Math.min(until, border);
  }
  return until;
}
