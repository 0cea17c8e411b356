/** The tests of packages and images on real systems. They take minutes and need root, so `npm run test:packages` runs them, and `npm test` does not. */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/packages/**/*.{systemd,images}.test.ts'],
    setupFiles: ['test/lib/end-with-vitest.ts'],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    bail: 1,
  },
});
