/** Owns the seeds of the random comparison: the fixed ones of every run, and the endless ones of a long run. */

const firstFixed = 20_240_601;

/** The same policies on every machine. */
export const fixedSeeds = (count: number): readonly number[] => Array.from({ length: count }, (_, i) => firstFixed + i);

/**
 * `RINGFENCE_DIFFERENTIAL=long` goes on until it is stopped, a number ends after that many policies; `RINGFENCE_SEED`
 * says where to begin (a failure names the seed to replay), else the clock does. Anything else is no long run.
 */
export function longRun(environment: Readonly<Record<string, string | undefined>>): Iterable<number> | undefined {
  const mode = environment['RINGFENCE_DIFFERENTIAL'];
  if (mode === undefined || mode === '') return undefined;
  const count = mode === 'long' ? Infinity : Number(mode);
  const first = Number(environment['RINGFENCE_SEED'] ?? Date.now() % 1_000_000_007);
  if (!(count > 0) || !Number.isSafeInteger(first)) {
    throw new Error('RINGFENCE_DIFFERENTIAL must be "long" or a number of policies, RINGFENCE_SEED a whole number');
  }
  return seedsFrom(first, count);
}

function* seedsFrom(first: number, count: number): Generator<number> {
  for (let i = 0; i < count; i++) yield first + i;
}
