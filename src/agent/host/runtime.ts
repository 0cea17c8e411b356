/** Owns how V8 runs for the agent, which stays on small devices for months. Each option has paid off as deployed (docs/decisions/packages-and-start.md). */
import { setFlagsFromString } from 'node:v8';

/** From this version on, V8 has Maglev, a compiler between its quickest and its most thorough one, TurboFan. */
const firstWithMaglev = 13;

/** Turns TurboFan off if Maglev is there. An agent works for a few milliseconds at a time, which does not repay the time and memory that TurboFan takes. */
export function tuneRuntime(): void {
  if (Number.parseInt(process.versions.v8, 10) >= firstWithMaglev) setFlagsFromString('--no-turbofan');
}

/** What the unit starts the agent's runtime with: V8 reads the bound of its young generation only at the start. */
export const heapEnvironment = { NODE_OPTIONS: '--max-semi-space-size=2' } as const;
