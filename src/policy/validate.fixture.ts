/** Owns the checking of a list of rules by itself, for tests. */
import { defaultLimits } from './limits.ts';
import { Problems, type Problem } from './problem.ts';
import { countRanges } from './normalize.ts';
import { readRules, tooManyRanges, type RuleChecks } from './validate.ts';

/** Every problem of a list of rules, by itself. */
export function validateRules(value: unknown, pointer = '', limits: RuleChecks = defaultLimits): readonly Problem[] {
  const problems = new Problems();
  const rules = readRules(value, pointer, problems, limits);
  const ranges = countRanges(rules);
  if (ranges > limits.rangesPerGroup) tooManyRanges(pointer, ranges, problems, limits);
  return problems.problems;
}
