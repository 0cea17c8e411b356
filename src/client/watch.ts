/** Owns one watch stream: opened, read, watched over, ended. It never reconnects; the informer does. */
import { limits } from '../api/limits.ts';
import { reportPreference, type WatchKind } from '../api/kinds.ts';
import { pathFor, paths } from '../api/paths.ts';
import type { Watched, WatchedByIdentity, WatchItem } from '../api/watch.ts';
import { documentReader, type WatchEvent } from './document.ts';
import { RingfenceError } from './error.ts';
import type { Client } from './http.ts';
import { LineReader } from './lines.ts';
import { badAnswer, reasonOf, send, type ByteStream, type Transport } from './request.ts';

export interface WatchOptions {
  readonly signal?: AbortSignal;
  /** Milliseconds without a byte after which the stream counts as dead; 40 seconds unless given. The server sends a heartbeat after 15. */
  readonly silence?: number;
  /** Bytes that one document may be long; 16 MiB unless given. */
  readonly longestDocument?: number;
  /**
   * Asks the server for lines that ask back: what the reader has made of everything up to this revision is waited for. Called after
   * the documents that came before the line; a server of an earlier version sends none.
   */
  readonly onReport?: (revision: number) => void;
}

type Item<K extends WatchKind> = WatchItem & { readonly kind: K };
type FullItem<K extends WatchKind> = Item<K> & { readonly view?: 'full' };

const defaultSilence = 40_000;
const defaultLongest = limits.document;

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
  for await (const batch of watchBatches<K, WatchedByIdentity>(client, organization, items, options)) yield* batch;
}

/** The same, with the documents that arrived together kept together. A heartbeat is an empty batch. */
export async function* watchBatches<K extends WatchKind, R extends WatchedByIdentity = Watched>(
  client: Client,
  organization: string,
  items: readonly Item<K>[],
  { signal, silence = defaultSilence, longestDocument = defaultLongest, onReport }: WatchOptions = {},
): AsyncGenerator<readonly WatchEvent<K, R>[], void, undefined> {
  signal?.throwIfAborted();
  const { transport } = client;
  const own = new AbortController();
  const onAbort = (): void => own.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    const patient = watchdog(transport, own, silence);
    const body = await patient(() =>
      open(transport, organization, items, { signal: own.signal, asked: onReport !== undefined }),
    );
    const reader = body.getReader();
    const lines = new LineReader({ longest: longestDocument });
    const read = documentReader(organization, items);
    for (;;) {
      const { done, value: chunk } = await patient(() => reader.read());
      if (done || chunk === undefined) break;
      let asked: number | undefined;
      const batch = lines.push(chunk).flatMap((line) => {
        if (isBlank(line)) return [];
        const revision = onReport === undefined ? undefined : askedRevision(line);
        if (revision === undefined) return [read(line)];
        asked = revision;
        return [];
      });
      yield batch as readonly WatchEvent[] as readonly WatchEvent<K, R>[];
      if (asked !== undefined) onReport?.(asked);
    }
    if (lines.pending > 0) {
      throw new RingfenceError({ code: 'cut_off', message: 'the stream ended in the middle of a document' });
    }
  } catch (error) {
    // Whatever the platform makes of an abort, the reason given for it is what the caller gets.
    own.signal.throwIfAborted();
    if (error instanceof RingfenceError) throw error;
    throw new RingfenceError({ code: 'cut_off', message: `the stream broke off: ${reasonOf(error)}`, cause: error });
  } finally {
    signal?.removeEventListener('abort', onAbort);
    own.abort();
  }
}

/** The revision of a line that asks back; nothing where it is another document. */
function askedRevision(line: string): number | undefined {
  const [, revision] = /^\{"type":"report","revision":(\d{1,16})\}\r?$/.exec(line) ?? [];
  return revision === undefined ? undefined : Number(revision);
}

const isBlank = (line: string): boolean => line === '' || line === '\r';

async function open(
  transport: Transport,
  organization: string,
  items: readonly WatchItem[],
  { signal, asked }: { readonly signal: AbortSignal; readonly asked: boolean },
): Promise<ByteStream> {
  const response = await send(
    transport,
    {
      method: paths.watchEvents[0],
      path: pathFor('watchEvents', { org_id: organization }),
      body: items,
      accept: 'application/json',
      ...(asked && { headers: { prefer: reportPreference } }),
    },
    signal,
  );
  const type = response.headers.get('content-type') ?? '';
  if (!type.startsWith('application/json') || response.body === null) {
    throw badAnswer(`a stream was expected, ${type === '' ? 'nothing' : type} came`, response.status);
  }
  return response.body;
}

/** Waits for one thing at a time, but no longer than the stream lives, and ends the stream if nothing has come for that long. */
function watchdog(
  { clock }: Transport,
  own: AbortController,
  silence: number,
): <T>(work: () => Promise<T>) => Promise<T> {
  // One listener for the stream, which ends the wait that is under way: whatever waits on a long-lived promise is never let go.
  let end: ((reason: unknown) => void) | undefined;
  own.signal.addEventListener('abort', () => end?.(own.signal.reason), { once: true });
  const tooSilent = (): void =>
    own.abort(
      new RingfenceError({ code: 'silent', message: `nothing came for ${silence / 1_000} s, not even a heartbeat` }),
    );
  return async (work) => {
    own.signal.throwIfAborted();
    const cancel = clock.after(silence, tooSilent);
    try {
      return await new Promise((resolve, reject) => {
        end = reject;
        work().then(resolve, reject);
      });
    } finally {
      cancel();
      end = undefined;
    }
  };
}
