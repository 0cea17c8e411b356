/** Proves that a listing read piece by piece is the listing, and that what is none is refused. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rounds } from '../../../test/lib/thorough.ts';
import { compile } from '../compile/compile.ts';
import { ListingEntries, ListingReader } from './listing-text.ts';
import { listingOf } from './listing.fixture.ts';
import type { TableRules } from '../ast.ts';
import { NoListing, type Installed } from './listing.ts';
import { parseListing } from './parse-listing.fixture.ts';
import { parseInterfaceName } from '../names.ts';
import { canonicalPolicy } from '../policies.fixture.ts';

/** The text in parts that end anywhere. */
function* cut(text: string, lengths: Iterable<number>): Generator<string, void, undefined> {
  let at = 0;
  for (const length of lengths) {
    if (at >= text.length) return;
    yield text.slice(at, at + length);
    at += length;
  }
}
const whole = [Number.POSITIVE_INFINITY];

function entriesOf(text: string, lengths: Iterable<number> = whole): readonly unknown[] {
  const listing = new ListingEntries();
  const entries = [...cut(text, lengths)].flatMap((part) => [...listing.push(part)]);
  listing.end();
  return entries;
}

function read(
  text: string,
  { expected, lengths = whole }: { expected?: TableRules; lengths?: Iterable<number> } = {},
): Installed | undefined {
  const reader = new ListingReader('service', expected);
  for (const part of cut(text, lengths)) reader.push(part);
  return reader.end();
}
const lengths = fc.infiniteStream(fc.integer({ min: 1, max: 40 }));

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };

describe('a listing’s text', () => {
  test('gives the entries that the whole gives, whatever strings they hold and however it is spaced and cut', () => {
    const entry = fc.dictionary(fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(fc.array(entry), fc.constantFrom(undefined, 1, '\t'), lengths, (nftables, space, parts) => {
        const text = JSON.stringify({ nftables }, undefined, space);
        const { nftables: expected } = JSON.parse(text) as { nftables: unknown };
        expect(entriesOf(text)).toEqual(expected);
        expect(entriesOf(text, parts)).toEqual(expected);
      }),
    );
  });

  test('of a ruleset reads as the value does', () => {
    fc.assert(
      fc.property(canonicalPolicy, lengths, (policy, parts) => {
        const listing = listingOf(compile(policy, options));
        expect(read(JSON.stringify(listing), { lengths: parts })).toEqual(parseListing(listing));
      }),
      { numRuns: rounds(20, 50) },
    );
  });

  test('gives back the rules that were expected where they read the same, and what differs as it is', () => {
    fc.assert(
      fc.property(canonicalPolicy, fc.infiniteStream(fc.boolean()), (policy, coins) => {
        const ruleset = compile(policy, options);
        const listing = JSON.stringify(listingOf(ruleset, () => coins.next().value === true));
        const installed = read(listing, { expected: ruleset });
        for (const { name, rules } of ruleset.helpers) {
          const found = installed?.chains.get(name)?.rules.map((each) => (each.kind === 'known' ? each.rule : each));
          expect(found?.every((rule, i) => rule === rules[i])).toBe(true);
        }
        const other = { ...ruleset, helpers: ruleset.helpers.map((helper) => ({ ...helper, rules: [] })) };
        expect(read(listing, { expected: other })).toEqual(installed);
      }),
      { numRuns: rounds(20, 50) },
    );
  });

  test.each([
    '',
    '[]',
    '{"nftables": {}}',
    '{"other": []}',
    '{"nftables": [1]}',
    '{"nftables": [{"a": 1}',
    '{"nftables": [{"a": "}]}',
    '{"nftables": []} and more',
    '{"nftables": []',
    '{"nftables": []}}',
  ])('that is none is refused: %s', (text) => {
    expect(() => read(text)).toThrow(NoListing);
    expect(() => read(text, { lengths: Array<number>(text.length).fill(1) })).toThrow(NoListing);
  });

  test('that is no JSON within is refused', () => {
    expect(() => read('{"nftables": [{"a": nothing}]}')).toThrow(SyntaxError);
  });
});
