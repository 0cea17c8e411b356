/** How `npm run screenshots` runs: it writes files, so `npm test` does not run it. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/screenshots/screenshots.ts'],
    setupFiles: ['test/lib/end-with-vitest.ts'],
    globalSetup: ['test/lib/memory-folder.ts', 'test/lib/shared-build.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
