/** Owns an honest user beside an attack: asks who it is every 50 ms, and says what its longest wait was. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

/** What the longest wait was since this was last asked. */
export interface Waited {
  /** Milliseconds of processor time that the server's event loop took until the answer, whatever else the machine did. */
  readonly loopMs: number;
  /** On the clock. */
  readonly ms: number;
  readonly asked: number;
  /** Requests without an answer, or with another status than 200. */
  readonly refused: number;
}

export class Victim {
  readonly #worker: Worker;

  constructor(server: { readonly url: string; readonly token: string; readonly pid: number }) {
    this.#worker = new Worker(new URL('./victim-thread.mjs', import.meta.url), {
      workerData: { ...server, everyMs: 50 },
    });
  }

  async waited(): Promise<Waited> {
    const told = once(this.#worker, 'message') as Promise<[Waited]>;
    // eslint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#worker.postMessage('tell');
    return (await told)[0];
  }

  async stop(): Promise<void> {
    const ended = once(this.#worker, 'exit');
    // eslint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
    this.#worker.postMessage('stop');
    await ended;
  }
}
