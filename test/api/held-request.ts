/**
 * Owns a request that a test holds on its way: its head and its body are sent separately, and the guard signals when it
 * has admitted the request.
 */
import { connect, type Socket } from 'node:net';
import { vi } from 'vitest';
import { RequestGuard } from '../../src/server/http/guard/request-guard.ts';

/** Names the request to the guard that is watched. */
const gateHeader = 'x-test-gate';

interface Gate {
  readonly admitted: () => void;
  readonly opened: Promise<void>;
}

const gates = new Map<string, Gate>();
let serial = 0;

/** Watches the guards of this process until the mock is restored. */
export function watchGuards(): { restore: () => void } {
  // eslint-disable-next-line typescript/unbound-method -- it is called with the guard that it belongs to
  const { admit } = RequestGuard.prototype;
  const spy = vi.spyOn(RequestGuard.prototype, 'admit').mockImplementation(async function (
    this: RequestGuard,
    id,
    request,
    params,
  ) {
    const admitted = await admit.call(this, id, request, params);
    const gate = gates.get(String(request.headers[gateHeader]));
    gate?.admitted();
    await gate?.opened;
    return admitted;
  });
  return { restore: () => spy.mockRestore() };
}

function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((settle) => (resolve = settle));
  return { promise, resolve };
}

export interface HeldRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

export class Held {
  readonly #socket: Socket;
  readonly #body: Buffer;
  readonly #open: () => void;
  /** Resolves when the guard has let the request in. */
  readonly admitted: Promise<void>;
  /** Status and text of the answer. */
  readonly answer: Promise<{ readonly status: number; readonly text: string }>;

  /** Sends the head at once. A request without a body is held between the guard and its handler instead. */
  constructor(base: string, { method, path, headers, body }: HeldRequest) {
    serial += 1;
    const name = String(serial);
    const admitted = deferred();
    const opened = deferred();
    gates.set(name, { admitted: admitted.resolve, opened: body === undefined ? opened.promise : Promise.resolve() });
    this.admitted = admitted.promise;
    this.#open = opened.resolve;
    this.#body = body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body));
    const { hostname, port, host } = new URL(base);
    const socket = connect(Number(port), hostname);
    this.#socket = socket;
    const lines = Object.entries({
      host,
      connection: 'close',
      ...headers,
      [gateHeader]: name,
      ...(body === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': String(this.#body.length) }),
    }).map(([key, value]) => `${key}: ${value}\r\n`);
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
    this.answer = new Promise((resolve, reject) => {
      let text = '';
      socket.setEncoding('utf8');
      socket.on('data', (chunk: string) => (text += chunk));
      socket.on('error', reject);
      socket.on('close', () => {
        gates.delete(name);
        resolve({ status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 0), text });
      });
    });
  }

  /** The rest of the request. */
  release(): void {
    this.#socket.write(this.#body);
    this.#open();
  }
}
