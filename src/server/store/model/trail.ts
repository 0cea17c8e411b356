/** Owns the last steps by which a model came to what it is, for readers that follow it change by change. */
import type { OrganizationStep } from '../../../organization/organization.ts';

export interface LoggedStep extends OrganizationStep {
  /** Of the record as text: a step keeps the record in memory. */
  readonly characters: number;
}

/** At least so many steps are known, where their records have at most so many characters; and at most twice as many. */
const enoughSteps = 2_048;
const enoughCharacters = 4 * 1024 * 1024;

/** A trail never changes. Later ones add to the same array, so that a step costs the same however long the trail is. */
export class Trail {
  readonly #steps: LoggedStep[];
  /** How many of them belong to this trail. */
  readonly #length: number;
  readonly #characters: number;
  /** The revision after which every step is known. */
  readonly #after: number;
  /** The same object for all that came of one model that was loaded. */
  readonly origin: object;

  private constructor(steps: LoggedStep[], after: number, origin: object, characters: number) {
    this.#steps = steps;
    this.#length = steps.length;
    this.#after = after;
    this.origin = origin;
    this.#characters = characters;
  }

  /** Of a model that was just loaded. */
  static begin(revision: number): Trail {
    return new Trail([], revision, {}, 0);
  }

  with(more: readonly LoggedStep[]): Trail {
    // Another trail went on from here, such as that of a transaction that was rolled back.
    const isOther = this.#steps.length > this.#length;
    const steps = isOther ? this.#steps.slice(0, this.#length) : this.#steps;
    let characters = this.#characters;
    for (const step of more) {
      steps.push(step);
      characters += step.characters;
    }
    const isLong = steps.length > 2 * enoughSteps || characters > 2 * enoughCharacters;
    return isLong ? this.#shortened(steps) : new Trail(steps, this.#after, this.origin, characters);
  }

  /** What came after a model of this origin and revision; undefined where that is not known. */
  since(origin: object, revision: number): readonly OrganizationStep[] | undefined {
    if (origin !== this.origin || revision < this.#after) return undefined;
    let from = this.#length;
    while (from > 0 && (this.#steps[from - 1]?.revision ?? 0) > revision) from -= 1;
    return this.#steps.slice(from, this.#length);
  }

  #shortened(steps: readonly LoggedStep[]): Trail {
    let [from, characters] = [steps.length, 0];
    while (from > 0 && steps.length - from < enoughSteps && characters < enoughCharacters)
      characters += steps[(from -= 1)]?.characters ?? 0;
    return new Trail(steps.slice(from), steps[from - 1]?.revision ?? this.#after, this.origin, characters);
  }
}
