/** Owns the hub's counters, which the metrics read. */
import type { StreamEndReason } from './stream.ts';

export class WatchStats {
  /** Documents sent, heartbeats not counted. */
  deliveries = 0;
  bytes = 0;
  opened = 0;
  /** Streams that asked for changes after a revision. */
  resumes = 0;
  /** … of which those were answered from the ring alone. */
  ringHits = 0;
  /** Pages of state read from the database. */
  stateReads = 0;
  heartbeats = 0;
  readonly endings = new Map<StreamEndReason, number>();
  /** Receives the seconds from reading a change to writing it to the last stream. */
  onLag: (seconds: number) => void = () => {};

  ended(why: StreamEndReason): void {
    this.endings.set(why, (this.endings.get(why) ?? 0) + 1);
  }
}
