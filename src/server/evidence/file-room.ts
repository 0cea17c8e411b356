/** Owns how much one evidence file holds: what it tells takes room before it is built, so that a file that would be too large is never made. */

import { limits } from '../../api/limits.ts';

/** Bytes of a file: less than an answer may have, because it is put together in memory. */
export const largestFile = limits.answer / 2;

/** There is more to tell than one file holds. */
export class TooMuchEvidence extends Error {
  constructor() {
    super('there is more to tell than one evidence file holds');
    this.name = 'TooMuchEvidence';
  }
}

/** Characters that these take at least, besides their names. */
export const leastSize = { rule: 100, ruleKey: 5, device: 58, written: 50 } as const;

export class FileRoom {
  #left: number;

  constructor(characters: number) {
    this.#left = characters;
  }

  /** Throws where there is less room than that. */
  take(characters: number): void {
    this.#left -= characters;
    if (this.#left < 0) throw new TooMuchEvidence();
  }
}
