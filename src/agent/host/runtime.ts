/** Owns how V8 runs for the agent: it stays on small devices for good. */
import { setFlagsFromString } from 'node:v8';

/** From this version on, V8 has Maglev, a compiler between its quickest and its most thorough one, which is TurboFan. */
const firstWithMaglev = 13;

/**
 * After a collection, V8 lets the heap grow by several times before the next. A large policy is mostly kept, so that buys
 * hardly any time. Its younger half has a bound that must be given at the start: see the unit.
 *
 * TurboFan is left out where there is Maglev: what it makes of an agent's few milliseconds of work does not pay for its own time and memory.
 *
 * Under another option than its own, V8 does not take the code that Node's modules bring along, and compiles them anew: so what the first policy
 * needs is loaded before.
 */
export function tuneRuntime(): void {
  process.getBuiltinModule('node:crypto');
  setFlagsFromString('--heap-growing-percent=30');
  if (Number.parseInt(process.versions.v8, 10) >= firstWithMaglev) setFlagsFromString('--no-turbofan');
}

/** What the unit starts the agent's runtime with, besides. */
export const heapEnvironment = { NODE_OPTIONS: '--max-semi-space-size=2', MALLOC_ARENA_MAX: '1' } as const;
