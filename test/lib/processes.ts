/** Owns the questions that tests ask about processes that they did not start themselves, which may end at any moment. */
import { readFileSync } from 'node:fs';

/** A zombie counts as ended. */
export function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** One that has ended meanwhile needs no signal. */
export function signalIfRunning(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
