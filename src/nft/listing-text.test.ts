/** Proves that a listing read piece by piece is the listing, and that what is none is refused. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile } from './compile.ts';
import { listedEntries, parseListingText } from './listing-text.ts';
import { listingOf } from './listing.fixture.ts';
import { NoListing, parseListing } from './listing.ts';
import { parseInterfaceName } from './names.ts';
import { canonicalPolicy } from './policies.fixture.ts';

const options = { interface: parseInterfaceName('wg0'), neighbourDiscovery: false };

describe('a listing’s text', () => {
  test('gives the entries that the whole gives, whatever strings they hold and however it is spaced', () => {
    const entry = fc.dictionary(fc.string(), fc.jsonValue());
    fc.assert(
      fc.property(fc.array(entry), fc.constantFrom(undefined, 1, '\t'), (nftables, space) => {
        const text = JSON.stringify({ nftables }, undefined, space);
        expect([...listedEntries(text)]).toEqual((JSON.parse(text) as { nftables: unknown }).nftables);
      }),
    );
  });

  test('of a ruleset reads as the value does', () => {
    fc.assert(
      fc.property(canonicalPolicy, (policy) => {
        const listing = listingOf(compile(policy, options));
        expect(parseListingText(JSON.stringify(listing))).toEqual(parseListing(listing));
      }),
      { numRuns: 50 },
    );
  });

  test('gives back the rules that were expected where they read the same, and what differs as it is', () => {
    fc.assert(
      fc.property(canonicalPolicy, fc.infiniteStream(fc.boolean()), (policy, coins) => {
        const ruleset = compile(policy, options);
        const listing = JSON.stringify(listingOf(ruleset, () => coins.next().value === true));
        const installed = parseListingText(listing, 'service', ruleset);
        for (const { name, rules } of ruleset.helpers) {
          const read = installed?.chains.get(name)?.rules.map((each) => (each.kind === 'known' ? each.rule : each));
          expect(read?.every((rule, i) => rule === rules[i])).toBe(true);
        }
        const other = { ...ruleset, helpers: ruleset.helpers.map((helper) => ({ ...helper, rules: [] })) };
        expect(parseListingText(listing, 'service', other)).toEqual(installed);
      }),
      { numRuns: 50 },
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
  ])('that is none is refused: %s', (text) => {
    expect(() => [...listedEntries(text)]).toThrow(NoListing);
  });

  test('that is no JSON within is refused', () => {
    expect(() => [...listedEntries('{"nftables": [{"a": nothing}]}')]).toThrow(SyntaxError);
  });
});
