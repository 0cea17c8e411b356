/** Owns what a supervisor asks: does the process live, can it serve, what does it measure. */
import type { FastifyInstance } from 'fastify';
import { HttpError } from '../errors.ts';
import { within } from '../request/deadline.ts';
import type { Metrics } from '../observe/metrics.ts';

/** Something that must be true before requests should come. Resolves when it is; rejects or takes too long otherwise. */
export interface ReadyCheck {
  readonly name: string;
  readonly check: () => Promise<void>;
}

/** How the server stands. Others add their checks; a draining server is never ready. */
export class Health {
  readonly #checks: ReadyCheck[] = [];
  #draining = false;

  add(check: ReadyCheck): void {
    this.#checks.push(check);
  }

  drain(): void {
    this.#draining = true;
  }

  get draining(): boolean {
    return this.#draining;
  }

  /** The name of what is not ready, or undefined. */
  async lacking(timeoutMs: number): Promise<string | undefined> {
    if (this.#draining) return 'the server is shutting down';
    const results = await Promise.all(
      this.#checks.map(({ name, check }) =>
        within(check(), timeoutMs).then(
          () => ({ name, ready: true }),
          () => ({ name, ready: false }),
        ),
      ),
    );
    return results.find(({ ready }) => !ready)?.name;
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
