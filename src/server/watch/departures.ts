/** Owns the pace at which a server ends many streams: their readers do not reach the other servers all at once. */
import type { Stream, StreamEndReason } from './stream.ts';

/** 250 streams a second, which is about half of what one processor opens over TLS; or more where the time does not suffice. */
const streamMs = 4;
const stepMs = 50;

export interface DepartureOptions {
  /** The time that it may take. */
  readonly longestMs: number;
  readonly random: () => number;
  readonly later: (run: () => void, ms: number) => void;
}

/** Ends streams in a random order, so that none comes first at every server. Few of them are ended at once. */
export async function endGradually(
  streams: Iterable<Stream>,
  why: StreamEndReason,
  { longestMs, random, later }: DepartureOptions,
): Promise<void> {
  const order = Array.from(streams, (stream) => ({ stream, key: random() })).toSorted((a, b) => a.key - b.key);
  const steps = Math.max(1, Math.ceil(Math.min(order.length * streamMs, longestMs) / stepMs));
  const size = Math.ceil(order.length / steps);
  for (let at = 0; at < order.length; at += size) {
    if (at > 0) await new Promise<void>((resolve) => later(resolve, stepMs));
    for (const { stream } of order.slice(at, at + size)) stream.owner.end(stream, why);
  }
}
