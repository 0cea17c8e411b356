/** Owns the proof that a text is read in proportion to its length, whatever else runs on the machine. */

/** Microseconds of this process's processor time. */
function cost(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** The large text is so many times as long as the small one. */
const times = 16;
/** Well above what work in proportion costs, and well below what quadratic work costs: 256 times as much. */
export const mostGrowth = 64;

const rounds = 5;
const mostRounds = 15;
/** Microseconds: less is not told from the clock's own. */
const leastCost = 100;

/**
 * How many times as much processor time a text takes that is `times` as long. Both texts take turns, and of each the cheapest round counts: what else runs on the machine
 * only makes a round dearer. What grew too much is tried more often.
 */
export function growthOfReading(read: (text: string) => unknown, piece: string, count: number): number {
  const [small, large] = [piece.repeat(count), piece.repeat(times * count)];
  const least = { small: Number.POSITIVE_INFINITY, large: Number.POSITIVE_INFINITY };
  for (let round = 1; ; round += 1) {
    least.small = Math.min(
      least.small,
      cost(() => read(small)),
    );
    least.large = Math.min(
      least.large,
      cost(() => read(large)),
    );
    const growth = least.large / Math.max(least.small, leastCost);
    if (round >= mostRounds || (round >= rounds && growth < mostGrowth)) return growth;
  }
}
