/**
 * Owns the incremental reading of a listing's text, so that neither its megabytes nor all its objects are ever in
 * memory at once.
 */
import type { TableName, TableRules } from '../ast.ts';
import { NoListing, TableReader, type Installed } from './listing.ts';

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d];
const beginning = /^\s*\{\s*"nftables"\s*:\s*\[/;
/** Letters within which a listing has begun, or is none. */
const longestBeginning = 200;

/** Cuts the text of `nft -j list` into its entries, wherever the parts of the text end. */
export class ListingEntries {
  #place: 'before' | 'between' | 'within' | 'after' = 'before';
  /** What came of the beginning, or of an entry that has not ended. */
  #pending = '';
  /** Of that entry: how many brackets are open, and whether a string is, or even an escape in it. */
  #depth = 0;
  #string: 'none' | 'open' | 'escape' = 'none';

  /** The entries that end in this part. Throws `NoListing` or `SyntaxError` where the text is no listing. */
  *push(part: string): Generator<unknown, void, undefined> {
    let text = part;
    let at = 0;
    if (this.#place === 'before') {
      text = this.#pending + part;
      const [head] = beginning.exec(text.slice(0, longestBeginning)) ?? [];
      if (head === undefined && text.length >= longestBeginning) throw new NoListing(noListing);
      this.#pending = head === undefined ? text : '';
      if (head === undefined) return;
      at = head.length;
      this.#place = 'between';
    }
    while (at < text.length) {
      if (this.#place === 'within') {
        const end = this.#endOfEntry(text, at);
        // Joined once: an entry may be as long as many parts.
        this.#pending += text.slice(at, end);
        at = end ?? text.length;
        if (end === undefined) continue;
        const entry = this.#pending;
        this.#pending = '';
        this.#place = 'between';
        yield JSON.parse(entry) as unknown;
      } else {
        if (this.#beginsEntry(text.charCodeAt(at))) this.#place = 'within';
        else at += 1;
      }
    }
  }

  /** Throws `NoListing` where the text ended before the listing did. */
  end(): void {
    if (this.#place === 'before') throw new NoListing(noListing);
    if (this.#place !== 'after' || this.#depth !== 0) throw new NoListing('the listing ends in the middle');
  }

  /** Whether an entry begins with this letter; others may stand between entries, or behind them. */
  #beginsEntry(code: number): boolean {
    if (code <= 0x20) return false;
    if (this.#place === 'after') {
      // The brace around all, once.
      if (code !== closeBrace || this.#depth === 0) throw new NoListing('something follows the listing');
      this.#depth = 0;
    } else if (code === closeBracket) {
      this.#place = 'after';
      this.#depth = 1;
    } else if (code !== openBrace && code !== comma) throw new NoListing('an entry of the listing is no object');
    return code === openBrace;
  }

  /** Where the entry ends: after its last bracket; nothing where that is in another part. */
  #endOfEntry(text: string, from: number): number | undefined {
    let [depth, string] = [this.#depth, this.#string];
    for (let at = from; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (string !== 'none') {
        if (string === 'escape') string = 'open';
        else if (code === backslash) string = 'escape';
        else if (code === quote) string = 'none';
      } else if (code === quote) string = 'open';
      else if (code === openBrace || code === openBracket) depth += 1;
      else if (code === closeBrace || code === closeBracket) {
        depth -= 1;
        if (depth === 0) {
          this.#depth = 0;
          this.#string = 'none';
          return at + 1;
        }
      }
    }
    this.#depth = depth;
    this.#string = string;
    return undefined;
  }
}

const noListing = 'the text is no JSON listing of nft';

/** Reads a table of ours out of the text of a listing, part by part. */
export class ListingReader {
  readonly #entries = new ListingEntries();
  readonly #table: TableReader;
  #fault: { readonly error: unknown } | undefined;
  #length = 0;

  constructor(table: TableName = 'service', expected?: TableRules) {
    this.#table = new TableReader(table, expected);
  }

  /** Letters so far. */
  get length(): number {
    return this.#length;
  }

  /** Reads a part of the listing. A fault in a part is reported at the end. */
  push(part: string): void {
    this.#length += part.length;
    if (this.#fault !== undefined) return;
    try {
      for (const entry of this.#entries.push(part)) this.#table.add(entry);
    } catch (error) {
      this.#fault = { error };
    }
  }

  /** The table; nothing where the listing does not hold it. Throws `NoListing` or `SyntaxError` where the text was none. */
  end(): Installed | undefined {
    if (this.#fault !== undefined) throw this.#fault.error;
    this.#entries.end();
    return this.#table.installed;
  }
}
