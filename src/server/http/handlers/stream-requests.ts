/**
 * Owns the way of a request for a stream, which the framework does not see: a fleet that comes back sends thousands of them a second. It
 * is held to the rules of every other operation by the same parts, in the same order: entrance, body, handler, one edge for failures.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { pathsOf } from '../../../api/paths.ts';
import type { Admitted } from '../call.ts';
import { areParamsOf } from '../guard/admit.ts';
import type { Entrance } from '../guard/entrance.ts';
import { commonHeaders } from '../headers.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { problemAnswer } from '../observe/problem-answer.ts';
import { logRequest } from '../observe/request-log.ts';
import { hasBody, readJson, type BodyLimits } from '../request/body.ts';
import { requestIdOf } from '../request/id.ts';
import type { StreamHandler } from './events.ts';

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

/** A request for a stream that the router has found. */
export interface FoundRequest {
  readonly id: string;
  readonly ip: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
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
  readonly found: FoundRequest;
  readonly #began = performance.now();
  admitted: Admitted | undefined;
  /** Its connection is the stream's own. */
  isOpen = false;
  /** It failed while its body was read: the client may be sending still. */
  isUnread = false;

  constructor(found: FoundRequest) {
    this.found = found;
  }

  get elapsedMs(): number {
    return performance.now() - this.#began;
  }
}

export class StreamRequests {
  readonly #o: StreamRequestsOptions;

  constructor(options: StreamRequestsOptions) {
    this.#o = options;
  }

  /** Answers a request that is plainly one for a stream; false for every other, and then nothing was done. */
  take(raw: IncomingMessage, response: ServerResponse): boolean {
    if (raw.method !== 'POST') return false;
    const org_id = organizationIn(raw.url ?? '');
    if (org_id === undefined) return false;
    if (this.#o.behindProxies && raw.headers['x-forwarded-for'] !== undefined) return false;
    const ip = raw.socket.remoteAddress ?? '';
    this.answer({ id: requestIdOf(raw.headers), ip, params: { org_id }, raw, response });
    return true;
  }

  /** Answers a request for a stream, however it was found. */
  answer(found: FoundRequest): void {
    const request = new PendingRequest(found);
    this.#open(request).catch((failure: unknown) => this.#refuse(request, failure));
  }

  async #open(request: PendingRequest): Promise<void> {
    const { id, ip, params, raw, response } = request.found;
    const asking = { id, method: 'POST', headers: raw.headers, ip, socket: raw.socket };
    const admitted = await this.#o.entrance.admit(operation, asking, params);
    request.admitted = admitted;
    const { variables } = admitted;
    if (!areParamsOf(operation, variables)) throw new Error(`${raw.url ?? ''} lacks variables of ${operation}`);
    const body = await this.#read(request);
    const onOpen = (): void => {
      request.isOpen = true;
      this.#log(request, 200);
    };
    const { elapsedMs } = request;
    await this.#o.stream({ admitted, params: variables, id, body, elapsedMs, raw, response, onOpen });
  }

  async #read(request: PendingRequest): Promise<unknown> {
    const { raw } = request.found;
    if (!hasBody(raw.headers)) return undefined;
    request.isUnread = true;
    const body = await readJson(operation, raw, this.#o.bodyLimits);
    request.isUnread = false;
    return body;
  }

  #refuse(request: PendingRequest, failure: unknown): void {
    const { id, raw, response } = request.found;
    const { status, headers, body } = problemAnswer(failure, { id, method: 'POST', url: raw.url ?? '' }, this.#o.log);
    if (request.isOpen) {
      raw.socket.destroy();
      return;
    }
    // Whoever is gone is answered in vain, and that is all.
    response.on('finish', () => this.#log(request, status)).on('error', () => {});
    // A connection that stayed open after its last answer would keep a stopping server waiting.
    const ends = request.isUnread || this.#o.health.draining;
    response.writeHead(status, {
      'x-request-id': id,
      ...Object.fromEntries(commonHeaders),
      ...(ends ? { connection: 'close' } : {}),
      ...headers,
      'content-length': Buffer.byteLength(body),
    });
    response.end(body);
  }

  #log({ found: { id, raw }, admitted, elapsedMs }: PendingRequest, status: number): void {
    const principal = admitted?.principal;
    const about = { id, method: 'POST', url: raw.url ?? '', operation, principal, status, ms: elapsedMs } as const;
    logRequest(this.#o, about);
  }
}
