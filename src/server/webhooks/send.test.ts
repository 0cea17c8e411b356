/** Proves one attempt to deliver against a real HTTP server: what arrives, what counts as taken, and where nothing is ever sent. */
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { readWebhookHost } from '../webhook-hosts.ts';
import { send, type Address } from './send.ts';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

async function receiver(answer: RequestListener): Promise<string> {
  const listening = (server = createServer(answer));
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  return `127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

const message = (url: string) => ({ url, body: '{"a":1}', headers: { 'webhook-id': 'x' } });
const attempt = (url: string, allowed: readonly string[], lookup?: (host: string) => Promise<readonly Address[]>) =>
  send(message(url), { hosts: allowed.map((text) => readWebhookHost(text)), timeoutMs: 5_000, lookup });

describe('an attempt', () => {
  it('posts the body with its headers, to the host by its name', async () => {
    const seen: { request?: IncomingMessage; body: string } = { body: '' };
    const where = await receiver((request, response) => {
      seen.request = request;
      request.on('data', (chunk: Buffer) => (seen.body += chunk.toString()));
      request.on('end', () => response.writeHead(204).end());
    });
    expect(await attempt(`http://${where}/hook?x=1`, [`http://${where}`])).toBeUndefined();
    expect(seen.body).toBe('{"a":1}');
    expect(seen.request?.method).toBe('POST');
    expect(seen.request?.url).toBe('/hook?x=1');
    expect(seen.request?.headers).toMatchObject({ host: where, 'webhook-id': 'x', 'content-length': '7' });
  });

  it.each([
    [500, 'status_500'],
    [404, 'status_404'],
    [301, 'redirect'],
    [307, 'redirect'],
  ] as const)('that is answered with %i failed: %s', async (status, failure) => {
    let requests = 0;
    const where = await receiver((_, response) => {
      requests += 1;
      response.writeHead(status, { location: '/elsewhere' }).end();
    });
    expect(await attempt(`http://${where}/`, [`http://${where}`])).toBe(failure);
    expect(requests).toBe(1);
  });

  it('ends when its time is over, whatever the receiver does', async () => {
    const where = await receiver(() => {});
    const hosts = [readWebhookHost(`http://${where}`)];
    expect(await send(message(`http://${where}/`), { hosts, timeoutMs: 50 })).toBe('timeout');
  });

  it('waits for no end of an answer that has none', async () => {
    const where = await receiver((_, response) => {
      response.writeHead(200);
      setInterval(() => response.write('x'), 1).unref();
    });
    expect(await attempt(`http://${where}/`, [`http://${where}`])).toBeUndefined();
  });

  it('that finds nobody failed', async () => {
    const where = await receiver(() => {});
    server?.close();
    await new Promise((resolve) => server?.on('close', resolve));
    expect(await attempt(`http://${where}/`, [`http://${where}`])).toBe('not_connected');
  });
});

describe('nothing is sent', () => {
  const address = (text: string): Address => ({ address: text, family: text.includes(':') ? 6 : 4 });

  it('to a name under a pattern that leads to the server itself, and not when only one of its addresses does', async () => {
    let requests = 0;
    await receiver(() => (requests += 1));
    for (const found of [['127.0.0.1'], ['1.1.1.1', '10.0.0.1'], ['::1'], ['::ffff:127.0.0.1'], ['169.254.169.254']]) {
      const lookup = () => Promise.resolve(found.map(address));
      expect(await attempt('https://a.example.com/', ['*.example.com', '*'], lookup)).toBe('address_not_allowed');
    }
    expect(requests).toBe(0);
  });

  it('to a second answer of the name server: the address that was judged is the one that is connected to', async () => {
    let lookups = 0;
    let requests = 0;
    const where = await receiver((_, response) => {
      requests += 1;
      response.writeHead(200).end();
    });
    const port = where.split(':')[1] ?? '';
    const lookup = () => {
      lookups += 1;
      return Promise.resolve([address(lookups === 1 ? '127.0.0.1' : '127.0.0.9')]);
    };
    expect(await attempt(`http://named.example:${port}/`, [`http://named.example:${port}`], lookup)).toBeUndefined();
    expect([lookups, requests]).toEqual([1, 1]);
  });

  it('to a host that is not allowed, or that nobody knows', async () => {
    const never = () => Promise.reject(new Error('asked'));
    expect(await attempt('https://a.example.com/', ['b.example.com'], never)).toBe('host_not_allowed');
    expect(await attempt('no url', ['*'])).toBe('host_not_allowed');
    expect(await attempt('https://a.example.com/', ['a.example.com'], never)).toBe('host_unknown');
    expect(await attempt('https://a.example.com/', ['a.example.com'], () => Promise.resolve([]))).toBe('host_unknown');
  });
});
