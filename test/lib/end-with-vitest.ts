/** Owns the end of a test process whose vitest was killed: it ends too, and with it what it started (`mortal.ts`). Loaded before every test file. */

// Vitest forbids `process.exit` in tests, and no process is left that would read the exit code.
const endWithVitest = (): boolean => process.kill(process.pid, 'SIGKILL');

// A process that runs many files loads this for each of them.
if (!process.listeners('disconnect').some(({ name }) => name === endWithVitest.name))
  process.once('disconnect', endWithVitest);
