/**
 * Owns the floor of Node: the least that a program can do to send the same bytes to N sockets which has no code of its own under Node. It has no HTTP, no database,
 * no streams to choose from and nothing to count: one `socket.write` for each socket of a list.
 *
 *   node floor.mjs PORT STREAMS [tls CERTIFICATE KEY]
 *
 * It speaks as `floor.c` does: "send K SIZE" and "stamped SIZE STAMP…", answered by "sent BEGAN ENDED".
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { createServer as createSecureServer } from 'node:tls';

const head = Buffer.from('HTTP/1.1 200 OK\r\n\r\n"tail"\n');
const [port = 0] = process.argv.slice(2).map(Number);
const [, , , , security, cert = '', key = ''] = process.argv;
const now = () => process.hrtime.bigint();

/** @type {import('node:net').Socket[]} */
const sockets = [];

/** @type {(bytes: Buffer) => Promise<void>} */
async function sendAll(bytes) {
  const last = sockets.at(-1);
  if (last === undefined) return;
  for (const socket of sockets) if (socket !== last) socket.write(bytes);
  await new Promise((resolve) => last.write(bytes, resolve));
}

/** A document as our server frames it: an HTTP chunk with one line, which holds the marker. @type {(size: number, stamp: string) => string} */
function documentOf(size, stamp) {
  const line = `{"type":"change","value":"@@${stamp.padStart(16, '0')}`;
  return `${size.toString(16)}\r\n${line.padEnd(size - 3, 'x')}"}\n\r\n`;
}

/** @type {(line: string) => string | undefined} */
function documentsOf(line) {
  const [word, ...rest] = line.split(' ');
  if (word === 'send') {
    const [count = 0, size = 0] = rest.map(Number);
    return Array.from({ length: count }, () => documentOf(size, now().toString(16))).join('');
  }
  if (word !== 'stamped') return undefined;
  const [size = '0', ...stamps] = rest;
  return stamps.map((stamp) => documentOf(Number(size), stamp)).join('');
}

let work = Promise.resolve();
createInterface({ input: process.stdin }).on('line', (line) => {
  work = work.then(async () => {
    const documents = documentsOf(line);
    if (documents === undefined) return;
    const bytes = Buffer.from(documents, 'latin1');
    const began = now();
    await sendAll(bytes);
    console.log(`sent ${began} ${now()}`);
  });
});

/** @type {(socket: import('node:net').Socket) => void} */
function serve(socket) {
  socket.setNoDelay(true);
  socket.once('data', () => {
    socket.on('data', () => {});
    sockets.push(socket);
    socket.write(head);
  });
  socket.on('error', () => {});
}

const server =
  security === 'tls'
    ? createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) }, serve)
    : createServer(serve);
server.listen(port, '127.0.0.1', 4_096, () => console.log('listening'));
