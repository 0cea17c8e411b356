/** Owns which traffic the page shows: filters from the URL, the question to the server that they mean, and sums of the same traffic as one row. */
import { readSearch } from '../state/search.ts';
import type { Flow, FlowQuery } from '../../api/flows/flow.ts';
import { parseRange } from '../../policy/address.ts';
import { protocolNumber } from '../../policy/flow/protocol.ts';
import { isUuid } from '../../policy/ids.ts';
import type { DeviceNames } from '../model/far-end.ts';

/** The part of the URL behind the question mark. What is absent does not narrow, but for the verdict: refused traffic is shown first. */
export interface FlowSearch {
  readonly verdict?: 'admitted' | 'all';
  /** The name of a device, an address or a range, as it was typed. */
  readonly far?: string;
  /** Ids. */
  readonly device?: string;
  readonly group?: string;
  readonly direction?: Flow['direction'];
  readonly protocol?: string;
  readonly port?: string;
  /** A span of time until now (`1h`, `7d`), or a local time (`2026-11-18T09:00`). */
  readonly since?: string;
  /** A local time. */
  readonly until?: string;
}

/** What narrows beside the verdict. */
const filterNames = ['far', 'device', 'group', 'direction', 'protocol', 'port', 'since', 'until'] as const;

export const spans = [
  { value: '1h', label: 'Last hour' },
  { value: '24h', label: 'Last 24 hours' },
  { value: '7d', label: 'Last 7 days' },
] as const;

const localTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d$/;
const isTime = (text: string): boolean => localTime.test(text) && !Number.isNaN(Date.parse(text));

const valid: { readonly [Name in keyof FlowSearch]-?: (text: string) => boolean } = {
  verdict: (text) => text === 'admitted' || text === 'all',
  far: (text) => text.length <= 128,
  device: isUuid,
  group: isUuid,
  direction: (text) => text === 'in' || text === 'out',
  protocol: (text) => protocolNumber(text) !== undefined,
  port: (text) => /^\d{1,5}$/.test(text) && Number(text) <= 65_535,
  since: (text) => spans.some(({ value }) => value === text) || isTime(text),
  until: isTime,
};

export const parseFlowSearch = (search: Readonly<Record<string, unknown>>): FlowSearch =>
  readSearch(search, valid) as FlowSearch;

export const isFiltered = (search: FlowSearch): boolean => filterNames.some((name) => search[name] !== undefined);

/** The far end as the server reads it; undefined where the text is neither a device nor an address. */
export function farEndOf(text: string, names: DeviceNames): string | undefined {
  const id = names.idOf(text.trim());
  if (isUuid(id)) return id;
  return 'fault' in parseRange(text.trim()) ? undefined : text.trim();
}

const spanMs: Readonly<Record<string, number>> = { '1h': 3_600_000, '24h': 86_400_000, '7d': 7 * 86_400_000 };

/** When a filter of time begins or ends, in milliseconds since the epoch. */
export const timeOf = (text: string, now: number): number => {
  const span = spanMs[text];
  return span === undefined ? Date.parse(text) : now - span;
};

/** Spans of time count from `now`. Undefined where the far end has no meaning. */
export function flowQuery(search: FlowSearch, names: DeviceNames, now: number): FlowQuery | undefined {
  const { verdict, device, group, direction, protocol, port, since, until } = search;
  const far = search.far === undefined ? undefined : farEndOf(search.far, names);
  if (search.far !== undefined && far === undefined) return undefined;
  const time = (text: string): string => new Date(timeOf(text, now)).toISOString();
  return {
    ...(verdict !== 'all' && { verdict: verdict ?? 'refused' }),
    ...(far !== undefined && { far }),
    ...(device !== undefined && { device_id: device }),
    ...(group !== undefined && { group_id: group }),
    ...(direction !== undefined && { direction }),
    ...(protocol !== undefined && { protocol }),
    ...(port !== undefined && { port: Number(port) }),
    ...(since !== undefined && { since: time(since) }),
    ...(until !== undefined && { until: time(until) }),
  };
}

export interface FlowRow {
  readonly key: string;
  /** The newest sum: its decision and its names. */
  readonly flow: Flow;
  /** Packets of all sums. */
  readonly packets: number;
  /** The beginning of the oldest sum. */
  readonly since: string;
}

const keyOf = ({ device_id, direction, verdict, far, protocol, port }: Flow): string =>
  [device_id, direction, verdict, far, protocol, port].join(' ');

/** From sums with the newest first, rows in the same order. */
export function flowRows(flows: readonly Flow[]): readonly FlowRow[] {
  const rows = new Map<string, FlowRow>();
  for (const flow of flows) {
    const key = keyOf(flow);
    const known = rows.get(key);
    rows.set(
      key,
      known === undefined
        ? { key, flow, packets: flow.packets, since: flow.since }
        : {
            ...known,
            packets: known.packets + flow.packets,
            since: flow.since < known.since ? flow.since : known.since,
          },
    );
  }
  return [...rows.values()];
}
