/**
 * Keeps connections open inside a namespace, for as long as that lasts: reads what to do as lines of JSON with a number each. `serve`
 * listens, says something on every connection all the time and repeats what it hears; `call` connects and says something all the time;
 * `end` closes a connection of `call`. It writes a line with the number for whatever is heard, and one when a connection ends.
 */
import { createServer, connect } from 'node:net';
import { createInterface } from 'node:readline';

/** @typedef {{number: number, do: 'serve' | 'call' | 'end', ports: number[], address: string, port: number, from?: string}} Order */

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

createInterface({ input: process.stdin }).on('line', (line) => {
  const { number, do: verb, ports, address, port, from } = /** @type {Order} */ (JSON.parse(line));
  const say = (/** @type {string} */ text) => process.stdout.write(`${number} ${text}\n`);
  if (verb === 'serve') {
    for (const each of ports) {
      createServer((socket) => keepTalking(socket, `${each} ${socket.remoteAddress}`, say))
        .on('error', (error) => say(`error ${each} ${error.message}`))
        .listen(each, '::', () => say(`listening ${each}`));
    }
  } else if (verb === 'call') {
    const socket = connect({ port, host: address, localAddress: from }, () => say('connected'));
    calls.set(number, socket);
    keepTalking(socket, `${port} ${address}`, say);
  } else calls.get(number)?.destroy();
});
