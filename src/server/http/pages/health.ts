/** Owns the health endpoints for supervisors: whether the process lives, whether it can serve, and its metrics. */
import { statfs } from 'node:fs/promises';
import type { FastifyInstance } from 'fastify';
import { HttpError } from '../../problems.ts';
import { within } from '../request/deadline.ts';
import type { Metrics } from '../observe/metrics.ts';

/** Something that must be true before requests should come. Resolves when it is; rejects or takes too long otherwise. */
export interface ReadyCheck {
  readonly name: string;
  readonly check: () => Promise<void>;
  /** How long it may be untrue before the server counts as not ready; not at all unless given. */
  readonly graceMs?: number;
}

const fullStorage = 'the disk of the database is full';

/** The questions to the database: whether it answers, and whether it has the schema of this program. */
interface AskedDatabase {
  ping(): Promise<void>;
  checkSchema(): Promise<void>;
}

/**
 * Migrations only add, so a server of the previous version still works. While servers are replaced one after the other, it has to: the first new server
 * migrates before it is ready itself.
 */
export const laterSchemaMs = 10 * 60_000;

/** PostgreSQL needs room for a file of its log to go on. */
const leastBytes = 16 * 1024 ** 2;

/** `directory` holds the data of the server's own database. */
export const databaseChecks = (store: AskedDatabase, directory?: string): readonly ReadyCheck[] => [
  ...(directory === undefined ? [] : [{ name: fullStorage, check: () => checkRoom(directory) }]),
  { name: 'cannot reach the database', check: () => store.ping() },
  {
    // This server cannot write what the later version needs. Requests belong to a server of that version.
    name: 'a later version has migrated the database; upgrade this server',
    check: () => store.checkSchema(),
    graceMs: laterSchemaMs,
  },
];

async function checkRoom(directory: string): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  if (bavail * bsize < leastBytes) throw new Error(fullStorage);
}

/** How long a write that found no room counts. */
const fullMs = 10_000;

/** The health of the server. It reports the first check that fails. A draining server is never ready. */
export class Health {
  readonly #checks: readonly ReadyCheck[];
  readonly #now: () => number;
  /** Since when a check fails. */
  readonly #failingSince = new Map<ReadyCheck, number>();
  #draining = false;
  #fullUntil = 0;

  constructor(checks: readonly ReadyCheck[], now = (): number => performance.now()) {
    this.#checks = checks;
    this.#now = now;
  }

  /** A write failed because the disk is full. */
  noteFullStorage(): void {
    this.#fullUntil = this.#now() + fullMs;
  }

  drain(): void {
    this.#draining = true;
  }

  /** Is not ready from now on, and waits until proxies have noticed. */
  async leave(ms: number): Promise<void> {
    this.drain();
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** The name of what is not ready, or undefined. */
  async lacking(timeoutMs: number): Promise<string | undefined> {
    if (this.#draining) return 'the server is shutting down';
    if (this.#now() < this.#fullUntil) return fullStorage;
    const results = await Promise.all(
      this.#checks.map((one) =>
        within(one.check(), timeoutMs).then(
          () => this.#passed(one),
          () => this.#failed(one),
        ),
      ),
    );
    return results.find((name) => name !== undefined);
  }

  #passed(one: ReadyCheck): undefined {
    this.#failingSince.delete(one);
  }

  /** Its name once its time is over. */
  #failed(one: ReadyCheck): string | undefined {
    const since = this.#failingSince.get(one) ?? this.#now();
    this.#failingSince.set(one, since);
    return this.#now() - since >= (one.graceMs ?? 0) ? one.name : undefined;
  }
}

const readyTimeoutMs = 2000;

export function registerHealth(app: FastifyInstance, health: Health, metrics: Metrics): void {
  app.get('/healthz', () => ({ status: 'ok' }));
  app.get('/readyz', async () => {
    const lacking = await health.lacking(readyTimeoutMs);
    if (lacking === undefined) return { status: 'ready' };
    throw new HttpError('unavailable', `Not ready: ${lacking}.`, { headers: { 'Retry-After': '1' } });
  });
  app.get('/metrics', async (_request, reply) => {
    return reply.type(metrics.registry.contentType).send(await metrics.text());
  });
}
