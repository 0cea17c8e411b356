/** Sends a UDP packet to each destination every other millisecond until it is killed. Arguments: `address,port`. */
import { createSocket } from 'node:dgram';

const socket = createSocket('udp4');
const destinations = process.argv.slice(2).map((text) => text.split(','));
setInterval(() => {
  // What the filter refuses on its way is what it is sent for.
  for (const [address, port] of destinations) socket.send('ringfence', Number(port), address, () => {});
}, 2);
