/** Owns the record of every answered request: one line in the log, one count in the metrics. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { withoutSecrets } from '../../identity/secret.ts';
import type { Log } from './log.ts';
import { pathOf } from '../request/path.ts';
import type { Metrics } from './metrics.ts';

export function logRequest(
  { log, metrics }: { readonly log: Log; readonly metrics: Metrics },
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const operation = request.routeOptions.config.operation;
  const principal = request.admitted?.principal;
  metrics.request(operation ?? 'other', reply.statusCode, reply.elapsedTime / 1000);
  // Most of the work is in the line.
  if (!log.isLevelEnabled('info')) return;
  log.info(
    {
      req: request.id,
      method: request.method,
      path: withoutSecrets(pathOf(request.url)),
      ...(operation === undefined ? {} : { operation }),
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 100) / 100,
      ...(principal === undefined ? {} : { user: principal.user_id, by: principal.kind }),
    },
    'request',
  );
}
