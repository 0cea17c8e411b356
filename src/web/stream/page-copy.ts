/**
 * Owns a page's copy of an organization's records, kept by a stream that all pages of the browser share. A page follows
 * only while it is shown; when it is shown again, it is told what it missed.
 */
import type { Device } from '../../api/device.ts';
import type { SecurityGroup } from '../../api/group.ts';
import type { WatchKind } from '../../api/kinds.ts';
import type { Watched } from '../../api/watch.ts';
import type { Change } from '../../client/cache.ts';
import { RingfenceError } from '../../client/error.ts';
import type { ConnectionState } from '../../client/state.ts';
import { SharedStreams, type PageMessage, type StreamSubject, type WorkerMessage } from './shared-streams.ts';

type Take = (message: WorkerMessage) => void;
type Post = (message: PageMessage) => void;

/** Chrome on Android has no shared workers. */
let isAlone = typeof SharedWorker === 'undefined';
let own: SharedStreams | undefined;

/** The page does without the worker from now on. */
const followAlone = (): void => void (isAlone = true);

/** `onLost` is called if the worker could not be started. */
function connect(take: Take, onLost: () => void): Post {
  // A page that leaves may be frozen at once: nothing may be left for later.
  if (isAlone) return (own ??= new SharedStreams({ graceTicks: 0 })).connect(take);
  const worker = new SharedWorker(new URL('./worker.ts', import.meta.url), { name: 'ringfence' });
  worker.addEventListener('error', onLost);
  const { port } = worker;
  port.addEventListener('message', ({ data }) => take(data as WorkerMessage));
  port.start();
  return (message) => port.postMessage(message);
}

interface PageCopyOptions {
  /** Asked each time: the credential may change. */
  readonly subject: () => StreamSubject;
  readonly onChanges: (changes: readonly Change[]) => void;
  readonly onConnection: (connection: ConnectionState) => void;
  /** The copy is whole. Called once for each start. */
  readonly onSynced: () => void;
  readonly onFailure: (error: RingfenceError) => void;
}

/** How often the page says that it is there. */
const signEvery = 5_000;
/** After so many signs without an answer the worker is given up. */
const mostUnanswered = 4;

type Records = { readonly [K in 'device' | 'security-groups']: Map<string, Watched[K]> };

export class PageCopy {
  readonly #o: PageCopyOptions;
  readonly #records: Records = {
    device: new Map<string, Device>(),
    'security-groups': new Map<string, SecurityGroup>(),
  };
  #version: string | undefined;
  #post: ((message: PageMessage) => void) | undefined;
  #isStarted = false;
  #isFollowing = false;
  #isSynced = false;
  #unanswered = 0;

  constructor(options: PageCopyOptions) {
    this.#o = options;
  }

  view<K extends keyof Records>(kind: K): ReadonlyMap<string, Watched[K]> {
    return this.#records[kind];
  }

  /** Follows while the page is shown, until the answer is called or following fails for good. */
  start(): () => void {
    const end = new AbortController();
    const { signal } = end;
    this.#isStarted = true;
    this.#isSynced = false;
    document.addEventListener('visibilitychange', () => this.#look(), { signal });
    window.addEventListener('pageshow', () => this.#look(), { signal });
    // The page may be kept for the way back, with everything that it holds open.
    window.addEventListener('pagehide', () => this.#leave(), { signal });
    window.addEventListener('online', () => this.retryNow(), { signal });
    const signs = setInterval(() => this.#showSign(), signEvery);
    this.#look();
    return () => {
      end.abort();
      clearInterval(signs);
      this.#isStarted = false;
      this.#leave();
    };
  }

  retryNow(): void {
    if (!this.#isFollowing) return;
    // The credential may be another than before.
    this.#follow();
    this.#post?.({ type: 'retry' });
  }

  #look(): void {
    if (!this.#isStarted) return;
    if (document.visibilityState === 'hidden') this.#leave();
    else this.#follow();
  }

  #follow(): void {
    this.#isFollowing = true;
    this.#unanswered = 0;
    this.#post ??= this.#connect();
    this.#post({ type: 'follow', subject: this.#o.subject(), version: this.#version });
  }

  #leave(): void {
    if (!this.#isFollowing) return;
    this.#isFollowing = false;
    this.#post?.({ type: 'leave' });
  }

  #showSign(): void {
    if (!this.#isFollowing) return;
    this.#unanswered += 1;
    if (this.#unanswered > mostUnanswered) this.#goAlone();
    else this.#post?.({ type: 'follow', subject: this.#o.subject(), version: this.#version });
  }

  /** The worker does not answer: this page does its work for itself. */
  #goAlone(): void {
    followAlone();
    this.#post = undefined;
    if (this.#isFollowing) this.#follow();
  }

  #connect(): (message: PageMessage) => void {
    const post = connect(
      (message) => {
        // One that was given up may speak again.
        if (this.#post === undefined || this.#post === post) this.#take(message);
      },
      () => {
        if (this.#post === post) this.#goAlone();
      },
    );
    return post;
  }

  #take(message: WorkerMessage): void {
    this.#unanswered = 0;
    // What was sent before the page left is overtaken by what it is told when it is back.
    if (!this.#isFollowing) return;
    switch (message.type) {
      case 'records':
        this.#version = message.version;
        this.#tell([...this.#compare('device', message.devices), ...this.#compare('security-groups', message.groups)]);
        break;
      case 'changes':
        this.#version = message.version;
        this.#tell(message.changes);
        break;
      case 'status':
        if (message.synced && !this.#isSynced) {
          this.#isSynced = true;
          this.#o.onSynced();
        }
        this.#o.onConnection(message.connection);
        break;
      case 'failed':
        this.#isStarted = false;
        this.#isFollowing = false;
        this.#o.onFailure(new RingfenceError(message.error));
        break;
      case 'alive':
        break;
      default:
        message satisfies never;
    }
  }

  #compare<K extends keyof Records>(kind: K, records: readonly Watched[K][]): readonly Change[] {
    const held: ReadonlyMap<string, Watched[K]> = this.#records[kind];
    const changes: object[] = [];
    const shown = new Set<string>();
    for (const record of records) {
      const { id } = record;
      shown.add(id);
      const old = held.get(id);
      if (old === undefined) changes.push({ type: 'added', kind, id, new: record });
      else if (old.revision !== record.revision) changes.push({ type: 'updated', kind, id, old, new: record });
    }
    for (const [id, old] of held) {
      if (!shown.has(id)) changes.push({ type: 'deleted', kind, id, old, revision: undefined });
    }
    return changes as Change[];
  }

  #tell(changes: readonly Change[]): void {
    for (const change of changes) {
      const records: Map<string, Watched[WatchKind]> = this.#records[change.kind];
      if (change.type === 'deleted') records.delete(change.id);
      else records.set(change.id, change.new);
    }
    if (changes.length > 0) this.#o.onChanges(changes);
  }
}
