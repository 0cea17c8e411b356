/** Compares the validator with a full JSON Schema validator, on every request schema. */
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { rounds } from '../../test/lib/thorough.ts';
import { digestPattern } from '../policy/digest/digest-form.ts';
import { operations } from './operations.ts';
import { operationIds } from './paths.ts';
import { check } from './validate.ts';

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly maxProperties?: number;
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
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
}

const anything = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constantFrom<unknown>(null, [], {}, '', 0, -1, 1.5, 'x'.repeat(5000), '\u{1f418}'.repeat(256)),
);

/** Texts that control characters do not spoil: there checking is stricter than any schema can say. */
const word = fc.string({ unit: fc.constantFrom('a', 'Z', '0', ' ', 'ä', '\u{1f418}', '-'), maxLength: 6 });

function textOf({ format, pattern, minLength = 0, maxLength = 20 }: Schema): fc.Arbitrary<unknown> {
  if (format === 'uuid') return fc.uuid();
  if (format === 'date-time') {
    return fc
      .date({ min: new Date('1970-01-01'), max: new Date('2200-01-01'), noInvalidDate: true })
      .map((date) => date.toISOString());
  }
  if (pattern === digestPattern) {
    const digits = fc.string({ unit: fc.constantFrom('a', 'F', '0'), minLength: 64, maxLength: 64 });
    const edge = fc.constantFrom(
      'a'.repeat(63),
      'a'.repeat(65),
      '',
      'g'.repeat(64),
      `${'a'.repeat(63)}\n`,
      `${'a'.repeat(64)}\n`,
    );
    return fc.oneof({ weight: 20, arbitrary: digits }, { weight: 1, arbitrary: edge });
  }
  if (pattern !== undefined) {
    const label = fc.string({ unit: fc.constantFrom('a', '0'), minLength: 1, maxLength: 6 });
    const edge = fc.constantFrom('a'.repeat(maxLength), 'a'.repeat(maxLength + 1), '', '-a', 'a/', 'A');
    return fc.oneof({ weight: 20, arbitrary: label }, { weight: 1, arbitrary: edge });
  }
  const edges = [minLength, maxLength, maxLength + 1].map((length) => '\u{1f418}'.repeat(length));
  return fc.oneof({ weight: 12, arbitrary: word }, { weight: 1, arbitrary: fc.constantFrom(...edges) });
}

function listOf({ items = {}, minItems = 0, maxItems, uniqueItems }: Schema): fc.Arbitrary<unknown> {
  const some = fc.array(near(items), { minLength: minItems, maxLength: Math.min(maxItems ?? 3, 3) });
  const twice = some.map((list) => [...list, ...list.slice(0, 1)]);
  const many = near(items).map((item) => Array.from({ length: (maxItems ?? 3) + 1 }, () => item));
  return fc.oneof(
    { weight: 12, arbitrary: some },
    { weight: uniqueItems === true ? 2 : 1, arbitrary: twice },
    { weight: maxItems !== undefined && maxItems < 1000 ? 1 : 0, arbitrary: many },
  );
}

function objectOf({ properties = {}, required = [], maxProperties }: Schema): fc.Arbitrary<unknown> {
  if (maxProperties === 1) {
    const one = Object.entries(properties).map(([name, inner]) => near(inner).map((value) => ({ [name]: value })));
    const odd = fc.constantFrom<unknown>({}, Object.fromEntries(Object.keys(properties).map((name) => [name, 1])));
    return fc.oneof({ weight: 60, arbitrary: fc.oneof(...one) }, { weight: 1, arbitrary: odd });
  }
  const fields = Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, near(inner)]));
  const whole = fc.record(fields, { requiredKeys: [...required], noNullPrototype: true });
  const lacking = fc.record(fields, { requiredKeys: [], noNullPrototype: true });
  const odd = fc
    .tuple(whole, fc.constantFrom('other', '__proto__', 'toString', ''), anything)
    .map(([object, name, value]) =>
      Object.defineProperty({ ...object }, name, { value, enumerable: true, configurable: true, writable: true }),
    );
  return fc.oneof({ weight: 20, arbitrary: whole }, { weight: 1, arbitrary: lacking }, { weight: 1, arbitrary: odd });
}

/** What fits the schema, and here and there something that does not. */
function near(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 40, arbitrary: fitting(schema) }, { weight: 1, arbitrary: anything });
}

function fitting(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(near));
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema;
  switch (schema.type) {
    case 'object':
      return objectOf(schema);
    case 'array':
      return listOf(schema);
    case 'string':
      return textOf(schema);
    case 'integer':
      return fc.oneof(
        { weight: 12, arbitrary: fc.integer({ min: minimum, max: Math.min(maximum, 2 ** 31) }) },
        { weight: 1, arbitrary: fc.constantFrom(minimum, maximum, minimum - 1, maximum + 1) },
      );
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case undefined:
    default:
      return anything;
  }
}

const schemas = operationIds.flatMap((id) => {
  const { body, query } = operations[id];
  return [
    ...(body === undefined ? [] : [[`the body of ${id}`, body as Schema] as const]),
    ...(query === undefined ? [] : [[`the query of ${id}`, query as Schema] as const]),
  ];
});

test('there are schemas to compare', () => {
  expect(schemas.length).toBeGreaterThan(25);
});

test.each(schemas)('%s is valid here when it is valid there, and the other way round', (name, schema) => {
  // The code that it writes runs a few hundred times: to optimize it takes longer.
  const ajv = new Ajv({ strict: false, code: { optimize: false } });
  addFormats.default(ajv);
  // `$id` is for references only. A schema that occurs twice inside another would conflict with itself.
  const unnamed = JSON.stringify(schema, (key, value: unknown) => (key === '$id' ? undefined : value));
  const valid = ajv.compile(JSON.parse(unnamed) as object);
  let good = 0;
  let bad = 0;
  fc.assert(
    fc.property(near(schema), (given) => {
      const there = valid(given);
      const here = check(schema, given).problems.filter(({ code }) => code !== 'text_invalid');
      if (there) good += 1;
      else bad += 1;
      // Said only where they differ: an expectation for each of some twenty thousand inputs would cost more than the comparison.
      if ((here.length === 0) !== there) throw new Error(JSON.stringify({ given, here, there: valid.errors }));
    }),
    // Of a body with several lists few are valid: more are tried.
    {
      seed: 1,
      numRuns: (/simulateChanges|applyChanges|create(User)?SecurityGroup/.test(name) ? 2 : 1) * rounds(250, 1000),
    },
  );
  // A run in which everything was refused, or nothing was, would compare nothing.
  expect(good).toBeGreaterThan(rounds(35, 150));
  expect(bad).toBeGreaterThan(rounds(5, 20));
});
