/**
 * Owns the hints between servers. After a commit, and separate from it, the other servers learn which organization
 * changed, and the other processes of this server learn what changed.
 *
 * NOTIFY inside a writing transaction would take a lock over the whole cluster at commit. Sent afterwards, in batches,
 * on a separate connection, it costs writers nothing. It may be lost with that connection: only speed depends on it.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { type WorkerPeers, WorkerPeerHints } from './worker-peer-hints.ts';
import type { Hint } from '../data/change-log.ts';
import type { DatabaseConnection } from './database-connection.ts';
import { checkArrival, type ListenWay } from './listen-check.ts';
import { decodeHint, emptyHint, encodeHint } from './hint-text.ts';
import type { Primary } from './primary.ts';
import { statement } from './sql.ts';

const channel = 'ringfence';
/** PostgreSQL writes a commit record for each NOTIFY. There is nothing in it to lose, so nothing waits for the disk because of it. */
const notify = statement<never>(
  'notify',
  `SELECT set_config('synchronous_commit', 'off', true), pg_notify('${channel}', $1)`,
);
const listen = statement<never>('listen', `LISTEN ${channel}`);
const ownPid = statement<{ pid: number }>('own_backend', 'SELECT pg_backend_pid() AS pid');
/** PostgreSQL takes payloads below 8,000 bytes; an entry is at most 80, and so is the mark before them. */
const maxEntries = 90;
const retryMs = 500;
/** Between two NOTIFYs: each wakes every server, and takes from the writers' processor time. The first of a burst goes at once. */
const paceMs = 5;

export interface HintsOptions {
  readonly primary: Primary;
  /** A way to the database on which a session keeps its state, where `primary` leads through a pooler. */
  readonly listenAt?: ListenWay | undefined;
  readonly onWarning: (message: string, cause: unknown) => void;
  /** The other processes of this server, and by what name, a UUID, they know this one. */
  readonly workerPeers?: { readonly way: WorkerPeers; readonly name: string } | undefined;
}

export class Hints {
  readonly #o: HintsOptions;
  readonly #workerPeers: WorkerPeerHints | undefined;
  readonly #listeners = new Set<(hint: Hint) => void>();
  /** Entries waiting to be sent; a set, because an organization's tenth change needs no tenth hint. */
  readonly #unsent = new Set<string>();
  /** The worker peers' number of the first of them. */
  #unsentFrom = 0;
  #connection: DatabaseConnection | undefined;
  #warned = false;
  /** Hints of other servers do not arrive, and this was said. */
  #isDeaf = false;
  #sending = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;
  /** Aborted at the end. */
  readonly #ending = new AbortController();

  constructor(options: HintsOptions) {
    this.#o = options;
    const { workerPeers } = options;
    this.#workerPeers =
      workerPeers &&
      new WorkerPeerHints({
        workerPeers: workerPeers.way,
        source: workerPeers.name,
        deliver: (hint) => this.#deliver(hint),
      });
  }

  /** Resolves once it listens, or once the first try failed: it then goes on trying by itself. */
  async start(): Promise<void> {
    await this.#connect();
  }

  on(listener: (hint: Hint) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Notifies this process at once and the others soon. */
  tell(hint: Partial<Hint>): void {
    const whole = { ...emptyHint(), ...hint };
    this.#deliver(whole);
    const entries = encodeHint(whole);
    if (entries.length === 0) return;
    const number = this.#workerPeers?.tell(entries, whole.logged) ?? 0;
    if (this.#unsent.size === 0) this.#unsentFrom = number;
    for (const entry of entries) this.#unsent.add(entry);
    void this.#send();
  }

  async close(): Promise<void> {
    clearTimeout(this.#retry);
    this.#ending.abort();
    for (let wait = 0; this.#sending && wait < 50; wait += 1) await new Promise((resolve) => setTimeout(resolve, 10));
    this.#closed = true;
    await this.#connection?.end();
  }

  #deliver(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint);
  }

  async #connect(): Promise<void> {
    const { primary, listenAt, onWarning } = this.#o;
    const lost = (cause?: unknown): void => {
      if (this.#closed || this.#retry !== undefined) return;
      this.#connection = undefined;
      if (cause !== undefined && !this.#isDeaf) {
        this.#isDeaf = true;
        onWarning(
          'cannot listen for changes of other servers: they are polled until that works again, and arrive a little later',
          cause,
        );
      }
      this.#retry = setTimeout(() => {
        this.#retry = undefined;
        void this.#connect();
      }, retryMs);
      this.#retry.unref();
    };
    let connection: DatabaseConnection | undefined;
    try {
      connection = await (listenAt?.at ?? primary).open();
      connection.client.on('error', lost).on('end', () => lost());
      if (connection.isPooled && listenAt === undefined) this.#warnOfPooler();
      else await this.#listen(connection);
    } catch (cause) {
      // First the cause: the end of the connection has none.
      lost(cause);
      await connection?.end();
      return;
    }
    if (this.#closed) {
      await connection.end();
      return;
    }
    this.#connection = connection;
    if (this.#isDeaf) onWarning('changes of other servers are heard of at once again', undefined);
    this.#isDeaf = false;
    void this.#send();
  }

  /** Behind a pooler, LISTEN would be the affair of a session that is somebody else's a moment later. */
  #warnOfPooler(): void {
    if (this.#warned) return;
    this.#warned = true;
    this.#o.onWarning(
      'the database is behind a connection pooler: changes of other servers are polled, and arrive a little later; --database-listen-url names a direct way',
      undefined,
    );
  }

  async #listen(connection: DatabaseConnection): Promise<void> {
    const [own] = await connection.run(ownPid, []);
    connection.client.on('notification', ({ payload, processId }) => {
      // PostgreSQL also returns our own hints. This process has already handled them.
      if (payload === undefined || processId === own?.pid) return;
      // The worker peers' hints arrived directly, without the database.
      if (this.#workerPeers?.hasReceived(payload) !== true) this.#deliver({ ...decodeHint(payload), isRumour: true });
    });
    await connection.run(listen, []);
    const { listenAt } = this.#o;
    if (listenAt === undefined) return;
    // To all who listen it means nothing, like the mark of worker peers.
    const payload = `s${listenAt.newId()}`;
    const notifyAll = (): Promise<unknown> => listenAt.ordinary.run(notify, [payload]);
    await checkArrival(connection, { notify: notifyAll, payload, signal: this.#ending.signal });
  }

  /** One NOTIFY in flight, and a pause behind it; what gathers meanwhile goes with the next. */
  async #send(): Promise<void> {
    // Where this process cannot listen, others may, and its hints would gather without end.
    const connection = this.#connection ?? (this.#isDeaf ? this.#o.listenAt?.ordinary : undefined);
    if (this.#sending || connection === undefined) return;
    this.#sending = true;
    try {
      // Requests that were just answered continue first, and hints of this moment are sent together.
      await setImmediate();
      while (this.#unsent.size > 0 && !this.#closed) {
        const entries = [...this.#unsent].slice(0, maxEntries);
        for (const entry of entries) this.#unsent.delete(entry);
        if (this.#workerPeers !== undefined) entries.unshift(this.#workerPeers.markFrom(this.#unsentFrom));
        await connection.run(notify, [entries.join(' ')]);
        await sleep(paceMs);
      }
    } catch (cause) {
      if (!this.#isDeaf) this.#o.onWarning('a hint to other servers was lost', cause);
    } finally {
      this.#sending = false;
    }
  }
}
