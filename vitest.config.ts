/** The test projects: a file's suffix names what it needs (`.pg`, `.netns`, `.browser`, `.faults`); no suffix needs nothing but Node. */
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/lib/longest-first.ts';

const needs = ['pg', 'netns', 'browser', 'faults'] as const;
/** Those whose files share one PostgreSQL. Where things are killed, each file has its own. */
const needsPostgres: ReadonlySet<string> = new Set(['pg', 'browser']);
// Tests of the packages, of database clusters and of trials have configurations of their own, in test/packages, test/cluster and test/trials.
const heavy = [...needs, 'systemd', 'cluster', 'lab'].map((need) => `**/*.${need}.test.ts`);
/** Whose files leave a process as they found it, so that one process runs many of them: to start one and load the program takes longer than most of their tests. */
const shareProcesses: ReadonlySet<string> = new Set(['pg', 'netns', 'browser']);

// Tests reach nobody but themselves. Certificates that a workplace adds to every Node cost each of the processes that they start some 100 ms of processor.
delete process.env['NODE_EXTRA_CA_CERTS'];

export default defineConfig({
  test: {
    // Bounds on what hangs, no measures: a busy machine takes ten times as long as a quiet one.
    testTimeout: 600_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    // Projects, and later runs, need not transform a module again that has not changed.
    experimental: { fsModuleCache: true },
    // More files side by side than twice the processors: most of the heavy ones wait for a disk, a kernel, a browser or a clock.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    setupFiles: ['test/lib/end-with-vitest.ts'],
    globalSetup: ['test/lib/memory-folder.ts', 'test/lib/shared-build.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts', 'bench/**/*.test.ts'],
          exclude: heavy,
          isolate: false,
        },
      },
      ...needs.map((need) => ({
        extends: true as const,
        test: {
          name: need,
          include: ['src', 'test', 'bench'].map((top) => `${top}/**/*.${need}.test.ts`),
          globalSetup: needsPostgres.has(need) ? ['test/lib/shared-postgres.ts'] : [],
          isolate: !shareProcesses.has(need),
        },
      })),
    ],
  },
});
