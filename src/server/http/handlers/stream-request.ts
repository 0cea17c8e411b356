/** Owns what a request for a stream is, whichever way it came: through Node's HTTP server, or on a connection that Node's server has not seen. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { bareSink, type BareConnection } from '../../watch/connection/bare-sink.ts';
import type { ConnectedSink } from '../../watch/hub.ts';
import { takeOver } from '../../watch/connection/socket.ts';
import { hasBody, jsonIn, readJson, type BodyLimits } from '../request/body.ts';
import type { PlainRequest } from '../request/plain-request.ts';

/** An answer that is no stream. */
export interface WholeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly body: string;
}

export interface StreamRequest {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** False for a client that speaks HTTP/1.0. */
  readonly chunked: boolean;
  readonly hasBody: boolean;
  readJson(bounds: BodyLimits): unknown;
  /** Makes its connection a stream's own. */
  takeOver(): ConnectedSink;
  /** Answers without a stream. `sent` is told when that is done; whoever is gone is answered in vain, and that is all. */
  answer(answer: WholeAnswer, sent: () => void): void;
  /** Ends its connection. */
  destroy(): void;
}

/** One that Node's HTTP server has read. */
export class ParsedStreamRequest implements StreamRequest {
  readonly #raw: IncomingMessage;
  readonly #response: ServerResponse;

  constructor(raw: IncomingMessage, response: ServerResponse) {
    this.#raw = raw;
    this.#response = response;
  }

  get url(): string {
    return this.#raw.url ?? '';
  }

  get headers(): IncomingHttpHeaders {
    return this.#raw.headers;
  }

  get chunked(): boolean {
    return this.#raw.httpVersionMajor > 1 || this.#raw.httpVersionMinor >= 1;
  }

  get hasBody(): boolean {
    return hasBody(this.#raw.headers);
  }

  readJson(bounds: BodyLimits): Promise<unknown> {
    return readJson('watchEvents', this.#raw, bounds);
  }

  takeOver(): ConnectedSink {
    return takeOver(this.#raw, this.#response);
  }

  answer({ status, headers, body }: WholeAnswer, sent: () => void): void {
    this.#response.on('finish', sent).on('error', () => {});
    this.#response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
    this.#response.end(body);
  }

  destroy(): void {
    this.#raw.socket.destroy();
  }
}

/** A connection before Node's HTTP server has it, which may still be given to it. */
export interface FirstConnection extends BareConnection {
  /** Where its other end is. */
  readonly address: string;
  /** Makes it the caller's for good. */
  keep(): void;
  /** Gives it to Node's server, with all that came on it. `prepare` is shown the socket first. */
  handOver(prepare?: (socket: Socket) => void): void;
}

/** Answers a request that Node has read in the end. */
export type Answerer = (raw: IncomingMessage, response: ServerResponse) => void;

/** One that was read from the first bytes of a connection. Only a stream is sent there as it is: every other answer is for Node's server to write. */
export class PlainStreamRequest implements StreamRequest {
  readonly #request: PlainRequest;
  readonly #connection: FirstConnection;
  readonly #onHandOver: (socket: Socket, answerer: Answerer) => void;
  readonly chunked = true;
  readonly hasBody = true;

  constructor(
    request: PlainRequest,
    connection: FirstConnection,
    onHandOver: (socket: Socket, answerer: Answerer) => void,
  ) {
    this.#request = request;
    this.#connection = connection;
    this.#onHandOver = onHandOver;
  }

  get url(): string {
    return this.#request.url;
  }

  get headers(): IncomingHttpHeaders {
    return this.#request.headers;
  }

  readJson(bounds: BodyLimits): unknown {
    return jsonIn('watchEvents', this.#request.body, bounds);
  }

  takeOver(): ConnectedSink {
    this.#connection.keep();
    return bareSink(this.#connection);
  }

  answer(answer: WholeAnswer, sent: () => void): void {
    this.#connection.handOver((socket) => {
      this.#onHandOver(socket, (raw, response) => new ParsedStreamRequest(raw, response).answer(answer, sent));
    });
  }

  destroy(): void {
    this.#connection.destroy();
  }
}
