/** Owns the balance of connections: a worker with more than its share leaves new ones to the others. */

/** What a worker is known to have. */
export interface Load {
  readonly connections: number;
  /** When it last reported, in milliseconds. */
  readonly reportedAt: number;
  /** Until when it takes no new connections. */
  readonly pausedUntil: number;
}

/** How long a worker pauses, unless the primary process repeats the message. If the primary process freezes, all workers accept again. */
export const pauseMs = 500;
/** How often a worker reports its connections, at least. */
export const reportMs = 200;
/** A worker without a report for this long may be frozen, and does not count. */
const silentMs = 1_000;
/** So many others must be taking connections, for the port is closed with the last that does. */
const leastOthers = 2;

/** Some more than the mean is as even as it needs to be; a paused worker stays paused until it is closer. */
const most = (mean: number, paused: boolean): number => (paused ? mean * 1.02 + 8 : mean * 1.05 + 32);

export function mustPause(mine: Load, all: Iterable<Load>, now: number): boolean {
  const present = [...all].filter((load) => now - load.reportedAt < silentMs);
  const taking = present.filter((load) => load !== mine && load.pausedUntil <= now);
  if (taking.length < leastOthers) return false;
  const mean = present.reduce((sum, load) => sum + load.connections, 0) / present.length;
  return mine.connections > most(mean, mine.pausedUntil > now);
}
