/** Owns how a device shows that it is alive: what its stream has promised, how often, and what it may send. */
import { heartbeatPreference, signsPreference } from '../../api/kinds.ts';
import type { WatchSettings } from './settings.ts';

/**
 * How signs of life come. `stream`: as line feeds on the stream itself, which goes both ways. `requests`: as requests of their own, because a proxy in between
 * passes no protocol but HTTP. `unpromised`: the reader promised none; an agent of an earlier version only reports its status.
 */
export type SignSource = 'stream' | 'requests' | 'unpromised';

/** How long a device may show no sign before it counts as gone. */
export const silenceOf = (signs: SignSource, { silentMs, unpromisedSilentMs }: WatchSettings): number =>
  signs === 'unpromised' ? unpromisedSilentMs : silentMs;

/** How often a reader is asked for a sign: one may be lost, and the next has time to come. */
export const signEveryMs = ({ silentMs }: Pick<WatchSettings, 'silentMs'>): number => (silentMs * 4) / 9;

/** The value of `Preference-Applied`, in seconds. */
export const signsApplied = (settings: Pick<WatchSettings, 'silentMs' | 'heartbeatMs'>): string =>
  `${signsPreference}=${Math.round(signEveryMs(settings)) / 1_000}, ${heartbeatPreference}=${settings.heartbeatMs / 1_000}`;

const lineFeed = 0x0a;
/** A reader may send this many signs within a minute. Signs cost the server more than the reader. */
const mostSigns = 60;
const minuteMs = 60_000;

/** Counts what a reader sends. */
export class SignBudget {
  #since = Number.NEGATIVE_INFINITY;
  #count = 0;

  /** Whether these bytes are signs, and not too many of them. */
  takes(bytes: Uint8Array, now: number): boolean {
    if (now - this.#since >= minuteMs) {
      this.#since = now;
      this.#count = 0;
    }
    this.#count += bytes.length;
    return this.#count <= mostSigns && bytes.every((byte) => byte === lineFeed);
  }
}
