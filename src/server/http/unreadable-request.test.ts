/** Proves that the server answers a request that Node cannot parse with a problem that says why, and sends nothing before TLS is set up. */
import { once } from 'node:events';
import { createServer, maxHeaderSize } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { answerUnreadable } from './unreadable-request.ts';

/** Sends bytes to Node's server, which waits for the rest for this long, and returns the whole answer. */
async function answerTo(bytes: string, waitMs = 60_000): Promise<{ readonly head: string; readonly body: unknown }> {
  const waits = { headersTimeout: waitMs, requestTimeout: waitMs, connectionsCheckingInterval: 10 };
  const server = createServer(waits).on('clientError', (error, socket) => answerUnreadable(error, socket as Socket));
  onTestFinished(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(bytes);
  const [head = '', body = ''] = (await text(socket)).split('\r\n\r\n');
  return { head, body: JSON.parse(body) };
}

test.each([
  ['no HTTP', 'NONSENSE\r\n\r\n', 400, 'malformed_request', 'The request is not valid HTTP.'],
  [
    'a header line without a colon',
    'POST / HTTP/1.1\r\nHost: x\r\nAccept\r\n\r\n',
    400,
    'malformed_request',
    'The request is not valid HTTP.',
  ],
  [
    'too large a head',
    `GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${'x'.repeat(maxHeaderSize)}\r\n\r\n`,
    431,
    'headers_too_large',
    `The headers of a request may have at most ${maxHeaderSize} bytes in total.`,
  ],
])('%s', async (_what, bytes, status, code, detail) => {
  const { head, body } = await answerTo(bytes);
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect(head).toContain('Content-Type: application/problem+json');
  expect(body).toMatchObject({ status, code, detail });
});

test.each([
  ['anything', ''],
  ['a head', 'POST / HTTP/1.1\r\nHost: x\r\n'],
  ['a body', 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf'],
])('%s that does not arrive whole', async (_what, bytes) => {
  const { head, body } = await answerTo(bytes, 1);
  expect(head).toMatch(/^HTTP\/1\.1 408 /);
  expect(body).toMatchObject({
    status: 408,
    code: 'request_timeout',
    detail: 'The request did not arrive completely within 60 seconds.',
  });
});

test('a connection that the other end has reset is not answered', () => {
  let [writes, isDestroyed] = [0, false];
  const socket = { writable: true, end: () => (writes += 1), destroy: () => (isDestroyed = true) };
  answerUnreadable(Object.assign(new Error('reset'), { code: 'ECONNRESET' }), socket as unknown as Socket);
  expect([writes, isDestroyed]).toEqual([0, true]);
});
