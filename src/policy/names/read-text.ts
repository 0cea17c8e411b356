/** Owns the reading of one text field of a body: its length in characters, and what no text may contain. */
import { field, type JsonObject } from '../json.ts';
import { at, show, type Problems } from '../problem.ts';

const halfPair = /\p{Surrogate}/u;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const forbiddenInLine = /[\u0000-\u001f\u007f]/;
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const forbiddenInLines = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/;

/** What PostgreSQL text and a terminal cannot carry: NUL, lone surrogates; in one-line texts every control character. */
export function textFault(text: string, { lines }: { readonly lines: boolean }): string | undefined {
  if (halfPair.test(text)) return 'contains half a surrogate pair';
  const forbidden = lines ? forbiddenInLines : forbiddenInLine;
  return forbidden.test(text) ? 'contains control characters' : undefined;
}

export interface TextRule {
  readonly shortest: number;
  readonly longest: number;
  readonly lines: boolean;
}

/** Reads one text field; absent stays absent. Lengths count characters, not UTF-16 halves. */
export function readText(
  body: JsonObject,
  name: string,
  rule: TextRule,
  problems: Problems,
  pointer = '',
): string | undefined {
  const value = field(body, name);
  const here = at(pointer, name);
  if (value === undefined) return undefined;
  if (value === null) {
    problems.add(here, 'null_not_allowed', () => `${name} must be a string; to keep the current value, omit it.`);
    return undefined;
  }
  if (typeof value !== 'string') {
    problems.add(here, 'not_a_string', () => `${name} must be a string, got ${show(value)}.`);
    return undefined;
  }
  // A string of n UTF-16 units has at least n / 2 characters: only texts near the limit are worth counting.
  const length = value.length > rule.longest * 2 ? value.length : [...value].length;
  const fault = length > rule.longest ? undefined : textFault(value, rule);
  if (length < rule.shortest) problems.add(here, 'text_too_short', () => `${name} must not be empty.`);
  else if (length > rule.longest) {
    problems.add(here, 'text_too_long', () => `${name} may have at most ${rule.longest} characters, got ${length}.`);
  } else if (fault !== undefined) problems.add(here, 'text_invalid', () => `${name} ${fault}.`);
  return value;
}
