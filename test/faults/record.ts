/** Owns the database's own record of a fault run: every row of the change log, read by a connection of its own as they appear. */
import { Client } from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WatchKind } from '../../src/api/kinds.ts';
import { parseUserId } from '../../src/policy/ids.ts';
import type { Entry, RevisionGap } from '../../src/server/store/data/change-log.ts';

interface Row {
  readonly revision: string;
  readonly kind: Entry['kind'];
  readonly type: Entry['type'];
  readonly id: string;
  readonly body: string;
  readonly only_for: string | null;
  readonly left_at: string;
  readonly transaction: string;
}

export class Recorder {
  readonly log: Entry[] = [];
  /** Which transaction wrote each revision. */
  readonly transactions: string[] = [];
  readonly #url: string;
  readonly #org: string;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #client: Client | undefined;

  constructor(url: string, org: string) {
    this.#url = url;
    this.#org = org;
  }

  get head(): number {
    return this.log.length;
  }

  start(): void {
    this.#running = this.#follow();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#client?.end().catch(() => {});
  }

  /** Reads until nothing is left to read; false while the database is away. */
  async catchUp(): Promise<boolean> {
    try {
      for (;;) {
        const rows = await this.#read();
        if (rows.length === 0) return true;
        for (const row of rows) this.#keep(row);
      }
    } catch (cause) {
      if (cause instanceof HoleInRecord) throw cause;
      await this.#client?.end().catch(() => {});
      this.#client = undefined;
      return false;
    }
  }

  /** From which revisions nothing can be resumed; asked again while the database is away, which it may be at any moment here. */
  async gaps(): Promise<readonly RevisionGap[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        const client = await this.#open();
        const sql = 'SELECT kind, first, last FROM revision_gaps WHERE org_id = $1';
        const { rows } = await client.query<Record<'first' | 'last', string> & { kind: WatchKind | null }>(sql, [
          this.#org,
        ]);
        return rows.map(({ kind, first, last }) => ({
          kind: kind ?? undefined,
          first: Number(first),
          last: Number(last),
        }));
      } catch (cause) {
        if (tries === 600) throw cause;
        this.#client = undefined;
        await sleep(100);
      }
    }
  }

  async #follow(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.catchUp();
      await sleep(50);
    }
  }

  async #open(): Promise<Client> {
    if (this.#client !== undefined) return this.#client;
    const client = new Client({ connectionString: this.#url, application_name: 'recorder' });
    client.on('error', () => {
      if (this.#client === client) this.#client = undefined;
    });
    await client.connect();
    this.#client = client;
    return client;
  }

  async #read(): Promise<readonly Row[]> {
    const client = await this.#open();
    const { rows } = await client.query<Row>(
      `SELECT revision, kind, type, id, body, only_for, left_at, xmin::text AS transaction
       FROM changes WHERE org_id = $1 AND revision > $2 ORDER BY revision LIMIT 2000`,
      [this.#org, this.head],
    );
    return rows;
  }

  #keep(row: Row): void {
    const revision = Number(row.revision);
    // Two readers at once, or a row met before.
    if (revision <= this.head) return;
    if (revision !== this.head + 1) throw new HoleInRecord(`revision ${revision} follows ${this.head}`);
    this.transactions.push(row.transaction);
    this.log.push({
      revision,
      kind: row.kind,
      type: row.type,
      id: row.id,
      json: `${row.body},"revision":${revision}}`,
      only_for: row.only_for === null ? undefined : parseUserId(row.only_for),
      left_at: Number(row.left_at),
    });
  }
}

/** Revisions that became visible out of order, or a log that was cut before it was read. */
export class HoleInRecord extends Error {}
