/** Owns how far the agent's memory may grow between two collections of garbage: it stays on small devices for good. */
import { setFlagsFromString } from 'node:v8';

/**
 * After a collection, V8 lets the heap grow by several times before the next. A large policy is mostly kept, so that buys
 * hardly any time. Its younger half has a bound that must be given at the start: see the unit.
 */
export const keepHeapSmall = (): void => setFlagsFromString('--heap-growing-percent=30');

/** What the unit starts the agent's runtime with, besides. */
export const heapOptions = '--max-semi-space-size=2';

/** … and with this environment. */
export const heapEnvironment = { NODE_OPTIONS: heapOptions, MALLOC_ARENA_MAX: '1' } as const;
