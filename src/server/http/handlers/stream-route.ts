/** Owns the step from a Fastify request to a stream. The framework parses, admits and refuses it like every other request. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { watchProtocol } from '../../../api/kinds.ts';
import type { ConnectedSink } from '../../watch/opening.ts';
import { takeOver } from '../../watch/connection/socket.ts';
import type { AdmittedRequest } from '../call.ts';
import { areParamsOf } from '../guard/admit.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { problemResponse } from '../observe/problem-response.ts';
import { logRequest } from '../observe/request-log.ts';
import type { Health } from '../pages/health.ts';
import type { StreamHandler } from './events.ts';

const operation = 'watchEvents';

export interface StreamRouteOptions {
  readonly stream: StreamHandler;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly health: Health;
}

/** The route's handler. `admittedOf` gives the caller that the guard let in. */
export function streamRoute(
  { stream, log, metrics, health }: StreamRouteOptions,
  admittedOf: (r: FastifyRequest) => AdmittedRequest,
) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { id, method, url, raw, body, headers } = request;
    const admitted = admittedOf(request);
    const { principal, variables: params } = admitted;
    if (!areParamsOf(operation, params)) throw new Error(`${url} lacks variables of ${operation}`);
    const isHttp10 = raw.httpVersionMajor === 1 && raw.httpVersionMinor === 0;
    // A proxy that does not know the protocol removes the header, and the stream goes one way.
    const twoWay = !isHttp10 && headers.upgrade?.trim().toLowerCase() === watchProtocol;
    const accept = (): ConnectedSink => {
      reply.hijack();
      // The framework logs only finished answers, so the stream is logged here.
      logRequest({ log, metrics }, { id, method, url, operation, principal, status: 200, ms: reply.elapsedTime });
      return takeOver(raw, reply.raw, { twoWay });
    };
    const { elapsedTime: elapsedMs } = reply;
    try {
      const { prefer } = headers;
      await stream({ admitted, params, id, body, elapsedMs, prefer, chunked: !isHttp10 && !twoWay, twoWay, accept });
    } catch (failure) {
      if (!reply.sent) throw failure;
      // The head of the answer may be sent already: all that is left is to log the failure and to end the connection.
      problemResponse(failure, request, { log, health });
      raw.socket.destroy();
    }
    return reply;
  };
}
