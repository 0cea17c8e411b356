/**
 * Owns the hints between servers: after a commit, and apart from it, the other servers are told where to look, and the other processes of
 * this one what is there.
 *
 * NOTIFY inside a writing transaction would take a lock over the whole cluster at commit; sent afterwards, gathered, on a
 * connection of its own, it costs writers nothing. It may be lost with that connection: nothing depends on it but speed.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { Client, type QueryResult } from 'pg';
import type { WorkerPeers } from '../../worker-peers.ts';
import type { Hint } from '../contract/change-log.ts';
import { clientConfig, runPrepared } from './connection.ts';
import { decodeHint, emptyHint, encodeHint } from './hint-text.ts';
import { WorkerPeerHints } from './worker-peer-hints.ts';
import { statement } from './sql.ts';

const channel = 'ringfence';
const notify = statement<never>('notify', `SELECT pg_notify('${channel}', $1)`);
/** PostgreSQL takes payloads below 8,000 bytes; an entry is at most 80, and so is the mark before them. */
const maxEntries = 90;
const retryMs = 500;
/** Between two NOTIFYs: each wakes every server, and takes from the writers' processor time. The first of a burst goes at once. */
const paceMs = 5;

/** Begins to listen. Returns the number of its own backend, which a pooler hides from the driver. */
async function listen(client: Client): Promise<number> {
  const results = await client.query<{ pid: number }>(`SELECT pg_backend_pid() AS pid; LISTEN ${channel}`);
  // Of several statements, the driver returns an array.
  const [first] = results as unknown as readonly QueryResult<{ pid: number }>[];
  return first?.rows[0]?.pid ?? -1;
}

export interface HintsOptions {
  readonly url: string;
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
  #client: Client | undefined;
  #sending = false;
  #closed = false;
  #retry: NodeJS.Timeout | undefined;

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

  /** Tells this process at once and the others soon. */
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
    for (let wait = 0; this.#sending && wait < 50; wait += 1) await new Promise((resolve) => setTimeout(resolve, 10));
    this.#closed = true;
    await this.#client?.end().catch(() => {});
  }

  #deliver(hint: Hint): void {
    for (const listener of this.#listeners) listener(hint);
  }

  async #connect(): Promise<void> {
    const config = clientConfig(this.#o.url);
    // PostgreSQL writes a commit record for each NOTIFY. There is nothing in it to lose, so nobody waits for the disk because of it.
    const options = `${config.options ?? ''} -c synchronous_commit=off`;
    const client = new Client({ ...config, options, statement_timeout: 10_000 });
    const lost = (cause?: unknown): void => {
      if (this.#closed || this.#retry !== undefined) return;
      if (this.#client === client) this.#client = undefined;
      if (cause !== undefined) this.#o.onWarning('the connection for hints was lost', cause);
      this.#retry = setTimeout(() => {
        this.#retry = undefined;
        void this.#connect();
      }, retryMs);
      this.#retry.unref();
    };
    client.on('error', lost);
    client.on('end', () => lost());
    client.on('notification', ({ payload, processId }) => {
      // Our own come back too; they were delivered when they were told.
      if (payload === undefined || processId === ownPid) return;
      // The worker peers' hints arrived directly, without the database.
      if (this.#workerPeers?.hasReceived(payload) !== true) this.#deliver(decodeHint(payload));
    });
    let ownPid = -1;
    try {
      await client.connect();
      ownPid = await listen(client);
      if (this.#closed) {
        await client.end();
        return;
      }
      this.#client = client;
    } catch (cause) {
      await client.end().catch(() => {});
      lost(cause);
      return;
    }
    void this.#send();
  }

  /** One NOTIFY in flight, and a pause behind it; what gathers meanwhile goes with the next. */
  async #send(): Promise<void> {
    const client = this.#client;
    if (this.#sending || client === undefined) return;
    this.#sending = true;
    try {
      // Whoever was just answered may go on first, and all that is told in this moment goes together.
      await setImmediate();
      while (this.#unsent.size > 0 && !this.#closed) {
        const entries = [...this.#unsent].slice(0, maxEntries);
        for (const entry of entries) this.#unsent.delete(entry);
        if (this.#workerPeers !== undefined) entries.unshift(this.#workerPeers.markFrom(this.#unsentFrom));
        await runPrepared(client, notify, [entries.join(' ')]);
        await sleep(paceMs);
      }
    } catch (cause) {
      this.#o.onWarning('a hint to other servers was lost', cause);
    } finally {
      this.#sending = false;
    }
  }
}
