/**
 * Sends UDP without a pause until its input ends, then says how many packets it sent. Runs inside a namespace.
 * Arguments: destinations written `address,port`. Nothing ever answers, so each packet is the first of its connection.
 */
import { createSocket } from 'node:dgram';

const destinations = process.argv.slice(2).map((text) => {
  const [address = '', port = ''] = text.split(',');
  return { address, port: Number(port), socket: createSocket(address.includes(':') ? 'udp6' : 'udp4') };
});
const payload = Buffer.from('flood');
let sent = 0;
let stopped = false;
process.stdin.resume().on('end', () => (stopped = true));

/** A burst, then a look at the input. A packet that a filter refuses on its way out fails; that is what it is sent for. */
function burst() {
  if (stopped) {
    for (const { socket } of destinations) socket.close();
    process.stdout.write(`${sent}\n`);
    return;
  }
  for (let i = 0; i < 32; i++) {
    for (const { socket, address, port } of destinations) {
      socket.send(payload, port, address, () => {});
      sent++;
    }
  }
  setImmediate(burst);
}
burst();
