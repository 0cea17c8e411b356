/** Owns the reading of a listing's text piece by piece, so that a listing of megabytes never stands in memory as objects. */
import type { TableName, TableRules } from './ast.ts';
import { NoListing, parseEntries, type Installed } from './listing.ts';

const quote = 0x22;
const backslash = 0x5c;
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];
const beginning = /^\s*\{\s*"nftables"\s*:\s*\[/;

/** Where the value that begins here ends: after its last bracket. */
function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === quote) {
      for (at += 1; at < text.length && text.charCodeAt(at) !== quote; at += 1) {
        if (text.charCodeAt(at) === backslash) at += 1;
      }
    } else if (code === openBrace || code === openBracket) depth += 1;
    else if (code === closeBrace || code === closeBracket) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  throw new NoListing('the listing ends in the middle');
}

/** The entries of `nft -j list`, one after the other. Throws `NoListing` or `SyntaxError` where the text is none. */
export function* listedEntries(text: string): Generator<unknown, void, undefined> {
  const [head] = beginning.exec(text.slice(0, 200)) ?? [];
  if (head === undefined) throw new NoListing('the text is no JSON listing of nft');
  let at = head.length;
  for (;;) {
    while (at < text.length && text.charCodeAt(at) <= 0x20) at += 1;
    if (text.charCodeAt(at) === closeBracket) break;
    if (text.charCodeAt(at) !== openBrace) throw new NoListing('an entry of the listing is no object');
    const end = endOfValue(text, at);
    yield JSON.parse(text.slice(at, end)) as unknown;
    at = end;
    while (at < text.length && (text.charCodeAt(at) <= 0x20 || text.charAt(at) === ',')) at += 1;
  }
  if (text.slice(at + 1).trim() !== '}') throw new NoListing('something follows the listing');
}

/** A table of ours out of the text of a listing, as `parseListing` reads it out of the value. */
export const parseListingText = (text: string, table?: TableName, expected?: TableRules): Installed | undefined =>
  parseEntries(listedEntries(text), table, expected);
