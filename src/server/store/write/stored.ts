/** Owns records as the store gives them: the wire text, and the object that is parsed when it is asked for. */
import type { Stored } from '../data/records.ts';
import { withRevision } from '../postgres/sql.ts';

interface BodyRow {
  readonly id: string;
  readonly revision: number;
  readonly body: string;
}

class StoredRow<T> implements Stored<T> {
  readonly id: string;
  readonly revision: number;
  readonly json: string;
  #record: T | undefined;

  constructor({ id, revision, body }: BodyRow) {
    this.id = id;
    this.revision = revision;
    this.json = withRevision(body, revision);
  }

  get record(): T {
    this.#record ??= JSON.parse(this.json) as T;
    return this.#record;
  }
}

export const stored = <T>(row: BodyRow): Stored<T> => new StoredRow(row);
