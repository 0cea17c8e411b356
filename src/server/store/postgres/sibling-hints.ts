/**
 * Owns the hints between the processes of one server: each tells the others what it tells itself, entries of the log included, without
 * the database.
 *
 * Every hint has a number. A NOTIFY says which hints it holds, so that whoever has heard those here passes it over; what was lost here is
 * heard there. What waits to be sent is bounded: entries are left out first, for they can be read, and then all of it.
 */
import type { Siblings } from '../../siblings.ts';
import type { Hint } from '../contract/change-log.ts';
import { readMessage, type Message, type Told } from './sibling-message.ts';

/** In characters: beyond it a message goes without entries, and what is half of it without any is not sent at all. */
const mostSize = 256 * 1024;
/** Processes that end are replaced, under another name: so many names are remembered. */
const mostSources = 64;

/** Which hints of another process were heard here: all from one number to another. */
interface Heard {
  readonly from: number;
  readonly through: number;
}

export interface SiblingHintsOptions {
  readonly siblings: Siblings;
  /** A UUID. */
  readonly source: string;
  readonly deliver: (hint: Hint) => void;
  /** Runs something after other work that is due; `setImmediate` in a server. */
  readonly defer?: (run: () => void) => void;
}

const sizeOf = ({ news, logged }: Told): number => {
  let size = news.length;
  for (const { entries } of logged) {
    for (const { json, identity = '' } of entries) size += json.length + identity.length + 160;
  }
  return size;
};

export class SiblingHints {
  readonly #o: SiblingHintsOptions;
  readonly #heard = new Map<string, Heard>();
  readonly #defer: (run: () => void) => void;
  #waiting: Told[] = [];
  #size = 0;
  #told = 0;
  #sent = 0;

  constructor(options: SiblingHintsOptions) {
    this.#o = options;
    this.#defer = options.defer ?? setImmediate;
    options.siblings.listen((message) => this.#receive(message));
  }

  /** Tells them soon: whoever was just answered and the streams of this process come first, and all that is told in this moment goes together. Gives its number. */
  tell(entries: readonly string[], logged: Hint['logged']): number {
    const told = { news: entries.join(' '), logged };
    this.#told += 1;
    if (this.#told - 1 === this.#sent) this.#defer(() => this.#send());
    this.#waiting.push(told);
    this.#size += sizeOf(told);
    if (this.#size > mostSize) this.#shrink();
    return this.#told;
  }

  /** For a NOTIFY that holds hints from one number up to the last that was told. */
  markFrom(first: number): string {
    return `s${this.#o.source}/${first}/${this.#told}`;
  }

  /** Whether all that a NOTIFY holds was heard of here. */
  hasHeard(payload: string): boolean {
    const [, source = '', first, last] = /^s([0-9a-f-]{36})\/(\d{1,15})\/(\d{1,15})(?: |$)/.exec(payload) ?? [];
    const heard = this.#heard.get(source);
    return heard !== undefined && heard.from <= Number(first) && Number(last) <= heard.through;
  }

  #send(): void {
    const { siblings, source } = this.#o;
    const hints = this.#waiting;
    const message: Message = { source, after: this.#sent, through: this.#told, hints };
    [this.#waiting, this.#size, this.#sent] = [[], 0, this.#told];
    if (hints.length > 0) siblings.send(message);
  }

  /** Much is told at once: each piece of news once, and without entries. What is too much even so is lost here. */
  #shrink(): void {
    const news = [...new Set(this.#waiting.flatMap((told) => told.news.split(' ')))].join(' ');
    const isTooMuch = news.length > mostSize / 2;
    this.#waiting = isTooMuch ? [] : [{ news, logged: [] }];
    this.#size = isTooMuch ? 0 : news.length;
    if (isTooMuch) this.#sent = this.#told;
  }

  /** A message that cannot be read is as good as lost. */
  #receive(given: unknown): void {
    const message = readMessage(given);
    if (message === undefined) return;
    const { source, after, through } = message;
    for (const hint of message.hints) this.#o.deliver(hint);
    const known = this.#heard.get(source);
    this.#heard.delete(source);
    this.#heard.set(source, { from: known?.through === after ? known.from : after + 1, through });
    for (const oldest of this.#heard.keys()) {
      if (this.#heard.size <= mostSources) break;
      this.#heard.delete(oldest);
    }
  }
}
