/** Owns one open stream: a connection, a reader, and the place it has reached. It holds no events, ever. */
import type { TokenId, UserId } from '../../policy/ids.ts';
import { sharedWanted, type Wanted } from './batch.ts';
import type { Place, Reader } from './cursor.ts';
import { ending, heartbeat } from './wire.ts';

/** Why a stream came to its end. All but `left` and `stuck` end it cleanly, so that the client resumes. */
export type Ending =
  /** The client went. */
  | 'left'
  | 'revoked'
  | 'expired'
  | 'removed'
  | 'organization_gone'
  /** The deletions it would need next are forgotten. */
  | 'revision_gone'
  /** The database went back in time: a restored backup. */
  | 'rewound'
  | 'drained'
  | 'aged'
  | 'stuck';

/** The connection under a stream. It tells its stream through `flushed` and `gone`. */
export interface Sink {
  /** Hands bytes over. False when the kernel did not take them all: `flushed` tells when it has. Nothing is to be written until then. */
  write(bytes: readonly Buffer[]): boolean;
  /** Ends the connection after these bytes. */
  end(bytes: Buffer): void;
  /** Ends it at once. */
  destroy(): void;
}

/** Who reads, by which right. */
export interface Holder {
  readonly user: UserId;
  /** Absent when the credential is not one of ours (a token of an identity provider). */
  readonly token: TokenId | undefined;
  /** When the credential ends by itself, in milliseconds since the epoch. */
  readonly expiresAt: number | undefined;
}

/**
 * `ready`: has something to do, waits for its turn. `live`: has everything. `blocked`: the connection takes no more.
 * `reading`: waits for the database. `ending`: was sent its end, waits for the connection to close. `over`: closed.
 */
export type Condition = 'ready' | 'live' | 'blocked' | 'reading' | 'ending' | 'over';

/** What a stream's home does about it. */
export interface Home {
  flushed(stream: Stream): void;
  gone(stream: Stream): void;
}

export class Stream {
  readonly home: Home;
  readonly sink: Sink;
  readonly reader: Reader;
  readonly holder: Holder;
  /** What it is owed while it follows, to look shared batches up by. */
  readonly wanted: Wanted;
  condition: Condition = 'ready';
  place: Place;
  /** Its slot in the list of live streams. */
  slot = -1;
  wroteAt: number;
  /** Since when the connection takes nothing. */
  blockedAt = 0;
  readonly endsAt: number;
  ended: Ending | undefined;
  /** The response's head, until it has gone out with the first bytes. */
  preface: Buffer | undefined;

  constructor(options: {
    readonly home: Home;
    readonly sink: Sink;
    readonly reader: Reader;
    readonly holder: Holder;
    readonly place: Place;
    readonly now: number;
    readonly endsAt: number;
    readonly preface?: Buffer | undefined;
  }) {
    this.home = options.home;
    this.sink = options.sink;
    this.reader = options.reader;
    this.holder = options.holder;
    this.place = options.place;
    this.wroteAt = options.now;
    this.endsAt = options.endsAt;
    this.preface = options.preface;
    this.wanted = sharedWanted({ mask: options.reader.mask, format: options.reader.format, newest: false });
  }

  get open(): boolean {
    return this.condition !== 'ending' && this.condition !== 'over';
  }

  /** Writes; false when the stream is blocked now. */
  write(bytes: readonly Buffer[], now: number): boolean {
    this.wroteAt = now;
    if (this.sink.write(bytes)) return true;
    this.blockedAt = now;
    return false;
  }

  /** A lone line feed. Only between documents, which is always: documents are written whole. */
  beat(now: number): boolean {
    return this.write([heartbeat(this.reader.format.chunked)], now);
  }

  finish(why: Ending, now: number): void {
    if (!this.open) return;
    this.ended = why;
    this.condition = 'ending';
    this.blockedAt = now;
    const last = ending(this.reader.format.chunked);
    if (why === 'stuck' || why === 'left') this.sink.destroy();
    else this.sink.end(this.preface === undefined ? last : Buffer.concat([this.preface, last]));
  }

  // Called by the connection.

  flushed(): void {
    if (this.condition === 'blocked') this.home.flushed(this);
  }

  closed(): void {
    if (this.condition === 'over') return;
    this.ended ??= 'left';
    this.home.gone(this);
    this.condition = 'over';
  }
}
