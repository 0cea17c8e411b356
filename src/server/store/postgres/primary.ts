/**
 * Owns the opening of connections to the primary among the hosts of the database URL: never to a standby, and never to
 * a primary that another one has replaced.
 *
 * A pooler such as PgBouncer may give each transaction another session. So a connection through one keeps no session
 * state: no settings, no named statements, no LISTEN. A connection uses a pooler when the backend's process id differs
 * from the one that the connection was given.
 */
import { readFile } from 'node:fs/promises';
import { Socket } from 'node:net';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import { Client, type ClientConfig } from 'pg';
import { parseDatabaseUrl, type DatabaseAddress, type DatabaseHost } from '../../options/database-url.ts';
import { DatabaseConnection } from './database-connection.ts';
import { typeParsers } from './type-parsers.ts';

/** The newest timeline of the database that a process of this server has seen. A primary on an older one was replaced. */
export interface SharedTimeline {
  /** This process has seen it. */
  saw(timeline: number): void;
  /** Calls a listener with the newest so far, 0 where there is none, and then with each newer one. */
  listen(listener: (timeline: number) => void): void;
}

/** In milliseconds; 0 is for ever. */
export interface Timeouts {
  readonly statement: number;
  /** A statement that waits this long for a lock waits for someone who hangs. */
  readonly lock: number;
  readonly idleInTransaction: number;
  /** How long an answer may take; then the connection counts as lost, because packets may be dropped somewhere. */
  readonly answer: number;
}

const defaultTimeouts: Timeouts = { statement: 25_000, lock: 10_000, idleInTransaction: 20_000, answer: 30_000 };
export const noTimeouts: Timeouts = { statement: 0, lock: 0, idleInTransaction: 0, answer: 0 };

export interface OpenOptions {
  readonly timeouts?: Timeouts;
  readonly pipeline?: boolean;
  readonly applicationName?: string;
}

const settingsOf = ({ statement, lock, idleInTransaction }: Timeouts): readonly (readonly [string, number])[] => [
  ['statement_timeout', statement],
  ['lock_timeout', lock],
  ['idle_in_transaction_session_timeout', idleInTransaction],
];

/** Keepalive probes begin after this long without a packet. */
const keepAliveMs = 5_000;
/** A host that has not answered for this long does not keep us from trying the next one. */
const nextHostMs = 500;

interface LookRow {
  readonly pid: number;
  readonly standby: boolean;
  readonly read_only: boolean;
  /** Of a primary; only asked where there are several hosts. */
  readonly timeline: number | null;
}

/** A promotion begins a new timeline, with a higher number. */
const timeline = `CASE WHEN NOT pg_is_in_recovery() THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer END`;

/** One question for a new connection. It also sets the timeouts, where the session is our own. */
const look = (
  pid: number,
  timeouts: Timeouts,
  withTimeline: boolean,
): string => `SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby,
  current_setting('transaction_read_only') = 'on' AS read_only,
  ${withTimeline ? timeline : 'NULL'} AS timeline,
  CASE WHEN pg_backend_pid() = ${pid} THEN ${settingsOf(timeouts)
    .map(([name, ms]) => `set_config('${name}', '${ms}', false)`)
    .join(' || ')} END`;

/** The driver knows which process the server named to it, and has no type for it. */
function namedProcess(client: Client): number {
  const given: unknown = 'processID' in client ? client.processID : undefined;
  return typeof given === 'number' ? given : -1;
}

async function tlsOf({ tls }: DatabaseAddress, mode: DatabaseAddress['tls']['mode']): Promise<TlsOptions | false> {
  if (mode === 'disable') return false;
  const { rootCert, cert, key } = tls;
  const ca = rootCert === undefined || rootCert === 'system' ? undefined : await readFile(rootCert);
  return {
    // As libpq does: `require` checks the certificate only where it is given an authority.
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full' || (mode === 'require' && ca !== undefined),
    ...(mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && key !== undefined && { cert: await readFile(cert), key: await readFile(key) }),
  };
}

const nameOf = ({ host, port }: DatabaseHost): string =>
  host.startsWith('/') ? `${host}:${port}` : `${host.includes(':') ? `[${host}]` : host}:${port}`;

export interface PrimaryOptions {
  /** What other processes of this server have seen of it. */
  readonly timeline?: SharedTimeline | undefined;
}

export class Primary {
  readonly #address: DatabaseAddress;
  /** Where the last connection was opened: most probably the primary still. */
  #last: DatabaseHost | undefined;
  /** The highest that was seen. A primary below it was replaced by another, and does not know. */
  #timeline = 0;
  readonly #open = new Map<DatabaseConnection, number>();

  readonly #shared: SharedTimeline | undefined;

  constructor(url: string, { timeline: shared }: PrimaryOptions = {}) {
    this.#address = parseDatabaseUrl(url);
    // With one host, timelines are not compared.
    if (this.#address.hosts.length > 1) this.#shared = shared;
    this.#shared?.listen((newest) => this.#raiseTimeline(newest));
  }

  /** Opens a connection on whichever host is the primary now. */
  async open(options: OpenOptions = {}): Promise<DatabaseConnection> {
    const { hosts } = this.#address;
    const [first] = hosts;
    if (hosts.length === 1) return this.#openAt(first, options);
    if (this.#timeline === 0) await this.#compare(hosts);
    const last = this.#last ?? first;
    return this.#openFirst([last, ...hosts.filter((host) => host !== last)], options);
  }

  /** At first every host is asked: the first that answers may be a primary that was replaced. */
  async #compare(hosts: readonly DatabaseHost[]): Promise<void> {
    await Promise.all(
      hosts.map((host) =>
        this.#openAt(host, {}).then(
          (connection) => connection.end(),
          () => {},
        ),
      ),
    );
  }

  #checkRole(row: LookRow | undefined): asserts row {
    if (row === undefined || row.standby) throw new Error('it is a standby');
    if (row.read_only) throw new Error('it is read-only');
  }

  #checkTimeline(found: number): void {
    if (found < this.#timeline) throw new Error('another primary has replaced it');
    this.#raiseTimeline(found);
    this.#shared?.saw(found);
  }

  #raiseTimeline(newest: number): void {
    this.#timeline = newest;
    for (const [connection, its] of this.#open) if (its < newest) connection.destroy();
  }

  /** Tries the hosts in order; a slow one does not keep the next one waiting. */
  #openFirst(hosts: readonly DatabaseHost[], options: OpenOptions): Promise<DatabaseConnection> {
    return new Promise((resolve, reject) => {
      const failures: string[] = [];
      const causes: unknown[] = [];
      let [next, won] = [0, false];
      const tryNext = (): void => {
        const host = hosts[next];
        if (won || host === undefined) return;
        next += 1;
        const timer = setTimeout(tryNext, nextHostMs);
        this.#openAt(host, options).then(
          (opened) => {
            clearTimeout(timer);
            if (won) return void opened.end();
            won = true;
            this.#last = host;
            return resolve(opened);
          },
          (cause: unknown) => {
            clearTimeout(timer);
            failures.push(`${nameOf(host)}: ${cause instanceof Error ? cause.message : String(cause)}`);
            causes.push(cause);
            // All of them: the last one alone would hide that another is a standby, or was replaced.
            if (failures.length === hosts.length)
              reject(new AggregateError(causes, `no primary: ${failures.join('; ')}`));
            else tryNext();
          },
        );
      };
      tryNext();
    });
  }

  async #openAt(host: DatabaseHost, options: OpenOptions): Promise<DatabaseConnection> {
    const { mode } = this.#address.tls;
    const isOptional = mode === 'prefer' || mode === 'allow';
    if (host.host.startsWith('/')) return this.#connect(host, 'disable', options);
    try {
      return await this.#connect(host, mode, options);
    } catch (cause) {
      const refusesTls = cause instanceof Error && cause.message.includes('does not support SSL');
      if (!isOptional || !refusesTls) throw cause;
      return this.#connect(host, 'disable', options);
    }
  }

  async #connect(
    host: DatabaseHost,
    mode: DatabaseAddress['tls']['mode'],
    options: OpenOptions,
  ): Promise<DatabaseConnection> {
    const { user, password, database, connectTimeoutMs } = this.#address;
    const { timeouts = defaultTimeouts, pipeline = false, applicationName = 'ringfence' } = options;
    const socket = new Socket();
    const config: ClientConfig = {
      ...host,
      user,
      password,
      database,
      ssl: await tlsOf(this.#address, mode),
      types: typeParsers,
      application_name: applicationName,
      connectionTimeoutMillis: connectTimeoutMs,
      query_timeout: timeouts.answer,
      keepAlive: true,
      keepAliveInitialDelayMillis: keepAliveMs,
      pipeline,
      stream: () => socket,
    };
    const client = new Client(config);
    // Its owner listens too. Without any listener, an error would end the process.
    client.on('error', () => {});
    const deadline = setTimeout(() => socket.destroy(), 2 * connectTimeoutMs);
    try {
      await client.connect();
      const { rows } = await client.query<LookRow>(
        look(namedProcess(client), timeouts, this.#address.hosts.length > 1),
      );
      const [row] = rows;
      this.#checkRole(row);
      this.#checkTimeline(row.timeline ?? 0);
      const isPooled = row.pid !== namedProcess(client);
      const begin = isPooled ? beginWith(timeouts) : 'BEGIN';
      const connection = new DatabaseConnection({
        client,
        isPooled,
        begin,
        destroy: () => socket.destroy(),
        gather() {
          socket.cork();
          process.nextTick(() => socket.uncork());
        },
      });
      this.#open.set(connection, row.timeline ?? 0);
      client.once('end', () => this.#open.delete(connection));
      return connection;
    } catch (cause) {
      socket.destroy();
      throw cause;
    } finally {
      clearTimeout(deadline);
    }
  }
}

const beginWith = (timeouts: Timeouts): string =>
  ['BEGIN', ...settingsOf(timeouts).map(([name, ms]) => `SET LOCAL ${name} = ${ms}`)].join('; ');
