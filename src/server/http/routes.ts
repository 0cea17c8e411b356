/** Owns the routes of the operations: every path and alias of the table, one way through guard, body and handler. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { operations, type Operation } from '../../api/operations.ts';
import { operationIds, pathsOf, type OperationId } from '../../api/paths.ts';
import { credentialId, type Presented, type Principal } from '../identity/authenticate.ts';
import { acceptsJson } from './request/accept.ts';
import { addressOf } from './request/address.ts';
import { isAudited, noteOf, SignIns, signInOf } from './observe/audit-entry.ts';
import type { Answer, Handler, Params, Services, Subjects } from './call.ts';
import { parseIfMatch } from './request/conditions.ts';
import { sessionCookie } from './request/cookies.ts';
import { refuseForgery } from './request/csrf.ts';
import { within } from './request/deadline.ts';
import { HttpError, rejectedCredential, unauthenticated } from './errors.ts';
import { admit, isPatient, parseParams } from './guard/admit.ts';
import { auditHandlers } from './handlers/audit.ts';
import { deviceHandlers } from './handlers/devices.ts';
import { groupHandlers } from './handlers/groups.ts';
import { organizationHandlers } from './handlers/organizations.ts';
import { userHandlers } from './handlers/users.ts';
import type { Lookups } from './guard/lookups.ts';
import { parseQuery } from './request/paging.ts';
import type { RateLimiter } from './guard/rate-limit.ts';

/** Every operation but the stream, which takes the socket over. */
const handlers: { readonly [Id in Exclude<OperationId, 'watchEvents'>]: Handler } = {
  ...userHandlers,
  ...organizationHandlers,
  ...deviceHandlers,
  ...groupHandlers,
  ...auditHandlers,
};

/** Someone who was let in: who, where to, and what was read on the way. */
export interface Admitted {
  readonly principal: Principal;
  readonly params: Params;
  readonly subjects: Subjects;
}

/** Answers the stream operation: it has the parsed body and may take over the raw socket (`reply.hijack()`). */
export type StreamHandler = (admitted: Admitted, request: FastifyRequest, reply: FastifyReply) => Promise<void>;

export interface RouteOptions {
  readonly services: Services;
  readonly lookups: Lookups;
  readonly limiter: RateLimiter;
  readonly stream: StreamHandler;
  /** How long the database may take. */
  readonly answerTimeoutMs: number;
  /** Where people reach this server, for those who signed in by browser; undefined where nobody does. */
  readonly publicUrl?: (() => string) | undefined;
}

declare module 'fastify' {
  interface FastifyRequest {
    admitted: Admitted | undefined;
  }
  interface FastifyContextConfig {
    operation?: OperationId;
  }
}

/** The way in, free of the framework: who asks (401), not too often (429), for a path that is one (400), with the right to it (403, 404). */
export async function enter(
  id: OperationId,
  request: {
    readonly presented: Presented;
    readonly address: () => string;
    readonly params: Readonly<Record<string, unknown>>;
  },
  { lookups, limiter }: Pick<RouteOptions, 'lookups' | 'limiter'>,
): Promise<Admitted> {
  const asked = await lookups.authenticate(request.presented);
  const principal = asked?.kind === 'rejected' ? undefined : asked;
  const wait = limiter.take(principal === undefined ? request.address() : credentialId(principal));
  if (wait > 0) {
    throw new HttpError('rate_limited', `Too many requests with this credential. Wait ${wait} s.`, {
      headers: { 'Retry-After': String(wait) },
    });
  }
  if (asked?.kind === 'rejected') throw rejectedCredential(asked);
  if (principal === undefined) {
    const { authorization, session } = request.presented;
    throw unauthenticated((authorization ?? session) !== undefined);
  }
  const params = parseParams(request.params);
  return { principal, params, subjects: await admit(id, principal, params, lookups) };
}

function send(operation: Operation, answer: Answer, reply: FastifyReply): FastifyReply {
  if (answer.kind === 'list') {
    if (answer.next !== undefined) reply.header('link', `<${answer.next}>; rel="next"`);
  } else {
    if (answer.revision !== undefined) reply.header('etag', `"${answer.revision}"`);
    if (answer.location !== undefined) reply.header('location', answer.location);
  }
  return reply.code(operation.status).type('application/json; charset=utf-8').send(answer.json);
}

const pathOf = (url: string): string => url.split('?', 1)[0] ?? url;

function admittedOf(request: FastifyRequest): Admitted {
  if (request.admitted === undefined) throw new Error(`${request.url} was reached without a guard`);
  return request.admitted;
}

function runner(operation: Operation, handler: Handler, { services, answerTimeoutMs }: RouteOptions) {
  const audited = isAudited(operation.id, operation.method);
  return async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const admitted = admittedOf(request);
    const done = handler(
      {
        operation: operation.id,
        ...admitted,
        by: {
          user_id: admitted.principal.user_id,
          ...(audited ? { audit: noteOf(operation.id, admitted.principal, request) } : {}),
        },
        path: pathOf(request.url),
        query: parseQuery(operation, request.query as Record<string, unknown>),
        body: request.body,
        ifMatch: operation.conditional ? parseIfMatch(request.headers['if-match']) : undefined,
      },
      services,
    );
    return send(operation, await within(done, answerTimeoutMs), reply);
  };
}

/** The credential that a request comes with; a cookie only where there is no header, and never for a forged write. */
function presentedBy(request: FastifyRequest, publicUrl: (() => string) | undefined): Presented {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined || cookie === undefined || publicUrl === undefined) return { authorization };
  const session = sessionCookie(cookie, publicUrl());
  if (session !== undefined) refuseForgery(request, new URL(publicUrl()).origin);
  return { session };
}

/** Registers every operation under every path it answers on. */
export function registerOperations(app: FastifyInstance, options: RouteOptions): void {
  app.decorateRequest('admitted', undefined);
  const signIns = new SignIns();
  for (const id of operationIds) {
    const operation = operations[id];
    const guard = async (request: FastifyRequest): Promise<void> => {
      if (!acceptsJson(request.headers.accept)) {
        throw new HttpError('not_acceptable', 'The answer is application/json, which Accept does not admit.');
      }
      const params = request.params as Record<string, unknown>;
      const presented = { ...presentedBy(request, options.publicUrl), patient: isPatient(id) };
      const entering = enter(id, { presented, address: () => addressOf(request), params }, options);
      request.admitted = await within(entering, options.answerTimeoutMs);
      const { principal } = request.admitted;
      if (signIns.isFirst(principal)) {
        await within(options.services.store.audit.record(signInOf(principal, request)), options.answerTimeoutMs);
      }
    };
    const handler =
      id === 'watchEvents'
        ? (request: FastifyRequest, reply: FastifyReply) => options.stream(admittedOf(request), request, reply)
        : runner(operation, handlers[id], options);
    for (const path of pathsOf(id)) {
      app.route({
        method: operation.method,
        url: path.replace(/\{(\w+)\}/g, ':$1'),
        config: { operation: id },
        onRequest: guard,
        handler,
      });
    }
  }
}
