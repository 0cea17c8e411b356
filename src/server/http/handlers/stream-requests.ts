/**
 * Owns the way of a request for a stream, which the framework does not see: a fleet that comes back sends thousands of them a second. It
 * is held to the rules of every other operation by the same parts, in the same order: entrance, body, handler, one edge for failures.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pathsOf } from '../../../api/paths.ts';
import { canBeBare } from '../../watch/connection/bare-sink.ts';
import type { Admitted } from '../call.ts';
import { areParamsOf } from '../guard/admit.ts';
import type { Entrance } from '../guard/entrance.ts';
import { commonHeaders } from '../headers.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { problemAnswer } from '../observe/problem-answer.ts';
import { logRequest } from '../observe/request-log.ts';
import type { BodyLimits } from '../request/body.ts';
import { requestIdOf } from '../request/id.ts';
import { readPlainRequest } from '../request/plain-request.ts';
import type { StreamHandler } from './events.ts';
import {
  ParsedStreamRequest,
  PlainStreamRequest,
  type Answerer,
  type FirstConnection,
  type StreamRequest,
} from './stream-request.ts';

const operation = 'watchEvents';

export interface StreamRequestsOptions {
  readonly entrance: Pick<Entrance, 'admit'>;
  readonly stream: StreamHandler;
  readonly bodyLimits: BodyLimits;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly health: { readonly draining: boolean };
  /** Whether some proxy's word on where a request came from is taken. */
  readonly behindProxies: boolean;
}

/** What was found out of a request for a stream before it is let in. */
export interface Found {
  readonly id: string;
  readonly ip: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** What stands before and after the organization in each path of the operation. */
const around = pathsOf(operation).map((path) => path.split('{org_id}') as [string, string]);
const plainId = /^[0-9a-f-]{36}$/;

/** The organization of a path that is written as clients write it. What is written otherwise is for the router to read. */
function organizationIn(url: string): string | undefined {
  for (const [before, after] of around) {
    if (!url.startsWith(before) || !url.endsWith(after)) continue;
    const id = url.slice(before.length, -after.length);
    if (plainId.test(id)) return id;
  }
  return undefined;
}

/** One such request on its way. */
class PendingRequest {
  readonly found: Found;
  readonly request: StreamRequest;
  readonly #began = performance.now();
  admitted: Admitted | undefined;
  /** Its connection is the stream's own. */
  isOpen = false;
  /** It failed while its body was read: the client may be sending still. */
  isUnread = false;

  constructor(found: Found, request: StreamRequest) {
    this.found = found;
    this.request = request;
  }

  get elapsedMs(): number {
    return performance.now() - this.#began;
  }
}

export class StreamRequests {
  readonly #o: StreamRequestsOptions;
  /** What requests are to be answered that were refused before Node's server had their connections. */
  readonly #refused = new WeakMap<Socket, Answerer>();

  constructor(options: StreamRequestsOptions) {
    this.#o = options;
  }

  /** Answers a request that is plainly one for a stream and all of a connection's first bytes; false for every other, and then nothing was done. */
  takeFirst(bytes: Buffer, connection: FirstConnection): boolean {
    const plain = readPlainRequest(bytes);
    const org_id = plain && organizationIn(plain.url);
    if (plain === undefined || org_id === undefined || !canBeBare(connection)) return false;
    const ip = connection.address;
    // It is gone already.
    if (ip === '') return false;
    const onHandOver = (socket: Socket, answerer: Answerer): unknown => this.#refused.set(socket, answerer);
    const request = new PlainStreamRequest(plain, connection, onHandOver);
    this.#answer({ id: requestIdOf(plain.headers), ip, params: { org_id } }, request);
    return true;
  }

  /** Answers a request that is plainly one for a stream; false for every other, and then nothing was done. */
  take(raw: IncomingMessage, response: ServerResponse): boolean {
    if (raw.method !== 'POST') return false;
    const org_id = organizationIn(raw.url ?? '');
    if (org_id === undefined) return false;
    const refused = this.#refused.get(raw.socket);
    if (refused !== undefined) {
      this.#refused.delete(raw.socket);
      refused(raw, response);
      return true;
    }
    if (this.#o.behindProxies && raw.headers['x-forwarded-for'] !== undefined) return false;
    const ip = raw.socket.remoteAddress ?? '';
    this.answerFound({ id: requestIdOf(raw.headers), ip, params: { org_id } }, raw, response);
    return true;
  }

  /** Answers a request for a stream, however it was found. */
  answerFound(found: Found, raw: IncomingMessage, response: ServerResponse): void {
    this.#answer(found, new ParsedStreamRequest(raw, response));
  }

  #answer(found: Found, request: StreamRequest): void {
    const pending = new PendingRequest(found, request);
    this.#open(pending).catch((failure: unknown) => this.#refuse(pending, failure));
  }

  async #open(pending: PendingRequest): Promise<void> {
    const { request } = pending;
    const { id, ip, params } = pending.found;
    const asking = { id, method: 'POST', headers: request.headers, ip, socket: { remoteAddress: ip } };
    const admitted = await this.#o.entrance.admit(operation, asking, params);
    pending.admitted = admitted;
    const { variables } = admitted;
    if (!areParamsOf(operation, variables)) throw new Error(`${request.url} lacks variables of ${operation}`);
    const body = await this.#read(pending);
    const accept = (): ReturnType<StreamRequest['takeOver']> => {
      pending.isOpen = true;
      this.#log(pending, 200);
      return request.takeOver();
    };
    const { elapsedMs } = pending;
    const { chunked, headers } = request;
    await this.#o.stream({
      admitted,
      params: variables,
      id,
      body,
      elapsedMs,
      prefer: headers['prefer'],
      chunked,
      accept,
    });
  }

  async #read(pending: PendingRequest): Promise<unknown> {
    const { request } = pending;
    if (!request.hasBody) return undefined;
    pending.isUnread = true;
    const body = await request.readJson(this.#o.bodyLimits);
    pending.isUnread = false;
    return body;
  }

  #refuse(pending: PendingRequest, failure: unknown): void {
    const { request, found, isUnread } = pending;
    const { id } = found;
    const { status, headers, body } = problemAnswer(failure, { id, method: 'POST', url: request.url }, this.#o.log);
    if (pending.isOpen) {
      request.destroy();
      return;
    }
    // A connection that stayed open after its last answer would keep a stopping server waiting.
    const ends = isUnread || this.#o.health.draining;
    const all = {
      'x-request-id': id,
      ...Object.fromEntries(commonHeaders),
      ...(ends ? { connection: 'close' } : {}),
      ...headers,
    };
    request.answer({ status, headers: all, body }, () => this.#log(pending, status));
  }

  #log({ found: { id }, request: { url }, admitted, elapsedMs }: PendingRequest, status: number): void {
    const principal = admitted?.principal;
    logRequest(this.#o, { id, method: 'POST', url, operation, principal, status, ms: elapsedMs });
  }
}
