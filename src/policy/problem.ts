/** Owns the problem: one fault in an input, with its path and a stable code for programs. */

/** Every code that validation can answer with. A code never changes its meaning. */
export const problemCodes = {
  not_an_object: 'the value must be a JSON object',
  not_an_array: 'the value must be a JSON array',
  not_a_string: 'the value must be a string',
  missing_field: 'a required field is absent',
  unknown_field: 'the field does not exist here',
  not_an_id: 'the value must be a UUID',
  contradiction: 'the value contradicts what the path or the caller says',
  null_not_allowed: 'null is not a value for this field',
  unknown_protocol: 'the protocol does not exist',
  port_not_integer: 'a port is a whole number',
  port_out_of_range: 'a port is between 0 and 65535',
  port_half_any: 'one port is 0 and the other is not',
  port_reversed: 'from_port is greater than to_port',
  port_on_icmp: 'an icmp rule has no ports',
  address_invalid: 'the entry is not an address, a CIDR prefix or a first-last range',
  address_zone: 'an address with a zone cannot be matched',
  address_octal: 'an IPv4 number has a leading zero',
  address_short: 'an IPv4 address has four numbers',
  prefix_invalid: 'the prefix length does not fit the family',
  range_reversed: 'the first address is greater than the last',
  range_mixed_families: 'a range starts in one family and ends in the other',
  family_contradiction: 'the address family contradicts the protocol',
  label_invalid: 'the text is not a label',
  one_key_only: 'the entry must have exactly one of the keys that it may have',
  device_unknown: 'the organization has no such device',
  duplicate: 'the entry is already in the list',
  not_one_of: 'the value is not one of the allowed values',
  too_few_items: 'the list is too short',
  too_many_items: 'the list is too long',
  guardrail_fixed: 'whether a group is a guardrail, and which, never changes',
  too_many_rules: 'the group has too many rules in this direction',
  too_many_ranges: 'the group has too many address ranges',
  not_a_timestamp: 'the value must be an RFC 3339 time',
  expiry_past: 'the expiry is in the past',
  text_too_short: 'the text is too short',
  text_too_long: 'the text is too long',
  text_invalid: 'the text contains characters that cannot be stored',
} as const;

export type ProblemCode = keyof typeof problemCodes;

interface ProblemOf<Code extends string> {
  /** JSON pointer (RFC 6901) into the validated document. */
  readonly pointer: string;
  readonly code: Code;
  /** A sentence for a person, naming the offending value. */
  readonly detail: string;
}

export type Problem = ProblemOf<ProblemCode>;

/** A response lists at most this many problems, and then the number of further ones (reference 8). */
export const mostProblems = 100;

/** What was found wrong: the first problems, and how many more there are. */
export interface Found<One> {
  readonly problems: readonly One[];
  readonly more: number;
}

/** Collects problems; readers of one document share one. A document with a million problems costs a count, not a million sentences. */
export class Problems<Code extends string = ProblemCode> implements Found<ProblemOf<Code>> {
  readonly problems: ProblemOf<Code>[] = [];
  more = 0;

  get count(): number {
    return this.problems.length + this.more;
  }

  add(pointer: string, code: Code, detail: () => string): void {
    if (this.problems.length >= mostProblems) this.more += 1;
    else this.problems.push({ pointer, code, detail: detail() });
  }
}

/** What one reader found and another found besides, within the same bound. */
export function join<One>(found: Found<One>, further: readonly One[]): Found<One> {
  const room = Math.max(0, mostProblems - found.problems.length);
  return {
    problems: [...found.problems, ...further.slice(0, room)],
    more: found.more + Math.max(0, further.length - room),
  };
}

/** Appends one step to a JSON pointer. */
export const at = (pointer: string, step: string | number): string =>
  typeof step === 'number' || !(step.includes('~') || step.includes('/'))
    ? `${pointer}/${step}`
    : `${pointer}/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`;

const longest = 60;

/** A value as a person may read it in a sentence: short, on one line, without control characters. */
export function show(value: unknown): string {
  let text: string;
  if (typeof value === 'string') text = JSON.stringify(value.length > longest ? `${value.slice(0, longest)}…` : value);
  else if (typeof value === 'number' || typeof value === 'boolean' || value === null) text = String(value);
  else if (value === undefined) text = 'nothing';
  else if (Array.isArray(value)) text = 'an array';
  else text = `${typeof value === 'object' ? 'an' : 'a value of type'} ${typeof value}`;
  // oxlint-disable-next-line no-control-regex -- these are exactly the characters that must not reach a terminal
  return text.replace(
    /[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
