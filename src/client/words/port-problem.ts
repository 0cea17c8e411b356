/** Owns the wording of problems with ports for people who write a rule in words: they know no `from_port` and no `to_port`. */

const wordings: readonly (readonly [RegExp, string])[] = [
  [/^(?:from|to)_port must be between 0 and /, 'a port must be between 1 and '],
  [/^(?:from|to)_port must be a whole number/, 'a port must be a whole number'],
  [/^from_port (\d+) is greater than to_port (\d+)/, 'the range of ports begins at $1 and ends at $2: swap them'],
  [/^((?:An|A) \w+ rule has no ports): .*$/, '$1.'],
  [/^(?:from|to)_port is 0 and .*$/, 'a range of ports begins at 1.'],
];

/** The detail of a problem as the validation has it, without the names of fields that the rule was not written with. */
export function portProblemInWords(detail: string): string {
  const found = wordings.find(([form]) => form.test(detail));
  return found === undefined ? detail : detail.replace(...found);
}
