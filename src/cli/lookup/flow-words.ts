/** Owns one line about observed traffic, in the words that the pages use too. */
import type { Flow } from '../../api/flows/flow.ts';
import { flowFarEnd, flowTraffic, reasonText } from '../../client/words/flow.ts';
import { shortTime } from '../terminal/time.ts';
import { deviceName } from './device.ts';

export const farWords = (flow: Flow): string => `${flow.direction === 'in' ? 'from' : 'to'} ${flowFarEnd(flow)}`;

/** One sum on one line. */
export function flowLine(flow: Flow): string {
  const { until, hostname = '', device_id, verdict, packets } = flow;
  const words = reasonText(flow);
  const count = `${packets} ${packets === 1 ? 'packet' : 'packets'}`;
  const head = `${shortTime(until)} ${deviceName({ hostname, id: device_id })} ${verdict} ${flowTraffic(flow)} ${farWords(flow)}, ${count}`;
  return words === '' ? head : `${head}: ${words}`;
}
