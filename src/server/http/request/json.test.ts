/** Proves that JSON limits apply while the bytes arrive, for every way to split them. */
import { expect, test } from 'vitest';
import { JsonScan, parseJson, type JsonBounds } from './json.ts';

const bounds: JsonBounds = { depth: 3, containers: 6, fields: 5, values: 8, beyondAscii: 4 };

/** Scans the text in pieces of this many bytes; returns the code of the refusal. */
function scanned(text: string, piece: number): string | undefined {
  const scan = new JsonScan(bounds);
  const bytes = Buffer.from(text);
  try {
    for (let from = 0; from < bytes.length; from += piece) scan.push(bytes.subarray(from, from + piece));
  } catch (error) {
    const [first] = (error as { members: { errors: { code: string; detail: string }[] } }).members.errors;
    return `${first?.code}: ${first?.detail}`;
  }
  return undefined;
}

test.each([
  ['[[[1]]]', undefined],
  ['[[[[1]]]]', 'too_deep: The body may have at most 3 levels of nesting.'],
  ['[[],[],[],[],[]]', undefined],
  ['[[],[],[],[],[],[]]', 'too_many_values: The body may contain at most 6 arrays and objects.'],
  ['{"a":1,"b":2,"c":3,"d":4,"e":5}', undefined],
  ['{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}', 'too_many_values: The body may contain at most 5 fields.'],
  ['[1,2,3,4,5,6,7,8,9]', undefined],
  ['["","","","","","","","","",""]', 'too_many_values: The body may contain at most 8 values.'],
  ['["éé"]', undefined],
  ['["ééé"]', 'text_too_long: The body may contain at most 4 bytes of non-ASCII characters.'],
  // Characters inside a string do not count, also after an escaped quote.
  ['["[[[[[[::::::,,,,,,,,,,\\"[[[[\\\\"]', undefined],
  ['["\\\\",[[[1]]]]', 'too_deep: The body may have at most 3 levels of nesting.'],
])('%s is bounded the same in one piece and byte by byte', (text, refusal) => {
  for (const piece of [1, 2, 3, 1_000]) expect(scanned(text, piece)).toBe(refusal);
  expect(() => parseJson(Buffer.from(text))).not.toThrow();
});
