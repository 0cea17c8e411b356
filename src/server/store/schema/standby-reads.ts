/**
 * Owns the reads that a standby may answer: by one that has everything which the primary had when the read began, and
 * only of the same history. Otherwise the primary answers.
 *
 * The position in the write-ahead log is the measure: it covers what takes no revision, too, such as a sign-in. So a
 * caller finds its own write. The era is the proof of the history: the primary's era began after everything that could
 * have cut its history, so a database that has it descends from this primary.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Coalescer } from '../../scheduling/coalescer.ts';
import { PipelinedConnections, type Runner } from '../postgres/connection.ts';
import type { DatabaseConnection } from '../postgres/database-connection.ts';
import type { Primary, Timeouts } from '../postgres/primary.ts';
import { statement, type Statement, type Value } from '../postgres/sql.ts';

interface Mark {
  readonly era: string;
  readonly position: string;
}

/** Nothing is acknowledged before it is flushed. There is no row while the history of the primary is not verified. */
const readMark = statement<Mark>(
  'read_mark',
  `SELECT id AS era, pg_current_wal_flush_lsn()::text AS position FROM (SELECT * FROM eras ORDER BY serial DESC LIMIT 1) AS newest
   WHERE started_at = pg_postmaster_start_time() AND heads_table = 'heads'::regclass`,
);

interface StandbyRow {
  readonly is_standby: boolean;
  readonly is_replayed: boolean | null;
  readonly is_same: boolean | null;
}

/** Values: era, position. */
const readStandby = statement<StandbyRow>(
  'read_standby',
  `SELECT pg_is_in_recovery() AS is_standby, pg_last_wal_replay_lsn() >= $2::pg_lsn AS is_replayed,
     (SELECT id FROM eras ORDER BY serial DESC LIMIT 1) = $1::uuid AS is_same`,
);

/** A standby that hangs must leave time for the primary. */
const timeouts: Timeouts = { statement: 8_000, lock: 5_000, idleInTransaction: 10_000, answer: 10_000 };
const connections = 2;
/** So long a read waits for a standby that is behind. */
const patienceMs = 250;
/** Then reads go to the primary for so long, and one of them tries a standby again. */
const retryMs = 2_000;
/** At most one warning in this time. */
const quietMs = 60_000;

export interface StandbyReadsOptions {
  /** On the primary. */
  readonly reads: Runner;
  readonly standby: Primary;
  readonly onWarning: (message: string, cause: unknown) => void;
}

export class StandbyReads implements Runner {
  readonly #o: StandbyReadsOptions;
  readonly #connections: PipelinedConnections;
  readonly #marks: Coalescer<string, Mark | undefined>;
  readonly #counts = { standby: 0, primary: 0 };
  /** Until then no read tries a standby. */
  #pausedUntil = 0;
  #isFailing = false;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(options: StandbyReadsOptions) {
    this.#o = options;
    // A lost connection is no news of its own: the read says what follows from it.
    this.#connections = new PipelinedConnections(connections, {
      primary: options.standby,
      onWarning: () => {},
      readsOnly: true,
      timeouts,
    });
    this.#marks = new Coalescer({
      read: (keys) => keys.map(() => options.reads.run(readMark, []).then(([mark]) => mark)),
    });
  }

  counts(): Readonly<Record<'standby' | 'primary', number>> {
    return { ...this.#counts };
  }

  async run<Row>(asked: Statement<Row>, values: readonly Value[]): Promise<readonly Row[]> {
    const rows = await this.#fromStandby(asked, values);
    this.#counts[rows === undefined ? 'primary' : 'standby'] += 1;
    return rows ?? this.#o.reads.run(asked, values);
  }

  async #fromStandby<Row>(asked: Statement<Row>, values: readonly Value[]): Promise<readonly Row[] | undefined> {
    const now = performance.now();
    if (now < this.#pausedUntil) return undefined;
    // While it fails, one read tries it, and the others do not wait for the outcome.
    if (this.#isFailing) this.#pausedUntil = now + retryMs;
    try {
      const mark = await this.#marks.immediate.get('');
      if (mark === undefined) return undefined;
      for (const until = now + patienceMs; ; await sleep(5)) {
        const rows = await this.#connections.pick().use((connection) => readAt(connection, mark, [asked, values]));
        if (rows !== undefined) {
          this.#isFailing = false;
          return rows;
        }
        if (performance.now() > until) throw new Error('it is behind');
      }
    } catch (cause) {
      this.#pause(cause);
      return undefined;
    }
  }

  #pause(cause: unknown): void {
    const now = performance.now();
    this.#isFailing = true;
    this.#pausedUntil = now + retryMs;
    if (now < this.#warnedAt + quietMs) return;
    this.#warnedAt = now;
    this.#o.onWarning('reads go to the primary: no standby can answer them', cause);
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }
}

/** The rows; undefined while the standby is behind. Both statements go over one connection, and a standby never goes back while it runs. */
async function readAt<Row>(
  connection: DatabaseConnection,
  { era, position }: Mark,
  [asked, values]: readonly [Statement<Row>, readonly Value[]],
): Promise<readonly Row[] | undefined> {
  if (connection.isPooled) throw new Error('a connection pooler is in front of it');
  const [row] = await connection.run(readStandby, [era, position]);
  if (row?.is_standby !== true) throw new Error('it is not a standby');
  if (row.is_replayed !== true) return undefined;
  if (row.is_same !== true) throw new Error('it has another history');
  return connection.run(asked, values);
}
