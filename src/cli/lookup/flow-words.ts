/** Owns observed traffic in words: the far end, what it was, and the rule that decides or is nearest. */
import type { Flow } from '../../api/flows/flow.ts';
import { ruleText } from '../../client/words/rule.ts';
import type { Direction } from '../../policy/rule.ts';
import { shortTime } from '../terminal/time.ts';
import { deviceName } from './device.ts';

const directions: { readonly [D in Flow['direction']]: Direction } = { in: 'inbound', out: 'outbound' };
const fieldWords: Readonly<Record<string, string>> = {
  expires_at: 'it has expired',
  ip_protocol: 'another protocol',
  port: 'another port',
  far: 'another far end',
};

/** Why, in words: the rule, or the nearest one and what does not match. */
export function decisionWords({ decision, direction, verdict }: Flow): string {
  if (decision === undefined) return '';
  const words = (one: { readonly group_name: string; readonly rule: Parameters<typeof ruleText>[1] }): string =>
    `${one.group_name}: ${ruleText(directions[direction], one.rule)}`;
  const { rule, nearest, reason } = decision;
  const changed = decision.verdict === verdict ? '' : `now ${decision.verdict}: `;
  if (rule !== undefined) return `${changed}${reason === 'forbid' ? 'forbidden by ' : ''}${words(rule)}`;
  if (nearest === undefined) return `${changed}${reason === 'no-rule' ? 'no rule' : reason.replaceAll('-', ' ')}`;
  return `${changed}nearest is ${words(nearest)} (${nearest.differs.map((field) => fieldWords[field]).join(', ')})`;
}

export const farWords = ({ direction, far, far_devices: [first, ...others] }: Flow): string => {
  const word = direction === 'in' ? 'from' : 'to';
  if (first === undefined) return `${word} ${far}`;
  const more = others.length === 0 ? '' : ` +${others.length}`;
  return `${word} ${deviceName({ hostname: first.hostname, id: first.device_id })}${more} (${far})`;
};

export const trafficWords = ({ protocol, port }: Flow): string => `${protocol}${port === undefined ? '' : ` ${port}`}`;

/** One sum on one line. */
export function flowLine(flow: Flow): string {
  const { until, hostname = '', device_id, verdict, packets } = flow;
  const words = decisionWords(flow);
  const count = `${packets} ${packets === 1 ? 'packet' : 'packets'}`;
  const head = `${shortTime(until)} ${deviceName({ hostname, id: device_id })} ${verdict} ${trafficWords(flow)} ${farWords(flow)}, ${count}`;
  return words === '' ? head : `${head}: ${words}`;
}
