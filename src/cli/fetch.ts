/** Owns the command line's way to the server: Node's own HTTP client, which is ready in a fifth of the time that its fetch takes to load. */
import { request as plain, type IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { Fetch, FetchResponse } from '../client/request.ts';

/** Like fetch, as far as the client asks of it: no redirect is followed, no encoding is offered. */
export const nodeFetch: Fetch = async (url, { method, headers, body, signal }) => {
  const request = url.startsWith('https:') ? (await import('node:https')).request : plain;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, signal }, (answer) => resolve(new NodeResponse(answer)));
    sent.on('error', reject);
    sent.end(body);
  });
};

class NodeResponse implements FetchResponse {
  readonly status: number;
  readonly headers: FetchResponse['headers'];
  readonly #answer: IncomingMessage;
  #body: ReadableStream<Uint8Array> | undefined;

  constructor(answer: IncomingMessage) {
    this.#answer = answer;
    this.status = answer.statusCode ?? 0;
    this.headers = {
      get: (name) => {
        const value = answer.headers[name.toLowerCase()];
        return value === undefined ? null : Array.isArray(value) ? value.join(', ') : value;
      },
    };
  }

  async json(): Promise<unknown> {
    return JSON.parse(await text(this.#answer));
  }

  get body(): ReadableStream<Uint8Array> {
    this.#body ??= Readable.toWeb(this.#answer) as ReadableStream<Uint8Array>;
    return this.#body;
  }
}
