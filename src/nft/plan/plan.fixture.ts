/** Owns the checks that tests make on a plan. */
import type { Update } from './plan.ts';

/** Whether there is nothing to do. */
export const isEmpty = ({ members, stage, flip, collect }: Update): boolean =>
  members === undefined && stage.length === 0 && flip.length === 0 && collect.length === 0;
