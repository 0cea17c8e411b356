/** The tests on whole database clusters. They take minutes, so `npm run test:faults` runs them, and `npm test` does not. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/cluster/**/*.cluster.test.ts'],
    setupFiles: ['test/lib/end-with-vitest.ts'],
    globalSetup: ['test/lib/shared-build.ts'],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 120_000 } },
  },
});
