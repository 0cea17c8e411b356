/**
 * Owns whether anybody else listens for hints (decision 0054). Whoever listens holds a shared lock for as long as it does,
 * and says so when it begins. So who finds nobody else at the lock is alone until it hears of somebody.
 */
import type { Client, QueryResult } from 'pg';
import { runPrepared, type Querying } from './prepared-query.ts';
import { statement } from './sql.ts';

const lock = 7264651003;
/** Nobody else listens while the lock can be had alone. It is given back at once: whoever begins just then waits for no client. */
const askAlone = statement<{ alone: boolean }>(
  'ask_alone',
  `SELECT CASE WHEN pg_try_advisory_lock(${lock}) THEN pg_advisory_unlock(${lock}) ELSE false END AS alone`,
);
/** Says that somebody begins to listen. To a version that does not know it, it is an entry like others that it does not know. */
export const greeting = 'h';

/** Begins to listen, takes the lock and says so, in one transaction; gives the number of its own backend, which a pooler hides from the driver. */
export async function listen(client: Client, channel: string): Promise<number> {
  const results = await client.query<{ pid: number }>(
    `SELECT pg_backend_pid() AS pid; LISTEN ${channel}; SELECT pg_advisory_lock_shared(${lock}); SELECT pg_notify('${channel}', '${greeting}')`,
  );
  // Of several statements, the driver gives an array.
  const [first] = results as unknown as readonly QueryResult<{ pid: number }>[];
  return first?.rows[0]?.pid ?? -1;
}

export class OtherServers {
  #none = false;
  #heard = 0;
  #client: Querying | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** After so long it is asked again whether the others are gone: they may have died without a word. */
  readonly #askAgainMs: number;

  constructor(options: { readonly askAgainMs?: number } = {}) {
    this.#askAgainMs = options.askAgainMs ?? 30_000;
  }

  /** Nobody else listens, which is certain; it is false also when it is not known. */
  get none(): boolean {
    return this.#none;
  }

  /** To be called with a connection that has begun to listen. */
  begin(client: Querying): void {
    this.#client = client;
    void this.#ask();
  }

  /** Somebody else has said something. */
  hear(): void {
    this.#heard += 1;
    if (!this.#none) return;
    this.#none = false;
    this.#askLater();
  }

  /** The connection is lost: what others say is not heard until there is another. */
  end(): void {
    this.#client = undefined;
    this.#none = false;
    clearTimeout(this.#timer);
  }

  async #ask(): Promise<void> {
    const client = this.#client;
    if (client === undefined) return;
    const heard = this.#heard;
    const [answer] = await runPrepared(client, askAlone, []).catch(() => []);
    if (this.#client !== client) return;
    // Whoever took the lock after the answer says so after it; what is heard before it is read counts.
    this.#none = answer?.alone === true && heard === this.#heard;
    if (!this.#none) this.#askLater();
  }

  #askLater(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#ask(), this.#askAgainMs);
    this.#timer.unref();
  }
}
