/** Owns the list of observed traffic: who with whom, how often, and which rule decides. */
import type { Flow } from '../../api/flows/flow.ts';
import { ruleText } from '../../client/words/rule.ts';
import type { Direction } from '../../policy/rule.ts';
import { allDevices, deviceName, pickDevice } from '../lookup/device.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { idColumn, renderTable } from '../terminal/table.ts';
import { readPastTime, shortTime } from '../terminal/time.ts';

export interface FlowsOptions {
  readonly refused?: boolean;
  readonly admitted?: boolean;
  readonly direction?: Flow['direction'];
  readonly far?: string;
  readonly protocol?: string;
  readonly port?: string;
  readonly since: string;
  readonly until?: string;
  readonly limit: string;
}

const mostLines = 10_000;

function readNumber(text: string, option: string, most: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= most)) throw usageError(`${option} must be a number up to ${most}: ${text}`);
  return value;
}

const timeOf = (text: string): string => new Date(readPastTime(text, Date.now())).toISOString();

const directions: { readonly [D in Flow['direction']]: Direction } = { in: 'inbound', out: 'outbound' };
const fieldWords: Readonly<Record<string, string>> = {
  expires_at: 'it has expired',
  ip_protocol: 'another protocol',
  port: 'another port',
  far: 'another far end',
};

/** Why, in words: the rule, or the nearest one and what does not match. */
function decisionWords({ decision, direction, verdict }: Flow): string {
  if (decision === undefined) return '';
  const words = (one: { readonly group_name: string; readonly rule: Parameters<typeof ruleText>[1] }): string =>
    `${one.group_name}: ${ruleText(directions[direction], one.rule)}`;
  const { rule, nearest, reason } = decision;
  const changed = decision.verdict === verdict ? '' : `now ${decision.verdict}: `;
  if (rule !== undefined) return `${changed}${reason === 'forbid' ? 'forbidden by ' : ''}${words(rule)}`;
  if (nearest === undefined) return `${changed}${reason === 'no-rule' ? 'no rule' : reason.replaceAll('-', ' ')}`;
  return `${changed}nearest is ${words(nearest)} (${nearest.differs.map((field) => fieldWords[field]).join(', ')})`;
}

const farWords = ({ far, far_devices: [first, ...others] }: Flow): string => {
  if (first === undefined) return far;
  const more = others.length === 0 ? '' : ` +${others.length}`;
  return `${deviceName({ hostname: first.hostname, id: first.device_id })}${more} (${far})`;
};

export async function flows(session: Session, text: string | undefined, options: FlowsOptions): Promise<void> {
  const { refused, admitted, direction, far, protocol, port, since, until } = options;
  const limit = Math.max(1, readNumber(options.limit, '--limit', mostLines));
  const devices = text === undefined && far === undefined ? [] : await allDevices(session);
  const isAddress = far !== undefined && /^[\d.:a-f/-]+$/i.test(far) && /[.:]/.test(far);
  const query = {
    ...(text !== undefined && { device_id: pickDevice(devices, text).id }),
    ...(far !== undefined && { far: isAddress ? far : pickDevice(devices, far).id }),
    ...(refused === true && { verdict: 'refused' as const }),
    ...(admitted === true && { verdict: 'admitted' as const }),
    ...(direction && { direction }),
    ...(protocol !== undefined && { protocol }),
    ...(port !== undefined && { port: readNumber(port, '--port', 65_535) }),
    since: timeOf(since),
    ...(until !== undefined && { until: timeOf(until) }),
    limit,
  };
  const found: Flow[] = [];
  for await (const flow of (await session.client()).flows.each(await session.organization(), query)) {
    found.push(flow);
    if (found.length === limit) break;
  }
  await session.print({
    data: found,
    ids: found.map(({ device_id }) => device_id),
    table: (layout) =>
      found.length === 0
        ? 'No traffic was recorded. `ringfence org show` says what agents record (observe).\n'
        : renderTable(
            [
              { head: 'UNTIL', text: ({ until: end }) => shortTime(end), whole: true },
              { head: 'DEVICE', text: ({ hostname = '', device_id }) => deviceName({ hostname, id: device_id }) },
              { head: 'VERDICT', text: ({ verdict }) => verdict, whole: true },
              { head: 'FAR END', text: (flow) => `${flow.direction === 'in' ? 'from' : 'to'} ${farWords(flow)}` },
              { head: 'TRAFFIC', text: (flow) => `${flow.protocol}${flow.port === undefined ? '' : ` ${flow.port}`}` },
              { head: 'PACKETS', text: ({ packets }) => String(packets), align: 'right' },
              { head: 'RULE', text: decisionWords },
              { ...idColumn<Flow>('ID', ({ device_id }) => device_id, layout), wide: true },
            ],
            found,
            layout,
          ),
  });
}
