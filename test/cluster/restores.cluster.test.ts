/**
 * Proves that a copy of the database that is put back under running servers, once and again, is followed by every reader and every device: what is lost is
 * undone, nothing is missed, and nothing stays that the database does not have.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { dumpDatabase } from '../../src/server/database/dump.ts';
import { findPrograms } from '../../src/server/database/programs.ts';
import { DatabaseNode } from '../lib/database-node.ts';
import { pgRestore } from '../lib/pg-restore.ts';
import { agentCount, FleetLoad, readerCount, writerCount } from './fleet-load.ts';

interface Copy {
  /** Gives when the database was back. */
  putBack(): Promise<number>;
}

const ways: readonly (readonly [title: string, take: (node: DatabaseNode) => Promise<Copy>])[] = [
  [
    'a snapshot of its files',
    async (node) => {
      const snapshot = await node.snapshot();
      return {
        async putBack() {
          await node.restore(snapshot);
          return performance.now();
        },
      };
    },
  ],
  [
    'a dump by pg_restore',
    async (node) => {
      const folder = await mkdtemp(join(tmpdir(), 'rf-dump-'));
      onTestFinished(() => rm(folder, { recursive: true, force: true }));
      const dump = { programs: await findPrograms({}), url: node.url, file: join(folder, 'dump') };
      await dumpDatabase(dump);
      return {
        async putBack() {
          await pgRestore(dump);
          return performance.now();
        },
      };
    },
  ],
];

test.each(ways)(
  `%s is put back twice under ${writerCount} writers, ${readerCount} streams and ${agentCount} agents: what is lost is undone everywhere, 0 missed, 0 ghosts`,
  async (title, take) => {
    const node = await DatabaseNode.primary();
    onTestFinished(() => node.remove());
    const load = await FleetLoad.start(title, node.url);
    await load.more(40);
    const copy = await take(node);
    for (const round of [1, 2]) {
      await load.more(10);
      await load.writeDoomed(20_000 + round);
      await load.recovered(`restore ${round}`, await copy.putBack());
    }
    await load.more(40);
    expect(await load.finish({ isLossy: true })).toBeGreaterThan(0);
  },
  3_600_000,
);
