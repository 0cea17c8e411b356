/** Owns the reading of one organization's log into its ring: in order, without a gap, one read at a time. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Entry, Head, LogSource } from '../data/change-log.ts';
import { framesOf } from './frame.ts';
import { tokenOf } from './revision-tokens.ts';
import type { Ring } from './ring.ts';

/** Counts, of all organizations. */
export interface LogStats {
  reads: number;
  /** Times a log had a hole. */
  resyncs: number;
}

export interface LogReaderOptions {
  readonly org: OrganizationId;
  readonly ring: Ring;
  readonly source: Pick<LogSource, 'readChanges'>;
  readonly stats: LogStats;
  readonly now: () => number;
  /** The head as of now; undefined when the organization is gone. */
  readonly readHead: () => Promise<Head | undefined>;
  /** The ring has new events, or was reset. */
  readonly onAppend: () => void;
  /** The log jumped: what was remembered of the state can no longer be brought up to date. */
  readonly onHole: () => void;
}

/** Of one read: entries, and what their records weigh. */
const most = { entries: 4_096, bytes: 4 * 1_048_576 };
/** How many full reads in a row are worth keeping. */
const mostReads = 16;

export class LogReader {
  readonly #o: LogReaderOptions;
  #reading: Promise<void> | undefined;
  #again = false;

  constructor(options: LogReaderOptions) {
    this.#o = options;
  }

  /** There may be new entries. Resolves when a read that began after this call has brought in what it found. */
  async wake(): Promise<void> {
    this.#again = true;
    this.#reading ??= this.#read();
    await this.#reading;
  }

  /**
   * Takes what a transaction of this server has logged, whole, if that is what comes next: then it is what a read would bring, without one.
   * What was taken or read already needs nothing. False otherwise, because others wrote before: it is to be read, in its place.
   */
  take(entries: readonly Entry[]): boolean {
    const { head } = this.#o.ring;
    if ((entries.at(-1)?.revision ?? 0) <= head) return true;
    if (!continues(head, entries) || this.#isOfUnknownEra(entries)) return false;
    this.#append(entries);
    return true;
  }

  /**
   * Brings the ring to a revision that the database was seen to have. A read under way counts; what it began too early to see is
   * read again. False when the database has it no longer: the organization is gone, or a backup was restored.
   */
  async catchUp(revision: number): Promise<boolean> {
    const { ring } = this.#o;
    if (ring.head < revision) await this.#reading;
    if (ring.head < revision) await this.wake();
    // Every organization has leapt, and nothing was written since.
    if (ring.head < revision) await this.#resync(ring.head);
    return ring.head >= revision;
  }

  async #read(): Promise<void> {
    try {
      while (this.#again) {
        this.#again = false;
        await this.#readOnce();
      }
    } finally {
      // In the same turn as the last look at `again`: a wake-up cannot fall between.
      this.#reading = undefined;
    }
  }

  /**
   * A read that comes back short of its bounds ends where a transaction ended: the database shows transactions whole. So the ring
   * takes in only up to such a read; a head in the middle of a transaction could put a tail there.
   */
  async #readOnce(): Promise<void> {
    const { org, ring, source, stats } = this.#o;
    const from = ring.head;
    const { history } = ring;
    const entries: Entry[] = [];
    for (let reads = 1; ; reads += 1) {
      stats.reads += 1;
      const page = await source.readChanges(org, from + entries.length, most.entries, most.bytes);
      // Another database may go on from before what is known here: whether it does is learned first.
      if (page !== undefined && this.#isOfUnknownEra(page)) await this.#o.readHead();
      if (ring.history !== history) {
        this.#again = true;
        return;
      }
      if (page === undefined || !continues(from + entries.length, page)) return this.#resync(from);
      entries.push(...page);
      if (page.length < most.entries && page.isCut !== true) break;
      // So far behind that the ring could not hold it: streams go on from the state.
      if (reads === mostReads) return this.#resync(from);
    }
    // What this process wrote meanwhile may have been taken already.
    this.#append(entries.slice(ring.head - from));
    return undefined;
  }

  #isOfUnknownEra(entries: readonly Entry[]): boolean {
    const { tokens } = this.#o.ring;
    return entries.some(({ revision, era }) => era !== undefined && !tokens.allows(revision, tokenOf(era)));
  }

  #append(entries: readonly Entry[]): void {
    const last = entries.at(-1);
    if (last === undefined) return;
    const { org, ring, now, onAppend } = this.#o;
    for (const { revision, era } of entries) ring.tokens.append(revision, era);
    ring.append(
      entries.flatMap((entry) => framesOf(org, entry)),
      last.revision,
      now(),
    );
    onAppend();
  }

  /** A gap: after a failover, or when the log was cut while no stream read it. Streams continue from the state, and none skips anything. */
  async #resync(from: number): Promise<void> {
    const { ring } = this.#o;
    const head = await this.#o.readHead();
    if (head === undefined) return;
    if (ring.head !== from) {
      // What this process wrote led past it meanwhile.
      this.#again = true;
      return;
    }
    this.#o.stats.resyncs += 1;
    this.#o.onHole();
    ring.reset(head.revision);
    this.#o.onAppend();
  }
}

const continues = (from: number, entries: readonly Entry[]): boolean =>
  entries.every((entry, index) => entry.revision === from + 1 + index);
