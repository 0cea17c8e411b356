/**
 * Owns a burst of datagrams: three to each port of a range, then one to each of another, without a pause. Runs inside a namespace.
 * Arguments: an address of IPv4, then `first-last` twice. It calls the system itself, so that nothing of Node runs in between.
 */
import koffi from 'koffi';

const libc = koffi.load('libc.so.6');
const socket = libc.func('int socket(int domain, int type, int protocol)');
const sendto = libc.func(
  'long sendto(int fd, const void *data, ulong length, int flags, const void *address, uint addressLength)',
);
const AF_INET = 2;
const SOCK_DGRAM = 2;

const [to = '', ...ranges] = process.argv.slice(2);
const [thrice, once] = ranges.map((range) => range.split('-').map(Number));
const payload = Buffer.from('x');
const address = Buffer.alloc(16);
address.writeUInt16LE(AF_INET, 0);
address.set(to.split('.').map(Number), 4);

/**
 * @param {number} fd
 * @param {readonly number[] | undefined} range
 */
function send(fd, [first = 1, last = 0] = []) {
  for (let port = first; port <= last; port += 1) {
    address.writeUInt16BE(port, 2);
    sendto(fd, payload, payload.length, 0, address, address.length);
  }
}

const sockets = [1, 2, 3].map(() => socket(AF_INET, SOCK_DGRAM, 0));
for (const fd of sockets) send(fd, thrice);
send(sockets[0] ?? -1, once);
