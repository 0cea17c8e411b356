/**
 * Owns the mark that connections may exist which no rule of ours has checked: the agent has just taken or regained
 * control.
 */
import type { Loop } from './loop.ts';

/** Marks it, where connections are ended at all. Each mark is another one, so that a look at connections clears no mark that came meanwhile. */
export function markUncheckedFlows({ state, options }: Pick<Loop, 'state' | 'options'>): void {
  if (options.revoke !== undefined) state.unchecked = {};
}
