/**
 * Owns real conversations: runs inside a namespace for as long as that lasts, reads what to do as lines of JSON with a number each, and
 * answers with lines of the same numbers. It serves echoes, and asks such servers once. One process does all of a namespace: starting
 * a program takes longer than a conversation.
 */
import { createSocket } from 'node:dgram';
import { connect, createServer } from 'node:net';
import { createInterface } from 'node:readline';

/** @typedef {{number: number, role: 'serve' | 'ask', protocol: 'tcp' | 'udp', address: string, port: number, size: number, localPort: number, from?: string, within: number}} Order */

/** @param {string} address */
const datagram = (address) => (address.includes(':') ? 'udp6' : 'udp4');

/**
 * @param {Order} order
 * @param {(text: string) => void} say
 */
function serve({ protocol, address, port }, say) {
  /** @param {Error} error */
  const fail = (error) => say(error.message);
  if (protocol === 'tcp') {
    const server = createServer((socket) => socket.on('error', () => {}).pipe(socket));
    server.on('error', fail).listen(port, address, () => say('ready'));
    return;
  }
  const socket = createSocket(datagram(address));
  // An answer that a filter refuses on its way out fails; the requester notices that itself.
  socket.on('message', (message, from) => socket.send(message, from.port, from.address, () => {}));
  socket.on('error', fail).bind(port, address, () => say('ready'));
}

/**
 * @param {Order} order
 * @param {(text: string) => void} say
 */
function ask({ protocol, address, port, size, localPort, from, within }, say) {
  const message = Buffer.alloc(size, 0x2a);
  let close = () => {};
  /** The first word is the last. @param {string} text */
  const end = (text) => {
    clearTimeout(timer);
    close();
    say(text);
  };
  const silence = () => setTimeout(() => end('silent'), within);
  let timer = silence();
  if (protocol === 'tcp') {
    let attempts = 10;
    const dial = () => {
      let heard = 0;
      const socket = connect({ host: address, port, localAddress: from, ...(localPort > 0 ? { localPort } : {}) }, () =>
        socket.write(message),
      );
      close = () =>
        socket
          .removeAllListeners()
          .on('error', () => {})
          .destroy();
      socket.on('data', (part) => {
        heard += part.length;
        if (heard >= size) end('answered');
      });
      socket.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
        attempts -= 1;
        if (error.code !== 'EHOSTUNREACH' || attempts === 0) return end(error.message);
        // The kernel of a busy machine has not found the neighbour in time, which is not the silence of a filter: a client tries again, and has its time anew.
        clearTimeout(timer);
        timer = silence();
        dial();
      });
    };
    dial();
    return;
  }
  const socket = createSocket(datagram(address));
  close = () =>
    socket
      .removeAllListeners()
      .on('error', () => {})
      .close();
  socket.on('message', (answer) => end(answer.length === size ? 'answered' : `answered ${answer.length} bytes`));
  socket.on('error', (error) => end(error.message));
  socket.bind(localPort, () => {
    socket.send(message, port, address, (error) => {
      if (error) end(error.message);
    });
  });
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const order = /** @type {Order} */ (JSON.parse(line));
  let isOver = false;
  /** @param {string} text */
  const say = (text) => {
    if (!isOver) process.stdout.write(`${order.number} ${text}\n`);
    isOver = true;
  };
  (order.role === 'serve' ? serve : ask)(order, say);
});
