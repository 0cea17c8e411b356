/** Owns a policy source that first needs its identity, and then opens the stream. */
import { Backoff } from '../../client/backoff.ts';
import { sleep, type Clock } from '../../client/clock.ts';
import { RingfenceError } from '../../client/error.ts';
import type { Connection, Knowledge, PolicySource } from './policy-source.ts';

export interface IdentifiedSourceOptions<Who> {
  /** Finds out who this device is; tried until it succeeds. */
  readonly identify: (signal: AbortSignal) => Promise<Who>;
  readonly open: (who: Who) => PolicySource;
  readonly clock: Clock;
  readonly random: () => number;
}

export class IdentifiedSource<Who> implements PolicySource {
  readonly #options: IdentifiedSourceOptions<Who>;
  readonly #handlers = new Set<() => void>();
  #connection: Connection;
  #inner: { readonly who: Who; readonly source: PolicySource } | undefined;

  constructor(options: IdentifiedSourceOptions<Who>) {
    this.#options = options;
    this.#connection = { phase: 'stopped', since: options.clock.now(), failures: 0 };
  }

  /** Who this device is, once that is known. */
  get who(): Who | undefined {
    return this.#inner?.who;
  }

  get connection(): Connection {
    return this.#inner?.source.connection ?? this.#connection;
  }

  read(): Knowledge {
    return this.#inner?.source.read() ?? { kind: 'unknown', why: 'this device is not enrolled yet', early: true };
  }

  onChange(handler: () => void): () => void {
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    const { clock, random } = this.#options;
    const backoff = new Backoff({ random });
    while (!signal.aborted) {
      try {
        this.#enter({ phase: 'enrolling' });
        await this.#identify(signal);
        break;
      } catch (error) {
        if (signal.aborted) return;
        const message = error instanceof Error ? error.message : String(error);
        const refusal = error instanceof Error && error.cause instanceof RingfenceError ? error.cause : undefined;
        const wait = backoff.next(refusal?.retryAfter);
        this.#enter({
          phase: 'waiting',
          failures: backoff.failures,
          lastError: { message, at: clock.now(), ...(refusal && { kind: refusal.code }) },
        });
        await sleep(clock, wait, signal).catch(() => {});
      }
    }
    if (signal.aborted) return;
    const { source } = this.#inner ?? {};
    const end = source?.onChange(() => this.#publish());
    try {
      await source?.run({ signal });
    } finally {
      end?.();
    }
  }

  async #identify(signal: AbortSignal): Promise<void> {
    if (this.#inner !== undefined) return;
    const who = await this.#options.identify(signal);
    this.#inner = { who, source: this.#options.open(who) };
  }

  #enter(change: Partial<Connection>): void {
    const since = change.phase === this.#connection.phase ? this.#connection.since : this.#options.clock.now();
    this.#connection = { ...this.#connection, ...change, since };
    this.#publish();
  }

  #publish(): void {
    for (const handler of this.#handlers) handler();
  }
}
