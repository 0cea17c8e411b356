/** Owns the query parameters that make a write a trial: `confirm_within` and `scope`. */
import { parseSelectors } from '../../../policy/fleet/selector-text.ts';
import { readSelectors } from '../../../policy/fleet/read-peers.ts';
import { Problems } from '../../../policy/problem.ts';
import type { Selector } from '../../../policy/rule.ts';
import { limits } from '../../../api/limits.ts';
import { invalid, refuseInvalid } from '../../problems.ts';

interface TrialQuery {
  readonly confirm_within?: number | undefined;
  readonly scope?: string | undefined;
}

/** The trial of a write, in the form that the store takes. */
interface TrialRequest {
  readonly confirm_within: number;
  readonly scope: readonly Selector[] | undefined;
}

/** The devices that a scope names, as selectors or as a text. A scope of all devices is the same as no scope. */
export function readScope(scope: unknown): readonly Selector[] | undefined {
  const selectors = typeof scope === 'string' ? parseSelectors(scope) : scope;
  if (typeof selectors === 'object' && selectors !== null && 'fault' in selectors)
    throw invalid([{ pointer: '/scope', code: 'not_a_selector', detail: `${String(selectors.fault)}.` }]);
  const problems = new Problems();
  const read = readSelectors(selectors, '/scope', problems, limits.selectorsPerGroup);
  refuseInvalid(problems);
  return read.some((selector) => 'all_devices' in selector) ? undefined : read;
}

/** Undefined when the write is not a trial. */
export function trialOf({ confirm_within, scope }: TrialQuery): TrialRequest | undefined {
  if (confirm_within === undefined) {
    if (scope === undefined) return undefined;
    const detail = 'scope needs confirm_within: only a change that is tried has a scope.';
    throw invalid([{ pointer: '/scope', code: 'needs_confirm_within', detail }]);
  }
  return { confirm_within, scope: scope === undefined ? undefined : readScope(scope) };
}
