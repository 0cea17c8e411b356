/** Owns the server in one process: it builds the parts, connects them, and stops them in order. */
import { randomFillSync } from 'node:crypto';
import type { Server as TlsServer } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../api/limits.ts';
import { defaultLimits } from '../policy/limits.ts';
import { openAuditLog } from './audit-log/service.ts';
import { Sampler, savingSamples } from './convergence/sampler.ts';
import { startConvergence } from './convergence/service.ts';
import { DatabaseError } from './database/errors.ts';
import { openDatabase, type Database } from './database/supervise.ts';
import { buildApp } from './http/app.ts';
import { RateLimiter } from './http/guard/rate-limit.ts';
import { requestLimitsOf, unknownUserLimitOf } from './http/guard/request-limits.ts';
import { bodyLimitsOf } from './http/request/body.ts';
import { bodyMemoryLimitsOf } from './http/request/body-memory.ts';
import { SharedListener } from './http/listener/shared-listener.ts';
import { databaseChecks, Health } from './http/pages/health.ts';
import type { Log } from './http/observe/log.ts';
import { createMetrics, type Measures } from './http/observe/metrics.ts';
import { streamHandler } from './http/handlers/events.ts';
import { authenticator } from './identity/authenticate.ts';
import { makeFirstAdmin, type FirstAdmin } from './identity/first-admin.ts';
import type { IssuerSettings } from './identity/issuer.ts';
import { browserSignInOf, methodsOf, verifierOf } from './identity/setup.ts';
import {
  listen,
  oneAddress,
  openConnections,
  openTls,
  requestTimeoutMs,
  stopServing,
  type TlsTimes,
} from './listen.ts';
import type { ServerConfig } from './options/config.ts';
import { FleetCounts } from './convergence/fleet-counts.ts';
import { keepPresence } from './presence/service.ts';
import type { SharedTimeline } from './store/postgres/primary.ts';
import type { WorkerPeers } from './store/postgres/worker-peer-hints.ts';
import { innermost, isSystemError, StartError } from './lifecycle/start-error.ts';
import { StoreError } from './problems.ts';
import { openStore, type Store } from './store/open.ts';
import type { Quotas } from './store/data/quotas.ts';
import type { FailedElsewhere } from './limits/failed-elsewhere.ts';
import { LocalStreamQuota, SharedStreamQuota, type StreamCounter, type StreamLimits } from './limits/stream-quota.ts';
import { endsOfTime } from './ends.ts';
import { Preview } from './preview/preview.ts';
import { removalOfOld } from './retention.ts';
import { ClaimedRules } from './usage/claimed-rules.ts';
import { DueWorkLoop } from './scheduling/due-work.ts';
import { MemoryRoom } from './scheduling/memory-room.ts';
import { processorMs, processSlices, type TimeSlices } from './scheduling/time-slices.ts';
import { listLimits, workLimits, WorkShares } from './scheduling/work-budget.ts';
import type { OrganizationId } from '../policy/ids.ts';
import { Cleanup } from './lifecycle/cleanup.ts';
import { startWatch } from './watch/service.ts';
import { mostDeliveries, startWebhooks, type WebhookSettings } from './webhooks/service.ts';
import { defaultWatchSettings, watchSettingsOf, type WatchSettings } from './watch/settings.ts';

/** The sources of time, randomness and logging. */
export interface Surroundings {
  readonly log: Log;
  readonly clock?: () => number;
  readonly random?: (bytes: Uint8Array) => void;
  /** Receives a line for each step of the start that takes long. */
  readonly say?: (line: string) => void;
  /** Goes before what the options say about streams. */
  readonly watch?: Partial<WatchSettings>;
  /** When webhooks are looked at and tried again. */
  readonly webhooks?: Partial<WebhookSettings>;
  readonly tls?: TlsTimes;
  /** When the keys of identity providers are fetched. */
  readonly issuer?: Partial<IssuerSettings>;
  /** The data directory of the supervised database, if another process of this server runs it. */
  readonly databaseDirectory?: string | undefined;
  /** How many processes of this server there are, to share what it may ask of the database. */
  readonly processes?: number;
  /** The metrics of the server's other processes. */
  readonly others?: () => Promise<readonly Measures[]>;
  /** Counts the streams of all processes of the server; absent where there is one process. */
  readonly streams?: StreamCounter;
  /** The server's other processes; absent where there is one. */
  readonly workerPeers?: WorkerPeers;
  readonly timeline?: SharedTimeline;
  readonly failedElsewhere?: FailedElsewhere;
}

export interface RunningServer {
  /** The URL at which it listens, without a trailing slash. */
  readonly url: string;
  readonly store: Store;
  readonly firstAdmin: FirstAdmin | undefined;
  /** The listener that accepts connections. */
  readonly listener: SharedListener;
  /** The metrics of this process. */
  measure(): Promise<Measures>;
  /** After the delay that proxies need: finishes requests in flight, ends streams, closes the database. Requests that take longer than allowed are cut off. */
  close(): Promise<void>;
}

const day = 86_400_000;
const retryMs = 500;

/** Characters of the rules that questions are about at a time; in memory they take about four times as much. */
const roomForOrganizations = { most: 64 * 1024 * 1024, small: 2 * 1024 * 1024, patienceMs: 15_000 };

/** Connections that one process may open; each of many takes fewer than a lone one. */
const connectionsOf = (processes: number) => ({
  callerConnections: 2,
  readConnections: 4,
  writeConnections: Math.max(2, Math.ceil(8 / processes)),
  transactionConnections: Math.max(4, Math.ceil(12 / processes)),
});

/** Those, two for what only warns, and one for hints. */
const databaseConnections = (processes: number): number =>
  Object.values(connectionsOf(processes)).reduce((sum, count) => sum + count, 3);

/** Descriptors that one process opens itself: connections to the database, to other workers and to receivers of alerts. */
function descriptorsOf({ webhookHosts }: ServerConfig, { processes = 1 }: Surroundings): number {
  const webhooks = webhookHosts.length > 0 ? mostDeliveries : 0;
  return databaseConnections(processes) + processes + webhooks;
}

/** Enough for all processes, with some left for administrators and their tools. */
const mostConnections = (processes: number): number => Math.max(200, 20 + processes * databaseConnections(processes));

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

const quotasOf = (config: ServerConfig): Quotas => ({
  tokens: config.maxUserTokens,
  organizations: config.maxOwnedOrganizations,
  groups: config.maxGroups,
  devices: config.maxDevices,
  enrollment_keys: config.maxEnrollmentKeys,
  members: config.maxMembers,
  webhooks: limits.webhooksPerOrganization,
  selectors: config.maxSelectors,
  rules: config.maxOrganizationRules,
  bytes: config.maxOrganizationGroupBytes,
  member_rules: config.maxMemberRules,
  member_bytes: config.maxMemberGroupBytes,
  group_ranges: config.maxRanges,
  device_ranges: config.maxDeviceRanges,
});

/** Opens the store, waiting a while for a database that cannot be reached yet. */
async function openStoreOf(
  config: ServerConfig,
  url: string,
  around: Surroundings,
  slices?: TimeSlices,
): Promise<Store> {
  const { log, clock = Date.now, random } = around;
  const until = clock() + config.databaseWait * 1000;
  for (let waiting = false; ; waiting = true) {
    try {
      return await openStore({
        url,
        listenUrl: config.databaseListenUrl,
        phase: config.phase,
        slices,
        quotas: quotasOf(config),
        clock,
        random,
        deletionRetentionMs: config.keepDeletions * day,
        auditRetentionMs: config.keepAudit * day,
        historyRetentionMs: config.keepHistory * day,
        flowRetentionMs: config.keepFlows * day,
        flowsPerOrganization: config.maxFlows,
        follow: around.watch,
        ...connectionsOf(around.processes ?? 1),
        workerPeers: around.workerPeers,
        timeline: around.timeline,
        onWarning: (message, cause) => log.warn({ err: cause }, message),
      });
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.problem.code === 'schema_too_new') {
        const { found, known } = error.problem;
        throw new StartError([
          `the database has schema ${found}, but this program supports only schemas up to ${known}: a later version used it; upgrade this program`,
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
    [`the stored data is not possible in phase ${config.phase}:`, ...obstacles.map((obstacle) => `  - ${obstacle}`)],
    2,
  );
}

/** The browser sign-in, if it is configured. */
async function browserOf(...[config, around, where]: Parameters<typeof browserSignInOf>) {
  try {
    return await browserSignInOf(config, around, where);
  } catch (error) {
    throw new StartError([`cannot read the client secret: ${innermost(error)}`]);
  }
}

/** The data directory of the supervised database, if there is one. */
const ownDirectory = ({ databaseUrl, data }: ServerConfig): string | undefined =>
  databaseUrl === undefined ? data : undefined;

const fillRandom = (bytes: Uint8Array): void => void randomFillSync(bytes);

export interface Prepared {
  readonly databaseUrl: string;
  readonly store: Store;
  readonly firstAdmin: FirstAdmin | undefined;
}

/** The steps before serving, once for all processes: the database, its schema, the first administrator. */
export async function prepare(
  config: ServerConfig,
  around: Surroundings,
  cleanup: Cleanup,
  slices?: TimeSlices,
): Promise<Prepared> {
  const database = await openDatabaseOf(config, around);
  if (database !== undefined) cleanup.push(() => database.stop(), { isEssential: true });
  const databaseUrl = database?.url ?? config.databaseUrl ?? '';
  const store = await openStoreOf(config, databaseUrl, around, slices);
  cleanup.push(() => store.close());
  await refusePhase(store, config);
  const { random = fillRandom } = around;
  const firstAdmin = await makeFirstAdmin({ store, data: config.data, chosen: config.adminToken, random });
  return { databaseUrl, store, firstAdmin };
}

/** Starts everything in this process, or undoes what it started and throws. */
export async function startServer(config: ServerConfig, around: Surroundings): Promise<RunningServer> {
  const { log, clock = Date.now, random = fillRandom } = around;
  const cleanup = new Cleanup();
  try {
    const slices = processSlices();
    const { store, firstAdmin } = await prepare(config, around, cleanup, slices);
    const answerTimeoutMs = config.answerTimeout * 1000;
    const clocks = { slices, monotonic: () => performance.now(), processorMs };
    const workShares = new WorkShares({ ...clocks, limits: workLimits(answerTimeoutMs) });
    const listShares = new WorkShares({ ...clocks, limits: listLimits(answerTimeoutMs) });
    const room = new MemoryRoom(roomForOrganizations);
    const onceRoom = new MemoryRoom(roomForOrganizations);
    let entered = 0;
    const enterOnce = async (org: OrganizationId): Promise<() => void> => {
      // Such an answer holds the rules of a device several times: as they are written, as they are read, and as they are told.
      const size = Math.min(roomForOrganizations.most, 4 * (await store.groups.bytesOf(org)));
      return onceRoom.enter(String((entered += 1)), size);
    };
    const preview = new Preview({
      enter: (org, size) => room.enter(org, size),
      models: store.models,
      phase: config.phase,
    });
    const claimedRules = new ClaimedRules({
      snapshots: store.models,
      enter: async (org) => room.enter(org, await store.groups.bytesOf(org)),
      slices,
      monotonic: () => performance.now(),
    });
    const onWarning = (message: string, cause: unknown): void => log.warn({ err: cause }, message);
    const due = new DueWorkLoop({ leases: store.leases, onWarning });
    cleanup.push(() => due.close());
    due.start(removalOfOld(store.retention, onWarning));
    due.start(endsOfTime({ ends: store.ends, clock, onWarning }));
    const health = new Health(databaseChecks(store, around.databaseDirectory ?? ownDirectory(config)));
    const metrics = createMetrics(around.others === undefined ? {} : { others: around.others });
    const watchSettings = { ...defaultWatchSettings, ...watchSettingsOf(config), ...around.watch };
    const devices = keepPresence(store.presence, watchSettings, onWarning);
    cleanup.push(() => devices.close());
    const streamQuota = around.streams
      ? new SharedStreamQuota(around.streams, streamLimitsOf(config))
      : new LocalStreamQuota(streamLimitsOf(config));
    const watch = startWatch({
      source: store.log,
      logs: store.logs,
      broadcast: store.broadcast,
      settings: watchSettings,
      clock,
      streamQuota,
      devices: devices.streams,
      registry: metrics.registry,
      onWarning,
    });
    cleanup.push(() => watch.close());
    const convergence = startConvergence({
      store,
      receipts: watch.hub.receipts,
      monotonic: () => performance.now(),
      now: clock,
      slices,
    });
    cleanup.push(() => convergence.close());
    const fleetCounts = new FleetCounts({ store, convergence, monotonic: () => performance.now(), onWarning });
    cleanup.push(() => fleetCounts.close());
    metrics.countDevices(() => fleetCounts.read());
    const sampler = new Sampler({ samples: store.samples, convergence, clock, onWarning });
    due.start(savingSamples(sampler));
    if (config.webhookHosts.length > 0) {
      startWebhooks({
        start: (work) => due.start(work),
        store,
        convergence,
        slices,
        hosts: config.webhookHosts,
        clock,
        random: Math.random,
        outcomes: metrics.webhookDeliveries,
        onWarning,
        settings: around.webhooks,
      });
    }
    for (const work of await openAuditLog(config, { waiting: store.auditExport, clock, onWarning })) due.start(work);
    const tls = await openTls(config, log, store, around.tls ?? {});
    const connections = await openConnections(config, metrics, descriptorsOf(config, around));
    cleanup.push(() => connections.close());
    /** As far as it is known before the server listens: all that counts is whether people come by HTTPS. */
    const reachedAt = config.publicUrl ?? (tls === undefined ? undefined : 'https:');
    const identity = { clock, random, onWarning, settings: around.issuer };
    let listensAt = '';
    const publicUrl = (): string => config.publicUrl ?? listensAt;
    const browser = await browserOf(config, identity, { store, publicUrl });
    const credentials = { verify: verifierOf(config, identity, publicUrl), sessions: browser?.sessions };
    const app = buildApp({
      tls: tls?.context,
      handshakeTimeoutMs: config.handshakeTimeout * 1000,
      connections,
      publicUrl: reachedAt,
      trustedProxies: config.trustedProxy,
      services: {
        store,
        convergence,
        preview,
        claimedRules,
        slices,
        enterOnce,
        streamQuota,
        sampler,
        receipts: watch.hub.receipts,
        onRefused: metrics.refused,
        unknownUsers: new RateLimiter(unknownUserLimitOf(config), clock),
        clock,
        random,
        tokenMaxAgeMs: config.tokenMaxAge * 1_000,
        webhookHosts: config.webhookHosts,
        publicUrl: config.publicUrl,
        issuers: config.oidcIssuer ?? [],
        limits: {
          ...defaultLimits,
          rulesPerDirection: config.maxRules,
          rangesPerGroup: config.maxRanges,
          nameLength: config.maxName,
          descriptionLength: config.maxDescription,
        },
      },
      authenticate: {
        immediate: authenticator(store, store.enrollmentKeys, credentials),
        batched: authenticator(store.batched, store.enrollmentKeys, credentials),
      },
      signIn: { methods: methodsOf(config), browser },
      log,
      metrics,
      health,
      requestLimits: requestLimitsOf(config),
      failedElsewhere: around.failedElsewhere,
      bodyLimits: bodyLimitsOf(config),
      bodyMemory: bodyMemoryLimitsOf(config),
      workShares,
      listShares,
      answerTimeoutMs,
      stream: streamHandler({ hub: watch.hub, clock, publicUrl: reachedAt }),
      onDeviceHeard: (device, isReport) => watch.hub.heard(device, isReport),
    });
    const shutdownMs = config.shutdownTimeout * 1000;
    cleanup.push(() => stopServing({ app, connections, health, watch, convergence }, requestTimeoutMs(shutdownMs)));
    for (const work of tls?.renewals(app.server as unknown as TlsServer) ?? []) due.start(work);
    const at = { ...config.listen, host: await oneAddress(config.listen.host) };
    const url = await listen(app, { ...config, listen: at });
    listensAt = url;
    const listener = new SharedListener(app.server, at, onWarning);
    cleanup.push(() => listener.close());
    const close = (): Promise<void> => health.leave(config.shutdownDelay * 1000).then(() => cleanup.run(shutdownMs));
    return { url, store, firstAdmin, listener, measure: () => metrics.registry.getMetricsAsJSON(), close };
  } catch (error) {
    await cleanup.run();
    throw error;
  }
}

export const streamLimitsOf = (config: ServerConfig): StreamLimits => ({
  perUserCredential: config.maxStreams,
  perDeviceToken: config.maxDeviceStreams,
  perOrganization: config.maxOrganizationStreams,
  waits: config.maxWaits,
});
