/** * Owns the streams that all pages of a browser share: one for each organization and credential, and none for pages that
 * are not shown. A browser opens only six connections to a server that speaks HTTP/1.1: with a stream for each page, the
 * seventh request would wait for ever. */
import { systemClock, type Clock } from '../../client/clock.ts';
import { RingfenceError, type RingfenceErrorInit } from '../../client/error.ts';
import { createInformer, type Informer } from '../../client/informer.ts';
import { clientFor } from '../state/client.ts';
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { Change } from '../../client/cache.ts';
import type { ConnectionState } from '../../client/state.ts';

type StreamInformer = Pick<Informer, 'run' | 'onChange' | 'onState' | 'whenSynced' | 'view' | 'retryNow' | 'state'>;

interface SharedStreamsOptions {
  /** Ticks that a stream lasts without a page. The next page of the same tab needs no new one. */
  readonly graceTicks: number;
  readonly clock?: Clock;
  readonly newInformer?: (subject: StreamSubject) => StreamInformer;
}

/** Time is counted in ticks: a machine that sleeps has none, so nobody counts as silent when it wakes. */
const tickMs = 1_000;
/** A page that says nothing for so long has crashed: it would have left otherwise. */
const silentTicks = 30;
/** The copy of an organization that no page shows is kept for so long: then its stream goes on instead of listing anew. */
const keptTicks = 600;
/** Streams at a time. Pages of more organizations take turns, so that connections remain for everything else. */
const mostStreams = 3;
const turnTicks = 5;

const newStreamInformer = ({ organization, token }: StreamSubject): StreamInformer =>
  createInformer({
    client: clientFor(token),
    organization,
    kinds: ['device', 'security-groups'],
    backoff: { longest: 10_000 },
  });

interface Reader {
  readonly post: (message: WorkerMessage) => void;
  silence: number;
}

export class SharedStreams {
  readonly #o: Required<SharedStreamsOptions>;
  readonly #copies = new Map<string, SharedCopy>();
  #isTicking = false;

  constructor({ graceTicks, clock = systemClock, newInformer = newStreamInformer }: SharedStreamsOptions) {
    this.#o = { graceTicks, clock, newInformer };
  }

  /** A page that speaks to us: what it says goes to the answer, and what it is to know to `post`. */
  connect(post: (message: WorkerMessage) => void): (message: PageMessage) => void {
    const reader: Reader = { post, silence: 0 };
    let copy: SharedCopy | undefined;
    return (message) => {
      if (message.type === 'follow') {
        const next = this.#copyOf(message.subject);
        if (copy !== next) copy?.remove(reader);
        copy = next;
        copy.add(reader, message.version);
      } else if (message.type === 'leave') copy?.remove(reader);
      else copy?.retry();
      this.#arrange();
      this.#tickLater();
    };
  }

  #copyOf(subject: StreamSubject): SharedCopy {
    const key = JSON.stringify([subject.organization, subject.user, subject.token]);
    const known = this.#copies.get(key);
    if (known !== undefined) return known;
    const copy = new SharedCopy(this.#o.newInformer(subject), () => this.#copies.delete(key));
    this.#copies.set(key, copy);
    return copy;
  }

  #tickLater(): void {
    if (this.#isTicking || this.#copies.size === 0) return;
    this.#isTicking = true;
    this.#o.clock.after(tickMs, () => {
      this.#isTicking = false;
      for (const copy of this.#copies.values()) copy.age();
      this.#arrange();
      this.#tickLater();
    });
  }

  /** Decides which copies have a stream now. */
  #arrange(): void {
    for (const [key, copy] of this.#copies) {
      if (copy.unread >= this.#o.graceTicks) copy.stop();
      if (copy.unread >= keptTicks) this.#copies.delete(key);
    }
    const byTurn = [...this.#copies.values()].toSorted((a, b) => b.turn - a.turn);
    const running = byTurn.filter(({ isRunning }) => isRunning);
    for (const next of byTurn.filter(({ isRunning, unread }) => !isRunning && unread < 0)) {
      if (running.length >= mostStreams) {
        const longest = running.shift();
        if (longest === undefined || longest.turn < turnTicks) return;
        longest.stop();
      }
      next.start();
      running.push(next);
    }
  }
}

/** The copy of one organization, as one credential may see it. */
class SharedCopy {
  readonly #informer: StreamInformer;
  readonly #onFailure: () => void;
  readonly #name = crypto.getRandomValues(new Uint32Array(2)).join('-');
  readonly #readers = new Set<Reader>();
  #changes = 0;
  #synced = false;
  #stop: AbortController | undefined;
  #ended: Promise<void> = Promise.resolve();
  #unread = 0;
  /** Ticks since it was started or stopped. */
  turn = 0;

  constructor(informer: StreamInformer, onFailure: () => void) {
    this.#informer = informer;
    this.#onFailure = onFailure;
    informer.onChange((changes) => {
      this.#changes += 1;
      this.#tell({ type: 'changes', version: this.#version, changes });
    });
    informer.onState(() => {
      // That it waits for its turn is no news to a page.
      if (this.isRunning) this.#tell(this.#status);
    });
  }

  get isRunning(): boolean {
    return this.#stop !== undefined;
  }
  /** Ticks without a page; below zero while there is one. */
  get unread(): number {
    return this.#readers.size > 0 ? -1 : this.#unread;
  }
  get #version(): string {
    return `${this.#name} ${this.#changes}`;
  }
  get #status(): WorkerMessage {
    // Failures do not pass between page and worker as they are, and no page asks for the last one.
    const { lastError: _, ...connection } = this.#informer.state;
    const phase = this.isRunning ? connection.phase : 'connecting';
    return { type: 'status', synced: this.#synced, connection: { ...connection, phase } };
  }

  add(reader: Reader, version: string | undefined): void {
    reader.silence = 0;
    if (this.#readers.has(reader)) {
      reader.post({ type: 'alive' });
      return;
    }
    this.#readers.add(reader);
    this.#unread = 0;
    if (version !== this.#version) {
      const [devices, groups] = [[...this.#informer.view('device')], [...this.#informer.view('security-groups')]];
      reader.post({ type: 'records', version: this.#version, devices, groups });
    }
    reader.post(this.#status);
  }
  remove(reader: Reader): void {
    this.#readers.delete(reader);
  }
  retry(): void {
    this.#informer.retryNow();
  }

  age(): void {
    for (const reader of this.#readers) {
      reader.silence += 1;
      if (reader.silence > silentTicks) this.#readers.delete(reader);
    }
    if (this.#readers.size === 0) this.#unread += 1;
    this.turn += 1;
  }

  start(): void {
    const stop = new AbortController();
    const { signal } = stop;
    this.#stop = stop;
    this.turn = 0;
    const run = async (): Promise<void> => {
      if (signal.aborted) return;
      void this.#informer.whenSynced({ signal }).then(
        () => {
          this.#synced = true;
          this.#tell(this.#status);
        },
        () => undefined,
      );
      await this.#informer.run({ signal });
    };
    this.#ended = this.#ended.then(run).catch((error: unknown) => this.#fail(error));
  }
  stop(): void {
    if (this.#stop === undefined) return;
    this.#stop.abort();
    this.#stop = undefined;
    this.turn = 0;
  }

  #fail(error: unknown): void {
    this.#stop = undefined;
    this.#onFailure();
    const known =
      error instanceof RingfenceError
        ? { code: error.code, message: error.message, status: error.status, requestId: error.requestId }
        : ({ code: 'bad_answer', message: 'The page could not follow the organization.' } as const);
    this.#tell({ type: 'failed', error: known });
    this.#readers.clear();
  }

  #tell(message: WorkerMessage): void {
    for (const { post } of this.#readers) post(message);
  }
}

/** What a page follows, and as whom. Pages that agree in all of it share one stream. */
export interface StreamSubject {
  readonly organization: string;
  readonly user: string;
  /** Undefined: the browser's cookie. */
  readonly token: string | undefined;
}

export type PageMessage =
  /** Sent again and again: it also says that the page is still there. `version`: of the copy that the page has. */
  | { readonly type: 'follow'; readonly subject: StreamSubject; readonly version: string | undefined }
  /** The page is not shown any more, or gone. */
  | { readonly type: 'leave' }
  | { readonly type: 'retry' };

export type WorkerMessage =
  /** All records: the page's copy is of another version. */
  | {
      readonly type: 'records';
      readonly version: string;
      readonly devices: readonly Device[];
      readonly groups: readonly SecurityGroup[];
    }
  | { readonly type: 'changes'; readonly version: string; readonly changes: readonly Change[] }
  | { readonly type: 'status'; readonly synced: boolean; readonly connection: ConnectionState }
  /** Following ended for good; the page may ask anew. */
  | { readonly type: 'failed'; readonly error: Pick<RingfenceErrorInit, 'code' | 'message' | 'status' | 'requestId'> }
  | { readonly type: 'alive' };
