/** Owns the mark that connections may be there which no rule of ours has judged: the agent has just taken control, or got it back. */
import type { Loop } from './loop.ts';

/** Marks it, where connections are ended at all. Each mark is another one, so that a look at connections clears no mark that came meanwhile. */
export function markUncheckedFlows({ state, options }: Pick<Loop, 'state' | 'options'>): void {
  if (options.revoke !== undefined) state.unchecked = {};
}
