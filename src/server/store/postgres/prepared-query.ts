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
}

type Done = (error: Error | null, result: { readonly rows: readonly unknown[] }) => void;

/** What the driver's own query is made of, which its types do not tell: `prepared-query.pg.test.ts` holds it to that. */
interface DriverQuery {
  name: string;
  _result: Columns;
  _accumulateRows: boolean;
  prepare(connection: Connection): void;
  handleRowDescription(message: object): void;
}
const DriverQuery = Query as unknown as new (text: string, values: readonly unknown[], done: Done) => DriverQuery;

/** What is known of a connection. */
interface Acquaintance {
  /** By statement. */
  readonly columns: Map<string, Columns>;
  /** The same connection, on which nothing is asked about columns. */
  readonly silent: Connection;
}

const acquaintances = new WeakMap<Connection, Acquaintance>();

function acquaintanceOf(connection: Connection): Acquaintance {
  const known = acquaintances.get(connection);
  if (known !== undefined) return known;
  const silent = Object.assign(Object.create(connection) as Connection, { describe: () => {} });
  const made = { columns: new Map<string, Columns>(), silent };
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

  override prepare(connection: Connection): void {
    const acquaintance = acquaintanceOf(connection);
    const columns = acquaintance.columns.get(this.name);
    if (columns === undefined) {
      this.#acquaintance = acquaintance;
      super.prepare(connection);
      return;
    }
    Object.assign(this._result, columns);
    this._accumulateRows = true;
    super.prepare(acquaintance.silent);
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

export const runPrepared = <Row>(
  client: Querying,
  statement: Statement<Row>,
  values: readonly Value[],
): Promise<readonly Row[]> =>
  new Promise((resolve, reject) => {
    const done: Done = (error, result) => (error === null ? resolve(result.rows as readonly Row[]) : reject(error));
    client.query(new PreparedQuery(statement, values, done));
  });
