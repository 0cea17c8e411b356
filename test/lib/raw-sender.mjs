/** Owns raw sending: runs inside a namespace, reads lines of hexadecimal packets, puts each on the interface, answers once per line. */
import { createInterface } from 'node:readline';
import koffi from 'koffi';

const [interfaceName = ''] = process.argv.slice(2);

const libc = koffi.load('libc.so.6');
const socket = libc.func('int socket(int domain, int type, int protocol)');
const setsockopt = libc.func('int setsockopt(int fd, int level, int name, const void *value, uint length)');
const sendto = libc.func(
  'long sendto(int fd, const void *data, ulong length, int flags, const void *address, uint addressLength)',
);
const strerror = libc.func('const char *strerror(int number)');

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_RAW = 3;
const IPPROTO_RAW = 255; // implies that every packet comes with its header, in both families
const SOL_SOCKET = 1;
const SO_BROADCAST = 6;
const SO_BINDTODEVICE = 25;
const EPERM = 1;

/** @param {number} domain */
function open(domain) {
  const fd = socket(domain, SOCK_RAW, IPPROTO_RAW);
  const name = Buffer.from(`${interfaceName}\0`);
  const yes = Buffer.from(new Uint32Array([1]).buffer);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, name.length) < 0)
    throw new Error(`raw socket: ${strerror(koffi.errno())}`);
  setsockopt(fd, SOL_SOCKET, SO_BROADCAST, yes, yes.length);
  return fd;
}

const socket4 = open(AF_INET);
const socket6 = open(AF_INET6);

/** @param {Buffer} packet */
const isIPv4 = (packet) => packet.readUInt8(0) >> 4 === 4;

/**
 * `struct sockaddr_in` or `sockaddr_in6` for the destination that the packet names itself.
 * @param {Buffer} packet
 */
function destination(packet) {
  const v4 = isIPv4(packet);
  const address = Buffer.alloc(v4 ? 16 : 28);
  address.writeUInt16LE(v4 ? AF_INET : AF_INET6, 0);
  packet.copy(address, v4 ? 4 : 8, v4 ? 16 : 24, v4 ? 20 : 40);
  return address;
}

/**
 * An output hook that drops a packet answers EPERM: that is a verdict, not a failure.
 * @param {Buffer} packet
 */
function send(packet) {
  const to = destination(packet);
  const sent = sendto(isIPv4(packet) ? socket4 : socket6, packet, packet.length, 0, to, to.length);
  if (sent === packet.length || koffi.errno() === EPERM) return;
  throw new Error(`${strerror(koffi.errno())} while sending ${packet.toString('hex')}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    const packets = line.split(' ').map((hex) => Buffer.from(hex, 'hex'));
    for (const packet of packets) send(packet);
    process.stdout.write(`sent ${packets.length}\n`);
  } catch (error) {
    process.stdout.write(`failed ${error instanceof Error ? error.message : String(error)}\n`);
  }
}
