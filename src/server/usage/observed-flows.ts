/** Owns the walk over the traffic that agents observed: sums of some devices in a window of time, newest first and bounded, and what of that time was observed. */
import { defaultAgentSettings } from '../../api/organization.ts';
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { SlicedWork } from '../scheduling/time-slices.ts';
import { readFlowCursor, type FlowCoverage, type FlowQuery, type StoredFlow } from '../store/data/flows.ts';
import type { Store } from '../store/open.ts';
import { ObservedShare, observedTime, type ObservedDevice, type ObservedTraffic } from './observed-time.ts';

export interface ObservedFlowsOptions {
  readonly store: Pick<Store, 'flows' | 'devices' | 'organizations'>;
  readonly slices: SlicedWork;
}

/** Times are in milliseconds since the epoch. */
export interface ObservedWindow extends Pick<FlowQuery, 'devices' | 'verdict'> {
  readonly org: OrganizationId;
  readonly since: number;
  readonly until: number;
}

/** Different sums that one request holds. Where there are more, the window begins later. */
const mostSums = 50_000;
const flowsAtOnce = 5_000;
const devicesAtOnce = 256;
/** Sums that one request looks at. Where there are more, the window begins later. */
const mostFlows = 400_000;
/** Pages that one request goes through: they may be empty. */
const mostPages = 200;
const dayMs = 86_400_000;

export const trafficKey = ({ direction, verdict, family, far, protocol, port }: StoredFlow): string =>
  `${direction} ${verdict} ${family} ${far} ${protocol} ${port}`;

/** Two sums of the same traffic as one. */
export const addUp = (a: StoredFlow, b: StoredFlow): StoredFlow => ({
  ...a,
  packets: a.packets + b.packets,
  since: a.since < b.since ? a.since : b.since,
  until: a.until > b.until ? a.until : b.until,
});

export const byPackets = (a: StoredFlow, b: StoredFlow): number =>
  b.packets - a.packets || (a.until < b.until ? 1 : a.until > b.until ? -1 : 0) || (a.device_id < b.device_id ? -1 : 1);

/** Adds up the wanted traffic of each device, and counts the packets of all traffic. */
export class TrafficSums {
  readonly packets = { admitted: 0, refused: 0 };
  readonly #sums = new Map<string, StoredFlow>();

  get sums(): readonly StoredFlow[] {
    return [...this.#sums.values()];
  }

  /** False where there is no room for it. */
  add(flow: StoredFlow, isWanted: boolean): boolean {
    if (isWanted) {
      const key = `${flow.device_id} ${trafficKey(flow)}`;
      const known = this.#sums.get(key);
      if (known === undefined && this.#sums.size >= mostSums) return false;
      this.#sums.set(key, known === undefined ? flow : addUp(known, flow));
    }
    this.packets[flow.verdict] += flow.packets;
    return true;
  }
}

/**
 * Gives every sum of the window to `take`, which may end the walk with `false`. The answer is the time from which on everything was looked at: that of
 * the window, or a later one where the walk ended before.
 */
export async function eachFlow(
  { store, slices }: ObservedFlowsOptions,
  { org, since, until, ...filter }: ObservedWindow,
  take: (flow: StoredFlow) => boolean,
): Promise<number> {
  let after: string | undefined;
  let looked = 0;
  let pages = 0;
  let endedAt: string | undefined;
  const window = { since: new Date(since).toISOString(), until: new Date(until).toISOString() };
  while (filter.devices?.length !== 0) {
    const { flows, next } = await store.flows.page(org, { ...filter, ...window, limit: flowsAtOnce, after });
    await slices.each(flows, (flow) => {
      if (endedAt === undefined && !take(flow)) endedAt = flow.until;
    });
    looked += flows.length;
    pages += 1;
    if (endedAt === undefined && next === undefined) return since;
    if (endedAt === undefined && looked >= mostFlows) endedAt = flows.at(-1)?.until ?? '';
    if (endedAt === undefined && next !== undefined && pages === mostPages) endedAt = readFlowCursor(next)?.until ?? '';
    // What is older was not looked at: the window begins where the newest of it ends.
    if (endedAt !== undefined) return Math.max(since, Date.parse(endedAt) || until);
    after = next;
  }
  return since;
}

/** What of a window was observed. */
export interface ObservedCoverage {
  /** Packets that agents counted and did not record. */
  readonly not_recorded: number;
  /** Days of all devices together, from when each was registered. */
  readonly device_days: number;
  /** The share of the time from then on that was observed, from 0 to 1. */
  readonly share: (from: number, observed: ObservedTraffic) => Promise<number>;
}

/** The devices of a window, and its times. */
export interface CoverageWindow extends Pick<ObservedWindow, 'org' | 'since' | 'until'> {
  readonly devices: readonly DeviceId[];
}

/** When each of the devices was registered. */
export async function registeredAt(
  { store }: { readonly store: Pick<Store, 'devices'> },
  { org, devices }: Pick<CoverageWindow, 'org' | 'devices'>,
): Promise<readonly ObservedDevice[]> {
  const found: ObservedDevice[] = [];
  for (let from = 0; from < devices.length; from += devicesAtOnce) {
    for (const { record } of await store.devices.find(org, devices.slice(from, from + devicesAtOnce)))
      found.push({ id: record.id, createdAt: Date.parse(record.created_at) });
  }
  return found;
}

/** What each device observed on each day. It is read of some devices at a time: a large answer would hold the event loop. */
export async function coverageByDevice(
  source: Pick<Store['flows'] | Store['ruleUsage'], 'coverage'>,
  slices: SlicedWork,
  { org, devices, since }: Omit<CoverageWindow, 'until'>,
): Promise<ReadonlyMap<DeviceId, FlowCoverage[]>> {
  const found = new Map<DeviceId, FlowCoverage[]>();
  const from = new Date(since).toISOString();
  for (let first = 0; first < devices.length; first += devicesAtOnce) {
    const rows = await source.coverage(org, from, devices.slice(first, first + devicesAtOnce));
    await slices.each(rows, (row) => {
      const known = found.get(row.device_id);
      if (known === undefined) found.set(row.device_id, [row]);
      else known.push(row);
    });
  }
  return found;
}

export async function coverageOf(options: ObservedFlowsOptions, window: CoverageWindow): Promise<ObservedCoverage> {
  const { since, until } = window;
  const covered = await coverageByDevice(options.store.flows, options.slices, window);
  const registered = await registeredAt(options, window);
  const settings = (await options.store.organizations.settings(window.org)) ?? defaultAgentSettings;
  let not_recorded = 0;
  await options.slices.each(covered.values(), (rows) => {
    for (const row of rows) not_recorded += row.not_recorded;
  });
  return {
    not_recorded,
    device_days: Math.round((observedTime(registered, since, until) / dayMs) * 100) / 100,
    share: async (from, observed) => {
      const sum = new ObservedShare({ from, until, observed }, settings);
      await options.slices.each(registered, (device) => sum.add(device, covered.get(device.id) ?? []));
      return sum.value;
    },
  };
}
