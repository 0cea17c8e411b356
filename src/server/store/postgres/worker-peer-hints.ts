/**
 * Owns the hints between the processes of one server: each process sends the others its own hints, with log entries,
 * without the database.
 *
 * Every hint has a number. A NOTIFY says which hints it contains, so that a process that already received those ignores
 * it; a process that lost them here gets them there. The queue is bounded: it drops log entries first, because they can
 * be read, and then everything.
 */
import type { Hint } from '../data/change-log.ts';
import { readMessage, type EncodedHint, type WorkerPeerMessage } from './worker-peer-message.ts';

/** The other processes of this server. Messages may be lost, when a process dies or does not read. */
export interface WorkerPeers {
  /** Sends all of them something that JSON can hold, without waiting. */
  send(message: unknown): void;
  /** Calls a listener with what they send, in the order in which each of them sent it. The last listener counts. */
  listen(listener: (message: unknown) => void): void;
}

/** In characters: beyond it a message goes without entries, and what is half of it without any is not sent at all. */
const mostSize = 256 * 1024;
/** Processes that end are replaced, under another name: so many names are remembered. */
const mostSources = 64;

/** Which hints of another process were received here: all from one number to another. */
interface ReceivedRange {
  readonly from: number;
  readonly through: number;
}

export interface WorkerPeerHintsOptions {
  readonly workerPeers: WorkerPeers;
  /** A UUID. */
  readonly source: string;
  readonly deliver: (hint: Hint) => void;
  /** Runs something after other work that is due; `setImmediate` in a server. */
  readonly defer?: (run: () => void) => void;
}

const sizeOf = ({ text, logged }: EncodedHint): number => {
  let size = text.length;
  for (const { entries } of logged) {
    for (const { json, identity = '' } of entries) size += json.length + identity.length + 160;
  }
  return size;
};

export class WorkerPeerHints {
  readonly #o: WorkerPeerHintsOptions;
  readonly #received = new Map<string, ReceivedRange>();
  readonly #defer: (run: () => void) => void;
  #unsent: EncodedHint[] = [];
  #size = 0;
  #lastNumber = 0;
  #sentThrough = 0;

  constructor(options: WorkerPeerHintsOptions) {
    this.#o = options;
    this.#defer = options.defer ?? setImmediate;
    options.workerPeers.listen((message) => this.#receive(message));
  }

  /**
   * Queues a hint and returns its number. It is sent a moment later: answered requests and the streams of this process
   * go first, and hints of one moment share a message.
   */
  tell(entries: readonly string[], logged: Hint['logged']): number {
    const hint: EncodedHint = { text: entries.join(' '), logged };
    this.#lastNumber += 1;
    if (this.#lastNumber - 1 === this.#sentThrough) this.#defer(() => this.#send());
    this.#unsent.push(hint);
    this.#size += sizeOf(hint);
    if (this.#size > mostSize) this.#shrink();
    return this.#lastNumber;
  }

  /** The mark for a NOTIFY that contains the hints from this number up to the last queued one. */
  markFrom(first: number): string {
    return `s${this.#o.source}/${first}/${this.#lastNumber}`;
  }

  /** Whether all that a NOTIFY holds was received here. */
  hasReceived(payload: string): boolean {
    const [, source = '', first, last] = /^s([0-9a-f-]{36})\/(\d{1,15})\/(\d{1,15})(?: |$)/.exec(payload) ?? [];
    const range = this.#received.get(source);
    return range !== undefined && range.from <= Number(first) && Number(last) <= range.through;
  }

  #send(): void {
    const { workerPeers, source } = this.#o;
    const hints = this.#unsent;
    const message: WorkerPeerMessage = { source, after: this.#sentThrough, through: this.#lastNumber, hints };
    [this.#unsent, this.#size, this.#sentThrough] = [[], 0, this.#lastNumber];
    if (hints.length > 0) workerPeers.send(message);
  }

  /** Reduces the queue: each text once, without log entries. If that is still too much, everything is dropped. */
  #shrink(): void {
    const text = [...new Set(this.#unsent.flatMap((hint) => hint.text.split(' ')))].join(' ');
    const isTooMuch = text.length > mostSize / 2;
    this.#unsent = isTooMuch ? [] : [{ text, logged: [] }];
    this.#size = isTooMuch ? 0 : text.length;
    if (isTooMuch) this.#sentThrough = this.#lastNumber;
  }

  /** A message that cannot be read is as good as lost. */
  #receive(given: unknown): void {
    const message = readMessage(given);
    if (message === undefined) return;
    const { source, after, through } = message;
    for (const hint of message.hints) this.#o.deliver(hint);
    const known = this.#received.get(source);
    this.#received.delete(source);
    this.#received.set(source, { from: known?.through === after ? known.from : after + 1, through });
    for (const oldest of this.#received.keys()) {
      if (this.#received.size <= mostSources) break;
      this.#received.delete(oldest);
    }
  }
}
