/**
 * Sends UDP until its input ends: a packet to every destination about once in a millisecond. Runs inside a namespace.
 * Arguments: destinations written `address,port`. Nothing ever answers, so each packet is the first of its connection.
 *
 * It does not send as fast as it can. That would keep every processor busy, so that a sender would be off its processor just while
 * a transaction is on it: a few packets at every moment find more than many at some. And it calls the system itself, which takes half
 * the processor time of Node's sockets.
 */
import koffi from 'koffi';

const libc = koffi.load('libc.so.6');
const socket = libc.func('int socket(int domain, int type, int protocol)');
const inetPton = libc.func('int inet_pton(int family, const char *text, void *address)');
const sendto = libc.func(
  'long sendto(int fd, const void *data, ulong length, int flags, const void *address, uint addressLength)',
);

const SOCK_DGRAM = 2;
const MSG_DONTWAIT = 0x40;
/** How the system writes an address of either family: how long it is, and where in it the address begins. */
const families = { v4: { domain: 2, length: 16, at: 4 }, v6: { domain: 10, length: 28, at: 8 } };

/** @param {string} text */
function open(text) {
  const [host = '', port = ''] = text.split(',');
  const { domain, length, at } = host.includes(':') ? families.v6 : families.v4;
  const address = Buffer.alloc(length);
  address.writeUInt16LE(domain, 0);
  address.writeUInt16BE(Number(port), 2);
  const fd = socket(domain, SOCK_DGRAM, 0);
  if (fd < 0 || inetPton(domain, host, address.subarray(at)) !== 1) throw new Error(`cannot send to ${text}`);
  return { fd, address };
}

const destinations = process.argv.slice(2).map(open);
const payload = Buffer.from('flood');

/** A packet that a filter refuses on its way out fails; that is what it is sent for. */
const sending = setInterval(() => {
  for (const { fd, address } of destinations) {
    sendto(fd, payload, payload.length, MSG_DONTWAIT, address, address.length);
  }
}, 1);

process.stdin.resume().on('end', () => clearInterval(sending));
