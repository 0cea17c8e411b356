/** Owns how much a run repeats: `npm test` takes a sample of what is random or enumerated, `npm run test:thorough` takes all of it. */

/** Whether this run takes its time. */
export const isThorough = process.env['RINGFENCE_TESTS'] === 'thorough';

/** How often something is repeated: `few` times in `npm test`, `many` times in a thorough run. */
export const rounds = (few: number, many: number): number => (isThorough ? many : few);

/**
 * Every one in a thorough run; in `npm test` every `step`-th, beginning at `first`. A table that is tried in two directions is covered in both if
 * `first` moves with the other direction.
 */
export const sample = <T>(all: readonly T[], step: number, first = 0): readonly T[] =>
  isThorough ? all : all.filter((_, index) => index % step === first % step);
