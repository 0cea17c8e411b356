/**
 * Owns the tokens of revisions. A token names the era that wrote a revision, and every cut of a history begins an era.
 * So the same revision of two histories has two tokens, and a reader that resumes with revision and token never
 * continues in another history than its own (reference 4.3 (28)).
 */
import type { EraStart } from '../data/change-log.ts';

/** Enough to tell eras apart. */
const tokenDigits = 12;

export const tokenOf = (era: string): string => era.replaceAll('-', '').slice(0, tokenDigits);

interface TokenStart {
  readonly first: number;
  readonly token: string;
}

export class RevisionTokens {
  /** Ascending. */
  #starts: readonly TokenStart[] = [];
  #isLearned = false;

  /** The token of a revision. Undefined where the database does not know who wrote it. */
  at(revision: number): string | undefined {
    return this.#starts.findLast(({ first }) => first <= revision)?.token;
  }

  /** An entry of the log was appended. It may be the first of an era. */
  append(revision: number, era: string | undefined): void {
    if (era === undefined) return;
    const token = tokenOf(era);
    if (this.#starts.at(-1)?.token !== token) this.#starts = [...this.#starts, { first: revision, token }];
  }

  /**
   * Takes over what the database says. True where it contradicts what was known up to `head`: the history was cut, and what is in memory belongs to another
   * one.
   */
  learn(eras: readonly EraStart[], head: number): boolean {
    const learned = eras.map(({ era, first }) => ({ first, token: tokenOf(era) }));
    const isCut = this.#isLearned && learned.some(({ first, token }) => first <= head && this.at(first) !== token);
    const last = learned.at(-1)?.first ?? 0;
    // An answer that began before the newest entries came does not know their era yet.
    const newer = isCut ? [] : this.#starts.filter(({ first }) => first > last);
    this.#isLearned = true;
    this.#starts = [...learned, ...newer];
    return isCut;
  }

  /** Whether this is the token of the revision, or its token is not known. */
  allows(revision: number, token: string | undefined): boolean {
    return token === undefined || (this.at(revision) ?? token) === token;
  }
}
