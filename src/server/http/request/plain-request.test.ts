/** Proves that the narrow reader of requests never reads one otherwise than Node's parser does, and leaves everything that is unusual to it. */
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { Duplex } from 'node:stream';
import { expect, it, test } from 'vitest';
import { readPlainRequest } from './plain-request.ts';

const path = '/api/organizations/0a0a0a0a-0000-4000-8000-000000000000/events';
const body = '[{"kind":"device"}]';
const lines = [
  'Host: ringfence:8080',
  'connection: keep-alive',
  'Authorization: Bearer rf_user_x',
  'Content-Type: application/json',
  'Accept: */*',
  'x-request-id:  a1  ',
  `Content-Length: ${body.length}`,
];
const first = `POST ${path} HTTP/1.1`;
const write = (head: readonly string[], rest = body): Buffer =>
  Buffer.from(`${head.join('\r\n')}\r\n\r\n${rest}`, 'latin1');
const plain = write([first, ...lines]);

const inside = (request: IncomingMessage, read: Buffer) => {
  const { method, url, httpVersion, headers } = request;
  return { method, url, httpVersion, headers: { ...headers }, body: read.toString('latin1') };
};

/** What Node's server reads from these bytes: every request with its body, and whether anything was wrong or is missing. */
async function readByNode(bytes: Buffer): Promise<unknown[]> {
  const server = createServer();
  const seen: unknown[] = [];
  const socket = new Duplex({ read: () => {}, write: (_chunk, _encoding, done) => done() });
  server.on('clientError', () => seen.push('an error'));
  server.on('request', (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request
      .on('error', () => {})
      .on('close', () => {
        seen.push(request.complete ? inside(request, Buffer.concat(chunks)) : 'a part');
      });
    request.on('end', () => response.end());
  });
  server.emit('connection', socket);
  socket.push(bytes);
  socket.push(null);
  await once(socket, 'close');
  server.close();
  return seen;
}

const readHere = (bytes: Buffer): unknown => {
  const request = readPlainRequest(bytes);
  if (request === undefined) return undefined;
  const { url, headers, body: read } = request;
  return { method: 'POST', url, httpVersion: '1.1', headers, body: read.toString('latin1') };
};

it('reads a request as programs write it, and so does Node', async () => {
  expect(readHere(plain)).toMatchObject({ url: path, body, headers: { 'x-request-id': 'a1', accept: '*/*' } });
  expect(await readByNode(plain)).toEqual([readHere(plain)]);
});

it('reads no part of a request, wherever it was cut, and none with another byte behind it', () => {
  for (let end = 0; end < plain.length; end += 1)
    expect(readPlainRequest(plain.subarray(0, end)), `${end}`).toBe(undefined);
  for (const more of ['\r\n', '\0', 'GET / HTTP/1.1\r\n\r\n']) {
    expect(readPlainRequest(Buffer.concat([plain, Buffer.from(more)]))).toBe(undefined);
  }
});

test.each<[string, Buffer]>([
  ['by another method', write([`GET ${path} HTTP/1.1`, ...lines])],
  ['by a method in small letters', write([`post ${path} HTTP/1.1`, ...lines])],
  ['in HTTP/1.0', write([`POST ${path} HTTP/1.0`, ...lines])],
  ['without a host', write([first, ...lines.slice(1)])],
  ['with a name twice', write([first, ...lines, 'Accept: text/html'])],
  ['with a length twice', write([first, ...lines, `content-length: ${body.length}`])],
  ['with a body in chunks', write([first, ...lines, 'Transfer-Encoding: chunked'])],
  ['that expects something', write([first, ...lines, 'Expect: 100-continue'])],
  ['that would change the protocol', write([first, ...lines, 'Upgrade: h2c'])],
  ['with a connection for something else', write([first, ...lines.with(1, 'Connection: Upgrade')])],
  ['with a cookie', write([first, ...lines, 'Cookie: a=b'])],
  ["with a proxy's word", write([first, ...lines, 'X-Forwarded-For: 10.0.0.1'])],
  ['with a header that nobody knows', write([first, ...lines, 'X-Y: z'])],
  ['with a folded line', write([first, ...lines, ' folded'])],
  ['with a space before the colon', write([first, ...lines.with(0, 'Host : ringfence')])],
  ['with a tab', write([first, ...lines.with(0, 'Host:\tringfence')])],
  ['with an empty value', write([first, ...lines.with(0, 'Host:')])],
  ['with a line without a colon', write([first, ...lines, 'Accept'])],
  ['with lone line feeds', Buffer.from(plain.toString('latin1').replaceAll('\r\n', '\n'))],
  ['with a lone carriage return', write([first, ...lines.with(0, 'Host: a\rAccept: b')])],
  ['with a lone line feed in a value', write([first, ...lines.with(0, 'Host: a\nAccept: b')])],
  ['with a zero byte', write([first, ...lines.with(0, 'Host: a\0')])],
  ['with a byte beyond ASCII', write([first, ...lines.with(0, 'Host: \u00e4')])],
  ['with a length in another form', write([first, ...lines.with(6, 'Content-Length: +19')])],
  ['with a length with a zero before it', write([first, ...lines.with(6, 'Content-Length: 019')])],
  ['with two lengths in one line', write([first, ...lines.with(6, 'Content-Length: 19, 19')])],
  ['of another type', write([first, ...lines.with(3, 'Content-Type: text/plain')])],
  ['without a body', write([first, ...lines.with(6, 'Content-Length: 0')], '')],
  ['after an empty line', Buffer.concat([Buffer.from('\r\n'), plain])],
  ['that is long', write([first, ...lines, `User-Agent: ${'x'.repeat(8_192)}`])],
])('leaves a request %s to Node', (_, bytes) => {
  expect(readPlainRequest(bytes)).toBe(undefined);
});

it('reads whatever one changed, missing or added byte leaves plain exactly as Node does', async () => {
  const odd = [...'\0\t\n\r :,;/\\%=x9{"'].map((one) => one.charCodeAt(0)).concat(0x7f, 0x80, 0xff);
  const mutants = [...plain.keys()].flatMap((at) => [
    Buffer.concat([plain.subarray(0, at), plain.subarray(at + 1)]),
    ...odd.flatMap((byte) => [
      Buffer.concat([plain.subarray(0, at), Buffer.from([byte]), plain.subarray(at + 1)]),
      Buffer.concat([plain.subarray(0, at), Buffer.from([byte]), plain.subarray(at)]),
    ]),
  ]);
  const read = mutants.filter((mutant) => readPlainRequest(mutant) !== undefined);
  expect(read.length).toBeGreaterThan(500);
  expect(read.length).toBeLessThan(mutants.length / 2);
  for (const mutant of read) expect(await readByNode(mutant), mutant.toString('latin1')).toEqual([readHere(mutant)]);
});
