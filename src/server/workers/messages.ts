/** Owns the messages between a server's primary process and its workers. */
import type { Measures } from '../http/observe/metrics.ts';
import type { StreamBound, StreamClaim } from '../limits/stream-quota.ts';

/** What a worker needs to know besides the options, which it reads itself. */
export interface Task {
  readonly databaseUrl: string;
  /** Of the program that the primary process runs. */
  readonly version: string;
}

/** From the primary process to a worker. */
export type ToWorker =
  | { readonly type: 'serve'; readonly task: Task; readonly timeline: number }
  /** The newest timeline of the database that a process has seen. */
  | { readonly type: 'timeline'; readonly timeline: number }
  | { readonly type: 'stop' }
  /** Leave new connections to the others for a while. */
  | { readonly type: 'pause' }
  /** Report what you measure; `request` comes back with the answer. */
  | { readonly type: 'measure'; readonly request: number }
  /** What the other workers measure, as this worker requested. */
  | { readonly type: 'others-measured'; readonly request: number; readonly measures: readonly Measures[] }
  /** Which of the claimed streams were counted (null), and which limit refused the others. */
  | { readonly type: 'streams-counted'; readonly request: number; readonly bounds: readonly (StreamBound | null)[] }
  /** A credential failed at another worker, from this address. */
  | { readonly type: 'credential-failed'; readonly address: string }
  /** Comes with a socket, whose other end another worker has. */
  | { readonly type: 'worker-peer' };

/** From a worker to the primary process. */
export type FromWorker =
  /** It listens to messages. */
  | { readonly type: 'started' }
  /** It serves. */
  | { readonly type: 'ready'; readonly url: string }
  /** It cannot serve. */
  | { readonly type: 'failed'; readonly lines: readonly string[]; readonly exitCode: 1 | 2 }
  /** It has seen a newer timeline of the database. */
  | { readonly type: 'timeline'; readonly timeline: number }
  /** How many connections are open here; the primary process decides whether that is more than this worker's share. */
  | { readonly type: 'connections'; readonly count: number }
  /** It requests what the others measure. */
  | { readonly type: 'measure-others'; readonly request: number }
  | { readonly type: 'measured'; readonly request: number; readonly measures: Measures }
  /** Streams are to be opened here. */
  | { readonly type: 'count-streams'; readonly request: number; readonly claims: readonly StreamClaim[] }
  /** A credential failed here, from this address. */
  | { readonly type: 'credential-failed'; readonly address: string }
  /** Streams that were counted have ended. */
  | { readonly type: 'streams-ended'; readonly claims: readonly StreamClaim[] };

/** Set for workers: the process that started them, and their number. */
export const workerVariable = 'RINGFENCE_WORKER_OF';
