/** Owns one organization's log as this process follows it: its newest events, and which history they belong to. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Entry, Head, LogSource, Resumption } from '../data/change-log.ts';
import { LogReader, type LogStats } from './log-reader.ts';
import { Ring, type RingLimits } from './ring.ts';

/** Receives what happens to the log of an organization. */
export interface LogListener {
  /** There are new events, or the ring has started over. */
  onAppend(): void;
  /** The log jumped, or belonged to a history that is no more: what was remembered of the state can no longer be brought up to date. */
  onReset(): void;
  /** The database went back: it was restored, and readers hold what is no more. */
  onRewind(): void;
  /** The organization was deleted. */
  onGone(): void;
}

export interface FollowedLogOptions {
  readonly org: OrganizationId;
  readonly source: Pick<LogSource, 'readChanges' | 'resumption'>;
  readonly ring: RingLimits;
  readonly stats: LogStats;
  readonly now: () => number;
  /** Reads the current head. Concurrent callers share one read. */
  readonly readHead: () => Promise<Head | undefined>;
}

/** A head that the ring has reached, and from where readers can resume. */
export interface ReachedHead extends Resumption {
  readonly revision: number;
}

interface KnownResumption {
  readonly version: string | undefined;
  readonly reading: Promise<Resumption>;
}

const nothingKnown: KnownResumption = { version: undefined, reading: Promise.resolve({ gaps: [], eras: [] }) };

export class FollowedLog {
  readonly org: OrganizationId;
  readonly ring: Ring;
  listener: LogListener | undefined;
  /** When it was last brought to a head. */
  usedAt: number;
  readonly #o: FollowedLogOptions;
  readonly #reader: LogReader;
  #resumption = nothingKnown;
  /** Of the last head that the ring was brought to. */
  #version: string | undefined;
  /** What own transactions have seen, which may be more than the ring has. */
  #seen = 0;

  constructor(head: number, options: FollowedLogOptions) {
    this.#o = options;
    const { org, source, stats, now } = options;
    this.org = org;
    this.usedAt = now();
    this.ring = new Ring(head, options.ring);
    this.#reader = new LogReader({
      org,
      ring: this.ring,
      source,
      stats,
      now,
      // The eras are learned before the ring goes there: what it has not read cannot contradict them.
      readHead: () => options.readHead().then((found) => found && this.#learn(found).then(() => found)),
      onAppend: () => this.listener?.onAppend(),
      onHole: () => this.listener?.onReset(),
    });
  }

  /** The version of heads that have this history of the ring, as far as is known; undefined where the ring has started over since. */
  versionOf(history: object): string | undefined {
    return this.ring.history === history ? this.#version : undefined;
  }

  /** The newest revision that is known here: a database without it lost it. */
  get seen(): number {
    return Math.max(this.#seen, this.ring.head);
  }

  /** An own transaction is committed that saw this revision. */
  sawCommitted(revision: number): void {
    this.#seen = Math.max(this.#seen, revision);
  }

  /** Brings the ring to a head that was just read; undefined when the database has it no longer. */
  async reach(head: Head): Promise<ReachedHead | undefined> {
    this.usedAt = this.#o.now();
    const resumption = await this.#learn(head);
    if (!(await this.#reader.catchUp(head.revision))) return undefined;
    // A later head may have come first.
    if (this.#resumption.version === head.version) this.#version = head.version;
    return { revision: head.revision, ...resumption };
  }

  /** There may be new entries. */
  wake(): Promise<void> {
    return this.#reader.wake();
  }

  /** Takes what a transaction of this server has logged. False where it must be read instead. */
  take(entries: readonly Entry[]): boolean {
    return this.#reader.take(entries);
  }

  /** The database is behind what was read from it: it was restored. What is in memory belongs to a history that is no more. */
  rewind(head: Head): void {
    this.#resumption = nothingKnown;
    this.#startOver(head.revision);
  }

  #startOver(head: number): void {
    this.#seen = 0;
    this.ring.reset(head);
    this.listener?.onReset();
    this.listener?.onRewind();
  }

  /** From where readers can resume as of this head or later, read once for all that ask. */
  #learn({ version, revision }: Head): Promise<Resumption> {
    if (this.#resumption.version !== version) {
      const reading = this.#o.source.resumption(this.org).then((resumption) => {
        // A later read has overtaken this one, and may know of a cut that this one does not.
        if (this.#resumption !== read && this.#resumption !== nothingKnown) return this.#resumption.reading;
        if (this.ring.tokens.learn(resumption.eras, this.seen)) this.#startOver(revision);
        return resumption;
      });
      const read: KnownResumption = { version, reading };
      this.#resumption = read;
      read.reading.catch(() => {
        if (this.#resumption === read) this.#resumption = nothingKnown;
      });
    }
    return this.#resumption.reading;
  }
}
