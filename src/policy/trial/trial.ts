/** Owns what a trial means: which state of a record counts for a device, the one on trial or the one before it (reference 4.15). */
import { matchesAny } from '../fleet/selector.ts';
import type { Selector, Trial } from '../rule.ts';

/** A record, or what is read from one, that may be on trial. */
export interface OnTrial {
  readonly trial?: Trial<object> | undefined;
}

/** Records as they are, whatever the time is: the server ends trials itself. */
const asStored = Number.NEGATIVE_INFINITY;

/** Whether a device with these labels tries the change at this moment, in milliseconds since 1970. */
export const isTried = (
  { scope, ends_at }: Pick<Trial<object>, 'scope' | 'ends_at'>,
  labels: readonly string[],
  at: number = asStored,
): boolean => at < Date.parse(ends_at) && (scope === undefined || matchesAny(scope, labels));

interface States {
  readonly tried: object;
  readonly before: object | undefined;
}

/** Records never change, so each is taken apart once, and the same state is always the same object. */
const known = new WeakMap<object, States>();

function statesOf({ trial, ...rest }: OnTrial & { readonly trial: Trial<object> }, record: object): States {
  let states = known.get(record);
  if (states === undefined) {
    states = { tried: rest, before: trial.before === null ? undefined : { ...rest, ...trial.before } };
    known.set(record, states);
  }
  return states;
}

/** The state of a record that counts for a device with these labels; undefined where the record does not exist for it. */
export function stateFor<T extends OnTrial>(record: T, labels: readonly string[], at?: number): T | undefined {
  const { trial } = record;
  if (trial === undefined) return record;
  const { tried, before } = statesOf({ ...record, trial }, record);
  return (isTried(trial, labels, at) ? tried : before) as T | undefined;
}

/** Whether every device of the narrower scope is in the wider one, by what the selectors say. Absent: all devices. */
export function isWithin(narrower: readonly Selector[] | undefined, wider: readonly Selector[] | undefined): boolean {
  if (wider === undefined) return true;
  if (narrower === undefined) return wider.some((selector) => 'all_devices' in selector);
  return narrower.every((selector) => matchesAny(wider, 'labels' in selector ? selector.labels : []));
}
