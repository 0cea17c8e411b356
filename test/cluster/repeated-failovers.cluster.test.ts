/**
 * Proves that servers, readers and devices survive one failover after another: the primary is killed under writers, its standby is promoted, and the old
 * primary returns as a standby. Prints how long writes took to succeed again.
 */
import { expect, test } from 'vitest';
import { DatabasePair } from './database-pair.ts';
import { agentCount, FleetLoad, readerCount, writerCount } from './fleet-load.ts';

const failovers = Number(process.env['RINGFENCE_FAILOVERS'] ?? 5);
/** Acknowledged writes before each failover. */
const writesBetween = 40;

test.each(['synchronous', 'asynchronous'] as const)(
  `${failovers} failovers with %s replication under ${writerCount} writers, ${readerCount} streams and ${agentCount} agents: no reader misses a change or keeps a ghost`,
  async (replication) => {
    const isLossy = replication === 'asynchronous';
    const pair = await DatabasePair.open(replication);
    const load = await FleetLoad.start(replication, pair.url);
    for (let round = 1; round <= failovers; round += 1) {
      await load.more(writesBetween);
      if (isLossy) {
        await pair.detach();
        await load.writeDoomed(20_000 + round);
      }
      await pair.failOver();
      await load.recovered(`failover ${round} of ${failovers}`, performance.now());
      await pair.rejoin();
    }
    await load.more(writesBetween);
    const relists = await load.finish({ isLossy });
    // Where nothing is lost, every reader goes on from where it was.
    expect(relists > 0).toBe(isLossy);
  },
  3_600_000,
);
