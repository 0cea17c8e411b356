/** Owns the list of observed traffic: who with whom, how often, and which rule decides. */
import type { Flow } from '../../api/flows/flow.ts';
import { serviceNamed } from '../../policy/services.ts';
import { flowTraffic, reasonText } from '../../client/words/flow.ts';
import { allDevices, deviceName, pickDevice } from '../lookup/device.ts';
import { farWords } from '../lookup/flow-words.ts';
import type { Session } from '../session/session.ts';
import { usageError } from '../terminal/exit.ts';
import { idColumn, renderTable } from '../terminal/table.ts';
import { readPastTime, shortTime } from '../terminal/time.ts';
import { follow } from './follow.ts';

export interface FlowsOptions {
  readonly device?: string;
  readonly refused?: boolean;
  readonly admitted?: boolean;
  readonly direction?: Flow['direction'];
  readonly far?: string;
  readonly protocol?: string;
  readonly port?: string;
  readonly since: string;
  readonly until?: string;
  readonly limit: string;
  readonly follow?: boolean;
}

const mostLines = 10_000;

function readNumber(text: string, option: string, most: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value <= most)) throw usageError(`${option} must be a number up to ${most}: ${text}`);
  return value;
}

const timeOf = (text: string): string => new Date(readPastTime(text, Date.now())).toISOString();

/** Why there may be nothing to show, by what agents are asked to record. */
const emptyWords = {
  off: '`ringfence org edit ORG --observe refused` or `all` asks agents to record it.',
  counters: '`ringfence org edit ORG --observe refused` or `all` asks agents to record it.',
  refused: 'Agents record refused traffic only, and report it once a minute.',
  all: 'Agents record all traffic, and report it once a minute.',
} as const;

async function noTraffic(session: Session): Promise<string> {
  const { observe } = await (await session.client()).organizations.get(await session.organization());
  return `No traffic was recorded. ${emptyWords[observe ?? 'counters']}\n`;
}

export async function flows(session: Session, argument: string | undefined, options: FlowsOptions): Promise<void> {
  const text = argument ?? options.device;
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
    ...(port !== undefined && { port: serviceNamed(port)?.port ?? readNumber(port, '--port', 65_535) }),
    since: timeOf(since),
    ...(until !== undefined && { until: timeOf(until) }),
    limit,
  };
  if (options.follow === true) return follow(session, query);
  const found: Flow[] = [];
  for await (const flow of (await session.client()).flows.each(await session.organization(), query)) {
    found.push(flow);
    if (found.length === limit) break;
  }
  const none = found.length === 0 && session.isForPeople ? await noTraffic(session) : '';
  await session.print({
    data: found,
    ids: found.map(({ device_id }) => device_id),
    table: (layout) =>
      found.length === 0
        ? none
        : renderTable(
            [
              { head: 'UNTIL', text: ({ until: end }) => shortTime(end), whole: true },
              { head: 'DEVICE', text: ({ hostname = '', device_id }) => deviceName({ hostname, id: device_id }) },
              { head: 'VERDICT', text: ({ verdict }) => verdict, whole: true },
              { head: 'FAR END', text: farWords },
              { head: 'TRAFFIC', text: flowTraffic },
              { head: 'PACKETS', text: ({ packets }) => String(packets), align: 'right' },
              { head: 'RULE', text: (flow) => reasonText(flow) },
              { ...idColumn<Flow>('ID', ({ device_id }) => device_id, layout), wide: true },
            ],
            found,
            layout,
          ),
  });
}
