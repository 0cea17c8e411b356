/** Owns one exchange with the server: how a request is sent by fetch, and how a response or its absence is read. */
import { problemContentType, type RequestProblem } from '../api/codes.ts';
import type { PolicyTestResult } from '../api/policy-tests/policy-test.ts';
import type { Clock } from './clock.ts';
import { codeOfStatus, isErrorCode, RingfenceError } from './error.ts';
import { isObject, type JsonObject } from '../policy/json.ts';

/** What is asked of fetch: the part that Node and browsers share. */
export interface FetchInit {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly cache: 'no-store';
  readonly redirect: 'manual';
  readonly signal: AbortSignal;
  readonly body?: string;
  /** A protocol that the connection may become. A platform that cannot do that ignores it. */
  readonly upgrade?: string;
}
/** Bytes as they come, for one reader. The platform's own `ReadableStream` is one. */
export interface ByteStream {
  getReader(): ByteReader;
  cancel(): Promise<void>;
}
export interface ByteReader {
  /** Asked again only after it has answered. */
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
}
/** What is read of its answer. The platform's own `Response` is one. */
export interface FetchResponse {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  json(): Promise<unknown>;
  readonly body: ByteStream | null;
  /** Sends bytes to the server, once the connection has become another protocol (status 101). */
  readonly write?: (text: string) => void;
  /** The address that answered, if the platform tells. */
  readonly remote?: string;
}
export type Fetch = (url: string, init: FetchInit) => Promise<FetchResponse>;

/** A credential, or how to get a fresh one before each request. Without one the platform's own (a cookie) must do. */
export type Credential = string | (() => string | Promise<string>) | undefined;

export interface Transport {
  readonly url: string;
  readonly token: Credential;
  readonly headers: Readonly<Record<string, string>>;
  readonly fetch: Fetch;
  readonly clock: Clock;
  readonly random: () => number;
  /** Milliseconds that a plain request may take, its answer's body included. */
  readonly timeout: number;
  /** Ends plain requests that have no signal of their own. */
  readonly signal: AbortSignal | undefined;
  /** Makes an `Idempotency-Key` for each create. */
  readonly createKey: (() => string) | undefined;
}

/** A query by the names of the wire; what is undefined is left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly query?: Query | undefined;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly accept: string;
  /** A protocol that the connection may become. */
  readonly upgrade?: string | undefined;
}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, 4_096) : undefined;

/** How much longer an answer may take that the caller asks to be held back. */
export const heldBackMs = (query: object | undefined): number =>
  query !== undefined && 'wait' in query && typeof query.wait === 'number' ? query.wait * 1_000 : 0;

export const badAnswer = (message: string, status?: number, cause?: unknown): RingfenceError =>
  new RingfenceError({ code: 'bad_answer', message, status, cause });

/** Sends and awaits the head of the answer. Anything but success is thrown, with what the server said about it. */
export async function send(transport: Transport, exchange: Exchange, signal: AbortSignal): Promise<FetchResponse> {
  signal.throwIfAborted();
  const token = await credentialOf(transport);
  signal.throwIfAborted();
  const init: FetchInit = {
    method: exchange.method,
    headers: {
      accept: exchange.accept,
      ...transport.headers,
      ...exchange.headers,
      ...(exchange.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    },
    cache: 'no-store',
    // A redirect would carry the credential to another place: it is reported, never followed.
    redirect: 'manual',
    signal,
    ...(exchange.body === undefined ? {} : { body: JSON.stringify(exchange.body) }),
    ...(exchange.upgrade === undefined ? {} : { upgrade: exchange.upgrade }),
  };
  let response: FetchResponse;
  try {
    response = await transport.fetch(addressOf(transport, exchange), init);
  } catch (cause) {
    signal.throwIfAborted();
    throw new RingfenceError({ code: 'unreachable', message: `${transport.url}: ${reasonOf(cause)}`, cause });
  }
  const isUpgraded = response.status === 101 && exchange.upgrade !== undefined;
  if (isUpgraded || (response.status >= 200 && response.status < 300)) return response;
  throw await failureOf(transport, response, signal);
}

async function credentialOf({ token }: Transport): Promise<string | undefined> {
  if (typeof token !== 'function') return token;
  try {
    return await token();
  } catch (cause) {
    throw new RingfenceError({ code: 'unauthenticated', message: `no credential: ${reasonOf(cause)}`, cause });
  }
}

function addressOf(transport: Transport, { path, query = {} }: Exchange): string {
  const given = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`],
  );
  return `${transport.url}${path}${given.length > 0 ? `?${given.join('&')}` : ''}`;
}

/** Node hides the useful part ("connect ECONNREFUSED …") in causes; browsers tell nothing but "Failed to fetch". */
export function reasonOf(error: unknown): string {
  let deepest: unknown = error;
  for (let depth = 0; depth < 4 && deepest instanceof Error && deepest.cause !== undefined; depth += 1) {
    deepest = deepest.cause;
  }
  if (!(deepest instanceof Error)) return String(deepest);
  const code = 'code' in deepest && typeof deepest.code === 'string' ? deepest.code : undefined;
  return deepest.message !== '' ? deepest.message : (code ?? deepest.name);
}

const textsIn = (value: unknown): readonly string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];

async function failureOf(transport: Transport, response: FetchResponse, signal: AbortSignal): Promise<RingfenceError> {
  const { status } = response;
  const retryAfter = readRetryAfter(response.headers.get('retry-after'), transport.clock);
  const requestId = text(response.headers.get('x-request-id'));
  if (status < 400) {
    // A browser shows nothing of a redirect, status 0 included.
    const to = response.headers.get('location');
    await discard(response);
    return badAnswer(`${transport.url} redirects${to === null ? '' : ` to ${to}`}: give the final address`, status);
  }
  const body = await problemOf(response);
  signal.throwIfAborted();
  return new RingfenceError({
    code: isErrorCode(body['code']) ? body['code'] : codeOfStatus(status),
    message: text(body['detail']) ?? text(body['title']) ?? `the server answered ${status}`,
    status,
    errors: problemsIn(body['errors']),
    moreErrors: countIn(body['more_errors']),
    devices: textsIn(body['devices']),
    moreDevices: countIn(body['more_devices']),
    enrollmentKeys: textsIn(body['enrollment_keys']),
    trialId: text(body['trial_id']),
    tests: testsIn(body['tests']),
    moreTests: countIn(body['more_tests']),
    requestId: requestId ?? text(body['request_id']),
    retryAfter,
  });
}

const countIn = (value: unknown): number => (Number.isSafeInteger(value) ? Number(value) : 0);

const testsIn = (value: unknown): readonly PolicyTestResult[] =>
  Array.isArray(value)
    ? value.filter((entry): entry is PolicyTestResult => isObject(entry) && typeof entry['name'] === 'string')
    : [];

/** A problem's fields, or none: a proxy may answer with a page of its own, which is of no use to anybody. */
async function problemOf(response: FetchResponse): Promise<JsonObject> {
  if (!(response.headers.get('content-type') ?? '').startsWith(problemContentType)) {
    await discard(response);
    return {};
  }
  try {
    const body = await response.json();
    return isObject(body) ? body : {};
  } catch {
    return {};
  }
}

/** Cancels a body that is not read, so that its connection is free again. */
async function discard(response: FetchResponse): Promise<void> {
  await response.body?.cancel().catch(() => undefined);
}

function problemsIn(value: unknown): readonly RequestProblem[] {
  if (!Array.isArray(value)) return [];
  return (value as readonly unknown[]).flatMap((entry) => {
    if (!isObject(entry)) return [];
    const { pointer, code, detail } = entry;
    if (typeof pointer !== 'string' || typeof code !== 'string' || typeof detail !== 'string') return [];
    // A newer server may know a code that this version does not; the sentence still helps.
    return [{ pointer, code: code as RequestProblem['code'], detail }];
  });
}

/** Seconds or a date (RFC 9110 10.2.3), as milliseconds from now. */
function readRetryAfter(header: string | null, clock: Clock): number | undefined {
  if (header === null) return undefined;
  if (/^\s*\d{1,9}\s*$/.test(header)) return Number(header) * 1_000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - clock.now());
}

/**
 * Runs with a signal of its own, which ends with the caller's signal and, given a deadline, after that time. The
 * caller's signal is let go when the work is done: one signal may serve a process for weeks.
 */
export async function withSignal<T>(
  options: { readonly clock: Clock; readonly signal?: AbortSignal | undefined; readonly deadline?: number },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { clock, signal, deadline } = options;
  signal?.throwIfAborted();
  const own = new AbortController();
  const onAbort = (): void => own.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const cancel =
    deadline === undefined
      ? undefined
      : clock.after(deadline, () =>
          own.abort(new RingfenceError({ code: 'timed_out', message: `no answer within ${deadline / 1_000} s` })),
        );
  try {
    return await work(own.signal);
  } finally {
    cancel?.();
    signal?.removeEventListener('abort', onAbort);
  }
}
