/** Owns groups as people write and read them in files: short YAML with rules in words, or the records of the wire. */
import type { SecurityGroup } from '../../api/group.ts';
import { readGroup, type GroupInput } from '../../policy/group.ts';
import { isObject, type JsonObject } from '../../policy/json.ts';
import type { Found, Problem } from '../../policy/problem.ts';
import type { Direction, StoredRule } from '../../policy/rule.ts';
import { usageError } from '../terminal/exit.ts';
import { readRuleWords, ruleWords } from './rule-text.ts';

/** A group in a file. */
export interface WrittenGroup {
  readonly name?: unknown;
  readonly description?: unknown;
  readonly inbound?: unknown;
  readonly outbound?: unknown;
}

const wireNames: Readonly<Record<string, string>> = {
  name: 'group_name',
  description: 'group_description',
  inbound: 'inbound_rules',
  outbound: 'outbound_rules',
};
/** What a record of the server carries besides: it may be given back as it came. */
const recordOnly = new Set(['id', 'org_id', 'user_id', 'is_default', 'revision', 'created_at', 'updated_at']);

export interface ReadText extends Found<Problem> {
  readonly group: GroupInput;
}

/** Rules in words become rules; everything else is left for the validation to judge. */
function expandRules(value: unknown, direction: Direction): unknown {
  if (!Array.isArray(value)) return value ?? [];
  return (value as readonly unknown[]).flatMap<unknown>((entry) =>
    typeof entry === 'string' ? readRuleWords(direction, withoutDirection(entry)) : [entry],
  );
}

const withoutDirection = (text: string): readonly string[] => [text.replace(/^\s*(in|inbound|out|outbound)\s+/i, '')];

/** The body that the server would get. */
export function toBody(written: JsonObject): JsonObject {
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(written)) {
    if (recordOnly.has(name)) continue;
    const wire = wireNames[name] ?? name;
    if (Object.hasOwn(body, wire)) throw usageError(`\`${name}\` and \`${wire}\` mean the same: give one of them`);
    if (wire === 'inbound_rules') body[wire] = expandRules(value, 'inbound');
    else if (wire === 'outbound_rules') body[wire] = expandRules(value, 'outbound');
    else body[wire] = value === null && wire === 'group_description' ? '' : value;
  }
  return body;
}

/** Reads a group out of a file and judges it as the server would. */
export function readWritten(written: unknown, mode: 'create' | 'update'): ReadText {
  if (!isObject(written)) return readGroup(written, { mode });
  return readGroup(toBody(written), { mode });
}

export function problemLines({ problems, more }: Found<Pick<Problem, 'pointer' | 'detail'>>): readonly string[] {
  const lines = problems.map(({ pointer, detail }) => `${pointer === '' ? '' : `${pointer}: `}${detail}`);
  return more === 0 ? lines : [...lines, `and ${more} more`];
}

/** The group that a file holds, or all that is wrong with it. */
export function readOrRefuse(written: unknown, mode: 'create' | 'update', what: string): GroupInput {
  const { group, ...found } = readWritten(written, mode);
  if (found.problems.length > 0) throw usageError(`${what} is not valid:`, problemLines(found));
  return group;
}

/** A group as it is written into a file: what `readWritten` reads as the same group. */
export function writeGroup(group: SecurityGroup): {
  readonly name: string;
  readonly description: string;
  readonly inbound: readonly string[];
  readonly outbound: readonly string[];
} {
  return {
    name: group.group_name,
    description: group.group_description,
    inbound: rulesInWords('inbound', group.inbound_rules),
    outbound: rulesInWords('outbound', group.outbound_rules),
  };
}

export const rulesInWords = (direction: Direction, rules: readonly StoredRule[] = []): readonly string[] =>
  rules.map((rule) => ruleWords(direction, rule));

/** What every direction says, also where it has no rule: whether that opens or closes must be said. */
export function describeRules(direction: Direction, rules: readonly StoredRule[] = []): readonly string[] {
  const words = rulesInWords(direction, rules);
  if (words.length > 0) return words;
  return [direction === 'inbound' ? 'nothing (only replies)' : 'everything (no outbound rules)'];
}

export const sameRule = (a: StoredRule, b: StoredRule): boolean =>
  a.ip_protocol === b.ip_protocol &&
  a.from_port === b.from_port &&
  a.to_port === b.to_port &&
  sameTexts(a.ip_ranges ?? [], b.ip_ranges ?? []);

const plain = (text: string): string => text.replace(/\s+/g, '').toLowerCase();
/** Ranges have no order, as rules have none. */
function sameTexts(a: readonly string[], b: readonly string[]): boolean {
  const sorted = (texts: readonly string[]): string => texts.map(plain).toSorted().join();
  return a.length === b.length && sorted(a) === sorted(b);
}
