/** Owns the end of a test process whose vitest was killed: it ends too, and with it what it started (`mortal.ts`). Loaded before every test file. */

// Vitest forbids `process.exit` in tests; and nobody is left to whom an exit code could matter.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
