/** Owns the HTTP application: one Fastify instance with its hooks, its single error handler and every route. */
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { signInPaths } from '../../api/sign-in.ts';
import type { Authenticate } from '../identity/authenticate.ts';
import { takeBodies, type BodyLimits } from './request/body.ts';
import { BodyMemory, type BodyMemoryLimits } from './request/body-memory.ts';
import type { WorkShares } from '../scheduling/work-budget.ts';
import type { OrganizationServices } from './call.ts';
import { registerDocs } from './pages/docs.ts';
import { HttpError, toHttpError } from '../problems.ts';
import { headersAt, type Headers } from './headers.ts';
import { registerHealth, type Health } from './pages/health.ts';
import type { Log } from './observe/log.ts';
import { RequestGuard, type RequestGuardOptions } from './guard/request-guard.ts';
import { Lookups } from './guard/lookups.ts';
import type { Metrics } from './observe/metrics.ts';
import { RequestLimits, type RequestLimitOptions } from './guard/request-limits.ts';
import type { FailedElsewhere } from '../limits/failed-elsewhere.ts';
import { registerOperations } from './routes.ts';
import type { StreamHandler } from './handlers/events.ts';
import { registerSignIn, type SignInRouteOptions } from './handlers/sign-in.ts';
import { problemResponse } from './observe/problem-response.ts';
import { logRequest } from './observe/request-log.ts';
import { subscriberOf } from '../limits/subscriber.ts';
import { addressOf } from './request/address.ts';
import { checkHost } from './request/host.ts';
import { requestIdOf } from './request/id.ts';
import { pathOf } from './request/path.ts';
import { answerUnreadable, arrivalMs } from './unreadable-request.ts';
import type { Connections } from './listener/connections.ts';
import type { secureContextOf } from './listener/tls.ts';
import { findAssets, registerUi } from './pages/ui.ts';
import { unknownRoute } from './pages/unknown.ts';

export interface AppOptions {
  readonly services: OrganizationServices;
  readonly workShares: WorkShares;
  readonly listShares: WorkShares;
  /** For operations that are answered at once, and for those that are answered in batches. */
  readonly authenticate: Readonly<Record<'immediate' | 'batched', Authenticate>>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly requestLimits: RequestLimitOptions;
  readonly failedElsewhere?: FailedElsewhere | undefined;
  readonly bodyLimits: BodyLimits;
  readonly bodyMemory: BodyMemoryLimits;
  /** How long the database may take to answer a request. */
  readonly answerTimeoutMs: number;
  readonly stream: StreamHandler;
  /** Called when a device has shown by a request that it is there. */
  readonly onDeviceHeard: RequestGuardOptions['onDeviceHeard'];
  /** Speaks TLS with this certificate. */
  readonly tls?: ReturnType<typeof secureContextOf> | undefined;
  /** How long a TLS handshake may take. */
  readonly handshakeTimeoutMs: number;
  readonly connections: Connections;
  /** The URL at which people reach the server, if it is known. */
  readonly publicUrl: string | undefined;
  /** Addresses and networks whose word on where a request came from is taken. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** How people may sign in, and what signs their browsers in. */
  readonly signIn: Pick<SignInRouteOptions, 'methods' | 'browser'>;
}

/** Paths besides the operations. */
const pages = [
  '/',
  '/ui/',
  '/healthz',
  '/readyz',
  '/metrics',
  '/api/openapi.json',
  '/api/docs',
  '/api/docs/style.css',
  signInPaths.listSignInMethods.path,
  signInPaths.signIn.path,
  signInPaths.finishSignIn.path,
];

function addHeaders(headers: Headers, request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  for (const [name, value] of headers) reply.header(name, value);
}

function answerError(
  failure: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  about: Pick<AppOptions, 'log' | 'health'>,
): FastifyReply {
  const { status, headers, body } = problemResponse(failure, request, about);
  return reply.code(status).headers(headers).serializer(String).send(body);
}

function watchRequests(app: FastifyInstance, { log, metrics, health, publicUrl }: AppOptions): void {
  const headers = headersAt(publicUrl);
  app.addHook('onRequest', (request, reply, done) => {
    addHeaders(headers, request, reply);
    checkHost(request.raw);
    done();
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    // A connection that stayed open after its last answer would keep a stopping server waiting.
    if (health.draining) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { id, method, url, admitted } = request;
    const { operation } = request.routeOptions.config;
    const [principal, status, ms] = [admitted?.principal, reply.statusCode, reply.elapsedTime];
    // The hub sends a write to its streams in this turn of the event loop; the log line, which wakes its reader, comes after that.
    setImmediate(() => logRequest({ log, metrics }, { id, method, url, operation, principal, status, ms }));
    done();
  });
}

/** A request without an operation needs no credential and counts by address. An unknown path is answered before its body is read. */
function guardStrangers(app: FastifyInstance, limits: RequestLimits): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.routeOptions.config.operation === undefined) limits.stranger(subscriberOf(addressOf(request)));
    if (request.is404) throw unknownRoute(request.method, pathOf(request.url), pages);
    done();
  });
}

/** A process that is full answers one request a connection, such as a health check, and opens no stream. */
function serveSpare(app: FastifyInstance, connections: Connections): void {
  app.addHook('onRequest', (request, reply, done) => {
    if (connections.isSpare(request.raw.socket)) {
      reply.header('connection', 'close');
      if (request.routeOptions.config.operation === 'watchEvents') {
        throw new HttpError(
          'unavailable',
          'The server has reached its maximum number of connections. Try again later.',
          {
            headers: { 'Retry-After': '10' },
          },
        );
      }
    }
    done();
  });
}

function noSchema(): never {
  throw new Error('no route has a schema that Fastify would compile');
}

/** How often Node looks for requests that take too long to arrive. */
const connectionsCheckingInterval = 5_000;
/** `checkHost` looks at it, because Node answers without a body. */
const requireHostHeader = false;

/** The application, ready to listen or to be asked in a test. */
export function buildApp(options: AppOptions): FastifyInstance {
  const { services, authenticate, log } = options;
  const { tls, trustedProxies = [] } = options;
  const app = fastify({
    ...(tls === undefined
      ? { http: { connectionsCheckingInterval, requireHostHeader } }
      : {
          https: {
            ...tls,
            connectionsCheckingInterval,
            requireHostHeader,
            handshakeTimeout: options.handshakeTimeoutMs,
          },
        }),
    // From the right: the first address that is not a trusted proxy. Values that a client sends itself are further left.
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
    logger: false,
    routerOptions: { maxParamLength: 1000 },
    requestTimeout: arrivalMs,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    genReqId: ({ headers }) => requestIdOf(headers),
    // These come before any hook.
    frameworkErrors: (error, request, reply) => {
      addHeaders(headersAt(options.publicUrl), request, reply);
      answerError(error, request, reply, options);
    },
    clientErrorHandler: answerUnreadable,
    // Bodies are read by our own schemas, and answers written by JSON.stringify. Its compilers would only be loaded.
    schemaController: { compilersFactory: { buildValidator: noSchema, buildSerializer: noSchema } },
  });
  app.setErrorHandler((error, request, reply) => {
    if (toHttpError(error).code === 'storage_full') options.health.noteFullStorage();
    return answerError(error, request, reply, options);
  });
  // Never reached: such requests are refused before their bodies would be read.
  app.setNotFoundHandler((request) => {
    throw unknownRoute(request.method, pathOf(request.url), pages);
  });
  const limits = new RequestLimits(options.requestLimits, services.clock, options.failedElsewhere);
  options.connections.guard(app.server);
  watchRequests(app, options);
  serveSpare(app, options.connections);
  guardStrangers(app, limits);
  takeBodies(app, options.bodyLimits, new BodyMemory(options.bodyMemory));
  registerHealth(app, options.health, options.metrics);
  registerDocs(app);
  registerUi(app, findAssets());
  const { stream, answerTimeoutMs, metrics } = options;
  const { store } = services;
  const guard = new RequestGuard({
    lookups: {
      immediate: new Lookups(store, store, authenticate.immediate),
      batched: new Lookups(store, store.batched, authenticate.batched),
    },
    limits,
    audit: store.audit,
    invitations: store.invitations,
    answerTimeoutMs,
    onDeviceHeard: options.onDeviceHeard,
    publicUrl: options.signIn.browser?.publicUrl,
  });
  const { health, workShares, listShares } = options;
  registerOperations(app, { services, guard, workShares, listShares, stream, log, metrics, health, answerTimeoutMs });
  registerSignIn(app, { ...options.signIn, store: services.store, limits, log });
  return app;
}
