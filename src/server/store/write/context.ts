/** Owns what every part of the store shares: connections, the order of writes, hints, stamps and settings. */
import type { Phase } from '../contract/phase.ts';
import type { Quotas } from '../contract/quotas.ts';
import type { PipelinedConnections, Runner, Transactions } from '../postgres/connection.ts';
import type { Hints } from '../postgres/hints.ts';
import type { HistoryGuard } from '../schema/history-guard.ts';
import type { Stamps } from './stamp.ts';
import type { Writer } from './writer.ts';

export interface Context extends Stamps {
  readonly phase: Phase;
  readonly quotas: Quotas;
  /** For reading. */
  readonly reads: PipelinedConnections;
  /** For reading what no right, revision or receipt depends on: a standby may answer. */
  readonly standbyReads: Runner;
  /** For single statements that write, so that no long listing is in their way. */
  readonly writes: PipelinedConnections;
  readonly transactions: Transactions;
  readonly guard: HistoryGuard;
  readonly writer: Writer;
  readonly hints: Hints;
}
