/**
 * Sends UDP until its input ends: a packet to every destination about once in a millisecond. Runs inside a namespace.
 * Arguments: destinations written `address,port`. Nothing ever answers, so each packet is the first of its connection.
 *
 * It does not send as fast as it can. That would keep every processor busy, so that a sender would be off its processor just while
 * a transaction is on it: a few packets at every moment find more than many at some.
 */
import { createSocket } from 'node:dgram';

const destinations = process.argv.slice(2).map((text) => {
  const [address = '', port = ''] = text.split(',');
  return { address, port: Number(port), socket: createSocket(address.includes(':') ? 'udp6' : 'udp4') };
});
const payload = Buffer.from('flood');

/** A packet that a filter refuses on its way out fails; that is what it is sent for. */
const sending = setInterval(() => {
  for (const { socket, address, port } of destinations) socket.send(payload, port, address, () => {});
}, 1);

process.stdin.resume().on('end', () => {
  clearInterval(sending);
  for (const { socket } of destinations) socket.close();
});
