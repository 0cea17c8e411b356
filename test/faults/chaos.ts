/** Owns what goes wrong in a fault run: one named fault at a time, drawn by chance, each counted. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { StoreError } from '../../src/server/problems.ts';
import { openStore, type Store } from '../../src/server/store/open.ts';
import type { Random } from '../lib/random.ts';
import type { OwnPostgres } from '../lib/postgres.ts';
import { signalIfRunning } from '../lib/processes.ts';
import type { Recorder } from './record.ts';
import type { Replica } from './replicas.ts';

export const faults = [
  'kill a server',
  'restart a server',
  'kill a worker',
  'freeze a worker, then kill it',
  'freeze a server',
  'kill PostgreSQL',
  'drop LISTEN',
  'lose every NOTIFY',
  'hang a transaction',
  'compact',
] as const;
export type Fault = (typeof faults)[number];

/** False when it could not be done now: writers on a busy machine may keep a row for longer than it waits. A server tries again later, too. */
async function compacted(store: Store): Promise<boolean> {
  try {
    await store.log.compact();
    return true;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'unavailable') return false;
    throw error;
  }
}

export interface ChaosOptions {
  readonly replicas: readonly Replica[];
  readonly postgres: OwnPostgres;
  readonly databaseUrl: string;
  readonly org: string;
  readonly recorder: Recorder;
  readonly random: Random;
}

export class Chaos {
  readonly done = new Map<Fault, number>();
  readonly #o: ChaosOptions;
  readonly #acts: { readonly [F in Fault]: () => Promise<void> };

  constructor(options: ChaosOptions) {
    this.#o = options;
    this.#acts = {
      'kill a server': () => this.#replaced('SIGKILL'),
      'restart a server': () => this.#replaced('SIGTERM'),
      'kill a worker': async () => options.replicas[0]?.killWorker(options.random),
      'freeze a worker, then kill it': async () => options.replicas[0]?.freezeAndKillWorker(options.random),
      'freeze a server': () => options.random.pick(options.replicas).freeze(options.random.int(200, 2_000)),
      'kill PostgreSQL': () => this.#killPostgres(),
      'drop LISTEN': () => this.#dropListeners(),
      'lose every NOTIFY': () => this.#loseNotifications(options.random.int(1_000, 3_000)),
      'hang a transaction': () => this.#hang(options.random.int(500, 3_000)),
      compact: () => this.#compact(),
    };
  }

  /** One after the other, each kind so many times, however long that takes. */
  async run(turns: number): Promise<void> {
    const { random } = this.#o;
    for (const fault of Array.from({ length: turns }, () => random.shuffled(faults)).flat()) {
      await this.#acts[fault]();
      this.done.set(fault, (this.done.get(fault) ?? 0) + 1);
      await sleep(random.int(200, 1_500));
    }
  }

  async #replaced(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const replica = this.#o.random.pick(this.#o.replicas);
    await replica.stop(signal);
    await sleep(this.#o.random.int(0, 500));
    await replica.start();
  }

  async #killPostgres(): Promise<void> {
    const { pid } = this.#o.postgres.database;
    if (pid !== undefined) signalIfRunning(pid, 'SIGKILL');
    for (let i = 0; i < 600; i += 1) {
      await sleep(50);
      if (await this.#asked('SELECT 1').then(Boolean, () => false)) return;
    }
    throw new Error('PostgreSQL did not come back');
  }

  async #asked(sql: string): Promise<readonly unknown[]> {
    const client = new Client({ connectionString: this.#o.databaseUrl, connectionTimeoutMillis: 2_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      return (await client.query(sql)).rows;
    } finally {
      await client.end().catch(() => {});
    }
  }

  async #dropListeners(): Promise<void> {
    await this.#asked(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~* '^(LISTEN|SELECT pg_notify|NOTIFY)' AND pid <> pg_backend_pid()",
    ).catch(() => []);
  }

  /** Cuts off every session that listens or notifies, repeatedly: no notification gets through. */
  async #loseNotifications(ms: number): Promise<void> {
    for (const end = Date.now() + ms; Date.now() < end; await sleep(20)) await this.#dropListeners();
  }

  /** Someone holds the organization's row: its writers wait, and go on afterwards. */
  async #hang(ms: number): Promise<void> {
    const client = new Client({ connectionString: this.#o.databaseUrl });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.query('BEGIN');
      await client.query('SELECT revision FROM heads WHERE org_id = $1 FOR UPDATE', [this.#o.org]);
      await sleep(ms);
      await client.query(this.#o.random.chance(0.5) ? 'COMMIT' : 'ROLLBACK');
    } finally {
      await client.end().catch(() => {});
    }
  }

  /** The log and old deletions are forgotten; the record must have them first. */
  async #compact(): Promise<void> {
    const { recorder, databaseUrl } = this.#o;
    if (!(await recorder.catchUp())) return;
    const store = await openStore({ url: databaseUrl, phase: 3, logRetentionMs: 2_000, deletionRetentionMs: 8_000 });
    try {
      for (let i = 0; i < 5 && !(await compacted(store)); i += 1) await sleep(500);
    } finally {
      await store.close();
    }
  }
}
