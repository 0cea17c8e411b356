/**
 * Owns how the driver is asked to run a prepared statement: what its columns are, PostgreSQL is asked once for each connection instead of with every run.
 * It refuses to run a prepared statement whose columns have changed since, so what it told once stays true.
 */
import { Query } from 'pg';
import type { Statement, Value } from './sql.ts';

/** What the driver keeps of the columns of a result, to read rows by. */
interface Columns {
  readonly fields: readonly unknown[];
  readonly _parsers: readonly unknown[];
  readonly _prebuiltEmptyResultObject: object;
}

/** The driver's connection, as far as its queries use it and we know of it. */
interface Connection {
  describe(config: object): void;
  _send(message: Buffer): void;
}

export type Done = (error: Error | null, result: { readonly rows: readonly unknown[] }) => void;

/** What the driver's own query is made of, which its types do not tell: `prepared-query.pg.test.ts` holds it to that. */
interface DriverQuery {
  name: string;
  _result: Columns;
  _accumulateRows: boolean;
  submit(connection: Connection): Error | null;
  prepare(connection: Connection): void;
  handleRowDescription(message: object): void;
}
const DriverQuery = Query as unknown as new (text: string, values: readonly unknown[], done: Done) => DriverQuery;

/** What is known of a connection. */
interface Acquaintance {
  /** By statement. */
  readonly columns: Map<string, Columns>;
  /** The same connection, on which nothing is asked about columns, and which keeps what is to be sent in `messages`. */
  readonly silent: Connection;
  readonly messages: Buffer[];
}

const acquaintances = new WeakMap<Connection, Acquaintance>();

function acquaintanceOf(connection: Connection): Acquaintance {
  const known = acquaintances.get(connection);
  if (known !== undefined) return known;
  const messages: Buffer[] = [];
  const silent = Object.assign(Object.create(connection) as Connection, {
    describe: () => {},
    _send: (message: Buffer) => void messages.push(message),
  });
  const made = { columns: new Map<string, Columns>(), silent, messages };
  acquaintances.set(connection, made);
  return made;
}

/* eslint-disable no-underscore-dangle -- so the driver names what is its own */
class PreparedQuery extends DriverQuery {
  #acquaintance: Acquaintance | undefined;

  constructor({ name, text }: Statement<unknown>, values: readonly Value[], done: Done) {
    super(text, values, done);
    this.name = name;
  }

  /** In one piece, where the driver has the kernel gather its messages. */
  override submit(connection: Connection): Error | null {
    const acquaintance = acquaintanceOf(connection);
    const columns = acquaintance.columns.get(this.name);
    if (columns === undefined) {
      this.#acquaintance = acquaintance;
      return super.submit(connection);
    }
    Object.assign(this._result, columns);
    this._accumulateRows = true;
    const { silent, messages } = acquaintance;
    this.prepare(silent);
    connection._send(Buffer.concat(messages));
    messages.length = 0;
    return null;
  }

  override handleRowDescription(message: object): void {
    super.handleRowDescription(message);
    const { fields, _parsers, _prebuiltEmptyResultObject } = this._result;
    this.#acquaintance?.columns.set(this.name, { fields, _parsers, _prebuiltEmptyResultObject });
  }
}

/* eslint-enable no-underscore-dangle */

/** A client of the driver. */
export interface Querying {
  query(query: unknown): unknown;
}

export function sendPrepared(
  client: Querying,
  statement: Statement<unknown>,
  values: readonly Value[],
  done: Done,
): void {
  client.query(new PreparedQuery(statement, values, done));
}

export const runPrepared = <Row>(
  client: Querying,
  statement: Statement<Row>,
  values: readonly Value[],
): Promise<readonly Row[]> =>
  new Promise((resolve, reject) => {
    const done: Done = (error, result) => (error === null ? resolve(result.rows as readonly Row[]) : reject(error));
    sendPrepared(client, statement, values, done);
  });
