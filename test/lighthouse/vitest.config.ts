/** How `npm run lighthouse` runs: it downloads Lighthouse and measures times, so `npm test` does not run it. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/lighthouse/lighthouse.ts'],
    setupFiles: ['test/lib/end-with-vitest.ts'],
    globalSetup: ['test/lib/memory-folder.ts', 'test/lib/shared-build.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
