/**
 * Owns the signs of life of one stream: line feeds on a bidirectional stream, and separate requests where a proxy makes
 * it one-way.
 */
import { RingfenceError } from './error.ts';
import { withSignal, type Transport } from './request.ts';

export interface SignOptions {
  /** A small request by the device's own credential: the sign where the stream cannot carry any. */
  readonly request: (signal: AbortSignal) => Promise<unknown>;
  /** False: does not ask for a stream that goes both ways, because something on the way refuses that. */
  readonly upgrade?: boolean;
}

export interface SignsOfLifeOptions {
  /** Milliseconds between two signs, as the server asks for them. */
  readonly every: number;
  /** Writes a sign to the stream; absent where it goes one way. */
  readonly write: (() => void) | undefined;
  readonly request: SignOptions['request'];
  readonly transport: Pick<Transport, 'clock' | 'random'>;
  /** The server cannot be reached: then neither is the stream alive, however long its connection waits. */
  readonly onDead: (why: RingfenceError) => void;
}

/** Whatever a server asks for, signs come no more often and no less often than this. */
const [shortest, longest] = [250, 60_000];
/** Milliseconds that the server has to answer a request. */
const timeout = 10_000;

export class SignsOfLife {
  readonly #o: SignsOfLifeOptions;
  readonly #every: number;
  readonly #end = new AbortController();
  #cancel: () => void;

  constructor(options: SignsOfLifeOptions) {
    this.#o = options;
    this.#every = Math.min(Math.max(options.every, shortest), longest);
    // A fleet that came together does not show its signs together.
    const first = this.#every * options.transport.random();
    this.#cancel = options.transport.clock.after(first, () => void this.#show());
  }

  stop(): void {
    this.#cancel();
    this.#end.abort();
  }

  async #show(): Promise<void> {
    const { write, transport } = this.#o;
    this.#cancel = transport.clock.after(this.#every, () => void this.#show());
    if (write !== undefined) write();
    else await this.#ask().catch(() => {});
  }

  async #ask(): Promise<void> {
    const { transport, request, onDead } = this.#o;
    try {
      await withSignal({ clock: transport.clock, signal: this.#end.signal, deadline: timeout }, request);
    } catch (error) {
      const isDead = error instanceof RingfenceError && (error.code === 'unreachable' || error.code === 'timed_out');
      // Any other failure came from somewhere: what it means shows on the stream.
      if (isDead && !this.#end.signal.aborted) onDead(error);
    }
  }
}
