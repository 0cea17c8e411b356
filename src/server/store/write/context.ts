/** Owns what every part of the store shares: connections, the order of writes, hints, stamps and settings. */
import type { Phase } from '../../../organization/decide/phase.ts';
import type { Quotas } from '../data/quotas.ts';
import type { OrganizationModels } from '../model/organizations.ts';
import type { PipelinedConnections, Transactions } from '../postgres/connection.ts';
import type { Hints } from '../postgres/hints.ts';
import type { HistoryGuard } from '../schema/history-guard.ts';
import type { Stamps } from './stamp.ts';
import type { Writer } from './writer.ts';

export interface Context extends Stamps {
  readonly phase: Phase;
  readonly quotas: Quotas;
  /** For who is asking: credentials and memberships, which no listing and no large organization may hold up. */
  readonly callers: PipelinedConnections;
  /** For reading. Whoever reads for one organization gives it as the first value: it is what shares are counted by. */
  readonly reads: PipelinedConnections;
  /** For single statements that write, so that no long listing is in their way. */
  readonly writes: PipelinedConnections;
  readonly transactions: Transactions;
  readonly guard: HistoryGuard;
  readonly writer: Writer;
  readonly models: OrganizationModels;
  readonly hints: Hints;
}
