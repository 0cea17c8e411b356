/** Owns the share of device-time that was observed: what agents reported, beside the time in which devices had the group. No effects. */
import type { DeviceId } from '../../policy/ids.ts';
import type { FlowCoverage } from '../store/contract/flows/flows.ts';

/** A device that has the group, and since when it is registered, in milliseconds since the epoch. */
export interface ObservedDevice {
  readonly id: DeviceId;
  readonly createdAt: number;
  /** What was observed before this does not count; absent: all counts. */
  readonly judgedSince?: number;
}

const dayMs = 86_400_000;
/** An agent reports once a minute, and a report may be late: the last minutes do not count as missing. */
const graceMs = 180_000;
/** Less is not all: then nothing can be said about what was not seen. */
const fullShare = 0.99;

/** How long the traffic of a device was observed on a day, in milliseconds: only what is of interest counts. */
export type ObservedOnDay = (row: FlowCoverage) => number;

export const observedAll: ObservedOnDay = ({ all_seconds }) => all_seconds * 1_000;
export const observedRefused: ObservedOnDay = ({ all_seconds, refused_seconds }) =>
  (all_seconds + refused_seconds) * 1_000;

/** The time from `from` to `until` in which the devices were registered, all together, in milliseconds. */
export const observedTime = (devices: readonly ObservedDevice[], from: number, until: number): number =>
  devices.reduce((sum, { createdAt }) => sum + Math.max(0, until - Math.max(from, createdAt)), 0);

/** The time of interest. */
export interface ObservedSpan {
  readonly from: number;
  readonly until: number;
  readonly observed: ObservedOnDay;
}

/** Adds up the observed time of devices, one after the other: a fleet may have many. */
export class ObservedShare {
  readonly #span: ObservedSpan;
  #seen = 0;
  #all = 0;
  /** Of the device that was observed least. */
  #least = 1;

  constructor(span: ObservedSpan) {
    this.#span = span;
  }

  add({ createdAt, judgedSince = 0 }: Omit<ObservedDevice, 'id'>, rows: readonly FlowCoverage[]): void {
    const { from, until, observed } = this.#span;
    const begins = Math.min(Math.max(from, createdAt), until);
    const span = until - begins;
    const counts = Math.min(Math.max(begins, judgedSince), until);
    let ofDevice = 0;
    for (const row of rows) {
      const day = Date.parse(`${row.day}T00:00:00Z`);
      const [first, last] = [Math.max(day, createdAt), Math.min(day + dayMs, until)];
      // A day is kept as one number. Of the day in which the time begins, only what cannot be of the hours before counts.
      const before = Math.min(Math.max(0, counts - first), dayMs);
      ofDevice += Math.max(0, Math.min(observed(row), last - first) - before);
    }
    // Where nothing was reported at all, nothing was observed.
    const seen = ofDevice === 0 ? 0 : Math.min(until - counts, ofDevice + graceMs);
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
