/** Owns the HTTP application: one Fastify with its hooks, its one error edge and every route. */
import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { errors, problemContentType } from '../../api/codes.ts';
import { signInPaths } from '../../api/sign-in.ts';
import type { Authenticate } from '../identity/authenticate.ts';
import { withoutSecrets } from '../identity/secret.ts';
import { takeBodies, type BodyLimits } from './request/body.ts';
import type { Services } from './call.ts';
import { registerDocs } from './pages/docs.ts';
import { HttpError, problemBody, toHttpError } from './errors.ts';
import { commonHeaders } from './headers.ts';
import { registerHealth, type Health } from './pages/health.ts';
import type { Log } from './observe/log.ts';
import { Lookups } from './guard/lookups.ts';
import type { Metrics } from './observe/metrics.ts';
import { RequestLimits, type RequestLimitOptions } from './guard/request-limits.ts';
import { registerOperations } from './routes.ts';
import type { StreamHandler } from './handlers/events.ts';
import { registerSignIn, type SignInRouteOptions } from './handlers/sign-in.ts';
import { logRequest } from './observe/request-log.ts';
import { addressOf, subscriberOf } from './request/address.ts';
import { pathOf } from './request/path.ts';
import type { Pair } from './listener/tls.ts';
import { findAssets, registerUi } from './pages/ui.ts';
import { unknownRoute } from './pages/unknown.ts';

export interface AppOptions {
  readonly services: Services;
  /** For operations whose callers wait for nobody, and for those whose callers are patient. */
  readonly authenticate: Readonly<Record<'prompt' | 'patient', Authenticate>>;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly health: Health;
  readonly requestLimits: RequestLimitOptions;
  readonly bodyLimits: BodyLimits;
  /** How long the database may take to answer a request. */
  readonly answerTimeoutMs: number;
  readonly stream: StreamHandler;
  /** Speaks TLS with this certificate. */
  readonly tls?: Pair | undefined;
  /** Addresses and networks whose word on where a request came from is taken. */
  readonly trustedProxies?: readonly string[] | undefined;
  /** How people may sign in, and what signs their browsers in. */
  readonly signIn: Pick<SignInRouteOptions, 'methods' | 'browser'>;
}

const safeId = /^[A-Za-z0-9._:-]{1,64}$/;

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

/** Answers a request that Node itself could not read; there is no request object yet. */
function answerBroken(error: Error & { readonly code?: string }, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const code =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? 'headers_too_large'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? 'request_timeout'
        : 'malformed_request';
  const [status, title] = errors[code];
  const body = JSON.stringify(
    problemBody(new HttpError(code, 'The request cannot be read as HTTP.'), { path: '/', id: randomUUID() }),
  );
  const head = `HTTP/1.1 ${status} ${title}\r\nContent-Type: ${problemContentType}\r\nConnection: close\r\n`;
  socket.end(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

function addCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', request.id);
  for (const [name, value] of commonHeaders) reply.header(name, value);
}

function answerError(failure: unknown, request: FastifyRequest, reply: FastifyReply, log: Log): FastifyReply {
  const error = toHttpError(failure);
  const path = pathOf(request.url);
  const about = { req: request.id, method: request.method, path: withoutSecrets(path) };
  if (error.status >= 500) {
    log[error.status === 503 ? 'warn' : 'error']({ ...about, err: error.cause ?? error }, error.message);
  }
  for (const [name, value] of Object.entries(error.extras.headers ?? {})) reply.header(name, value);
  const body = problemBody(error, { path, id: request.id });
  return reply.code(error.status).type(problemContentType).serializer(String).send(JSON.stringify(body));
}

function watchRequests(app: FastifyInstance, { log, metrics, health }: AppOptions): void {
  app.addHook('onRequest', (request, reply, done) => {
    addCommonHeaders(request, reply);
    done();
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    // A connection that stayed open after its last answer would keep a stopping server waiting.
    if (health.draining) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('onResponse', (request, reply, done) => {
    logRequest({ log, metrics }, request, reply);
    done();
  });
}

/** What is no operation needs no credential: it is counted by address. What leads nowhere is answered before anything is read of it. */
function guardStrangers(app: FastifyInstance, limits: RequestLimits): void {
  app.addHook('onRequest', (request, _reply, done) => {
    if (request.routeOptions.config.operation === undefined) limits.stranger(subscriberOf(addressOf(request)));
    if (request.is404) throw unknownRoute(request.method, pathOf(request.url), pages);
    done();
  });
}

/** The application, ready to listen or to be asked in a test. */
export function buildApp(options: AppOptions): FastifyInstance {
  const { services, authenticate, log } = options;
  const { tls, trustedProxies = [] } = options;
  const app = fastify({
    ...(tls === undefined ? {} : { https: { ...tls, minVersion: 'TLSv1.2' } }),
    // From the right: the first address that is no trusted proxy. What a client writes there itself is further left.
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
    logger: false,
    routerOptions: { maxParamLength: 1000 },
    // How long a request may take to arrive; the answer may take longer.
    requestTimeout: 60_000,
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    genReqId: (request) => {
      const given = request.headers['x-request-id'];
      return typeof given === 'string' && safeId.test(given) ? given : randomUUID();
    },
    // These come before any hook.
    frameworkErrors: (error, request, reply) => {
      addCommonHeaders(request, reply);
      answerError(error, request, reply, log);
    },
    clientErrorHandler: answerBroken,
  });
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, log));
  // Never reached: such requests are refused before their bodies would be read.
  app.setNotFoundHandler((request) => {
    throw unknownRoute(request.method, pathOf(request.url), pages);
  });
  const limits = new RequestLimits(options.requestLimits, services.clock);
  takeBodies(app, options.bodyLimits);
  watchRequests(app, options);
  guardStrangers(app, limits);
  registerHealth(app, options.health, options.metrics);
  registerDocs(app);
  registerUi(app, findAssets());
  const { stream, answerTimeoutMs } = options;
  const { store } = services;
  const lookups = {
    prompt: new Lookups(store, store, authenticate.prompt),
    patient: new Lookups(store, store.patient, authenticate.patient),
  };
  const publicUrl = options.signIn.browser?.publicUrl;
  registerOperations(app, { services, lookups, limits, stream, answerTimeoutMs, publicUrl });
  registerSignIn(app, { ...options.signIn, store: services.store, log });
  return app;
}
