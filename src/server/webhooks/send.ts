/**
 * Owns one delivery attempt: it resolves the address, checks it and connects to it, so that no second lookup can lead
 * elsewhere. It follows no redirect and reads only the status of the answer. Its own timer ends the attempt in time,
 * whatever the HTTP client does.
 */
import type { RequestOptions } from 'node:http';
import { request as secureRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { request as plainRequest } from '../../node/http.ts';
import { programVersion } from '../../node/version.ts';
import { reachOf, type WebhookHost } from '../limits/webhook-hosts.ts';
import { isPublicAddress } from './public-address.ts';
import { addressFinder, type Address } from './resolve.ts';

/** Why an attempt failed, for the owner. It contains nothing of the answer but its status. */
export type Failure =
  | 'host_not_allowed'
  | 'address_not_allowed'
  | 'host_unknown'
  | 'not_connected'
  | 'timeout'
  | 'redirect'
  | 'bad_answer'
  | `status_${number}`;

export interface SendOptions {
  readonly hosts: readonly WebhookHost[];
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** All addresses of a name. */
  readonly lookup?: ((host: string) => Promise<readonly Address[]>) | undefined;
}

export interface Message {
  readonly url: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

const findAll = addressFinder();

/** The one address to connect to, or why there is none. A name that has any address of the server's surroundings has none. */
async function addressOf(url: URL, { hosts, lookup = findAll }: SendOptions): Promise<Address | Failure> {
  const reach = reachOf(url, hosts);
  if (reach === undefined) return 'host_not_allowed';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  const family = isIP(host);
  let found: readonly Address[];
  try {
    found = family === 0 ? await lookup(host) : [{ address: host, family }];
  } catch {
    return 'host_unknown';
  }
  const [first] = found;
  if (first === undefined) return 'host_unknown';
  if (reach === 'public' && !found.every(({ address }) => isPublicAddress(address))) return 'address_not_allowed';
  return first;
}

/** Interim answers (1xx) that a receiver may send before its answer. */
const mostInterim = 16;

/** Undefined when the receiver took it. Never rejects, and never takes longer than it may: the timer here settles the attempt, not the HTTP client. */
export async function send(message: Message, options: SendOptions): Promise<Failure | undefined> {
  const url = URL.canParse(message.url) ? new URL(message.url) : undefined;
  if (url === undefined) return 'host_not_allowed';
  const { signal: stopped, timeoutMs } = options;
  const over = new AbortController();
  let expire = (): void => {};
  const expired = new Promise<Failure>((resolve) => (expire = () => resolve('timeout')));
  const timer = setTimeout(expire, timeoutMs);
  stopped?.addEventListener('abort', expire, { once: true });
  if (stopped?.aborted === true) expire();
  try {
    return await Promise.race([attempt(url, message, options, over.signal), expired]);
  } finally {
    clearTimeout(timer);
    stopped?.removeEventListener('abort', expire);
    // Closes the connection of the attempt, if it is still open.
    over.abort();
  }
}

async function attempt(
  url: URL,
  message: Message,
  options: SendOptions,
  over: AbortSignal,
): Promise<Failure | undefined> {
  const address = await addressOf(url, options);
  if (typeof address === 'string') return address;
  return over.aborted ? 'timeout' : post(url, address, message, over);
}

function post(
  url: URL,
  { address, family }: Address,
  message: Message,
  over: AbortSignal,
): Promise<Failure | undefined> {
  const pinned: LookupFunction = (_host, { all }, answer) =>
    all === true ? answer(null, [{ address, family }]) : answer(null, address, family);
  const settings: RequestOptions = {
    method: 'POST',
    agent: false,
    lookup: pinned,
    signal: over,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(Buffer.byteLength(message.body)),
      'user-agent': `ringfence/${programVersion}`,
      ...message.headers,
    },
  };
  return new Promise((resolve) => {
    const request = url.protocol === 'https:' ? secureRequest(url, settings) : plainRequest(url, settings);
    const end = (outcome: Failure | undefined): void => {
      resolve(outcome);
      request.destroy();
    };
    let interim = 0;
    request.on('information', () => {
      interim += 1;
      if (interim > mostInterim) end('bad_answer');
    });
    request.on('response', ({ statusCode = 0 }) => end(outcomeOf(statusCode)));
    // The receiver wants to speak another protocol. The socket is no longer the request's, so it is closed here.
    request.on('upgrade', ({ statusCode = 101 }, socket) => {
      socket.on('error', () => {});
      socket.destroy();
      end(outcomeOf(statusCode));
    });
    request.on('error', () => end('not_connected'));
    // The last event of every exchange, also of one that has neither an answer nor an error.
    request.on('close', () => end('not_connected'));
    request.end(message.body);
  });
}

function outcomeOf(status: number): Failure | undefined {
  if (status >= 200 && status < 300) return undefined;
  return status >= 300 && status < 400 ? 'redirect' : `status_${status}`;
}
