/** Owns the mark that connections may be there which no rule of ours has judged: the agent has just taken control, or got it back. */
import type { Loop } from './loop.ts';
import type { LoopState } from './state.ts';

/** Marks it, where connections are ended at all. What any policy may judge, the server's may too. */
export function markUncheckedFlows(
  { state, options }: Pick<Loop, 'state' | 'options'>,
  judge: NonNullable<LoopState['unchecked']>['judge'] = 'any',
): void {
  if (options.revoke === undefined) return;
  state.unchecked = { judge: state.unchecked?.judge === 'any' ? 'any' : judge };
}
