/** Owns how much one evidence file holds: what it tells takes room before it is built, so that a file that would be too large is never made. */

/** There is more to tell than one file holds. */
export class TooMuchEvidence extends Error {
  constructor() {
    super('there is more to tell than one evidence file holds');
    this.name = 'TooMuchEvidence';
  }
}

/** Characters that these take at least, in the data and on the page together. */
export const leastSize = { rule: 256, ruleKey: 27, device: 60, written: 150 } as const;

export class FileRoom {
  #left: number;

  constructor(characters: number) {
    this.#left = characters;
  }

  /** Throws where there is less room than that. */
  require(characters: number): void {
    if (characters > this.#left) throw new TooMuchEvidence();
  }

  take(characters: number): void {
    this.require(characters);
    this.#left -= characters;
  }
}
