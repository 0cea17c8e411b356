/** Proves the programs' way to the server: over TLS whom it believes, and that it asks anew for each connection; and how a body is read as it comes. */
import { once } from 'node:events';
import { createServer as createPlainServer, type ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { first, second } from '../../test/lib/certificates.ts';
import { Client } from '../client/http.ts';
import { createNodeFetch } from './fetch.ts';

const server = createServer({ cert: first.cert, key: first.key }, (request, answer) => {
  answer.setHeader('content-type', 'application/json');
  answer.end(JSON.stringify({ id: request.headers.authorization }));
});
let url = '';
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const ask = (authorities?: () => Promise<string>): Promise<object> =>
  new Client({ url, token: 't', fetch: createNodeFetch(authorities && { authorities }) }).whoAmI();

describe('a server with a certificate of its own', () => {
  test('is believed where its authority is named, and not otherwise', async () => {
    expect(await ask(async () => first.cert)).toEqual({ id: 'Bearer t' });
    await expect(ask(async () => second.cert)).rejects.toThrow(/certificate/);
    await expect(ask()).rejects.toThrow(/certificate/);
  });

  test('is believed as soon as the file with its authority is there and right', async () => {
    const texts = ['', second.cert, first.cert];
    const authorities = async (): Promise<string> => {
      const text = texts.shift() ?? '';
      if (text === '') throw new Error('ENOENT: no such file');
      return text;
    };
    await expect(ask(authorities)).rejects.toThrow('ENOENT');
    await expect(ask(authorities)).rejects.toThrow(/certificate/);
    expect(await ask(authorities)).toEqual({ id: 'Bearer t' });
  });
});

describe('a TLS session', () => {
  test('is resumed on the next connection, also after failures, and only by who names the same authorities', async () => {
    const reused: boolean[] = [];
    const secure = createServer({ cert: first.cert, key: first.key }, (request, answer) => {
      if (request.url === '/cut') accepted?.resetAndDestroy();
      else answer.setHeader('connection', 'close').end('{}');
    });
    let accepted: Socket | undefined;
    secure.on('connection', (socket) => (accepted = socket as Socket));
    secure.on('secureConnection', (socket) => reused.push(socket.isSessionReused()));
    const listen = async (port: number): Promise<number> => {
      secure.listen(port, '127.0.0.1');
      await once(secure, 'listening');
      return (secure.address() as AddressInfo).port;
    };
    const port = await listen(0);
    let authority = first.cert;
    const fetch = createNodeFetch({ authorities: async () => authority });
    const { signal } = new AbortController();
    const get = async (path: string): Promise<unknown> => {
      const init = { method: 'GET', headers: {}, cache: 'no-store', redirect: 'manual', signal } as const;
      return (await fetch(`https://127.0.0.1:${port}${path}`, init)).json();
    };
    try {
      await get('/');
      await get('/');
      expect(reused).toEqual([false, true]);
      await expect(get('/cut')).rejects.toThrow(/ECONNRESET|hang up/);
      secure.close();
      await once(secure, 'close');
      await expect(get('/')).rejects.toThrow('ECONNREFUSED');
      await listen(port);
      reused.length = 0;
      await get('/');
      expect(reused).toEqual([true]);
      authority = second.cert;
      await expect(get('/')).rejects.toThrow(/certificate/);
      authority = `${first.cert}${second.cert}`;
      await get('/');
      expect(reused.at(-1)).toBe(false);
    } finally {
      secure.closeAllConnections();
      secure.close();
    }
  });
});

test('an idle connection is kept for the next request for as long as asked, and no longer', async () => {
  const open = new Set<string>();
  const served: string[] = [];
  const plain = createPlainServer((request, answer) => {
    served.push(String(request.socket.remotePort));
    answer.end('{}');
  });
  plain.on('connection', (socket) => {
    const name = String(socket.remotePort);
    open.add(name);
    socket.on('close', () => open.delete(name));
  });
  plain.listen(0, '127.0.0.1');
  await once(plain, 'listening');
  const { signal } = new AbortController();
  const asking = (keepAliveMs: number) => {
    const fetch = createNodeFetch({ keepAliveMs });
    const init = { method: 'GET', headers: {}, cache: 'no-store', redirect: 'manual', signal } as const;
    return async () => (await fetch(`http://127.0.0.1:${(plain.address() as AddressInfo).port}/`, init)).json();
  };
  const [patient, hasty] = [asking(60_000), asking(50)];
  try {
    plain.keepAliveTimeout = 60_000;
    await patient();
    await hasty();
    const [kept = '', ended = ''] = served;
    await expect.poll(() => open.has(ended)).toBe(false);
    await patient();
    expect(served.at(-1)).toBe(kept);
  } finally {
    plain.closeAllConnections();
    plain.close();
  }
});

describe('a body that comes piece by piece', () => {
  let serve: (answer: ServerResponse) => void = () => {};
  const plain = createPlainServer((_, answer) => serve(answer));
  beforeAll(async () => {
    plain.listen(0, '127.0.0.1');
    await once(plain, 'listening');
  });
  afterAll(() => {
    plain.closeAllConnections();
    plain.close();
  });
  const open = async (signal = new AbortController().signal) => {
    const place = `http://127.0.0.1:${(plain.address() as AddressInfo).port}`;
    const init = { method: 'GET', headers: {}, cache: 'no-store', redirect: 'manual', signal } as const;
    const { body } = await createNodeFetch()(place, init);
    if (body === null) throw new Error('no body');
    return body.getReader();
  };
  const text = ({ done, value }: { done: boolean; value?: Uint8Array | undefined }): string =>
    done ? 'the end' : Buffer.from(value ?? []).toString();

  test('is read in order, whether somebody waits for a piece or not, and ends', async () => {
    let goOn: () => void = () => {};
    serve = (answer) => {
      answer.write('one');
      goOn = () => {
        answer.write('two');
        answer.end('three');
      };
    };
    const reader = await open();
    expect(text(await reader.read())).toBe('one');
    const waiting = reader.read();
    goOn();
    let rest = text(await waiting);
    for (let next = text(await reader.read()); next !== 'the end'; next = text(await reader.read())) rest += next;
    expect(rest).toBe('twothree');
    expect(text(await reader.read())).toBe('the end');
  });

  test('makes the far end wait while nobody reads it', async () => {
    const [piece, pieces] = [Buffer.alloc(1 << 20), 64];
    let taken = 0;
    serve = (answer) => {
      const put = (left: number): void => {
        if (left === 0) answer.end();
        else
          answer.write(piece, () => {
            taken += 1;
            put(left - 1);
          });
      };
      put(pieces);
    };
    const reader = await open();
    let size = (await reader.read()).value?.length ?? 0;
    // It waits when a moment goes by in which nothing more is taken.
    for (let before = -1; taken !== before; await sleep(200)) before = taken;
    expect(taken).toBeLessThan(pieces / 2);
    for (let next = await reader.read(); !next.done; next = await reader.read()) size += next.value?.length ?? 0;
    expect(size).toBe(pieces * piece.length);
  });

  test('that is cut off is no end, and neither is one that the reader gives up', async () => {
    const answers: ServerResponse[] = [];
    serve = (answer) => {
      answers.push(answer);
      answer.write('one');
    };
    const cut = await open();
    expect(text(await cut.read())).toBe('one');
    const waiting = cut.read();
    for (const answer of answers) answer.destroy();
    await expect(waiting).rejects.toThrow(/aborted|closed/);
    await expect(cut.read()).rejects.toThrow(/aborted|closed/);
    const ours = new AbortController();
    const given = await open(ours.signal);
    expect(text(await given.read())).toBe('one');
    const asked = given.read();
    ours.abort();
    await expect(asked).rejects.toThrow(/aborted|closed/);
  });
});

describe('a hostile server', () => {
  /** Answers every request in this way. */
  async function served(answer: (response: ServerResponse) => void): Promise<{ url: string; close: () => void }> {
    const hostile = createPlainServer((request, response) => {
      request.resume();
      response.on('error', () => {});
      answer(response);
    });
    hostile.listen(0, '127.0.0.1');
    await once(hostile, 'listening');
    const { port } = hostile.address() as AddressInfo;
    return {
      url: `http://127.0.0.1:${port}`,
      close: () => {
        hostile.closeAllConnections();
        hostile.close();
      },
    };
  }
  /** Sends without end, as fast as it is read. */
  const sendForEver = (response: ServerResponse, text: string): void => {
    const more = (): void => {
      while (!response.destroyed && response.write(text));
      response.once('drain', more);
    };
    more();
  };
  const body = (status: number, type: string) => (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': type });
    sendForEver(response, '[['.repeat(8_192));
  };

  test.each([
    ['an answer', body(200, 'application/json'), 'document_too_large'],
    ['a problem', body(500, 'application/problem+json'), 'internal'],
    ['a page of a proxy', body(502, 'text/html'), 'unavailable'],
    [
      'headers',
      (response: ServerResponse) => {
        response.socket?.write('HTTP/1.1 200 OK\r\n');
        const { socket } = response;
        const more = (): void => {
          if (socket?.write(`x-more: ${'y'.repeat(8_192)}\r\n`) === true) setImmediate(more);
          else if (socket?.destroyed === false) socket.once('drain', more);
        };
        more();
      },
      'unreachable',
    ],
  ])('that sends %s without end is refused, and its connection ended', async (_, answer, code) => {
    let ended: Promise<unknown> = Promise.resolve();
    let sent = 0;
    const { url: at, close } = await served((response) => {
      const { socket } = response;
      ended = once(response, 'close').then(() => (sent = socket?.bytesWritten ?? 0));
      answer(response);
    });
    try {
      const client = new Client({ url: at, token: 't', fetch: createNodeFetch({ largestAnswer: 1 << 20 }) });
      await expect(client.whoAmI()).rejects.toMatchObject({ code });
      await ended;
      // What the client may read, and what the kernel holds on both sides of a connection.
      expect(sent).toBeLessThan(32 << 20);
    } finally {
      close();
    }
  });
});
