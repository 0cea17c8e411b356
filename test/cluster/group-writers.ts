/** Owns the writers of a fault run: each changes groups of its own, at any server, and knows what each of them may look like. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Answered, Api } from '../lib/http.ts';

const groupsOfWriter = 8;

export class GroupWriter {
  /** The descriptions that each group may have now: one, or several where an outcome is unknown. */
  readonly possible = new Map<string, readonly string[]>();
  acknowledged = 0;
  /** Requests that were sent, and those of them that have an answer or failed. */
  sent = 0;
  settled = 0;
  /** Each request that was answered with 503, or not at all. */
  readonly failures: string[] = [];
  repeated = 0;
  /** Groups whose create was acknowledged, and that were gone later. */
  lost = 0;
  #count = 0;

  /** Writes until it is stopped, with a pause after each answer. A create is repeated with its key until it is answered. */
  async work(apis: readonly Api[], base: string, options: { signal: AbortSignal; pauseMs: number }): Promise<void> {
    const { signal, pauseMs } = options;
    while (!signal.aborted) {
      this.#count += 1;
      if (this.possible.size < groupsOfWriter) await this.#create(apis, base, signal);
      else await this.#update(this.#turn(apis, 0), base);
      await sleep(pauseMs * (0.5 + Math.random()));
    }
  }

  /** The answer; undefined for 503 and for none. */
  async #asked(ask: () => Promise<Answered>): Promise<Answered | undefined> {
    this.sent += 1;
    const answer = await ask().catch((error: unknown) => String(error));
    this.settled += 1;
    if (typeof answer !== 'string' && answer.status !== 503) {
      if (answer.status >= 300 && answer.status !== 404) throw new Error(`unexpected: ${answer.status} ${answer.text}`);
      return answer;
    }
    this.failures.push(typeof answer === 'string' ? answer : answer.text);
    await sleep(100);
    return undefined;
  }

  #turn(apis: readonly Api[], attempt: number): Api {
    const api = apis[(this.#count + attempt) % apis.length];
    if (api === undefined) throw new Error('there is no server');
    return api;
  }

  async #create(apis: readonly Api[], base: string, signal: AbortSignal): Promise<void> {
    const [key, body] = [randomUUID(), { group_name: randomUUID(), group_description: 'new' }];
    for (let attempt = 0; !signal.aborted || attempt > 0; attempt += 1) {
      const api = this.#turn(apis, attempt);
      const answer = await this.#asked(() => api.post(`${base}/security_groups`, body, { 'idempotency-key': key }));
      if (answer?.status === 404) throw new Error(`unexpected: ${answer.text}`);
      if (answer !== undefined) {
        this.possible.set(answer.json.id, ['new']);
        this.acknowledged += 1;
        return;
      }
      this.repeated += 1;
    }
  }

  async #update(api: Api, base: string): Promise<void> {
    const [id, before] = [...this.possible][this.#count % this.possible.size] ?? [];
    if (id === undefined || before === undefined) return;
    const group_description = `change ${this.#count}`;
    this.possible.set(id, [...before, group_description]);
    const answer = await this.#asked(() => api.patch(`${base}/security_groups/${id}`, { group_description }));
    if (answer?.status === 200) {
      this.possible.set(id, [group_description]);
      this.acknowledged += 1;
    }
    // Lost with a primary whose standby was not awaited.
    if (answer?.status === 404) {
      this.possible.delete(id);
      this.lost += 1;
    }
  }
}
