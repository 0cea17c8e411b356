/** The tests of trials and of rules that expire, with packets in a lab. They take minutes, so `npm run test:trials` runs them, and `npm test` does not. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/trials/**/*.lab.test.ts'],
    setupFiles: ['test/lib/end-with-vitest.ts'],
    globalSetup: ['test/lib/memory-folder.ts', 'test/lib/shared-build.ts'],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 120_000 } },
  },
});
