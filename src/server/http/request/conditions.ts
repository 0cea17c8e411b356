/** Owns conditional requests: `If-Match` against a record's revision (RFC 9110, 13.1.1). */
import type { IfMatch } from '../call.ts';
import { problemTable } from '../../problems.ts';

/** A revision as an entity tag; its quotes may be missing, as people forget them and nothing else can be meant. */
const revision = /^(?:"(\d{1,16})"|(\d{1,16}))$/;

export function parseIfMatch(header: string | undefined): IfMatch {
  if (header === undefined) return undefined;
  if (header.trim() === '*') return '*';
  const revisions: number[] = [];
  for (const part of header.split(',')) {
    // Anything else matches nothing, and so the write is refused: also a weak tag, as RFC 9110 asks for the strong comparison.
    const match = revision.exec(part.trim());
    if (match !== null) revisions.push(Number(match[1] ?? match[2]));
  }
  return revisions;
}

/** The one revision that a write must find, given what the record has now; throws when none of those named is it. */
export function expectedRevision(ifMatch: IfMatch, current: number): { if_match?: number } {
  if (ifMatch === undefined || ifMatch === '*') return {};
  if (!ifMatch.includes(current)) throw problemTable.precondition_failed({ revision: current });
  return { if_match: current };
}
