/** Owns the asking of a server in tests: exact bytes and headers, one kept connection pool, answers as data. */
import { Agent, request as send, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';

export interface Asked {
  readonly body?: unknown;
  /** Sent as it is, instead of `body`. */
  readonly raw?: string | Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The parsed text; undefined when it is no JSON. Typed loosely: tests say what they expect of it. */
  readonly json: Json;
}

// eslint-disable-next-line typescript/no-explicit-any -- what a server answers is what a test finds out
export type Json = any;

export class Api {
  readonly #base: URL;
  readonly #token: string | undefined;
  readonly #agent: Agent;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(
    base: string,
    token?: string,
    agent = new Agent({ keepAlive: true, maxSockets: 64 }),
    headers: Readonly<Record<string, string>> = {},
  ) {
    this.#base = new URL(base);
    this.#token = token;
    this.#agent = agent;
    this.#headers = headers;
  }

  /** The same server, asked by a browser with this cookie, from one of the server's own pages. */
  asBrowser(cookie: string): Api {
    const headers = { cookie, origin: this.#base.origin, 'sec-fetch-site': 'same-origin', 'x-ringfence-csrf': '1' };
    return new Api(this.#base.href, undefined, this.#agent, headers);
  }

  /** The same server, asked by another. */
  as(token: string | undefined): Api {
    return new Api(this.#base.href, token, this.#agent);
  }

  #send(method: string, path: string, asked: Asked, answered: (answer: IncomingMessage) => void): ClientRequest {
    const { body, raw, headers = {} } = asked;
    const bytes = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const all: Record<string, string> = {
      ...(this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }),
      ...(bytes === undefined ? {} : { 'content-type': 'application/json' }),
      ...this.#headers,
      ...headers,
      ...(bytes === undefined ? {} : { 'content-length': String(Buffer.byteLength(bytes)) }),
    };
    const { protocol, hostname, port } = this.#base;
    const target = {
      protocol,
      hostname: hostname.replace(/[[\]]/g, ''),
      port,
      method,
      path,
      headers: all,
      agent: this.#agent,
    };
    return send(target, answered).end(bytes);
  }

  ask(method: string, path: string, asked: Asked = {}): Promise<Answered> {
    return new Promise((resolve, reject) => {
      this.#send(method, path, asked, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text, json: parse(text) });
        });
      }).on('error', reject);
    });
  }

  /** As `ask`, but an answer that has no end is cut off once `enough` of its text has come; asked first of no text at all. */
  glance(method: string, path: string, asked: Asked, enough: (text: string) => boolean): Promise<Answered> {
    return new Promise((resolve, reject) => {
      this.#send(method, path, asked, (answer) => {
        let text = '';
        const done = (): void => {
          resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text, json: parse(text) });
          answer.destroy();
        };
        answer.on('error', () => done());
        answer.on('end', () => done());
        answer.on('data', (chunk: Buffer) => {
          text += chunk.toString();
          if (answer.statusCode === 200 && enough(text)) done();
        });
        if (answer.statusCode === 200 && enough(text)) done();
      }).on('error', reject);
    });
  }

  /** The status alone: the answer is cut off after its head, so that a stream is no exception. */
  status(method: string, path: string, asked: Asked = {}): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#send(method, path, asked, (answer) => {
        resolve(answer.statusCode ?? 0);
        answer.destroy();
      }).on('error', (error) => reject(error));
    });
  }

  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
    return this.ask('GET', path, { headers });
  }
  post(path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
    return this.ask('POST', path, { body, headers });
  }
  put(path: string, body?: unknown): Promise<Answered> {
    return this.ask('PUT', path, { body });
  }
  patch(path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
    return this.ask('PATCH', path, { body, headers });
  }
  delete(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Answered> {
    return this.ask('DELETE', path, { headers });
  }

  /** Asks, and fails the test with the whole answer when the status is another. */
  async expect(status: number, method: string, path: string, body?: unknown): Promise<Json> {
    const answer = await this.ask(method, path, { body });
    if (answer.status !== status)
      throw new Error(`${method} ${path}: expected ${status}, got ${answer.status} ${answer.text}`);
    return answer.json;
  }

  close(): void {
    this.#agent.destroy();
  }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
