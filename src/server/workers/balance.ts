/** Owns the evenness of shares: which worker leaves new connections to the others because it has more than its part. */

/** What a worker is known to hold. */
export interface Share {
  readonly connections: number;
  /** When it last said so, in milliseconds. */
  readonly heardAt: number;
  /** Until when it takes no new connections. */
  readonly restsUntil: number;
}

/** How long a worker rests unless it is told again: should the first process freeze, the port does not stay with a few. */
export const restMs = 500;
/** How often a worker says what it holds, at least. */
export const tellMs = 200;
/** Who has not been heard from for so long may be frozen: it must not be waited for. */
const silentMs = 1_000;
/** So many others must be taking connections, for the port is closed with the last that does. */
const leastOthers = 2;

/** Some more than the mean is as even as it needs to be; one that rests goes on until it is closer. */
const most = (mean: number, resting: boolean): number => (resting ? mean * 1.02 + 8 : mean * 1.05 + 32);

export function mustRest(mine: Share, all: Iterable<Share>, now: number): boolean {
  const present = [...all].filter((share) => now - share.heardAt < silentMs);
  const taking = present.filter((share) => share !== mine && share.restsUntil <= now);
  if (taking.length < leastOthers) return false;
  const mean = present.reduce((sum, share) => sum + share.connections, 0) / present.length;
  return mine.connections > most(mean, mine.restsUntil > now);
}
