/** Owns the record of every answered request: one line in the log and one count in the metrics. */
import type { OperationId } from '../../../api/paths.ts';
import type { Principal } from '../../identity/authenticate.ts';
import { withoutSecrets } from '../../identity/secret.ts';
import type { Log } from './log.ts';
import { pathOf } from '../request/path.ts';
import type { Metrics } from './metrics.ts';

/** A request, and how it was answered. */
export interface AnsweredRequest {
  readonly id: string;
  readonly method: string;
  readonly url: string;
  /** Absent when the path is not an operation. */
  readonly operation: OperationId | undefined;
  /** The admitted caller. */
  readonly principal: Principal | undefined;
  readonly status: number;
  /** Milliseconds from the request to the end of the answer. */
  readonly ms: number;
}

export function logRequest(
  { log, metrics }: { readonly log: Log; readonly metrics: Metrics },
  { id, method, url, operation, principal, status, ms }: AnsweredRequest,
): void {
  metrics.request(operation ?? 'other', status, ms / 1000);
  // Most of the work is in the line.
  if (!log.isLevelEnabled('info')) return;
  log.info(
    {
      req: id,
      method,
      path: withoutSecrets(pathOf(url)),
      ...(operation === undefined ? {} : { operation }),
      status,
      ms: Math.round(ms * 100) / 100,
      ...(principal === undefined ? {} : { user: principal.user_id, by: principal.kind }),
    },
    'request',
  );
}
