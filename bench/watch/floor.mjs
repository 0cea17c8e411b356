/**
 * Owns the floor of Node: the least that a program can do to send the same bytes to N sockets which has no code of its own under Node. It has no HTTP, no database,
 * no streams to choose from and nothing to count, and writes as our server does: from a list of handles, one call each, with one request for all.
 *
 *   node floor.mjs PORT STREAMS [tls CERTIFICATE KEY]
 *
 * With TLS it has no such list: it calls `socket.write` of Node's `tls`, which is what there is.
 *
 * It speaks as `floor.c` does: "send K SIZE" and "stamped SIZE STAMP…", answered by "sent BEGAN ENDED".
 */
import { readFileSync } from 'node:fs';
import { createServer, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { createServer as createSecureServer } from 'node:tls';

/**
 * @typedef {{ getAsyncId(): number, oncomplete?: () => void }} WriteRequest
 * @typedef {{ writeBuffer(request: WriteRequest, bytes: Buffer): number, readStart(): number, setNoDelay(on: boolean): number, onread?: () => void }} Handle
 */

const head = Buffer.from('HTTP/1.1 200 OK\r\n\r\n"tail"\n');
const [port = 0, streams = 0] = process.argv.slice(2).map(Number);
const [, , , , security, cert = '', key = ''] = process.argv;
const now = () => process.hrtime.bigint();

/** What Node makes for each write, learned from one that goes nowhere. */
const requestClass = await new Promise((resolve) => {
  const mute = {
    writeBuffer: (/** @type {WriteRequest} */ request) =>
      (resolve(request.constructor), 0),
    readStart: () => 0,
    readStop: () => 0,
    close: (/** @type {(() => void) | undefined} */ closed) => closed && setImmediate(closed),
  };
  new Socket(/** @type {object} */ ({ handle: mute })).write(Buffer.from('x'));
});
/** @type {() => WriteRequest} */
const newRequest = () => new requestClass();
let spare = newRequest();

/** @type {Handle[]} */
const handles = [];

/** @type {import('node:tls').TLSSocket[]} */
const secured = [];

/** @type {(bytes: Buffer) => Promise<void>} */
async function sendSecured(bytes) {
  const last = secured.pop();
  if (last === undefined) return;
  secured.push(last);
  for (const socket of secured) if (socket !== last) socket.write(bytes);
  await new Promise((resolve) => last.write(bytes, resolve));
}

/** @type {(bytes: Buffer) => Promise<void>} */
async function sendAll(bytes) {
  if (security === 'tls') return sendSecured(bytes);
  /** @type {Promise<void>[]} */
  const waiting = [];
  for (const handle of handles) {
    const status = handle.writeBuffer(spare, bytes);
    if (status !== 0) throw new Error(`a write failed with ${status}`);
    if (spare.getAsyncId() === -1) continue;
    const request = spare;
    spare = newRequest();
    waiting.push(new Promise((resolve) => (request.oncomplete = resolve)));
  }
  await Promise.all(waiting);
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

if (security === 'tls') {
  const server = createSecureServer({ cert: readFileSync(cert), key: readFileSync(key) }, (socket) => {
    socket.setNoDelay(true);
    socket.once('data', () => {
      socket.on('data', () => {});
      secured.push(socket);
      socket.write(head);
    });
    socket.on('error', () => {});
  });
  server.listen(port, '127.0.0.1', 4_096, () => console.log('listening'));
} else listenBare();

function listenBare() {
  const server = createServer();
  server.listen(port, '127.0.0.1', 4_096, () => {
    const { _handle: listening } =
      /** @type {{ _handle: { onconnection: (error: number, handle: Handle) => void } }} */ (
        /** @type {unknown} */ (server)
      );
    listening.onconnection = (_error, handle) => {
      handle.setNoDelay(true);
      handle.onread = () => {
        if (handles.length === streams) return;
        handle.onread = () => {};
        handles.push(handle);
        handle.writeBuffer(newRequest(), head);
      };
      handle.readStart();
    };
    console.log('listening');
  });
}
