/** Owns the options of the service itself: where it listens, where its data is, and how it runs. */
import { availableParallelism } from 'node:os';
import { readDatabaseUrl, readListen, readNetworks, readPublicUrl } from './addresses.ts';
import type { ServerOption } from './option.ts';
import { between, oneOf, readList, readPath, whole } from './values.ts';
import { readWebhookHost, type WebhookHost } from '../limits/webhook-hosts.ts';

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Each serves tens of thousands of streams, and each takes memory and connections of the database: many more gain nothing. */
const mostWorkers = 64;
const mostByThemselves = 8;

/** One a processor, unless it is said. */
function readWorkers(text: string): number {
  return text.trim() === 'auto' ? Math.min(availableParallelism(), mostByThemselves) : whole(text, 1, mostWorkers);
}

const readWebhookHosts = (text: string): readonly WebhookHost[] =>
  text.trim() === '' ? [] : readList(text).map((entry) => readWebhookHost(entry));

/** Words and `-`; anything else is a path. */
const readAuditLog = (text: string): string => (['-', 'journald', 'syslog'].includes(text) ? text : readPath(text));

function readPhase(text: string): 1 | 2 | 3 {
  const phase = whole(text, 1, 3);
  return phase === 1 ? 1 : phase === 2 ? 2 : 3;
}

export const serviceOptions = {
  listen: {
    flags: '--listen <host:port>',
    env: 'RINGFENCE_LISTEN',
    help: 'address to listen on',
    fallback: '127.0.0.1:8080',
    read: readListen,
  },
  data: {
    flags: '--data <dir>',
    env: 'RINGFENCE_DATA',
    help: 'directory for the data (default: /var/lib/ringfence as root, else ~/.local/share/ringfence)',
    read: readPath,
  },
  databaseUrl: {
    flags: '--database-url <url>',
    env: 'RINGFENCE_DATABASE_URL',
    help: 'use this PostgreSQL instead of one in the data directory; several hosts, as in postgres://a,b:5433/db, are the nodes of a cluster',
    read: readDatabaseUrl,
    secret: true,
  },
  databaseListenUrl: {
    flags: '--database-listen-url <url>',
    env: 'RINGFENCE_DATABASE_LISTEN_URL',
    help: 'direct database URL for LISTEN, if --database-url goes through a connection pooler; without it, the server polls for changes of other servers',
    read: readDatabaseUrl,
    secret: true,
  },
  databaseWait: {
    flags: '--database-wait <seconds>',
    env: 'RINGFENCE_DATABASE_WAIT',
    help: 'how long the server waits for the database at start',
    fallback: '30',
    read: between(0, 86_400),
  },
  postgresBin: {
    flags: '--postgres-bin <dir>',
    env: 'RINGFENCE_POSTGRES_BIN',
    help: 'directory of the PostgreSQL programs, if the server does not find them',
    read: readPath,
  },
  workers: {
    flags: '--workers <number|auto>',
    env: 'RINGFENCE_WORKERS',
    help: `number of processes that serve requests; auto: one for each processor, at most ${mostByThemselves}`,
    fallback: 'auto',
    read: readWorkers,
  },
  phase: {
    flags: '--phase <1|2|3>',
    env: 'RINGFENCE_PHASE',
    help: '1: default groups only; 2: one group per device; 3: a list of groups per device',
    fallback: '3',
    read: readPhase,
  },
  tlsCert: {
    flags: '--tls-cert <file>',
    env: 'RINGFENCE_TLS_CERT',
    help: 'serve HTTPS with this certificate chain (PEM); the server reloads it when it changes',
    read: readPath,
  },
  tlsKey: {
    flags: '--tls-key <file>',
    env: 'RINGFENCE_TLS_KEY',
    help: "the certificate's private key (PEM)",
    read: readPath,
  },
  trustedProxy: {
    flags: '--trusted-proxy <address,...>',
    env: 'RINGFENCE_TRUSTED_PROXY',
    help: 'trust X-Forwarded-For only from these addresses or networks',
    read: readNetworks,
  },
  publicUrl: {
    flags: '--public-url <url>',
    env: 'RINGFENCE_PUBLIC_URL',
    help: 'where people and devices reach the server (default: the address it listens on)',
    read: readPublicUrl,
  },
  webhookHosts: {
    flags: '--webhook-hosts <host,...>',
    env: 'RINGFENCE_WEBHOOK_HOSTS',
    help: 'hosts that owners may send alerts to: hooks.example.com, 10.0.0.5:8443, http://127.0.0.1:9000; *.example.com or * for names with public addresses; no hosts by default',
    fallback: '',
    read: readWebhookHosts,
  },
  auditLog: {
    flags: '--audit-log <where>',
    env: 'RINGFENCE_AUDIT_LOG',
    help: 'write every audit entry as a JSON line to journald, syslog, a file, or - for standard output; one server of several writes each entry',
    read: readAuditLog,
  },
  auditLogRefused: {
    flags: '--audit-log-refused',
    env: 'RINGFENCE_AUDIT_LOG_REFUSED',
    help: 'also write refused traffic to the audit log',
    fallback: false,
  },
  answerTimeout: {
    flags: '--answer-timeout <seconds>',
    env: 'RINGFENCE_ANSWER_TIMEOUT',
    help: 'how long the server waits for the database before it answers a request with 503',
    fallback: '30',
    read: between(1, 3600),
  },
  shutdownDelay: {
    flags: '--shutdown-delay <seconds>',
    env: 'RINGFENCE_SHUTDOWN_DELAY',
    help: 'how long a server that shuts down still takes requests while /readyz answers 503, so that a proxy sends them elsewhere first',
    fallback: '0',
    read: between(0, 3600),
  },
  shutdownTimeout: {
    flags: '--shutdown-timeout <seconds>',
    env: 'RINGFENCE_SHUTDOWN_TIMEOUT',
    help: 'how long a shutdown may take; shortly before the end, the server closes requests in flight',
    fallback: '20',
    read: between(0, 3600),
  },
  logLevel: {
    flags: '--log-level <level>',
    env: 'RINGFENCE_LOG_LEVEL',
    help: `minimum log level: ${logLevels.join(', ')}`,
    fallback: 'info',
    read: oneOf(logLevels),
  },
  verbose: {
    flags: '-v, --verbose',
    env: 'RINGFENCE_VERBOSE',
    help: 'on a terminal, also show requests and where errors happened (a pipe or a file gets JSON lines with both)',
    fallback: false,
  },
  checkConfig: {
    flags: '--check-config',
    env: 'RINGFENCE_CHECK_CONFIG',
    help: 'check the options and exit',
    fallback: false,
  },
} as const satisfies Readonly<Record<string, ServerOption>>;
