/**
 * Owns the traffic inside a lab device: listen, connect and send, requested by lines on stdin (`{"id": 1, "request": {…}}`)
 * with one answer each (`{"id": 1, "answer": "open"}`). It is a program of its own, in plain JavaScript: every device runs one.
 */
import { createSocket } from 'node:dgram';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';

/** @import { Socket } from 'node:net' */
/** @import { TrafficRequest, TrafficResult } from './device.ts' */

/** @type {Map<string, Socket>} */
const connections = new Map();

/** @param {Error} error */
const codeOf = (error) => ('code' in error && typeof error.code === 'string' ? error.code : error.message);

/**
 * What comes first: an answer, or the end of the time.
 * @param {number} timeoutMs
 * @param {(answer: (text: string) => void) => () => void} work
 * @returns {Promise<TrafficResult>}
 */
function firstAnswer(timeoutMs, work) {
  return new Promise((resolve) => {
    let clean = () => {};
    const timer = setTimeout(() => done(''), timeoutMs);
    /** @param {string} text */
    const done = (text) => {
      clearTimeout(timer);
      resolve(text === '' ? 'closed' : text);
      clean();
    };
    clean = work(done);
  });
}

/**
 * @param {'tcp' | 'udp'} protocol
 * @param {number} port
 * @returns {Promise<TrafficResult>}
 */
function serve(protocol, port) {
  return new Promise((resolve) => {
    /** @param {Error} error */
    const fail = (error) => resolve(codeOf(error));
    if (protocol === 'tcp') {
      createServer((socket) => socket.on('error', () => {}).pipe(socket))
        .on('error', fail)
        .listen(port, '::', () => resolve('open'));
      return;
    }
    const socket = createSocket('udp6');
    socket.on('message', (message, from) => socket.send(message, from.port, from.address, () => {}));
    socket.on('error', fail).bind(port, '::', () => resolve('open'));
  });
}

/** @param {TrafficRequest & { do: 'probe' }} request */
function probeTcp({ address, port, timeoutMs, localPort, size = 1 }) {
  return firstAnswer(timeoutMs, (answer) => {
    let heard = 0;
    const socket = connect({ host: address, port, ...(localPort === undefined ? {} : { localPort }) }, () =>
      socket.write(Buffer.alloc(size, 0x2a)),
    );
    socket.on('data', (part) => {
      heard += part.length;
      if (heard >= size) answer('open');
    });
    socket.on('error', (error) => answer(codeOf(error)));
    return () => socket.destroy();
  });
}

/** @param {TrafficRequest & { do: 'probe' }} request */
function probeUdp({ address, port, timeoutMs, localPort = 0, size = 1 }) {
  return firstAnswer(timeoutMs, (answer) => {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', () => answer('open'));
    // What a closed outbound direction answers to a datagram is no failure of ours: nothing comes back.
    socket.on('error', (error) => answer(codeOf(error) === 'EPERM' ? '' : codeOf(error)));
    socket.bind(localPort, () => socket.send(Buffer.alloc(size, 0x2a), port, address, () => {}));
    return () => socket.close();
  });
}

/** @param {TrafficRequest & { do: 'connect' }} request */
function open({ name, address, port, timeoutMs }) {
  return firstAnswer(timeoutMs, (answer) => {
    const socket = connect({ host: address, port, noDelay: true }, () => answer('open'));
    socket.on('error', (error) => answer(codeOf(error)));
    socket.on('close', () => connections.delete(name));
    connections.set(name, socket);
    return () => {};
  });
}

/** @param {TrafficRequest & { do: 'echo' }} request */
function exchange({ name, timeoutMs }) {
  return firstAnswer(timeoutMs, (answer) => {
    const socket = connections.get(name);
    if (socket === undefined) {
      answer('closed');
      return () => {};
    }
    const onData = () => answer('open');
    const onClose = () => answer('closed');
    socket.once('data', onData).once('close', onClose);
    socket.write('?');
    return () => socket.off('data', onData).off('close', onClose);
  });
}

/**
 * @param {TrafficRequest} request
 * @returns {Promise<TrafficResult>}
 */
function perform(request) {
  switch (request.do) {
    case 'serve':
      return serve(request.protocol, request.port);
    case 'probe':
      return request.protocol === 'tcp' ? probeTcp(request) : probeUdp(request);
    case 'connect':
      return open(request);
    case 'echo':
      return exchange(request);
    default:
      return Promise.resolve('no such request');
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, request } = JSON.parse(line);
  void perform(request).then((answer) => process.stdout.write(`${JSON.stringify({ id, answer })}\n`));
}
process.exit(0);
