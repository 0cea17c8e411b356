/** Owns real conversations: runs inside a namespace, as a server that echoes or as a client that asks once. */
import { createSocket } from 'node:dgram';
import { connect, createServer } from 'node:net';

const [role, protocol, address = '', portText = '', sizeText = '5', localText = '0'] = process.argv.slice(2);
const port = Number(portText);
const size = Number(sizeText);
const localPort = Number(localText);
const datagram = address.includes(':') ? 'udp6' : 'udp4';

/** @param {string} text */
function say(text) {
  process.stdout.write(`${text}\n`);
}

/** The client's last word. @param {string} text */
function end(text) {
  process.stdout.write(`${text}\n`, () => process.exit(0));
}

function serve() {
  if (protocol === 'tcp') {
    createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(port, address, () => say('ready'));
    return;
  }
  const socket = createSocket(datagram);
  socket.on('message', (message, from) => socket.send(message, from.port, from.address));
  socket.bind(port, address, () => say('ready'));
}

function ask() {
  // Only a bound: the silence of a dropped packet is proven elsewhere, by what the kernel noted.
  setTimeout(() => end('silent'), 10_000);
  const message = Buffer.alloc(size, 0x2a);
  if (protocol === 'tcp') {
    let heard = 0;
    const socket = connect({ host: address, port, ...(localPort > 0 ? { localPort } : {}) }, () =>
      socket.write(message),
    );
    socket.on('data', (part) => {
      heard += part.length;
      if (heard >= size) end('answered');
    });
    socket.on('error', (error) => end(error.message));
    return;
  }
  const socket = createSocket(datagram);
  socket.on('message', (answer) => end(answer.length === size ? 'answered' : `answered ${answer.length} bytes`));
  socket.on('error', (error) => end(error.message));
  socket.bind(localPort, () => {
    socket.send(message, port, address, (error) => {
      if (error) end(error.message);
    });
  });
}

if (role === 'serve') serve();
else ask();
