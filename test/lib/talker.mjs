/**
 * Keeps connections open inside a namespace, for as long as that lasts: reads what to do as lines of JSON with a number each. `serve`
 * listens, says something on every connection all the time and repeats what it hears; `call` connects and says something all the time;
 * `end` closes a connection of `call`. By UDP a server says something all the time to everybody whom it has ever heard. It writes a line with the number for whatever is heard, and one when a connection ends.
 */
import { createSocket } from 'node:dgram';
import { createServer, connect } from 'node:net';
import { createInterface } from 'node:readline';

/** @typedef {{number: number, do: 'serve' | 'call' | 'end', ports: number[], address: string, port: number, from?: string, protocol?: 'udp'}} Order */

/** @type {Map<number, import('node:net').Socket>} */
const calls = new Map();

/**
 * @param {import('node:net').Socket} socket
 * @param {(text: string) => void} say
 */
function keepTalking(socket, /** @type {string} */ name, say) {
  socket.setNoDelay(true);
  const timer = setInterval(() => socket.write('.'), 20);
  socket.on('data', () => say(`heard ${name}`));
  socket.on('error', (error) => say(`error ${name} ${error.message}`));
  socket.on('close', () => {
    clearInterval(timer);
    say(`closed ${name}`);
  });
}

/** @param {import('node:dgram').Socket} socket */
function keepSending(socket, /** @type {number} */ port, /** @type {string} */ address) {
  // What a filter refuses on its way out fails; the far end is to see that.
  const timer = setInterval(() => socket.send('.', port, address, () => {}), 20);
  socket.on('close', () => clearInterval(timer));
}

/** Serves, or calls, by UDP. @param {Order} order @param {(text: string) => void} say */
function talkByDatagrams({ do: verb, ports, address, port }, say) {
  if (verb === 'call') {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    socket.on('message', () => say(`heard ${port} ${address}`));
    socket.bind(0, () => keepSending(socket, port, address));
    return;
  }
  for (const each of ports) {
    const [socket, known] = [createSocket('udp6'), new Set()];
    socket.on('message', (_, from) => {
      say(`heard ${each} ${from.address}`);
      const name = `${from.address} ${from.port}`;
      if (!known.has(name)) keepSending(socket, from.port, from.address);
      known.add(name);
    });
    socket.on('error', (error) => say(`error ${each} ${error.message}`));
    socket.bind(each, '::', () => say(`listening ${each}`));
  }
}

/**
 * Calls by TCP, as clients do: again where the kernel has not found the neighbour in time, which says nothing about a filter.
 * @param {Order} order
 * @param {(text: string) => void} say
 */
function dial(order, say) {
  const { number, address, port, from } = order;
  const socket = connect({ port, host: address, localAddress: from }, () => say('connected'));
  calls.set(number, socket);
  keepTalking(socket, `${port} ${address}`, say);
  let isUnreachable = false;
  socket.on('error', (/** @type {NodeJS.ErrnoException} */ error) => {
    isUnreachable = error.code === 'EHOSTUNREACH' && error.syscall === 'connect';
  });
  socket.on('close', () => {
    if (isUnreachable && calls.get(number) === socket) dial(order, say);
  });
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const order = /** @type {Order} */ (JSON.parse(line));
  const { number, do: verb, ports } = order;
  const say = (/** @type {string} */ text) => process.stdout.write(`${number} ${text}\n`);
  if (order.protocol === 'udp') talkByDatagrams(order, say);
  else if (verb === 'serve') {
    for (const each of ports) {
      createServer((socket) => keepTalking(socket, `${each} ${socket.remoteAddress}`, say))
        .on('error', (error) => say(`error ${each} ${error.message}`))
        .listen(each, '::', () => say(`listening ${each}`));
    }
  } else if (verb === 'call') {
    dial(order, say);
  } else {
    calls.get(number)?.destroy();
    calls.delete(number);
  }
});
