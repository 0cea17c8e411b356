/** Owns one open stream: a connection, a reader, and its cursor. It never buffers events. */
import type { DeviceId, TokenId, UserId } from '../../policy/ids.ts';
import type { StreamReservation } from '../limits/stream-quota.ts';
import { sharedSelection, type Selection } from './batch.ts';
import type { Cursor, Reader } from './cursor.ts';
import { nextState, type StreamEvent, type StreamState } from './stream-state.ts';
import { SignBudget, type SignSource } from './signs.ts';
import type { RevisionTokens } from '../store/follow/revision-tokens.ts';
import { ending, heartbeat, heartbeatLine, twoWayEnding } from './wire.ts';

/** Why a stream came to its end. All but `left`, `stuck`, `silent` and `misused` end it cleanly, so that the client resumes. */
export type StreamEndReason =
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
  /** The server cannot reach its database, and the reader said that it knows another server. */
  | 'not_ready'
  | 'aged'
  | 'stuck'
  /** Its device showed no sign of life for too long, on a stream that carries them. */
  | 'silent'
  /** The same, on a stream that does not carry them: the device may be there and have shown itself elsewhere, and then it resumes. */
  | 'unheard'
  /** The reader sent something else than signs of life, or too many. */
  | 'misused';

/** The reasons for which the server closes a connection without an end line: the client does not read it. */
const cutsOff: { readonly [Why in StreamEndReason]?: true } = { left: true, stuck: true, silent: true, misused: true };

/** The connection under a stream. It reports to its stream through `flushed` and `closed`. */
export interface Sink {
  /** Writes bytes. False when the connection has more than a few kilobytes waiting: `flushed` reports when they have gone. Nothing is to be written until then. */
  write(bytes: readonly Buffer[]): boolean;
  /** Ends the connection after these bytes. */
  end(bytes: Buffer): void;
  /** Ends it at once. */
  destroy(): void;
}

/** Who reads, by which right. */
export interface Holder {
  readonly user: UserId;
  readonly kind: 'user' | 'device';
  /** Whose token it is, where it is a device's. */
  readonly device?: DeviceId | undefined;
  /** Identifies the credential, for counting. */
  readonly credential: string;
  /** The user whose own groups are shown; undefined for a device's token, which shows none. */
  readonly reader: UserId | undefined;
  /** Absent when the credential is not one of ours (a token of an identity provider). */
  readonly token: TokenId | undefined;
  /** When the credential ends by itself, in milliseconds since the epoch. */
  readonly expiresAt: number | undefined;
}

/** The owner of a stream: it ends the stream and receives the events of its connection. */
export interface StreamOwner {
  now(): number;
  end(stream: Stream, why: StreamEndReason): void;
  /** Writes a line between documents to a stream that is live. */
  say(stream: Stream, line: Buffer, now: number): void;
  /** Up to which revision a live stream was sent everything; undefined for one that is not live. */
  sentUpTo(stream: Stream): number | undefined;
  /** The tokens of the revisions that it is sent. */
  readonly tokens: RevisionTokens;
  /** The reader of a stream has shown a sign of life elsewhere. */
  heard(stream: Stream): void;
  /** The reader has sent a sign of life on it. */
  onSign(stream: Stream): void;
  onFlushed(stream: Stream): void;
  onClosed(stream: Stream): void;
}

export class Stream {
  readonly owner: StreamOwner;
  readonly sink: Sink;
  readonly reader: Reader;
  readonly holder: Holder;
  /** Whether its reader understands being asked for its word. */
  readonly takesReceiptRequests: boolean;
  readonly signs: SignSource;
  /** Whether its reader knows another server, and goes there when this one cannot reach its database. */
  readonly leavesWhenNotReady: boolean;
  /** How long it may show no sign of life. */
  readonly silenceMs: number;
  readonly #signBudget: SignBudget | undefined;
  /** When its reader last showed a sign of life: opened it, sent a sign on it, or made another request. */
  heardAt: number;
  /** Its reservation in the stream quota; given back when it closes. */
  readonly reservation: StreamReservation;
  /** What it is sent while it follows, to look shared batches up by. */
  readonly selection: Selection;
  /** The cursor before the stream became live. For a live stream, ask its owner. */
  cursor: Cursor;
  #state: StreamState = 'ready';
  /** Its slot in the list of live streams. */
  slot = -1;
  wroteAt: number;
  /** Since when the connection takes nothing. */
  blockedAt = 0;
  readonly endsAt: number;
  ended: StreamEndReason | undefined;
  /** The response's head, until it has gone out with the first bytes. */
  preface: Buffer | undefined;

  constructor(options: {
    readonly owner: StreamOwner;
    readonly sink: Sink;
    readonly reader: Reader;
    readonly holder: Holder;
    readonly takesReceiptRequests?: boolean | undefined;
    readonly signs: SignSource;
    readonly leavesWhenNotReady?: boolean | undefined;
    readonly silenceMs: number;
    readonly reservation: StreamReservation;
    readonly cursor: Cursor;
    readonly now: number;
    readonly endsAt: number;
    readonly preface?: Buffer | undefined;
  }) {
    this.owner = options.owner;
    this.sink = options.sink;
    this.reader = options.reader;
    this.holder = options.holder;
    this.takesReceiptRequests = options.takesReceiptRequests ?? false;
    this.signs = options.signs;
    this.leavesWhenNotReady = options.leavesWhenNotReady ?? false;
    this.silenceMs = options.silenceMs;
    this.#signBudget = options.signs === 'stream' ? new SignBudget() : undefined;
    this.heardAt = options.now;
    this.reservation = options.reservation;
    this.cursor = options.cursor;
    this.wroteAt = options.now;
    this.endsAt = options.endsAt;
    this.preface = options.preface;
    this.selection = sharedSelection({ mask: options.reader.mask, format: options.reader.format, newest: false });
  }

  /** When it is to end at the latest: it is old then, or its credential has ended. */
  get lastMoment(): number {
    return Math.min(this.endsAt, this.holder.expiresAt ?? Number.POSITIVE_INFINITY);
  }

  /** When it is to end unless its reader shows a sign of life before. */
  get silentAt(): number {
    return this.heardAt + this.silenceMs;
  }

  get state(): StreamState {
    return this.#state;
  }

  /** The only way from one state to another. For the stream's owner, which keeps its lists by state. */
  step(event: StreamEvent): StreamState {
    this.#state = nextState(this.#state, event);
    return this.#state;
  }

  /** Writes; false when the stream is blocked now. */
  write(bytes: readonly Buffer[], now: number): boolean {
    this.wroteAt = now;
    if (this.sink.write(bytes)) return true;
    this.blockedAt = now;
    return false;
  }

  /**
   * A lone line feed, or a document for a reader that asks for tokens and was sent everything up to `at`. Only between documents, which is always: they are
   * written whole.
   */
  heartbeat(now: number, at: number | undefined, tokens: RevisionTokens): boolean {
    const { format } = this.reader;
    const isDocument = format.tokens && at !== undefined;
    return this.write([isDocument ? heartbeatLine(at, format, tokens) : heartbeat(format.chunked)], now);
  }

  /** Sends the end line, or cuts the connection when the client does not read. For a stream that is open. */
  finish(why: StreamEndReason, now: number): void {
    this.ended = why;
    this.blockedAt = now;
    const last = this.signs === 'stream' ? twoWayEnding : ending(this.reader.format.chunked);
    if (cutsOff[why] === true) this.sink.destroy();
    else this.sink.end(this.preface === undefined ? last : Buffer.concat([this.preface, last]));
  }

  // Called by the connection.

  /** Takes what the reader sent after its request. */
  received(bytes: Uint8Array): void {
    if (this.#signBudget?.takes(bytes, this.owner.now()) === true) this.owner.onSign(this);
    else this.owner.end(this, 'misused');
  }

  flushed(): void {
    this.owner.onFlushed(this);
  }

  closed(): void {
    if (this.#state === 'closed') return;
    this.ended ??= 'left';
    this.owner.onClosed(this);
  }
}
