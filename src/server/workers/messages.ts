/** Owns what a server's first process and its workers say to each other. */
import type { Measures } from '../http/observe/metrics.ts';

/** What a worker needs to know besides the options, which it reads itself. */
export interface Task {
  readonly databaseUrl: string;
}

/** To a worker. */
export type Order =
  | { readonly do: 'serve'; readonly task: Task }
  | { readonly do: 'stop' }
  /** Leave new connections to the others for a while. */
  | { readonly do: 'rest' }
  /** Say what you measure. */
  | { readonly do: 'measure'; readonly asked: number }
  /** What the others measure, as you asked. */
  | { readonly do: 'know'; readonly asked: number; readonly measures: readonly Measures[] };

/** From a worker. */
export type Word =
  /** It listens to orders. */
  | { readonly say: 'here' }
  /** It serves. */
  | { readonly say: 'ready'; readonly url: string }
  /** It cannot serve. */
  | { readonly say: 'failed'; readonly lines: readonly string[]; readonly exitCode: 1 | 2 }
  /** So many connections are open here; the first process decides whether that is more than its share. */
  | { readonly say: 'holds'; readonly connections: number }
  /** It wants to know what the others measure. */
  | { readonly say: 'ask'; readonly asked: number }
  | { readonly say: 'measured'; readonly asked: number; readonly measures: Measures };

/** Set for workers: the process that started them, and their number. */
export const variable = 'RINGFENCE_WORKER_OF';
