/**
 * Owns the following of the change log in this process: streams and models of an organization read it here, once. Hints bring what is new, and every read of
 * a head shows what a lost hint did not.
 *
 *     const current = await logs.current(org); // with everything that was written before this call
 *     for (const frame of current.log.ring.after(41)) …
 */
import type { OrganizationId } from '../../../policy/ids.ts';
import { Coalescer, type Timers } from '../../scheduling/coalescer.ts';
import type { Head, Heads, Hint, LogSource } from '../data/change-log.ts';
import { FollowedLog, type ReachedHead } from './followed-log.ts';
import type { LogStats } from './log-reader.ts';

export interface FollowSettings {
  /** What one organization's newest events may take, and how long they are kept. */
  readonly ringBytes: number;
  readonly ringAgeMs: number;
  /** What all organizations' rings may take together. */
  readonly ringsBytes: number;
  /** How long an organization is kept in memory that nobody asks for: its agents may be about to come back. */
  readonly lingerMs: number;
}

export const defaultFollowSettings: FollowSettings = {
  ringBytes: 16 * 1_048_576,
  ringAgeMs: 300_000,
  ringsBytes: 128 * 1_048_576,
  lingerMs: 60_000,
};

export interface FollowedLogsOptions {
  readonly source: LogSource;
  readonly settings?: Partial<FollowSettings> | undefined;
  readonly timers: Timers;
  readonly onWarning: (message: string, cause: unknown) => void;
}

export class FollowedLogs {
  readonly stats: LogStats = { reads: 0, resyncs: 0 };
  /** The newest revisions, of which no answer is older than its question. */
  readonly heads: Coalescer<OrganizationId, Head | undefined>;
  /** Receives every answer of the database about heads. */
  onHeads: (heads: Heads) => void = () => {};
  /** Whether the log of an organization is needed by somebody who does not listen to it. */
  isNeeded: (org: OrganizationId) => boolean = () => false;
  readonly #o: FollowedLogsOptions;
  readonly #settings: FollowSettings;
  readonly #logs = new Map<OrganizationId, FollowedLog>();
  readonly #stopHints: () => void;
  /** What the last read of the heads gave, to be given to the next. */
  #endedSince: string | undefined;

  constructor(options: FollowedLogsOptions) {
    this.#o = options;
    this.#settings = { ...defaultFollowSettings, ...options.settings };
    this.heads = new Coalescer({ read: (orgs) => this.#readHeads(orgs), timers: options.timers });
    this.#stopHints = options.source.onHint((hint) => this.#onHint(hint));
  }

  /** What the rings take. */
  get bytes(): number {
    let bytes = 0;
    for (const { ring } of this.#logs.values()) bytes += ring.bytes;
    return bytes;
  }

  /** The log of an organization that is followed. */
  get(org: OrganizationId): FollowedLog | undefined {
    return this.#logs.get(org);
  }

  /**
   * The log of an organization with everything that was written before this call; undefined where there is none. `isBatched`: the caller can wait some
   * milliseconds for others.
   */
  async current(
    org: OrganizationId,
    { isBatched = false }: { readonly isBatched?: boolean } = {},
  ): Promise<{ readonly log: FollowedLog; readonly head: ReachedHead } | undefined> {
    const { batched, immediate } = this.heads;
    for (let read = isBatched ? batched : immediate; ; read = immediate) {
      const found = await read.get(org);
      if (found === undefined) return undefined;
      const log = this.#logs.get(org) ?? this.#begin(org, found.revision);
      const head = await log.reach(found);
      // The organization was deleted or restored, or dropped because nobody used it: look again.
      if (head !== undefined && this.#logs.get(org) === log) return { log, head };
    }
  }

  #begin(org: OrganizationId, head: number): FollowedLog {
    const { source, timers } = this.#o;
    const { ringBytes, ringAgeMs } = this.#settings;
    this.tidy();
    const log = new FollowedLog(head, {
      org,
      source,
      ring: { bytes: ringBytes, ageMs: ringAgeMs },
      stats: this.stats,
      now: timers.now,
      readHead: () => this.heads.immediate.get(org),
    });
    this.#logs.set(org, log);
    return log;
  }

  /** Lets go of what is old, too much, or not used by anybody. */
  tidy(): void {
    const now = this.#o.timers.now();
    for (const [org, { ring, listener, usedAt }] of this.#logs) {
      ring.trim(now);
      if (listener !== undefined || this.isNeeded(org)) continue;
      if (now - usedAt > this.#settings.lingerMs) this.#logs.delete(org);
    }
    const { ringsBytes } = this.#settings;
    const { bytes } = this;
    if (bytes <= ringsBytes) return;
    // Every ring gives up the same part: a busy organization keeps more than a quiet one, but all keep something.
    for (const { ring } of this.#logs.values()) ring.trim(now, Math.floor((ring.bytes * ringsBytes) / bytes));
  }

  close(): void {
    this.#stopHints();
    this.#logs.clear();
  }

  #onHint({ organizations, logged }: Hint): void {
    for (const org of organizations) {
      const log = this.#logs.get(org);
      const entries = logged.find(({ organization_id }) => organization_id === org)?.entries;
      const isTaken = entries !== undefined && log?.take(entries) === true;
      // Who does not listen asks for the head first.
      if (!isTaken && log?.listener !== undefined) this.#follow(log.wake());
    }
  }

  async #readHeads(orgs: readonly OrganizationId[]): Promise<readonly (Head | undefined)[]> {
    // What was known when the read began: an answer below that is a database that went back.
    const known = orgs.flatMap((org) => this.#logs.get(org) ?? []).map((log) => ({ log, revision: log.seen }));
    const heads = await this.#o.source.heads(orgs, this.#endedSince);
    this.#endedSince = heads.endedThrough;
    for (const { log, revision } of known) {
      const head = heads.organizations.get(log.org);
      if (head === undefined) log.listener?.onGone();
      else if (head.revision < revision) log.rewind(head);
      else this.#follow(log.reach(head));
    }
    this.onHeads(heads);
    return orgs.map((org) => heads.organizations.get(org));
  }

  #follow(reading: Promise<unknown>): void {
    // A failure here costs nothing but time: the next look reads again.
    reading.catch((cause: unknown) => this.#o.onWarning('cannot read the change log', cause));
  }
}
