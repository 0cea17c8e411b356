/** Owns the validation of a value against a schema of the API: it reports every problem at once, with a message, and never throws. */
import { digestPattern, isDigest } from '../policy/digest/digest-form.ts';
import { textFault } from '../policy/names/read-text.ts';
import { isUuid } from '../policy/ids.ts';
import { parseLabel } from '../policy/label.ts';
import { isTimestamp } from '../policy/time/timestamp.ts';
import { at, Problems, show, type Found } from '../policy/problem.ts';
import { field, isObject } from '../policy/json.ts';
import type { RequestProblem, RequestProblemCode } from './codes.ts';

/** The part of JSON Schema that our schemas are made of. */
interface Schema {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'boolean' | 'null';
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly format?: string;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  /** Ours: line breaks are allowed. */
  readonly multiline?: boolean;
  /** Ours: a server may have set another greatest length for this text. */
  readonly limit?: 'name' | 'description';
}

/** The greatest lengths of texts, where a server has set others than the schemas say. */
export interface TextLengths {
  readonly name: number;
  readonly description: number;
}

/** A step for each entry of an array. */
type Steps = Generator<void, void>;

interface Report {
  (place: Place, code: RequestProblemCode, detail: () => string): void;
  readonly lengths?: TextLengths | undefined;
}

/** Where a value is in the document; undefined for the whole. Only that of a problem is printed, because most values have none. */
type Place = { readonly within: Place; readonly step: string | number } | undefined;

const pointerTo = (place: Place): string => (place === undefined ? '' : at(pointerTo(place.within), place.step));
const nameOf = (place: Place): string => (place === undefined ? 'The body' : at('', place.step).slice(1));

/** Characters of a text, where their number decides: a pair of surrogates is one. */
const lengthOf = (text: string, { least, most }: { readonly least: number; readonly most: number }): number =>
  text.length > most * 2 || (text.length <= most && text.length >= least * 2) ? text.length : [...text].length;

function checkString(schema: Schema, value: unknown, place: Place, report: Report): void {
  if (typeof value !== 'string')
    return report(place, 'not_a_string', () => `${nameOf(place)} must be a string, got ${show(value)}.`);
  if (schema.format === 'uuid') {
    if (!isUuid(value)) report(place, 'not_an_id', () => `${nameOf(place)} must be a UUID, got ${show(value)}.`);
    return;
  }
  if (schema.format === 'date-time') {
    if (!isTimestamp(value)) {
      const form = 'a time like 2030-01-31T12:00:00Z';
      report(place, 'not_a_timestamp', () => `${nameOf(place)} must be ${form}, got ${show(value)}.`);
    }
    return;
  }
  if (schema.pattern === digestPattern) {
    const form = 'a SHA-256 in 64 hexadecimal digits';
    if (!isDigest(value)) report(place, 'not_a_digest', () => `${nameOf(place)} must be ${form}, got ${show(value)}.`);
    return;
  }
  // The one other pattern in our requests is that of a label, and the policy core says better what is wrong.
  if (schema.pattern !== undefined) {
    const label = parseLabel(value);
    if (typeof label === 'object') report(place, label.fault, () => `${show(value)} ${label.reason}.`);
    return;
  }
  const { minLength = 0 } = schema;
  const set = schema.limit === undefined ? undefined : report.lengths?.[schema.limit];
  const maxLength = set ?? schema.maxLength ?? Number.POSITIVE_INFINITY;
  const length = lengthOf(value, { least: minLength, most: maxLength });
  const fault = textFault(value, { lines: schema.multiline === true });
  if (length < minLength) report(place, 'text_too_short', () => `${nameOf(place)} must not be empty.`);
  else if (length > maxLength) {
    report(place, 'text_too_long', () => `${nameOf(place)} may have at most ${maxLength} characters, got ${length}.`);
  } else if (fault !== undefined) report(place, 'text_invalid', () => `${nameOf(place)} ${fault}.`);
}

function checkInteger(schema: Schema, value: unknown, place: Place, report: Report): void {
  const { minimum = -Infinity, maximum = Infinity } = schema;
  if (typeof value !== 'number' || !Number.isInteger(value)) {
    report(place, 'not_an_integer', () => `${nameOf(place)} must be a whole number, got ${show(value)}.`);
  } else if (value < minimum || value > maximum) {
    const bounds = `between ${minimum} and ${maximum}`;
    report(place, 'out_of_range', () => `${nameOf(place)} must be ${bounds}, got ${show(value)}.`);
  }
}

function* checkArray(schema: Schema, value: unknown, place: Place, report: Report): Steps {
  const name = nameOf(place);
  if (!Array.isArray(value))
    return report(place, 'not_an_array', () => `${name} must be an array, got ${show(value)}.`);
  const items = value as readonly unknown[];
  const { minItems = 0, maxItems = Infinity } = schema;
  if (items.length < minItems) {
    report(
      place,
      'too_few_items',
      () => `${name} must have at least ${minItems} ${minItems === 1 ? 'entry' : 'entries'}.`,
    );
  }
  if (items.length > maxItems) {
    // Not looked at one by one: a list of millions would be answered with millions of problems.
    return report(place, 'too_many_items', () => `${name} may have at most ${maxItems} entries, got ${items.length}.`);
  }
  const seen = new Set<unknown>();
  for (const [index, item] of items.entries()) {
    const here: Place = { within: place, step: index };
    const steps = schema.items && walk(schema.items, item, here, report);
    if (steps !== undefined) yield* steps;
    if (schema.uniqueItems === true) {
      const key = typeof item === 'string' ? item.toLowerCase() : item;
      if (seen.has(key)) report(here, 'duplicate', () => `${show(item)} is already in ${name}.`);
      seen.add(key);
    }
    yield;
  }
  return undefined;
}

function* checkObject(schema: Schema, value: unknown, place: Place, report: Report): Steps {
  if (!isObject(value)) {
    return report(place, 'not_an_object', () => `${nameOf(place)} must be an object, got ${show(value)}.`);
  }
  const { properties = {}, required = [] } = schema;
  const known = Object.keys(properties);
  const given = Object.keys(value);
  for (const name of given) {
    if (Object.hasOwn(properties, name)) continue;
    const choices = known.length > 0 ? known.join(', ') : 'none';
    report(
      { within: place, step: name.slice(0, 100) },
      'unknown_field',
      () => `Unknown field ${show(name)}; known fields: ${choices}.`,
    );
  }
  const count = given.length;
  if (count < (schema.minProperties ?? 0) || count > (schema.maxProperties ?? Infinity)) {
    report(place, 'one_key_only', () => `${nameOf(place)} must have exactly one of ${known.join(', ')}.`);
  }
  for (const name of known) {
    const inner = properties[name];
    const part = field(value, name);
    if (part === undefined) {
      if (required.includes(name)) report({ within: place, step: name }, 'missing_field', () => `${name} is required.`);
    } else if (inner !== undefined) {
      const steps = walk(inner, part, { within: place, step: name }, report);
      if (steps !== undefined) yield* steps;
    }
  }
  return undefined;
}

/** Gives the steps of an object and of an array; everything else is checked at once. */
function walk(schema: Schema, value: unknown, place: Place, report: Report): Steps | void {
  if (schema.anyOf !== undefined) {
    // The alternatives in our requests are null and other forms, each of another type.
    const forms = schema.anyOf.filter((option) => option.type !== 'null');
    const form = forms.find(({ type }) => type === (Array.isArray(value) ? 'array' : typeof value)) ?? forms[0];
    return value === null || form === undefined ? undefined : walk(form, value, place, report);
  }
  if (value === null) return report(place, 'null_not_allowed', () => `${nameOf(place)} must not be null.`);
  const { enum: choices } = schema;
  if (choices !== undefined) {
    if (!choices.includes(value)) {
      report(place, 'not_one_of', () => `${nameOf(place)} must be one of ${choices.join(', ')}, got ${show(value)}.`);
    }
    return undefined;
  }
  switch (schema.type) {
    case 'object':
      return checkObject(schema, value, place, report);
    case 'array':
      return checkArray(schema, value, place, report);
    case 'string':
      return checkString(schema, value, place, report);
    case 'integer':
      return checkInteger(schema, value, place, report);
    case 'boolean':
      if (typeof value !== 'boolean') {
        report(place, 'not_a_boolean', () => `${nameOf(place)} must be true or false, got ${show(value)}.`);
      }
      return undefined;
    case 'null':
    case undefined:
      return undefined;
    default:
      return schema.type satisfies never;
  }
}

/**
 * Every problem of the value, in the order of the schema, up to the limit of reported problems. An empty result means
 * that it is valid. Nothing is coerced.
 */
export function* checkSteps(
  schema: object,
  value: unknown,
  lengths?: TextLengths,
): Generator<void, Found<RequestProblem>> {
  const problems = new Problems<RequestProblemCode>();
  const add = (place: Place, code: RequestProblemCode, detail: () => string): void =>
    problems.add(pointerTo(place), code, detail);
  const steps = walk(schema, value, undefined, Object.assign(add, { lengths }));
  if (steps !== undefined) yield* steps;
  return problems;
}

/** The same at once. */
export function check(schema: object, value: unknown, lengths?: TextLengths): Found<RequestProblem> {
  const steps = checkSteps(schema, value, lengths);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
