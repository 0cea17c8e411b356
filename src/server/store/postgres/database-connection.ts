/** Owns one open connection: how it sends statements, and what their answers mean. */
import type { Client, QueryConfig, QueryResult } from 'pg';
import { StoreError } from '../../problems.ts';
import { sqlState, toStoreError } from './failure.ts';
import type { Statement, Value } from './sql.ts';

type Result = Pick<QueryResult, 'rows' | 'command'>;
type Done = (error: Error | null | undefined, result: Result) => void;

/** PostgreSQL's text holds no NUL. */
export function checkTexts(values: readonly Value[]): void {
  for (const value of values) {
    const bad =
      typeof value === 'string'
        ? value.includes('\0')
        : Array.isArray(value) && value.some((item: string | null) => item?.includes('\0'));
    if (bad) throw new StoreError({ code: 'invalid_text' });
  }
}

export interface ConnectionParts {
  readonly client: Client;
  /** Whether a pooler may give each transaction another session. */
  readonly isPooled: boolean;
  /** The statement that begins a transaction. */
  readonly begin: string;
  /** Closes the connection at once. */
  readonly destroy: () => void;
  /** What is written until the end of this turn's work goes out together. */
  readonly gather: () => void;
}

export class DatabaseConnection {
  readonly isPooled: boolean;
  readonly client: Client;
  readonly #parts: ConnectionParts;
  #isLost = false;
  /** PostgreSQL gave up waiting for a synchronous standby, and says so only in a notice before the answer. */
  #isInDoubt = false;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
    this.client = parts.client;
    this.isPooled = parts.isPooled;
    const lost = (): void => {
      this.#isLost = true;
    };
    parts.client.on('error', lost).on('end', lost);
    parts.client.on('notice', ({ routine }) => {
      if (routine === 'SyncRepWaitForLSN') this.#isInDoubt = true;
    });
  }

  get isLost(): boolean {
    return this.#isLost;
  }

  /**
   * Sends the statement before this returns. `done` runs in the turn in which the rows arrive, which a promise would delay. The session
   * prepares it on first use, by name; through a pooler every time, because the next session does not know the name.
   */
  send({ name, text }: Statement<unknown>, values: readonly Value[], done: Done): void {
    const config = { text, values: [...values] };
    this.#query(this.isPooled ? config : { name, ...config }, done);
  }

  async run<Row>(statement: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    checkTexts(values);
    return new Promise((resolve, reject) => {
      this.send(statement, values, (error, result) =>
        error == null ? resolve(result.rows as readonly Row[]) : reject(toStoreError(error)),
      );
    });
  }

  async begin(): Promise<void> {
    await this.#simple(this.#parts.begin);
  }

  async rollback(): Promise<void> {
    await this.#simple('ROLLBACK');
  }

  /** Gives whether the transaction is committed; false when an error before made PostgreSQL take it back. */
  async commit(): Promise<boolean> {
    const { command } = await this.#simple('COMMIT');
    return command === 'COMMIT';
  }

  async end(): Promise<void> {
    if (this.#isLost) this.destroy();
    else await this.client.end().catch(() => {});
  }

  /** Closes it at once. What is under way fails. */
  destroy(): void {
    this.#parts.destroy();
  }

  #simple(text: string): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#query({ text }, (error, result) => (error == null ? resolve(result) : reject(error)));
    });
  }

  #query(config: QueryConfig, done: Done): void {
    this.#parts.gather();
    this.client.query(config, (error: Error | null | undefined, result: Result) => {
      // Packets are dropped somewhere, or the database hangs: nothing more will come from here. Or it is a standby now.
      if (error?.message === 'Query read timeout' || sqlState(error) === '25006') this.destroy();
      const isInDoubt = this.#isInDoubt;
      this.#isInDoubt = false;
      done(isInDoubt ? new StoreError({ code: 'outcome_unknown' }, { cause: error }) : error, result);
    });
  }
}
