/** Owns the connections: pipelined ones for single statements and batches, and a pool for interactive transactions. */
import { StoreError } from '../../problems.ts';
import { checkTexts, type DatabaseConnection } from './database-connection.ts';
import { afterCommitSent, toStoreError, wasLost } from './failure.ts';
import type { Primary, Timeouts } from './primary.ts';
import type { Statement, Value } from './sql.ts';

export interface ConnectionOptions {
  readonly primary: Primary;
  readonly onWarning: (message: string, cause: unknown) => void;
  readonly timeouts?: Timeouts;
  /** The statements only read, so one whose connection was lost is tried once more. */
  readonly readsOnly?: boolean;
}

/** Anything that can run statements: a pipelined connection, or a transaction. */
export interface Runner {
  run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]>;
}

/** One connection that many callers share: each statement is sent at once, answers come in order. */
export class PipelinedConnection implements Runner {
  readonly #options: ConnectionOptions;
  #connection: Promise<DatabaseConnection> | undefined;
  /** The same, once it is open. */
  #open: DatabaseConnection | undefined;
  /** What a failure means for a statement that was sent. */
  readonly #failed: (cause: unknown) => StoreError;
  /** What the database still says to a connection that is being closed is no loss, and no other one is opened. */
  #closing = false;
  #inFlight = 0;
  /** When the statement that is being answered became the first in line. */
  #firstSince = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#failed = options.readsOnly === true ? toStoreError : afterCommitSent;
  }

  /** The open connection, opening it first if need be. A lost one is forgotten at once, so that the next caller opens another. */
  #opened(): Promise<DatabaseConnection> {
    if (this.#connection !== undefined) return this.#connection;
    if (this.#closing) return Promise.reject(new StoreError({ code: 'unavailable' }, { message: 'it is closed' }));
    const forget = (cause?: unknown): void => {
      if (this.#connection !== opening) return;
      this.#connection = undefined;
      this.#open = undefined;
      if (cause !== undefined && !this.#closing) this.#options.onWarning('a database connection was lost', cause);
    };
    const { primary, timeouts } = this.#options;
    const opening = primary.open({ pipeline: true, ...(timeouts && { timeouts }) }).then(
      (connection) => {
        connection.client.on('error', forget);
        connection.client.on('end', () => forget());
        if (this.#connection === opening) this.#open = connection;
        return connection;
      },
      (cause: unknown) => {
        forget();
        throw toStoreError(cause);
      },
    );
    this.#connection = opening;
    return opening;
  }

  /** Statements that were sent and not answered. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** How long the next answer has been awaited, in milliseconds. What is sent now waits for it, too. */
  get waitMs(): number {
    return this.#inFlight === 0 ? 0 : performance.now() - this.#firstSince;
  }

  #begin(): void {
    if (this.#inFlight === 0) this.#firstSince = performance.now();
    this.#inFlight += 1;
  }

  #end(): void {
    this.#inFlight -= 1;
    this.#firstSince = performance.now();
  }

  /** Sends everything `send` asks for in one piece: no other caller's statement comes in between. */
  async use<T>(send: (connection: DatabaseConnection) => Promise<T>): Promise<T> {
    this.#begin();
    try {
      return await send(await this.#opened());
    } finally {
      this.#end();
    }
  }

  /** On an open connection it is sent before this returns, and answered in the turn in which its rows come. */
  run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    const connection = this.#open;
    if (connection === undefined) {
      return this.use((opened) =>
        opened.run(statement, values).catch((cause: unknown) => {
          throw this.#failed(cause);
        }),
      );
    }
    return new Promise((resolve, reject) => {
      checkTexts(values);
      this.#begin();
      connection.send(statement, values, (cause, result) => {
        this.#end();
        if (cause == null) resolve(result.rows as readonly Row[]);
        else reject(this.#failed(cause));
      });
    });
  }

  /**
   * Runs statements as one transaction without waiting in between; the commit is sent along with them. Each statement
   * has its own promise; `committed` is true when all of it happened and false when none did.
   */
  batch(statements: readonly { readonly statement: Statement<unknown>; readonly values: readonly Value[] }[]): Promise<{
    readonly rows: readonly PromiseSettledResult<readonly unknown[]>[];
    readonly committed: boolean;
  }> {
    return this.use(async (connection) => {
      const begin = connection.begin();
      const rows = statements.map(({ statement, values }) => connection.run(statement, values));
      const commit = connection.commit();
      // Waits for all of them together, so that no rejection goes unhandled.
      const [[begun, ended], settled] = await Promise.all([
        Promise.allSettled([begin, commit]),
        Promise.allSettled(rows),
      ]);
      if (begun.status === 'rejected') throw afterCommitSent(begun.reason);
      if (ended.status === 'rejected') throw afterCommitSent(ended.reason);
      return { rows: settled, committed: ended.value };
    });
  }

  async close(): Promise<void> {
    this.#closing = true;
    const connection = await this.#connection?.catch(() => undefined);
    this.#connection = undefined;
    this.#open = undefined;
    await connection?.end();
  }
}

/** A connection whose next answer has been awaited for longer has a slow statement in hand. */
const slowMs = 20;

const isBetter = (one: PipelinedConnection, other: PipelinedConnection): boolean => {
  const [slow, otherSlow] = [one.waitMs > slowMs, other.waitMs > slowMs];
  return slow === otherSlow ? one.inFlight < other.inFlight : otherSlow;
};

/**
 * Whose statement it is: by the house's convention `$1` is the organization, and where it is another id, it is as good a name. Undefined: it is about many
 * organizations, so it is the server's own.
 */
const shareOf = ([first]: readonly Value[]): string | undefined => (typeof first === 'string' ? first : undefined);

/**
 * A few pipelined connections; each call takes the one with the least to do, and rather none that waits for a slow statement. Statements of
 * one organization are on half of the connections at most, so that they never hold up all others. Where they only read, a statement whose
 * connection was lost is tried once more on another.
 */
export class PipelinedConnections implements Runner {
  readonly #connections: readonly PipelinedConnection[];
  readonly #readsOnly: boolean;
  readonly #mostOfShare: number;
  /** By organization, how many of its statements are in flight on which connection. */
  readonly #shares = new Map<string, Map<PipelinedConnection, number>>();

  constructor(count: number, options: ConnectionOptions) {
    this.#connections = Array.from({ length: count }, () => new PipelinedConnection(options));
    this.#readsOnly = options.readsOnly === true;
    this.#mostOfShare = Math.max(1, Math.floor(count / 2));
  }

  /** The one with the least to do, for what must go one after the other. */
  pick(among: readonly PipelinedConnection[] = this.#connections): PipelinedConnection {
    return among.reduce((best, connection) => (isBetter(connection, best) ? connection : best));
  }

  async run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    try {
      return await this.#runInShare(statement, values);
    } catch (cause) {
      if (!this.#readsOnly || !wasLost(cause)) throw cause;
      return this.#runInShare(statement, values);
    }
  }

  /** It is sent before this returns, where the connection is open. */
  async #runInShare<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    const name = shareOf(values);
    if (name === undefined) return this.pick().run(statement, values);
    const share = this.#shares.get(name) ?? new Map<PipelinedConnection, number>();
    this.#shares.set(name, share);
    const connection = this.pick(share.size < this.#mostOfShare ? this.#connections : [...share.keys()]);
    share.set(connection, (share.get(connection) ?? 0) + 1);
    try {
      return await connection.run(statement, values);
    } finally {
      const left = (share.get(connection) ?? 1) - 1;
      if (left > 0) share.set(connection, left);
      else share.delete(connection);
      if (share.size === 0 && this.#shares.get(name) === share) this.#shares.delete(name);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
  }
}

/** How long a transaction waits for one of the connections. */
const connectionWaitMs = 5_000;

/** A transaction that may look at answers before it goes on. */
export class Transactions {
  readonly #options: ConnectionOptions;
  readonly #most: number;
  readonly #idle: DatabaseConnection[] = [];
  readonly #waiting: ((connection: DatabaseConnection | undefined) => void)[] = [];
  #count = 0;
  /** What the database still says to connections that are being closed is no loss. */
  #closing = false;

  constructor(count: number, options: ConnectionOptions) {
    this.#most = count;
    this.#options = options;
  }

  /** Commits when `work` resolves, takes everything back when it throws. */
  async run<T>(work: (tx: Runner) => Promise<T>): Promise<T> {
    const connection = await this.#take();
    let isGood = false;
    try {
      // Sent together with the first statements of the work, which learns of no answer before it has begun.
      const begun = connection.begin();
      begun.catch(() => {});
      const tx: Runner = {
        async run(statement, values) {
          const rows = await connection.run(statement, values);
          await begun;
          return rows;
        },
      };
      const result = await work(tx).catch(async (cause: unknown) => {
        await connection.rollback();
        isGood = true;
        throw cause;
      });
      const isCommitted = await connection.commit().catch((cause: unknown) => {
        throw afterCommitSent(cause);
      });
      isGood = true;
      if (!isCommitted) throw new StoreError({ code: 'unexpected' }, { message: 'the transaction was rolled back' });
      return result;
    } catch (cause) {
      throw toStoreError(cause);
    } finally {
      this.#giveBack(connection, isGood);
    }
  }

  /** Says goodbye, and does not wait for an answer. */
  close(): void {
    this.#closing = true;
    for (const connection of this.#idle.splice(0)) void connection.end();
  }

  /** One that is idle, a new one, or the first that is given back. */
  async #take(): Promise<DatabaseConnection> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    if (this.#count < this.#most) return this.#open();
    const given = await new Promise<DatabaseConnection | undefined>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(take), 1);
        reject(new StoreError({ code: 'unavailable' }, { message: 'all connections for transactions are in use' }));
      }, connectionWaitMs);
      const take = (connection: DatabaseConnection | undefined): void => {
        clearTimeout(timer);
        resolve(connection);
      };
      this.#waiting.push(take);
    });
    return given ?? this.#take();
  }

  async #open(): Promise<DatabaseConnection> {
    this.#count += 1;
    try {
      const connection = await this.#options.primary.open({ pipeline: true });
      const lost = (cause?: unknown): void => {
        const index = this.#idle.indexOf(connection);
        // While a transaction has it, the transaction notices.
        if (index < 0) return;
        this.#idle.splice(index, 1);
        this.#count -= 1;
        if (cause !== undefined && !this.#closing) this.#options.onWarning('a database connection was lost', cause);
      };
      connection.client.on('error', lost);
      connection.client.on('end', () => lost());
      return connection;
    } catch (cause) {
      this.#count -= 1;
      this.#waiting.shift()?.(undefined);
      throw toStoreError(cause);
    }
  }

  #giveBack(connection: DatabaseConnection, isGood: boolean): void {
    if (isGood && !connection.isLost && !this.#closing) {
      const next = this.#waiting.shift();
      if (next === undefined) this.#idle.push(connection);
      else next(connection);
      return;
    }
    this.#count -= 1;
    void connection.end();
    this.#waiting.shift()?.(undefined);
  }
}
