/** Owns the informer: a local copy of an organization's resources that keeps itself equal to the server's. */
import type { WatchKind } from '../api/kinds.ts';
import type { Watched, WatchedByIdentity, WatchItem } from '../api/watch.ts';
import { Backoff, type BackoffOptions } from './backoff.ts';
import { Cache, type Change, type View } from './cache.ts';
import type { StreamPosition, WatchEvent } from './document.ts';
import { RingfenceError } from './error.ts';
import type { Client } from './http.ts';
import { Listeners, type Unsubscribe } from './listeners.ts';
import { MemoryRoom } from './memory.ts';
import { initialState, type ConnectionState } from './state.ts';
import type { SignOptions } from './signs.ts';
import {
  healsByWaiting,
  isAnsweredOnTheWay,
  isGarbled,
  isUnanswered,
  longestUnanswered,
  refusedFields,
  type OptionalField,
} from './stream-failure.ts';
import { SyncWaiters } from './sync-waiters.ts';
import { BatchStream } from './watch.ts';

export interface InformerOptions<K extends WatchKind, R extends WatchedByIdentity = Watched> {
  readonly client: Client;
  readonly organization: string;
  /** What to follow, over one stream. */
  readonly kinds: readonly K[];
  /** Which records to keep a copy of, or which part of each; all of them unless given. Whatever is left out counts as absent. */
  readonly keep?: (kind: K, record: R[K]) => boolean | R[K];
  /**
   * Bytes of memory that the copy may take, roughly; a gibibyte unless given. What is more fails as `document_too_large`: the copy is emptied, and listed anew
   * after a wait.
   */
  readonly mostMemory?: number;
  /** Milliseconds without a byte after which a stream counts as dead; 40 seconds unless given. */
  readonly silence?: number;
  readonly backoff?: Omit<BackoffOptions, 'random'>;
  /** Which failures end `run`: unless given, those that waiting cannot heal (401, 403, 404 and the like). */
  readonly giveUp?: (error: RingfenceError) => boolean;
  /** Called when the server waits for a report about this revision. The copy already reflects it. */
  readonly onReport?: (revision: number) => void;
  /**
   * Called when the copy equals the server's state at one revision, with no change half applied: see `complete`. It is
   * called after the changes were reported.
   */
  readonly onComplete?: () => void;
  /** Shows the server that this device is there. */
  readonly signs?: Omit<SignOptions, 'upgrade'>;
  /** Called when a handler throws. Without it, the fault is thrown as an uncaught exception. */
  readonly onFault?: (fault: unknown) => void;
}

/**
 * An informer keeps a copy of the resources of some kinds of one organization and reports what changes in it.
 *
 * It promises, while `run` runs:
 *
 * 1. **Complete.** Once the server is reachable for long enough, the copy equals what the credential may see, and
 *    after every later change it does so again. Intermediate states of a resource may be skipped, its last state and
 *    its deletion never: not by a cut stream, a restarted server, another replica, or a revision that is gone.
 * 2. **No ghosts.** A resource that was deleted while no stream was open is reported as deleted: by the server's own
 *    deletion, or, after a new listing, when that listing is complete and does not contain it.
 * 3. **In order.** For one resource, `added` comes first, each `updated` has a newer revision and the last reported
 *    state as `old`, and `deleted` comes last, once. A resource that left the view and came back is `added` again. Only a
 *    server that was restored from a backup makes a revision go back, and that is reported as `updated`.
 * 4. **Synced never ahead of data.** `synced` turns true after the first complete listing of every kind is in the copy and
 *    its changes have been reported; it stays true. While the server is away the copy stays as it was.
 * 5. **Handlers see the newest.** They are called once for all changes that arrived together, after the copy has
 *    applied all of them. A handler should note what to do and return. One that throws does not affect the others.
 * 6. **Patient.** One stream for all kinds. A lost one is resumed after a random, growing, bounded wait that starts
 *    small again after progress; the server's `Retry-After` is obeyed; a stream that the server ends in good order is
 *    resumed at once, but not if it ends again and again; a stream without heartbeats is given up.
 */
export interface Informer<K extends WatchKind = WatchKind, R extends WatchedByIdentity = Watched> {
  /**
   * Follows the server until the signal is aborted, and then resolves. Rejects with the failure that it gives up on;
   * it may be run again afterwards, and goes on where it stopped.
   */
  run(options: { readonly signal: AbortSignal }): Promise<void>;
  readonly state: ConnectionState;
  readonly synced: boolean;
  /**
   * Whether the copy is what the server had at one revision. With `onComplete` it is false from the first record of a change until the last: records that were
   * written together are never seen apart. Without it, and with a server of an earlier version, it is always true.
   */
  readonly complete: boolean;
  /** Resolves when synced; rejects if `run` ends before. */
  whenSynced(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** The greatest revision seen so far. */
  readonly revision: number;
  view<T extends K>(kind: T): View<T, R>;
  /** The handler does not receive what the copy already holds: read the view first. */
  onChange(handler: (changes: readonly Change<K, R>[]) => void): Unsubscribe;
  onState(handler: (state: ConnectionState) => void): Unsubscribe;
  /** Ends a wait between two attempts, e.g. because the network is back. */
  retryNow(): void;
  /**
   * Lists everything once more, because more is to be kept than was so far. The copy stays as it is until a record is shown again, and
   * is whole when the phase is `live` again.
   */
  relist(): void;
}

/** Of devices only what they are and which groups they have, and only changes of that. */
export interface IdentityInformerOptions<K extends WatchKind> extends InformerOptions<K, WatchedByIdentity> {
  readonly deviceView: 'identity';
}

export function createInformer<K extends WatchKind>(
  options: IdentityInformerOptions<K>,
): Informer<K, WatchedByIdentity>;
export function createInformer<K extends WatchKind>(options: InformerOptions<K>): Informer<K>;
export function createInformer<K extends WatchKind, R extends WatchedByIdentity>(
  options: StreamInformerOptions<K, R>,
): Informer<K, R> {
  return new StreamInformer<K, R>(options);
}

type StreamInformerOptions<K extends WatchKind, R extends WatchedByIdentity> = InformerOptions<K, R> &
  Partial<Pick<IdentityInformerOptions<K>, 'deviceView'>>;

const defaultMemory = 1024 * 1024 * 1024;

/** A stream that lived so long before it ended was no accident of a failing server. */
const settled = 5_000;

/** How a stream ended, and whether anything was gained by it. */
interface StreamEnd {
  readonly error: RingfenceError | undefined;
  readonly progressed: boolean;
  readonly settled: boolean;
}

class StreamInformer<K extends WatchKind, R extends WatchedByIdentity> implements Informer<K, R> {
  readonly #options: StreamInformerOptions<K, R>;
  readonly #caches: ReadonlyMap<K, Cache<K, R>>;
  readonly #changes: Listeners<readonly Change<K, R>[]>;
  readonly #states: Listeners<ConnectionState>;
  readonly #waiters = new SyncWaiters();
  #state: ConnectionState;
  #synced = false;
  #complete = true;
  #running = false;
  #wake: (() => void) | undefined;
  /** Ends the stream that is followed. */
  #endStream: (() => void) | undefined;
  #relistPending = false;
  /** What the server does not know, because it is of an earlier version. */
  #unknownFields: ReadonlySet<OptionalField> = new Set();
  /** Whether the next stream asks to go both ways. */
  #upgrade = true;

  constructor(options: StreamInformerOptions<K, R>) {
    const { keep, kinds, mostMemory = defaultMemory, onFault = throwAloud } = options;
    this.#options = options;
    const room = new MemoryRoom(mostMemory);
    const cacheOf = (kind: K): Cache<K, R> => new Cache(kind, { room, keep: keep && ((record) => keep(kind, record)) });
    this.#caches = new Map(kinds.map((kind) => [kind, cacheOf(kind)]));
    this.#changes = new Listeners(onFault);
    this.#states = new Listeners(onFault);
    this.#state = initialState(options.client.transport.clock.now());
  }

  get state(): ConnectionState {
    return this.#state;
  }
  get synced(): boolean {
    return this.#synced;
  }
  get complete(): boolean {
    return this.#complete;
  }
  get revision(): number {
    let revision = 0;
    for (const { position } of this.#caches.values()) if (position > revision) revision = position;
    return revision;
  }
  view<T extends K>(kind: T): View<T, R> {
    const cache = this.#caches.get(kind);
    if (cache === undefined) throw new TypeError(`this informer does not follow ${kind}`);
    return cache as unknown as View<T, R>;
  }
  onChange(handler: (changes: readonly Change<K, R>[]) => void): Unsubscribe {
    return this.#changes.add(handler);
  }
  onState(handler: (state: ConnectionState) => void): Unsubscribe {
    return this.#states.add(handler);
  }
  retryNow(): void {
    this.#wake?.();
  }
  relist(): void {
    this.#relistPending = true;
    if (this.#state.phase === 'live' || this.#state.phase === 'listing') this.#enter({ phase: 'connecting' });
    this.#endStream?.();
  }

  whenSynced({ signal }: { readonly signal?: AbortSignal } = {}): Promise<void> {
    return this.#synced ? Promise.resolve() : this.#waiters.wait(signal);
  }

  async run({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    if (this.#running) throw new TypeError('this informer is already running');
    this.#running = true;
    try {
      await this.#keepFollowing(signal);
      this.#waiters.rejectAll(signal.reason);
    } catch (error) {
      this.#waiters.rejectAll(error);
      throw error;
    } finally {
      this.#running = false;
      this.#enter({ phase: 'stopped' });
    }
  }

  async #keepFollowing(signal: AbortSignal): Promise<void> {
    const { client } = this.#options;
    const backoff = new Backoff({ ...this.#options.backoff, random: client.transport.random });
    while (!signal.aborted) {
      if (this.#relistPending) this.#startAfresh();
      this.#relistPending = false;
      this.#enter({ phase: 'connecting', failures: backoff.failures });
      const end = await this.#follow(signal);
      if (signal.aborted) return;
      if (this.#relistPending || this.#isAnotherOpening(end.error)) continue;
      this.#judge(end.error);
      if (end.settled || (end.progressed && !isGarbled(end.error))) backoff.reset();
      if (this.#goesOnAtOnce(end)) continue;
      const most = end.error !== undefined && isUnanswered(end.error) ? longestUnanswered : undefined;
      await this.#wait(backoff.next(end.error?.retryAfter, most), backoff.failures, signal);
    }
  }

  /** Whether the server refused fields of the opening that the next one leaves out. A server of an earlier version sends complete records with every requested field, and knows no tokens. */
  #isAnotherOpening(error: RingfenceError | undefined): boolean {
    const refused = refusedFields(error).filter((field) => !this.#unknownFields.has(field));
    this.#unknownFields = new Set(refused.length > 0 ? [...this.#unknownFields, ...refused] : []);
    return refused.length > 0;
  }

  /** Notes the error, and throws it where no waiting helps. */
  #judge(error: RingfenceError | undefined): void {
    const { client, giveUp = (failure) => !healsByWaiting(failure) } = this.#options;
    if (error !== undefined) {
      this.#enter({ lastError: { error, at: client.transport.clock.now() } });
      if (giveUp(error)) throw error;
    }
    // Something on the way may refuse what it does not know: every other attempt does without.
    this.#upgrade = !this.#upgrade || !isAnsweredOnTheWay(error);
  }

  /** A stream that lived long and ended without an error is opened again at once, and so is one that must start afresh. */
  #goesOnAtOnce({ error, ...end }: StreamEnd): boolean {
    return error === undefined ? end.settled : error.code === 'revision_gone' && this.#startAfresh();
  }

  /** One stream from its opening to its end. */
  async #follow(signal: AbortSignal): Promise<StreamEnd> {
    const { client, organization, silence, onReport, onComplete, signs } = this.#options;
    const { clock } = client.transport;
    const tails = new Set<K>();
    let heardAt: number | undefined;
    let progressed = false;
    let error: RingfenceError | undefined;
    let documents: BatchStream<K, R> | undefined;
    const stream = new AbortController();
    const endStream = (): void => stream.abort(signal.reason);
    this.#endStream = endStream;
    signal.addEventListener('abort', endStream, { once: true });
    try {
      const options = {
        signal: stream.signal,
        complete: onComplete !== undefined,
        ...(silence !== undefined && { silence }),
        ...(signs && { signs: { ...signs, upgrade: this.#upgrade } }),
        onPosition: (position: StreamPosition) => this.#reach(position, tails),
        ...(onReport && {
          onReport: (position: StreamPosition) => this.#reach(position, tails) && onReport(position.revision),
        }),
      };
      documents = new BatchStream<K, R>(client, organization, this.#items(), options);
      for (let batch = await documents.next(); batch !== undefined; batch = await documents.next()) {
        if (heardAt === undefined) {
          heardAt = clock.now();
          this.#enter({ phase: 'listing' });
        }
        const { tellsComplete, completeAt } = documents;
        // A chunk without documents, such as a heartbeat, changes nothing in the copy.
        if (batch.length > 0 || completeAt !== undefined) this.#complete = !tellsComplete || completeAt !== undefined;
        if (this.#take(batch, tails, completeAt)) progressed = true;
        if (completeAt !== undefined) onComplete?.();
        if (this.#relistPending) break;
      }
    } catch (thrown) {
      if (!stream.signal.aborted && !(thrown instanceof RingfenceError)) throw thrown;
      error = thrown instanceof RingfenceError ? thrown : undefined;
    } finally {
      documents?.close();
      signal.removeEventListener('abort', endStream);
      this.#endStream = undefined;
    }
    return { error, progressed, settled: heardAt !== undefined && clock.now() - heardAt >= settled };
  }

  /**
   * Where each kind resumes. A tail is requested every time, although reference 4.3 (6) allows to omit it: it marks the
   * point where everything missed has arrived, and where the order by kind ends and the common order begins.
   */
  #items(): readonly (WatchItem & { readonly kind: K })[] {
    const deviceView = this.#unknownFields.has('view') ? 'full' : this.#options.deviceView;
    const hasTokens = !this.#unknownFields.has('token');
    return [...this.#caches.values()].map(({ kind, position, token }) => ({
      kind,
      ...(deviceView === 'identity' && kind === 'device' && { view: deviceView }),
      ...(position > 0 && { gt_revision: position }),
      ...(hasTokens && position > 0 && token !== undefined && { token }),
    }));
  }

  /** Applies what arrived together, and then reports it. Returns whether the copy advanced. */
  #take(batch: readonly WatchEvent<K, R>[], tails: Set<K>, completeAt: StreamPosition | undefined): boolean {
    const before = this.#mark();
    const changes: Change<K, R>[] = [];
    try {
      for (const event of batch) for (const change of this.#apply(event, tails)) changes.push(change);
    } catch (tooMuch) {
      this.#enter({ phase: 'connecting' });
      for (const cache of this.#caches.values()) for (const change of cache.empty()) changes.push(change);
      this.#changes.tell(changes);
      throw tooMuch;
    }
    if (completeAt !== undefined) this.#reach(completeAt, tails);
    if (changes.length > 0) this.#changes.tell(changes);
    // A handler may have requested a complete new listing: then this one is not the last.
    if (tails.size === this.#caches.size && this.#state.phase !== 'live' && !this.#relistPending) {
      this.#becomeSynced();
      this.#enter({ phase: 'live', failures: 0 });
    }
    return this.#mark() !== before;
  }

  /** Takes one event in, and returns what became different. Throws where there is no room for it. */
  #apply(event: WatchEvent<K, R>, tails: Set<K>): readonly Change<K, R>[] {
    const cache = this.#caches.get(event.kind as K);
    if (cache === undefined) return [];
    if (event.type === 'tail') {
      tails.add(cache.kind);
      if (event.revision !== undefined) cache.advance(event.revision, event.token);
      return cache.finish();
    }
    const change = cache.apply(event as Extract<WatchEvent<K, R>, { type: 'change' | 'delete' }>);
    // Before the last tail the kinds arrive one after the other, and a revision says nothing about the other kinds.
    // After it they arrive in one common order: an event at a revision shows that all earlier events, of every kind,
    // have arrived.
    if (tails.size < this.#caches.size) cache.advance(event.revision, event.token);
    else for (const each of this.#caches.values()) each.advance(event.revision, event.token);
    return change === undefined ? [] : [change];
  }

  /**
   * Everything up to the revision has arrived. Every kind advances to it, even if the last changes were not visible
   * here.
   */
  #reach({ revision, token }: StreamPosition, tails: ReadonlySet<K>): boolean {
    if (tails.size < this.#caches.size) return false;
    for (const cache of this.#caches.values()) cache.advance(revision, token);
    return true;
  }

  /** Grows with every position and every listing that becomes whole. */
  #mark(): number {
    let mark = 0;
    for (const { position, complete } of this.#caches.values()) mark += 2 * position + (complete ? 1 : 0);
    return mark;
  }

  #becomeSynced(): void {
    this.#synced = true;
    this.#waiters.resolveAll();
  }

  /** Forgets where we were. False when there was nothing to forget: then starting afresh was refused itself. */
  #startAfresh(): boolean {
    const caches = [...this.#caches.values()];
    if (caches.every(({ position }) => position === 0)) return false;
    for (const cache of caches) cache.startAfresh();
    return true;
  }

  async #wait(milliseconds: number, failures: number, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options.client.transport;
    this.#enter({ phase: 'waiting', failures, retryAt: clock.now() + milliseconds });
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancel();
        signal.removeEventListener('abort', wake);
        this.#wake = undefined;
        resolve();
      };
      const cancel = clock.after(milliseconds, wake);
      signal.addEventListener('abort', wake, { once: true });
      this.#wake = wake;
      if (signal.aborted) wake();
    });
  }

  #enter(news: Partial<ConnectionState>): void {
    const { phase: old, since, ...rest } = this.#state;
    const { retryAt: _, ...kept } = rest;
    const phase = news.phase ?? old;
    this.#state = {
      ...kept,
      ...news,
      phase,
      since: phase === old ? since : this.#options.client.transport.clock.now(),
    };
    this.#states.tell(this.#state);
  }
}

const throwAloud = (fault: unknown): void =>
  queueMicrotask(() => {
    throw fault;
  });
