/** Owns reads whose answer only warns: they get little time, and one organization's hold up nobody else's. */
import { StoreError } from '../../problems.ts';
import { PipelinedConnections, type ConnectionOptions } from './connection.ts';
import type { Statement, Value } from './sql.ts';

/** So long PostgreSQL works on one. */
const statementMs = 1_000;
/** So long an answer waits for one, together with those before it. */
const mostWaitMs = 3_000;

export class WarningReads {
  readonly #connections: PipelinedConnections;
  /** By organization, the end of the last of the reads that wait for each other. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(options: ConnectionOptions) {
    const timeouts = { statement: statementMs, lock: statementMs, idleInTransaction: 20_000, answer: 30_000 };
    this.#connections = new PipelinedConnections(2, { ...options, readsOnly: true, timeouts });
  }

  /** One after the other for each organization. Undefined where there is no answer in time. */
  async run<Row>(
    org: string,
    statement: Statement<Row>,
    values: readonly Value[],
  ): Promise<readonly Row[] | undefined> {
    let isOver = false;
    const before = this.#last.get(org);
    const reading = (async () => {
      await before?.catch(() => {});
      return isOver ? undefined : this.#connections.run(statement, [org, ...values]);
    })().catch((cause: unknown) => {
      if (cause instanceof StoreError && cause.code === 'unavailable') return undefined;
      throw cause;
    });
    this.#last.set(org, reading);
    const forget = (): void => {
      if (this.#last.get(org) === reading) this.#last.delete(org);
    };
    reading.then(forget, forget);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(() => {
        isOver = true;
        resolve(undefined);
      }, mostWaitMs);
    });
    return Promise.race([reading, late]).finally(() => clearTimeout(timer));
  }

  close(): Promise<void> {
    return this.#connections.close();
  }
}
