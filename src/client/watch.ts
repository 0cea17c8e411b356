/** Owns one watch stream: it opens, reads, supervises and ends it. It never reconnects; the informer does. */
import {
  largestDocument,
  completePreference,
  endLine,
  heartbeatHeader,
  heartbeatPreference,
  reportPreference,
  signsPreference,
  tokensPreference,
  watchProtocol,
  type WatchKind,
} from '../api/kinds.ts';
import { pathFor, paths } from '../api/paths.ts';
import type { Watched, WatchedByIdentity, WatchItem } from '../api/watch.ts';
import {
  documentReader,
  isRevision,
  isToken,
  type DocumentReader,
  type StreamPosition,
  type WatchEvent,
} from './document.ts';
import { RingfenceError } from './error.ts';
import type { Client } from './http.ts';
import { LineReader } from './lines.ts';
import {
  badAnswer,
  reasonOf,
  send,
  type ByteReader,
  type ByteStream,
  type FetchResponse,
  type Transport,
} from './request.ts';
import { SignsOfLife, type SignOptions } from './signs.ts';

export interface WatchOptions {
  readonly signal?: AbortSignal;
  /**
   * Milliseconds without a byte after which the stream counts as dead. Default: two thirds more than the heartbeat
   * interval that the server announces (25 seconds for 15), or 40 seconds if it announces none.
   */
  readonly silence?: number;
  /** Bytes that one document may be long; 16 MiB unless given. */
  readonly longestDocument?: number;
  /**
   * Asks the server for lines that ask back: what the reader has made of everything up to this revision is waited for. Called after
   * the documents that came before the line; a server of an earlier version sends none.
   */
  readonly onReport?: (position: StreamPosition) => void;
  /**
   * Asks the server for the token of each revision, to resume with both (`token` of documents and of items). Called when a heartbeat says up to which revision
   * everything has come. A server of an earlier version sends no tokens.
   */
  readonly onPosition?: (position: StreamPosition) => void;
  /** Asks the server for lines that mark where no change is half sent: see `BatchStream.completeAt`. */
  readonly complete?: boolean;
  /** Shows the server that this device is there, as often as the server asks for it. */
  readonly signs?: SignOptions;
}

type Item<K extends WatchKind> = WatchItem & { readonly kind: K };
type FullItem<K extends WatchKind> = Item<K> & { readonly view?: 'full' };

const defaultSilence = 40_000;
/** A stream that is silent for less is not dead, whatever its heartbeats. */
const shortestSilence = 5_000;
const defaultLongest = largestDocument;

/**
 * The documents of one stream, in the order of the wire, heartbeats left out. The iteration ends when the server ends
 * the stream cleanly; it throws a `RingfenceError` when the stream is refused, breaks off, goes silent or says what the
 * protocol does not allow, and the signal's reason when it is aborted. Leaving the loop closes the connection.
 *
 * A reader that takes its time is not taken for a silent server: the watchdog runs only while it waits for bytes.
 */
export function watch<K extends WatchKind>(
  client: Client,
  organization: string,
  items: readonly FullItem<K>[],
  options?: WatchOptions,
): AsyncGenerator<WatchEvent<K>, void, undefined>;
/** With `view: 'identity'` a device is what that view shows of it. */
export function watch<K extends WatchKind>(
  client: Client,
  organization: string,
  items: readonly Item<K>[],
  options?: WatchOptions,
): AsyncGenerator<WatchEvent<K, WatchedByIdentity>, void, undefined>;
export async function* watch<K extends WatchKind>(
  client: Client,
  organization: string,
  items: readonly Item<K>[],
  options: WatchOptions = {},
): AsyncGenerator<WatchEvent<K, WatchedByIdentity>, void, undefined> {
  const stream = new BatchStream<K, WatchedByIdentity>(client, organization, items, options);
  try {
    for (let batch = await stream.next(); batch !== undefined; batch = await stream.next()) yield* batch;
  } finally {
    stream.close();
  }
}

/** The same stream, with the documents that arrived together kept together. The reader must close it. */
export class BatchStream<K extends WatchKind, R extends WatchedByIdentity = Watched> {
  readonly #client: Client;
  readonly #organization: string;
  readonly #items: readonly Item<K>[];
  readonly #options: WatchOptions;
  readonly #own = new AbortController();
  readonly #lines: LineReader;
  readonly #read: DocumentReader;
  #reader: ByteReader | undefined;
  #silence: number;
  #signs: SignsOfLife | undefined;
  /** Whether the stream goes both ways, and whether its last line has come. */
  #isTwoWay = false;
  #hasEnded = false;
  /** Callbacks of lines between documents. They run once the documents before them were taken. */
  #pending: (() => void)[] = [];
  /** Documents that came after the last line that said so, and were not given yet. */
  #rest: WatchEvent[] = [];
  #tellsComplete = false;
  #completeAt: StreamPosition | undefined;
  /** Ends the wait that is under way. */
  #end: ((reason: unknown) => void) | undefined;

  constructor(client: Client, organization: string, items: readonly Item<K>[], options: WatchOptions = {}) {
    const { signal, longestDocument = defaultLongest } = options;
    this.#client = client;
    this.#organization = organization;
    this.#items = items;
    this.#options = options;
    this.#silence = options.silence ?? defaultSilence;
    this.#lines = new LineReader({ longest: longestDocument });
    this.#read = documentReader(organization, items);
    // One listener for the stream: whatever waits on a long-lived promise is never let go.
    this.#own.signal.addEventListener('abort', () => this.#end?.(this.#own.signal.reason), { once: true });
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    if (signal?.aborted === true) this.#onAbort();
  }

  /** Whether the server says when no change is half sent. */
  get tellsComplete(): boolean {
    return this.#tellsComplete;
  }

  /** Where the documents that `next` gave last are complete: up to this revision all has come, and no change is half there. */
  get completeAt(): StreamPosition | undefined {
    return this.#completeAt;
  }

  /** The documents that came next; a heartbeat is none. Nothing at the stream's end. Asked again only after it has answered. */
  async next(): Promise<readonly WatchEvent<K, R>[] | undefined> {
    try {
      const pending = this.#pending;
      this.#pending = [];
      for (const tell of pending) tell();
      if (this.#rest.length > 0) return this.#takeRest();
      const reader = (this.#reader ??= await this.#withTimeout(() => this.#open()));
      const { done, value: chunk } = await this.#withTimeout(() => reader.read());
      if (!done && chunk !== undefined) return this.#documents(chunk);
      if (this.#lines.pending > 0) throw cutOff('the stream ended in the middle of a document');
      // The end of a connection alone may be that of a server that died.
      if (this.#isTwoWay && !this.#hasEnded) throw cutOff('the stream ended without its last line');
      return undefined;
    } catch (error) {
      // Whatever the platform makes of an abort, the reason given for it is what the caller gets.
      this.#own.signal.throwIfAborted();
      if (error instanceof RingfenceError) throw error;
      throw cutOff(`the stream broke: ${reasonOf(error)}`, error);
    }
  }

  /** Closes the connection. */
  close(): void {
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#signs?.stop();
    this.#own.abort();
  }

  readonly #onAbort = (): void => this.#own.abort(this.#options.signal?.reason);

  async #open(): Promise<ByteReader> {
    const { signs, onReport, onPosition, complete = false, silence } = this.#options;
    const { transport } = this.#client;
    const prefer = [
      ...(onReport ? [reportPreference] : []),
      ...(onPosition ? [tokensPreference] : []),
      ...(signs ? [signsPreference] : []),
      ...(complete ? [completePreference] : []),
    ];
    const upgrade = signs?.upgrade === false ? undefined : signs && watchProtocol;
    const asking = { signal: this.#own.signal, prefer, upgrade };
    const { body, headers, write } = await open(transport, this.#organization, this.#items, asking);
    this.#isTwoWay = write !== undefined;
    const applied = appliedPreferences(headers.get('preference-applied'));
    this.#tellsComplete = complete && applied.has(completePreference);
    const every = applied.get(signsPreference);
    const interval = headers.get(heartbeatHeader);
    // A server of an earlier version announces it only to clients that send signs of life.
    const heartbeat = interval === null ? applied.get(heartbeatPreference) : Number(interval) * 1_000;
    if (heartbeat !== undefined) this.#silence = silence ?? silenceFor(heartbeat);
    if (signs !== undefined && every !== undefined) {
      this.#signs = new SignsOfLife({
        every,
        write: write && (() => write('\n')),
        request: signs.request,
        transport,
        onDead: (why) => this.#own.abort(why),
      });
    }
    return body.getReader();
  }

  #takeRest(): readonly WatchEvent<K, R>[] {
    const rest = this.#rest;
    this.#rest = [];
    this.#completeAt = undefined;
    return rest as readonly WatchEvent[] as readonly WatchEvent<K, R>[];
  }

  #documents(chunk: Uint8Array): readonly WatchEvent<K, R>[] {
    const batch: WatchEvent[] = [];
    // A chunk may end anywhere: what comes after the last complete line is given apart.
    let whole = 0;
    this.#completeAt = undefined;
    const { onReport, onPosition } = this.#options;
    for (const line of this.#lines.push(chunk)) {
      if (isBlank(line)) continue;
      if (this.#isTwoWay && line === endLine) {
        this.#hasEnded = true;
        continue;
      }
      const reported = onReport && positionIn(line, 'report');
      const reached = onPosition && positionIn(line, 'heartbeat');
      const complete = this.#tellsComplete ? positionIn(line, 'complete') : undefined;
      if (reported !== undefined) this.#pending.push(() => onReport?.(reported));
      else if (reached !== undefined) this.#pending.push(() => onPosition?.(reached));
      else if (complete !== undefined) {
        this.#completeAt = complete;
        whole = batch.length;
      } else batch.push(this.#read(line));
    }
    if (this.#completeAt !== undefined) this.#rest = batch.splice(whole);
    return batch as readonly WatchEvent[] as readonly WatchEvent<K, R>[];
  }

  /** Waits for one thing at a time, but no longer than the stream lives, and ends the stream if nothing has come for that long. */
  #withTimeout<T>(work: () => Promise<T>): Promise<T> {
    this.#own.signal.throwIfAborted();
    const silence = this.#silence;
    const cancel = this.#client.transport.clock.after(silence, () => this.#own.abort(tooSilent(silence)));
    return new Promise((resolve, reject) => {
      const fail = (reason: unknown): void => {
        cancel();
        this.#end = undefined;
        reject(reason);
      };
      this.#end = fail;
      work().then((value) => {
        cancel();
        this.#end = undefined;
        resolve(value);
      }, fail);
    });
  }
}

const silenceFor = (heartbeat: number): number =>
  heartbeat > 0 && heartbeat < 1e8 ? Math.max((heartbeat * 5) / 3, shortestSilence) : defaultSilence;

const cutOff = (message: string, cause?: unknown): RingfenceError =>
  new RingfenceError({ code: 'cut_off', message, cause });

const tooSilent = (silence: number): RingfenceError =>
  new RingfenceError({ code: 'silent', message: `no data and no heartbeat for ${silence / 1_000} s` });

/** What a line of this type says between documents; nothing where it is another document. */
function positionIn(line: string, type: 'report' | 'heartbeat' | 'complete'): StreamPosition | undefined {
  // Nearly none is one, and none is long.
  if (!line.startsWith(`{"type":"${type}"`) || line.length > 200) return undefined;
  try {
    const { revision, token } = JSON.parse(line) as { readonly revision?: unknown; readonly token?: unknown };
    return isRevision(revision) && isToken(token) ? { revision, token } : undefined;
  } catch {
    return undefined;
  }
}

const isBlank = (line: string): boolean => line === '' || line === '\r';

async function open(
  transport: Transport,
  organization: string,
  items: readonly WatchItem[],
  asking: { readonly signal: AbortSignal; readonly prefer: readonly string[]; readonly upgrade: string | undefined },
): Promise<FetchResponse & { readonly body: ByteStream }> {
  const { signal, prefer, upgrade } = asking;
  const response = await send(
    transport,
    {
      method: paths.watchEvents[0],
      path: pathFor('watchEvents', { org_id: organization }),
      body: items,
      accept: 'application/json',
      ...(prefer.length > 0 && { headers: { prefer: prefer.join(', ') } }),
      upgrade,
    },
    signal,
  );
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('application/json') || response.body === null) {
    throw badAnswer(`expected a stream, got ${type === '' ? 'nothing' : type}`, response.status);
  }
  return response as FetchResponse & { readonly body: ByteStream };
}

/** The preferences that a server applied, each with its value in milliseconds where the server gives one in seconds. */
function appliedPreferences(header: string | null): ReadonlyMap<string, number | undefined> {
  const applied = new Map<string, number | undefined>();
  for (const part of (header ?? '').split(',')) {
    const [name = '', seconds] = part.trim().split('=');
    const given = Number(seconds);
    if (seconds === undefined) applied.set(name, undefined);
    else if (given > 0 && given < 100_000) applied.set(name, given * 1_000);
  }
  return applied;
}
