/** Owns how much slower than this machine Lighthouse's phone is, by the calculator that Lighthouse's documentation of throttling names. */

/** Benchmark indexes, and the slowdown of a machine that has each; between two, the slowdown grows evenly. */
const known = [
  [150, 1],
  [800, 2],
  [1_300, 3],
  [2_000, 6],
] as const;

/** What Lighthouse uses unless it is told otherwise. It is meant for an index of 1,533. */
export const usualSlowdown = 4;

/** The slowdown for a machine with this benchmark index; it goes on growing for faster ones. */
export function slowdownFor(index: number): number {
  if (!(index >= known[0][0]))
    throw new Error(`A machine with a benchmark index of ${index} is slower than Lighthouse's phone.`);
  const end = known.findIndex(([limit]) => index < limit);
  const [[fromIndex, from], [toIndex, to]] =
    end === -1 ? [known[2], known[3]] : [known[end - 1] ?? known[0], known[end] ?? known[3]];
  return from + ((index - fromIndex) * (to - from)) / (toIndex - fromIndex);
}

export function median(values: readonly number[]): number {
  const middle = values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
  if (middle === undefined) throw new Error('There is no median of nothing.');
  return middle;
}
