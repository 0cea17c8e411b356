/** Owns the share of device-time that was observed: what agents reported, beside the time in which devices had the group. No effects. */
import type { DeviceId } from '../../policy/ids.ts';
import type { AgentSettings } from '../../api/organization.ts';
import type { FlowCoverage } from '../store/data/flows.ts';

/** A device that has the group, and since when it is registered, in milliseconds since the epoch. */
export interface ObservedDevice {
  readonly id: DeviceId;
  readonly createdAt: number;
  /** What was observed before this does not count; absent: all counts. */
  readonly reportedSince?: number;
}

const dayMs = 86_400_000;
/** An agent reports once a minute, and a report may be late: so long after the last one, nothing counts as missing. */
const graceMs = 180_000;
/** Less is not all: then nothing can be said about what was not seen. */
const fullShare = 0.99;

/** The traffic of interest. */
export interface ObservedTraffic {
  /** How long it was observed on a day, in milliseconds. */
  readonly onDay: (row: FlowCoverage) => number;
  /** The settings with which agents record it. */
  readonly settings: readonly AgentSettings['observe'][];
}

export const observedAll: ObservedTraffic = {
  onDay: ({ all_seconds }) => all_seconds * 1_000,
  settings: ['all'],
};
export const observedRefused: ObservedTraffic = {
  onDay: ({ all_seconds, refused_seconds }) => (all_seconds + refused_seconds) * 1_000,
  settings: ['refused', 'all'],
};

/** The time from `from` to `until` in which the devices were registered, all together, in milliseconds. */
export const observedTime = (devices: readonly ObservedDevice[], from: number, until: number): number =>
  devices.reduce((sum, { createdAt }) => sum + Math.max(0, until - Math.max(from, createdAt)), 0);

/** The time of interest. */
export interface ObservedSpan {
  readonly from: number;
  readonly until: number;
  readonly observed: ObservedTraffic;
}

/** Adds up the observed time of devices, one after the other: a fleet may have many. */
export class ObservedShare {
  readonly #span: ObservedSpan;
  readonly #graceMs: number;
  #seen = 0;
  #all = 0;
  /** Of the device that was observed least. */
  #least = 1;

  /** With the present setting of the organization: where agents do not record the traffic any more, no report is late. */
  constructor(span: ObservedSpan, { observe }: Pick<AgentSettings, 'observe'>) {
    this.#span = span;
    this.#graceMs = span.observed.settings.includes(observe) ? graceMs : 0;
  }

  add({ createdAt, reportedSince = 0 }: Omit<ObservedDevice, 'id'>, rows: readonly FlowCoverage[]): void {
    const { from, until, observed } = this.#span;
    const begins = Math.min(Math.max(from, createdAt), until);
    const span = until - begins;
    const counts = Math.min(Math.max(begins, reportedSince), until);
    let [ofDevice, reportedUntil] = [0, 0];
    for (const row of rows) {
      const day = Date.parse(`${row.day}T00:00:00Z`);
      const through = Date.parse(row.through);
      // A report may tell of time before the device was registered: it says nothing of what came after the report.
      const [first, last] = [Math.max(day, createdAt), Math.min(day + dayMs, until, through)];
      // A day is kept as one number. Of the day in which the time begins, only what cannot be of the hours before counts.
      const before = Math.min(Math.max(0, counts - first), dayMs);
      ofDevice += Math.max(0, Math.min(observed.onDay(row), last - first) - before);
      reportedUntil = Math.max(reportedUntil, through);
    }
    const late = Math.min(this.#graceMs, Math.max(0, until - reportedUntil));
    // Where nothing was reported at all, nothing was observed.
    const seen = ofDevice === 0 ? 0 : Math.min(until - counts, ofDevice + late);
    this.#seen += seen;
    this.#all += span;
    if (span > 0) this.#least = Math.min(this.#least, seen / span);
  }

  /** From 0 to 1. Without any device it is 0: nothing was observed. */
  get value(): number {
    return this.#all === 0 ? 0 : Math.min(1, this.#seen / this.#all);
  }

  /** Whether each of the devices was observed: one among many that was not may be the one that has the traffic. */
  get isFull(): boolean {
    return this.#all > 0 && this.#least >= fullShare;
  }
}
