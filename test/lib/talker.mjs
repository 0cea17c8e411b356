/**
 * Keeps connections open inside a namespace. `serve PORT…` listens, says something on every connection all the time and
 * repeats what it hears; `call ADDRESS PORT [FROM]` connects and says something all the time. Each writes a line to its output
 * for what it hears, and one when a connection ends. Both end with their input.
 */
import { createServer, connect } from 'node:net';

const [mode, ...args] = process.argv.slice(2);
const say = (/** @type {string} */ text) => process.stdout.write(`${text}\n`);
process.stdin.resume().on('end', () => process.exit());

/** @param {import('node:net').Socket} socket */
function keepTalking(socket, /** @type {string} */ name) {
  socket.setNoDelay(true);
  const timer = setInterval(() => socket.write('.'), 20);
  socket.on('data', () => say(`heard ${name}`));
  socket.on('error', (error) => say(`error ${name} ${error.message}`));
  socket.on('close', () => {
    clearInterval(timer);
    say(`closed ${name}`);
  });
}

if (mode === 'serve') {
  for (const port of args) {
    createServer((socket) => keepTalking(socket, `${port} ${socket.remoteAddress}`)).listen(Number(port), '::', () =>
      say(`listening ${port}`),
    );
  }
} else {
  const [address = '', port = '', localAddress] = args;
  const socket = connect({ port: Number(port), host: address, localAddress }, () => say('connected'));
  keepTalking(socket, `${port} ${address}`);
}
