/** Owns the walk over the traffic that agents observed: sums of some devices in a window of time, newest first and bounded, and what of that time was observed. */
import type { DeviceId, OrganizationId } from '../../policy/ids.ts';
import type { TimeSlices } from '../scheduling/time-slices.ts';
import type { StoredFlow } from '../store/contract/flows/flows.ts';
import type { Store } from '../store/contract/store.ts';
import { observedShare, observedTime, type ObservedOnDay } from './observed-time.ts';
import { byDevice, registeredAt } from './usage.ts';

export interface ObservedFlowsOptions {
  readonly store: Pick<Store, 'flows' | 'devices'>;
  readonly slices: TimeSlices;
}

/** Times are in milliseconds since the epoch. */
export interface ObservedWindow {
  readonly org: OrganizationId;
  readonly devices: readonly DeviceId[];
  readonly since: number;
  readonly until: number;
}

/** Different sums that one request holds. Where there are more, the window begins later. */
export const mostSums = 50_000;
const flowsAtOnce = 5_000;
/** Sums that one request looks at. Where there are more, the window begins later. */
const mostFlows = 400_000;
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

/**
 * Gives every sum of the window to `take`, which may end the walk with `false`. The answer is the time from which on everything was looked at: that of
 * the window, or a later one where the walk ended before.
 */
export async function eachFlow(
  { store, slices }: ObservedFlowsOptions,
  { org, devices, since, until }: ObservedWindow,
  take: (flow: StoredFlow) => boolean,
): Promise<number> {
  let after: string | undefined;
  let looked = 0;
  let endedAt: string | undefined;
  while (devices.length > 0) {
    const { flows, next } = await store.flows.page(org, {
      devices,
      since: new Date(since).toISOString(),
      until: new Date(until).toISOString(),
      limit: flowsAtOnce,
      ...(after !== undefined && { after }),
    });
    await slices.each(flows, (flow) => {
      if (endedAt === undefined && !take(flow)) endedAt = flow.until;
    });
    looked += flows.length;
    if (endedAt === undefined && next === undefined) return since;
    if (endedAt === undefined && looked >= mostFlows) endedAt = flows.at(-1)?.until ?? '';
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
  readonly share: (from: number, observed: ObservedOnDay) => number;
}

export async function coverageOf(
  { store }: ObservedFlowsOptions,
  { org, devices, since, until }: ObservedWindow,
): Promise<ObservedCoverage> {
  const rows = await store.flows.coverage(org, new Date(since).toISOString(), devices);
  const registered = await registeredAt({ store }, org, devices);
  const covered = byDevice(rows);
  return {
    not_recorded: rows.reduce((sum, row) => sum + row.not_recorded, 0),
    device_days: Math.round((observedTime(registered, since, until) / dayMs) * 100) / 100,
    share: (from, observed) => observedShare(registered, covered, { from, until, observed }),
  };
}
