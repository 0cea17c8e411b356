/** Owns the connections: pipelined ones for single statements and whole batches, a pool for transactions that must think in between. */
import { Client, Pool, type ClientBase, type ClientConfig, type PoolClient } from 'pg';
import { StoreError } from '../contract/errors.ts';
import { toStoreError, wasLost } from './failure.ts';
import type { Statement, Value } from './sql.ts';
import { typeParsers } from './type-parsers.ts';

export interface ConnectionOptions {
  readonly url: string;
  readonly onWarning: (message: string, cause: unknown) => void;
}

export const clientConfig = (url: string): ClientConfig => ({
  connectionString: url,
  types: typeParsers,
  application_name: 'ringfence',
  connectionTimeoutMillis: 5_000,
  // Nothing here takes long: a statement that does waits for a lock that someone hung is holding.
  lock_timeout: 10_000,
  statement_timeout: 60_000,
  idle_in_transaction_session_timeout: 20_000,
  keepAlive: true,
  // Every statement here is an index lookup whatever its values: planning it anew would cost more than running it.
  options: '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off',
});

/** Whatever can run statements: a pipelined connection, or a transaction. */
export interface Runner {
  run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]>;
}

/** PostgreSQL's text holds no NUL. */
function checkTexts(values: readonly Value[]): void {
  for (const value of values) {
    const bad =
      typeof value === 'string'
        ? value.includes('\0')
        : Array.isArray(value) && value.some((item: string | null) => item?.includes('\0'));
    if (bad) throw new StoreError({ code: 'invalid_text' });
  }
}

type Done = (error: Error | null | undefined, result: { readonly rows: readonly unknown[] }) => void;

/** Sends the statement before this returns. `done` runs in the turn in which the rows arrive, which a promise would delay. */
function sendPrepared(
  { name, text }: Statement<unknown>,
  values: readonly Value[],
  client: ClientBase,
  done: Done,
): void {
  client.query({ name, text, values: [...values] }, done);
}

/** Runs a statement on one connection, which prepares it on first use. */
export const runPrepared = <Row>(
  client: ClientBase,
  statement: Statement<Row>,
  values: readonly Value[],
): Promise<readonly Row[]> =>
  new Promise((resolve, reject) => {
    sendPrepared(statement, values, client, (error, result) =>
      error == null ? resolve(result.rows as readonly Row[]) : reject(error),
    );
  });

async function query<Row>(
  client: ClientBase,
  statement: Statement<Row>,
  values: readonly Value[],
): Promise<readonly Row[]> {
  checkTexts(values);
  try {
    return await runPrepared(client, statement, values);
  } catch (cause) {
    throw toStoreError(cause);
  }
}

/** One connection that many callers share: each statement is sent at once, answers come in order. */
export class PipelinedConnection implements Runner {
  readonly #options: ConnectionOptions;
  #client: Promise<Client> | undefined;
  /** The same, once it is open. */
  #open: Client | undefined;
  inFlight = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /** The open connection, opening it first if need be. A lost one is forgotten at once, so that the next caller opens another. */
  #opened(): Promise<Client> {
    if (this.#client !== undefined) return this.#client;
    const client = new Client({ ...clientConfig(this.#options.url), pipeline: true });
    const forget = (cause?: unknown): void => {
      if (this.#client === opening) {
        this.#client = undefined;
        this.#open = undefined;
        if (cause !== undefined) this.#options.onWarning('a database connection was lost', cause);
      }
    };
    client.on('error', forget);
    client.on('end', () => forget());
    const opening = client.connect().then(
      () => {
        if (this.#client === opening) this.#open = client;
        return client;
      },
      (cause: unknown) => {
        forget();
        throw toStoreError(cause);
      },
    );
    this.#client = opening;
    return opening;
  }

  /** Sends everything `send` asks for in one piece: no other caller's statement comes in between. */
  async use<T>(send: (client: Client) => Promise<T>): Promise<T> {
    this.inFlight += 1;
    try {
      return await send(await this.#opened());
    } finally {
      this.inFlight -= 1;
    }
  }

  /** On an open connection it is sent before this returns, and answered in the turn in which its rows come. */
  run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    const client = this.#open;
    if (client === undefined) return this.use((opened) => query(opened, statement, values));
    return new Promise((resolve, reject) => {
      checkTexts(values);
      this.inFlight += 1;
      sendPrepared(statement, values, client, (cause, result) => {
        this.inFlight -= 1;
        if (cause == null) resolve(result.rows as readonly Row[]);
        else reject(toStoreError(cause));
      });
    });
  }

  /**
   * Runs statements as one transaction without waiting in between; its end is sent along with them. Each
   * statement has its own promise; `committed` tells whether all of it happened (true) or none (false).
   */
  batch(statements: readonly { readonly statement: Statement<unknown>; readonly values: readonly Value[] }[]): Promise<{
    readonly rows: readonly PromiseSettledResult<readonly unknown[]>[];
    readonly committed: boolean;
  }> {
    return this.use(async (client) => {
      const begin = client.query('BEGIN');
      const rows = statements.map(({ statement, values }) => query(client, statement, values));
      const commit = client.query('COMMIT');
      // All are waited for together, whatever becomes of the others: no failure goes unheard.
      const [[begun, ended], settled] = await Promise.all([
        Promise.allSettled([begin, commit]),
        Promise.allSettled(rows),
      ]);
      if (begun.status === 'rejected') throw toStoreError(begun.reason);
      if (ended.status === 'rejected') throw toStoreError(ended.reason);
      return { rows: settled, committed: ended.value.command === 'COMMIT' };
    });
  }

  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    this.#open = undefined;
    await client?.end().catch(() => {});
  }
}

/**
 * A few pipelined connections; each call takes the one with the least to do. With `again`, a statement whose connection was lost is tried once
 * more on another: right for reading only.
 */
export class PipelinedConnections implements Runner {
  readonly #connections: readonly PipelinedConnection[];
  readonly #again: boolean;

  constructor(count: number, options: ConnectionOptions & { readonly again?: boolean }) {
    this.#connections = Array.from({ length: count }, () => new PipelinedConnection(options));
    this.#again = options.again === true;
  }

  /** The one with the least to do, for what must go one after the other. */
  pick(): PipelinedConnection {
    return this.#connections.reduce((best, connection) => (connection.inFlight < best.inFlight ? connection : best));
  }

  async run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    try {
      return await this.pick().run(statement, values);
    } catch (cause) {
      if (!this.#again || !wasLost(cause)) throw cause;
      return this.pick().run(statement, values);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
  }
}

/** A transaction that may look at answers before it goes on. */
export class Transactions {
  readonly #pool: Pool;
  /** What the database still says to connections that are being closed is no loss. */
  #closing = false;

  constructor(count: number, options: ConnectionOptions) {
    this.#pool = new Pool({ ...clientConfig(options.url), max: count, idleTimeoutMillis: 60_000 });
    // While a transaction has it, the pool does not listen: a connection lost just then must not end the process.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
    this.#pool.on('error', (cause) => {
      if (!this.#closing) options.onWarning('a database connection was lost', cause);
    });
  }

  /** Commits when `work` resolves, takes everything back when it throws. */
  async run<T>(work: (tx: Runner) => Promise<T>): Promise<T> {
    let client: PoolClient;
    try {
      client = await this.#pool.connect();
    } catch (cause) {
      throw toStoreError(cause);
    }
    let broken = true;
    try {
      await client.query('BEGIN');
      const result = await work({ run: (statement, values) => query(client, statement, values) }).catch(
        async (cause: unknown) => {
          await client.query('ROLLBACK');
          broken = false;
          throw cause;
        },
      );
      const end = await client.query('COMMIT');
      broken = false;
      if (end.command !== 'COMMIT')
        throw new StoreError({ code: 'unexpected' }, { message: 'the transaction was rolled back' });
      return result;
    } catch (cause) {
      throw toStoreError(cause);
    } finally {
      client.release(broken);
    }
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.#pool.end();
  }
}
