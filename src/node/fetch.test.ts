/** Proves the programs' way to the server over TLS: whom it believes, and that it asks anew for each connection. */
import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
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
