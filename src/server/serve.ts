/** Owns the server as one process: puts its parts together, and takes them apart again in order. */
import { randomFillSync } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { limits } from '../api/limits.ts';
import { defaultLimits } from '../policy/limits.ts';
import { startSampler } from './convergence/sampler.ts';
import { startConvergence, type ConvergenceService } from './convergence/service.ts';
import { DatabaseError } from './database/errors.ts';
import { openDatabase, type Database } from './database/supervise.ts';
import { buildApp } from './http/app.ts';
import { requestLimitsOf } from './http/guard/request-limits.ts';
import { bodyLimitsOf } from './http/request/body.ts';
import { bodyMemoryLimitsOf } from './http/request/body-memory.ts';
import { acceptQueue, Gate } from './http/listener/gate.ts';
import { databaseChecks, Health } from './http/pages/health.ts';
import type { Log } from './http/observe/log.ts';
import { createMetrics, type Measures } from './http/observe/metrics.ts';
import { keepRenewed, readPair } from './http/listener/tls.ts';
import { streamHandler } from './http/handlers/events.ts';
import { authenticator } from './identity/authenticate.ts';
import { makeFirstAdmin, type FirstAdmin } from './identity/first-admin.ts';
import type { IssuerSettings } from './identity/issuer.ts';
import { browserSignInOf, methodsOf, verifierOf } from './identity/setup.ts';
import type { ServerConfig } from './options/config.ts';
import { Census } from './convergence/census.ts';
import { keepPresence } from './presence/service.ts';
import type { Siblings } from './siblings.ts';
import { StartError } from './start-error.ts';
import { StoreError } from './store/contract/errors.ts';
import { openStore } from './store/open.ts';
import type { Quotas } from './store/contract/quotas.ts';
import type { Store } from './store/contract/store.ts';
import { LocalStreamPlaces, SharedStreamPlaces, type StreamCounter, type StreamLimits } from './stream-places.ts';
import { processSlices } from './time-slices.ts';
import { startWatch, type WatchService } from './watch/service.ts';
import { startWebhooks, webhookSettings, type WebhookSettings } from './webhooks/service.ts';
import { defaultWatchSettings, watchSettingsOf, type WatchSettings } from './watch/settings.ts';

/** Where the server takes its time, randomness and log from. */
export interface Surroundings {
  readonly log: Log;
  readonly clock?: () => number;
  readonly random?: (bytes: Uint8Array) => void;
  /** Told of what takes long at start. */
  readonly say?: (line: string) => void;
  /** Goes before what the options say about streams. */
  readonly watch?: Partial<WatchSettings>;
  /** When webhooks are looked at and tried again. */
  readonly webhooks?: Partial<WebhookSettings>;
  /** How often the certificate's files are looked at. */
  readonly renewalMs?: number;
  /** When the keys of identity providers are fetched. */
  readonly issuer?: Partial<IssuerSettings>;
  /** How many processes of this server there are, to share what it may ask of the database. */
  readonly processes?: number;
  /** What the server's other processes measure. */
  readonly others?: () => Promise<readonly Measures[]>;
  /** Counts the streams of all processes of the server; absent where there is one process. */
  readonly streams?: StreamCounter;
  /** The server's other processes; absent where there is one. */
  readonly siblings?: Siblings;
}

export interface RunningServer {
  /** Where it listens, as a URL without a slash at the end. */
  readonly url: string;
  readonly store: Store;
  readonly firstAdmin: FirstAdmin | undefined;
  /** Where connections come in. */
  readonly gate: Gate;
  /** What this process measures. */
  measure(): Promise<Measures>;
  /** Finishes requests in flight, ends streams, closes the database. Requests that take longer than allowed are cut off. */
  close(): Promise<void>;
}

const day = 86_400_000;
const compactEveryMs = 300_000;
const retryMs = 500;

/** Connections that one process may open; each of many takes fewer than a lone one. */
const connectionsOf = (processes: number) => ({
  readConnections: 2,
  writeConnections: Math.max(4, Math.ceil(16 / processes)),
  transactionConnections: Math.max(2, Math.ceil(4 / processes)),
});

/** For all processes, and some for whoever looks in from outside. */
function mostConnections(processes: number): number {
  const { readConnections, writeConnections, transactionConnections } = connectionsOf(processes);
  return Math.max(200, 20 + processes * (readConnections + writeConnections + transactionConnections + 1));
}

async function openDatabaseOf(config: ServerConfig, { log }: Surroundings): Promise<Database | undefined> {
  if (config.databaseUrl !== undefined) return undefined;
  try {
    return await openDatabase({
      dir: config.data,
      bin: config.postgresBin,
      settings: { max_connections: String(mostConnections(config.workers)) },
      log: (level, message) => log[level](message),
    });
  } catch (error) {
    if (error instanceof DatabaseError) throw new StartError([error.message]);
    if (isSystemError(error)) throw new StartError([`cannot use the data directory ${config.data}: ${error.message}`]);
    throw error;
  }
}

const isSystemError = (error: unknown): error is NodeJS.ErrnoException => error instanceof Error && 'syscall' in error;

const innermost = (error: unknown): string => {
  let last = error;
  while (last instanceof Error && last.cause instanceof Error) last = last.cause;
  return last instanceof Error ? last.message : String(last);
};

/** Opens the store, waiting a while for a database that cannot be reached yet. */
const quotasOf = (config: ServerConfig): Quotas => ({
  tokens: config.maxUserTokens,
  organizations: config.maxOwnedOrganizations,
  groups: config.maxGroups,
  devices: config.maxDevices,
  enrollment_keys: config.maxEnrollmentKeys,
  members: config.maxMembers,
  webhooks: limits.webhooksPerOrganization,
  group_ranges: config.maxRanges,
  device_ranges: config.maxDeviceRanges,
});

async function openStoreOf(config: ServerConfig, url: string, around: Surroundings): Promise<Store> {
  const { log, clock = Date.now, random } = around;
  const until = clock() + config.databaseWait * 1000;
  for (let waiting = false; ; waiting = true) {
    try {
      return await openStore({
        url,
        phase: config.phase,
        quotas: quotasOf(config),
        clock,
        random,
        deletionRetentionMs: config.keepDeletions * day,
        auditRetentionMs: config.keepAudit * day,
        historyRetentionMs: config.keepHistory * day,
        ...connectionsOf(around.processes ?? 1),
        siblings: around.siblings,
        onWarning: (message, cause) => log.warn({ err: cause }, message),
      });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.problem.code === 'schema_too_new') {
        const { found, known } = error.problem;
        throw new StartError([
          `the database has schema ${found}, this program knows up to ${known}: it was used by a later version; upgrade this one`,
        ]);
      }
      if (error.code !== 'unavailable' || clock() >= until) {
        throw new StartError([`cannot reach the database: ${innermost(error)}`]);
      }
      if (!waiting) around.say?.(`waiting for the database: ${innermost(error)}`);
      await sleep(retryMs);
    }
  }
}

async function refusePhase(store: Store, config: ServerConfig): Promise<void> {
  const obstacles = await store.phaseObstacles(config.phase);
  if (obstacles.length === 0) return;
  throw new StartError(
    [`phase ${config.phase} cannot hold the stored data:`, ...obstacles.map((obstacle) => `  - ${obstacle}`)],
    2,
  );
}

/** The certificate, and what keeps it renewed once there is a server; undefined where plain HTTP is served. */
async function tlsOf(config: ServerConfig, { log, renewalMs = 5_000 }: Surroundings) {
  const { tlsCert: cert, tlsKey: key } = config;
  if (cert === undefined || key === undefined) return undefined;
  const files = { cert, key };
  let stop = (): void => {};
  try {
    const pair = await readPair(files);
    const start = (server: TlsServer): void => {
      stop = keepRenewed(server, pair, {
        files,
        everyMs: renewalMs,
        onRenewed: () => log.info('the certificate was renewed'),
        onWarning: (message, cause) => log.warn({ err: cause }, message),
      });
    };
    return { pair, start, stop: () => stop() };
  } catch (error) {
    throw new StartError([`cannot use the certificate ${cert} with the key ${key}: ${innermost(error)}`]);
  }
}

/** What signs browsers in, where that is set up. */
async function browserOf(...[config, around, where]: Parameters<typeof browserSignInOf>) {
  try {
    return await browserSignInOf(config, around, where);
  } catch (error) {
    throw new StartError([`cannot use the client's secret: ${innermost(error)}`]);
  }
}

async function listen(app: FastifyInstance, { listen: { host, port }, tlsCert }: ServerConfig): Promise<string> {
  try {
    await app.listen({ host, port, backlog: acceptQueue });
  } catch (error) {
    if (!isSystemError(error)) throw error;
    const shown = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
    const why = error.code === 'EADDRINUSE' ? 'another program listens there' : error.message;
    throw new StartError([`cannot listen on ${shown}: ${why}`]);
  }
  const { address, port: taken, family } = app.server.address() as AddressInfo;
  const reachable = address === '::' || address === '0.0.0.0' ? 'localhost' : address;
  const scheme = tlsCert === undefined ? 'http' : 'https';
  return `${scheme}://${family === 'IPv6' && reachable !== 'localhost' ? `[${reachable}]` : reachable}:${taken}`;
}

const fillRandom = (bytes: Uint8Array): void => void randomFillSync(bytes);

/** Steps that undo what was done, last first. */
export class Undo {
  readonly #steps: (() => Promise<void> | void)[] = [];

  push(step: () => Promise<void> | void): void {
    this.#steps.push(step);
  }

  async all(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) await step();
  }
}

export interface Prepared {
  readonly databaseUrl: string;
  readonly store: Store;
  readonly firstAdmin: FirstAdmin | undefined;
}

/** What comes before serving, once, however many processes serve: the database, its schema, the first administrator. */
export async function prepare(config: ServerConfig, around: Surroundings, undo: Undo): Promise<Prepared> {
  const database = await openDatabaseOf(config, around);
  if (database !== undefined) undo.push(() => database.stop());
  const databaseUrl = database?.url ?? config.databaseUrl ?? '';
  const store = await openStoreOf(config, databaseUrl, around);
  undo.push(() => store.close());
  await refusePhase(store, config);
  const { random = fillRandom } = around;
  const firstAdmin = await makeFirstAdmin({ store, data: config.data, chosen: config.adminToken, random });
  return { databaseUrl, store, firstAdmin };
}

/** Starts everything in this process, or undoes what it started and throws. */
export async function startServer(config: ServerConfig, around: Surroundings): Promise<RunningServer> {
  const { log, clock = Date.now, random = fillRandom } = around;
  const undo = new Undo();
  try {
    const { store, firstAdmin } = await prepare(config, around, undo);
    const compacting = setInterval(() => {
      const forget = (what: string, work: Promise<unknown>): void =>
        void work.catch((error: unknown) => log.warn({ err: error }, `old ${what} not forgotten`));
      forget('changes were', store.log.compact());
      forget('states were', store.history.forget());
      forget('deliveries were', store.webhooks.forget(webhookSettings.keepMs));
      forget('audit entries were', store.audit.forget());
      forget('sessions were', store.sessions.forget());
      forget('presence was', store.presence.forget());
    }, compactEveryMs).unref();
    undo.push(() => clearInterval(compacting));

    const onWarning = (message: string, cause: unknown): void => log.warn({ err: cause }, message);
    const health = new Health(databaseChecks(store));
    const metrics = createMetrics(around.others === undefined ? {} : { others: around.others });
    const watchSettings = { ...defaultWatchSettings, ...watchSettingsOf(config), ...around.watch };
    const devices = keepPresence(store.presence, watchSettings, onWarning);
    undo.push(() => devices.close());
    const slices = processSlices();
    const convergence = startConvergence({ store, monotonic: () => performance.now(), slices });
    undo.push(() => convergence.close());
    const census = new Census({ store, convergence, monotonic: () => performance.now(), onWarning });
    undo.push(() => census.close());
    metrics.countDevices(() => census.read());
    const places = around.streams
      ? new SharedStreamPlaces(around.streams, streamLimitsOf(config))
      : new LocalStreamPlaces(streamLimitsOf(config));
    const { sampler, close: endSampler } = startSampler({ samples: store.samples, convergence, clock, onWarning });
    undo.push(endSampler);
    const watch = startWatch({
      source: store.log,
      settings: watchSettings,
      clock,
      places,
      devices: devices.streams,
      registry: metrics.registry,
      onWarning,
    });
    undo.push(() => watch.close());
    if (config.webhookHosts.length > 0) {
      const webhooks = startWebhooks({
        store,
        convergence,
        slices,
        hosts: config.webhookHosts,
        clock,
        random: Math.random,
        outcomes: metrics.webhookDeliveries,
        onWarning: (message, cause) => log.warn({ err: cause }, message),
        settings: around.webhooks,
      });
      undo.push(() => webhooks.close());
    }
    const tls = await tlsOf(config, around);
    const identity = { clock, random, onWarning, settings: around.issuer };
    let listensAt = '';
    const publicUrl = (): string => config.publicUrl ?? listensAt;
    const browser = await browserOf(config, identity, { store, publicUrl });
    const credentials = { verify: verifierOf(config, identity, publicUrl), sessions: browser?.sessions };
    const app = buildApp({
      tls: tls?.pair,
      trustedProxies: config.trustedProxy,
      services: {
        store,
        convergence,
        places,
        sampler,
        clock,
        random,
        webhookHosts: config.webhookHosts,
        publicUrl: config.publicUrl,
        limits: {
          ...defaultLimits,
          rulesPerDirection: config.maxRules,
          rangesPerGroup: config.maxRanges,
          nameLength: config.maxName,
          descriptionLength: config.maxDescription,
        },
      },
      authenticate: {
        prompt: authenticator(store, store.enrollmentKeys, credentials),
        patient: authenticator(store.patient, store.enrollmentKeys, credentials),
      },
      signIn: { methods: methodsOf(config), browser },
      log,
      metrics,
      health,
      requestLimits: requestLimitsOf(config),
      bodyLimits: bodyLimitsOf(config),
      bodyMemory: bodyMemoryLimitsOf(config),
      answerTimeoutMs: config.answerTimeout * 1000,
      stream: streamHandler({ hub: watch.hub, clock }),
      onDeviceHeard: (device, isReport) => watch.hub.heard(device, isReport),
    });
    undo.push(() => closeApp({ app, health, watch, convergence }, config.shutdownTimeout * 1000));
    if (tls !== undefined) {
      undo.push(() => tls.stop());
      tls.start(app.server as unknown as TlsServer);
    }
    const url = await listen(app, config);
    listensAt = url;
    const gate = new Gate(app.server, config.listen, onWarning);
    undo.push(() => gate.close());
    const measure = (): Promise<Measures> => metrics.registry.getMetricsAsJSON();
    return { url, store, firstAdmin, gate, measure, close: () => undo.all() };
  } catch (error) {
    await undo.all();
    throw error;
  }
}

export const streamLimitsOf = (config: ServerConfig): StreamLimits => ({
  perUserCredential: config.maxStreams,
  perDeviceToken: config.maxDeviceStreams,
  perOrganization: config.maxOrganizationStreams,
  waits: config.maxWaits,
});

/** No new requests; streams end; requests in flight may finish, but not for ever. */
async function closeApp(
  parts: { app: FastifyInstance; health: Health; watch: WatchService; convergence: ConvergenceService },
  patienceMs: number,
): Promise<void> {
  const { app, health, watch, convergence } = parts;
  health.drain();
  // Whoever waits asks another server.
  convergence.close();
  const cut = setTimeout(() => {
    app.server.closeAllConnections();
    watch.close();
  }, patienceMs);
  await Promise.all([watch.drain(), app.close()]);
  clearTimeout(cut);
}
