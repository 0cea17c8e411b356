/** The shared worker's entry: every page of this browser that shows our pages connects here. */
import { SharedStreams, type PageMessage } from './shared-streams.ts';

const streams = new SharedStreams({ graceTicks: 2 });

addEventListener('connect', (event) => {
  const [port] = (event as MessageEvent).ports;
  if (port === undefined) return;
  const take = streams.connect((message) => port.postMessage(message));
  port.addEventListener('message', ({ data }) => take(data as PageMessage));
  port.start();
});
