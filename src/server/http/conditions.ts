/** Owns conditional requests: `If-Match` against a record's revision (RFC 9110, 13.1.1). */
import { changed, HttpError } from './errors.ts';

/** Absent, `*`, or the revisions named; entity tags that can be no revision of ours are dropped, since they match nothing. */
export type IfMatch = undefined | '*' | readonly number[];

const tag = /^\s*(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*$/;

export function parseIfMatch(header: string | undefined): IfMatch {
  if (header === undefined) return undefined;
  if (header.trim() === '*') return '*';
  const revisions: number[] = [];
  for (const part of header.split(',')) {
    if (part.trim() === '') continue;
    const match = tag.exec(part);
    if (match === null) throw new HttpError('malformed_request', 'If-Match must be * or a list of quoted ETags.');
    // A weak tag never matches here: RFC 9110 asks for the strong comparison.
    if (match[1] === undefined && /^\d{1,16}$/.test(match[2] ?? '')) revisions.push(Number(match[2]));
  }
  return revisions;
}

/** The one revision that a write must find, given what the record has now; throws when none of those named is it. */
export function expectedRevision(ifMatch: IfMatch, current: number): { if_match?: number } {
  if (ifMatch === undefined || ifMatch === '*') return {};
  if (!ifMatch.includes(current)) throw changed(current);
  return { if_match: current };
}
