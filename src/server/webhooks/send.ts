/**
 * Owns one attempt to deliver: the address is resolved, judged and then connected to, so that no second look-up can lead elsewhere. No redirect is
 * followed, nothing of the answer but its status is looked at, and the whole takes no longer than it may.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import type { RequestOptions } from 'node:http';
import { request as secureRequest } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { request as plainRequest } from '../../node/http.ts';
import { programVersion } from '../../node/version.ts';
import { reachOf, type WebhookHost } from '../webhook-hosts.ts';
import { isPublicAddress } from './public-address.ts';

/** Why an attempt failed, for the owner; what an answer holds besides its status is nobody's business. */
export type Failure =
  | 'host_not_allowed'
  | 'address_not_allowed'
  | 'host_unknown'
  | 'not_connected'
  | 'timeout'
  | 'redirect'
  | `status_${number}`;

export interface Address {
  readonly address: string;
  readonly family: number;
}

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

const findAll = (host: string): Promise<readonly Address[]> => systemLookup(host, { all: true });

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

/** Undefined when the receiver took it. Never rejects. */
export async function send(message: Message, options: SendOptions): Promise<Failure | undefined> {
  const url = URL.canParse(message.url) ? new URL(message.url) : undefined;
  if (url === undefined) return 'host_not_allowed';
  const patience = AbortSignal.timeout(options.timeoutMs);
  const signal = options.signal === undefined ? patience : AbortSignal.any([patience, options.signal]);
  const address = await Promise.race([
    addressOf(url, options),
    new Promise<Failure>((resolve) => signal.addEventListener('abort', () => resolve('timeout'), { once: true })),
  ]);
  if (typeof address === 'string') return address;
  return post(url, address, message, signal);
}

function post(
  url: URL,
  { address, family }: Address,
  message: Message,
  signal: AbortSignal,
): Promise<Failure | undefined> {
  const pinned: LookupFunction = (_host, { all }, answer) =>
    all === true ? answer(null, [{ address, family }]) : answer(null, address, family);
  const settings: RequestOptions = {
    method: 'POST',
    agent: false,
    lookup: pinned,
    signal,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(Buffer.byteLength(message.body)),
      'user-agent': `ringfence/${programVersion}`,
      ...message.headers,
    },
  };
  return new Promise((resolve) => {
    const request = url.protocol === 'https:' ? secureRequest(url, settings) : plainRequest(url, settings);
    request.on('response', (response) => {
      const status = response.statusCode ?? 0;
      resolve(outcomeOf(status));
      response.destroy();
    });
    request.on('error', () => resolve(signal.aborted ? 'timeout' : 'not_connected'));
    request.end(message.body);
  });
}

function outcomeOf(status: number): Failure | undefined {
  if (status >= 200 && status < 300) return undefined;
  return status >= 300 && status < 400 ? 'redirect' : `status_${status}`;
}
