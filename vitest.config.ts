/** The test projects: a file's suffix names what it needs (`.pg`, `.netns`, `.browser`, `.faults`); no suffix needs nothing but Node. */
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './test/lib/longest-first.ts';

/** What files need that share one PostgreSQL and leave a process as they found it. */
const sharing = ['pg', 'netns', 'browser'] as const;
// Tests of the packages, of database clusters, of trials and of proxies have configurations of their own, in test/packages, test/cluster, test/trials and test/proxies.
const heavy = [...sharing, 'faults', 'systemd', 'cluster', 'lab', 'versions', 'proxies', 'images'].map(
  (need) => `**/*.${need}.test.ts`,
);
const filesThatNeed = (need: string): string[] => ['src', 'test', 'bench'].map((top) => `${top}/**/*.${need}.test.ts`);

// Tests reach nobody but themselves. Certificates that a workplace adds to every Node cost each of the processes that they start some 100 ms of processor.
delete process.env['NODE_EXTRA_CA_CERTS'];

export default defineConfig({
  test: {
    // Bounds on what hangs, no measures: a busy machine takes ten times as long as a quiet one.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 120_000 } },
    // Projects, and later runs, need not transform a module again that has not changed.
    experimental: { fsModuleCache: true },
    // More files side by side than twice the processors: most of the heavy ones wait for a disk, a kernel, a browser or a clock.
    maxWorkers: 6,
    // Most objects of a test live for a moment. With more room for young ones, fewer are copied: that is a fifteenth of the processor time.
    execArgv: ['--max-semi-space-size=32'],
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
      {
        // One project, because a process goes on only to files of its own: to start one and load the program takes longer than most of
        // their tests. So files that wait for a kernel run beside files that keep a processor busy.
        extends: true,
        test: {
          name: 'system',
          include: sharing.flatMap(filesThatNeed),
          globalSetup: ['test/lib/shared-postgres.ts'],
          isolate: false,
        },
      },
      {
        // Where things are killed, each file has a process and a PostgreSQL of its own.
        extends: true,
        test: { name: 'faults', include: filesThatNeed('faults') },
      },
    ],
  },
});
