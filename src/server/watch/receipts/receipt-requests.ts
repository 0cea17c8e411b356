/** Owns receipt requests: a line on a device's stream that asks for a report and names the revision up to which everything was sent. */
import type { Stream } from '../stream.ts';
import { reportLine } from '../wire.ts';

export interface ReceiptRequestsOptions {
  readonly now: () => number;
  readonly later: (run: () => void, ms: number) => void;
}

/** A stream that has not been sent everything up to the revision yet is looked at again so often: at first, and after so many times. */
const againMs = 20;
const quickLooks = 50;
const slowAgainMs = 1_000;
/** Streams that are asked in one turn of the event loop. */
const slice = 1_000;

interface PendingReceiptRequest {
  readonly revision: number;
  looks: number;
}

/**
 * A stream gets the request only when everything up to the revision was written to it, so that the line is also a
 * promise: what follows is newer. A request for a blocked or slow stream waits as long as the stream: a change of settings
 * asks only once.
 */
export class ReceiptRequests {
  readonly #o: ReceiptRequestsOptions;
  readonly #pending = new Map<Stream, PendingReceiptRequest>();
  /** When the next run is due. */
  #dueAt = Number.POSITIVE_INFINITY;

  constructor(options: ReceiptRequestsOptions) {
    this.#o = options;
  }

  /** How many streams are yet to be asked. */
  get size(): number {
    return this.#pending.size;
  }

  ask(streams: Iterable<Stream>, revision: number): void {
    for (const stream of streams) {
      if (!stream.takesReceiptRequests) continue;
      const known = this.#pending.get(stream);
      if (known === undefined || known.revision < revision) this.#pending.set(stream, { revision, looks: 0 });
      this.#schedule(0);
    }
  }

  #schedule(ms: number): void {
    const { now, later } = this.#o;
    const at = now() + ms;
    if (this.#dueAt <= at) return;
    this.#dueAt = at;
    later(() => {
      // An earlier run was asked for meanwhile.
      if (this.#dueAt !== at) return;
      this.#dueAt = Number.POSITIVE_INFINITY;
      this.#run();
    }, ms);
  }

  #run(): void {
    let left = slice;
    let isQuick = false;
    for (const [stream, asked] of this.#pending) {
      if (left === 0) break;
      if (isOver(stream)) this.#pending.delete(stream);
      else if (isAt(stream, asked.revision)) {
        this.#pending.delete(stream);
        const { owner, reader } = stream;
        owner.say(stream, reportLine(asked.revision, reader.format, owner.tokens), this.#o.now());
        left -= 1;
      } else isQuick = ++asked.looks < quickLooks || isQuick;
    }
    if (this.#pending.size > 0) this.#schedule(left === 0 ? 0 : isQuick ? againMs : slowAgainMs);
  }
}

const isOver = ({ state }: Stream): boolean => state === 'ending' || state === 'closed';

const isAt = (stream: Stream, revision: number): boolean => {
  const sent = stream.owner.sentUpTo(stream);
  return sent !== undefined && sent >= revision;
};
