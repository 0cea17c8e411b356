/** The tests of the documented reverse proxies. Debian starts these as services when they are installed, so `npm run test:proxies` runs them, and `npm test` does not. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/proxies/**/*.proxies.test.ts'],
    setupFiles: ['test/lib/end-with-vitest.ts'],
    globalSetup: ['test/lib/memory-folder.ts', 'test/lib/shared-postgres.ts'],
    testTimeout: 300_000,
    hookTimeout: 120_000,
  },
});
