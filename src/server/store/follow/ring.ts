/** Owns an organization's newest events in memory: every event after `tail`, up to and including `head`. */
import type { Frame } from './frame.ts';
import { RevisionTokens } from './revision-tokens.ts';

export interface RingLimits {
  readonly bytes: number;
  readonly ageMs: number;
}

/** What an event costs besides its text: the object, its slot, the string's header. */
const overhead = 160;

export const costOf = ({ json, agentJson = '' }: Frame): number => json.length + agentJson.length + overhead;

export class Ring {
  readonly tokens = new RevisionTokens();
  readonly #limits: RingLimits;
  #frames: Frame[] = [];
  #stamps: number[] = [];
  /** Frames before this index are gone; the arrays are shortened now and then. */
  #start = 0;
  #bytes = 0;
  #tail: number;
  #head: number;
  #history = {};

  constructor(head: number, limits: RingLimits) {
    this.#limits = limits;
    this.#tail = head;
    this.#head = head;
  }

  /** Events up to and including this revision are no longer here. */
  get tail(): number {
    return this.#tail;
  }

  get head(): number {
    return this.#head;
  }

  /** Another object each time that it starts over: what came of its events before has nothing to do with those after. */
  get history(): object {
    return this.#history;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether everything after `revision` is here. */
  covers(revision: number): boolean {
    return revision >= this.#tail;
  }

  append(frames: readonly Frame[], head: number, now: number): void {
    for (const frame of frames) {
      this.#frames.push(frame);
      this.#stamps.push(now);
      this.#bytes += costOf(frame);
    }
    this.#head = head;
    this.trim(now);
  }

  /** Lets go of what is too old or too much; `bytes` overrides the limit when memory is short elsewhere. */
  trim(now: number, bytes: number = this.#limits.bytes): void {
    const oldest = now - this.#limits.ageMs;
    while (this.#start < this.#frames.length) {
      if (this.#bytes <= bytes && (this.#stamps[this.#start] ?? 0) >= oldest) break;
      this.#dropOne();
    }
    if (this.#start > 1_024 && this.#start * 2 > this.#frames.length) {
      this.#frames = this.#frames.slice(this.#start);
      this.#stamps = this.#stamps.slice(this.#start);
      this.#start = 0;
    }
  }

  /** Starts over at another head, as if nothing had been read yet. */
  reset(head: number): void {
    this.#frames = [];
    this.#stamps = [];
    this.#start = 0;
    this.#bytes = 0;
    this.#tail = head;
    this.#head = head;
    this.#history = {};
  }

  /** How many events there are after a revision that is covered. */
  countAfter(revision: number): number {
    return this.#frames.length - this.#indexAfter(revision);
  }

  /** The events after a revision that `covers` it, ascending. */
  *after(revision: number): Generator<Frame, void, undefined> {
    for (let i = this.#indexAfter(revision); i < this.#frames.length; i += 1) {
      const frame = this.#frames[i];
      if (frame !== undefined) yield frame;
    }
  }

  /** A revision goes as a whole: its frames differ only in who may see them. */
  #dropOne(): void {
    const revision = this.#frames[this.#start]?.revision ?? this.#tail;
    for (let frame = this.#frames[this.#start]; frame?.revision === revision; frame = this.#frames[this.#start]) {
      this.#bytes -= costOf(frame);
      this.#frames[this.#start] = gone;
      this.#start += 1;
    }
    this.#tail = revision;
  }

  #indexAfter(revision: number): number {
    let low = this.#start;
    let high = this.#frames.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#frames[middle]?.revision ?? 0) > revision) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/** Replaces an evicted event in its slot, so that its text can be garbage-collected. */
const gone: Frame = {
  revision: 0,
  kind: 'device',
  mask: 0,
  type: 'delete',
  id: '',
  json: '',
  owner: undefined,
  forOwner: false,
};
