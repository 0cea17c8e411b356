/** Owns the reading of rules that lead to a chain which records or answers a packet before it decides. */
import { isVerdict, type Rule, type Verdict } from '../ast.ts';

/** The rule as the policy has it: a way to one of these chains is the chain's verdict. */
export function withVerdicts(rule: Rule, verdicts: ReadonlyMap<string, Verdict>): Rule {
  const { action } = rule;
  const decided = (verdict: Verdict): Verdict =>
    verdict.kind === 'goto' ? (verdicts.get(verdict.chain) ?? verdict) : verdict;
  if (isVerdict(action)) {
    const verdict = decided(action);
    return verdict === action ? rule : { ...rule, action: verdict };
  }
  if (action.kind === 'reject') return rule;
  const entries = action.entries.map((entry) => ({ ...entry, verdict: decided(entry.verdict) }));
  return { ...rule, action: { ...action, entries } as Rule['action'] };
}
