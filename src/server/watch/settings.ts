/** Owns the settings of streams that an operator may change, and their defaults. */
import type { ServerConfig } from '../options/config.ts';
import { defaultFollowSettings, type FollowSettings } from '../store/follow/followed-logs.ts';

export interface WatchSettings extends FollowSettings {
  /** A stream that was silent for this long gets a heartbeat. */
  readonly heartbeatMs: number;
  /** A stream is ended at this age at the latest, and at four fifths of it at the earliest, so that a cohort spreads. */
  readonly maxAgeMs: number;
  /** A reader whose connection takes nothing for this long is cut off. */
  readonly stuckMs: number;
  /** A device that promised signs of life and showed none for this long counts as gone. */
  readonly silentMs: number;
  /** The same for a device that promised none: an agent of an earlier version, which reports its status every five minutes. */
  readonly unpromisedSilentMs: number;
  /** How often the heads of watched organizations are read, in case a hint was lost: twice within the 300 ms in which a change must arrive without. */
  readonly pollMs: number;
  /** How long the database may not answer before readers that know another server are sent there. */
  readonly notReadyMs: number;
  /** What listings kept ready may take, all together. */
  readonly listingBytes: number;
  /** What one page read from the database for a listing weighs at most, but for its last record. */
  readonly pageBytes: number;
  /** How many streams are served before other work is let in. */
  readonly slice: number;
  /**
   * The same while changes come quicker than a round over an organization's streams: the writes behind them wait for the event loop too,
   * several times each, and with long slices everything comes late.
   */
  readonly sliceUnderLoad: number;
}

export const defaultWatchSettings: WatchSettings = {
  ...defaultFollowSettings,
  heartbeatMs: 15_000,
  maxAgeMs: 3_600_000,
  stuckMs: 60_000,
  silentMs: 45_000,
  unpromisedSilentMs: 620_000,
  pollMs: 150,
  notReadyMs: 10_000,
  listingBytes: 96 * 1_048_576,
  pageBytes: 1_048_576,
  slice: 1_000,
  sliceUnderLoad: 200,
};

/** What the server's options say about streams. */
export const watchSettingsOf = (config: ServerConfig): Partial<WatchSettings> => ({
  heartbeatMs: config.streamHeartbeat * 1_000,
  maxAgeMs: config.streamMaxAge * 1_000,
  stuckMs: config.streamStuck * 1_000,
  silentMs: config.streamSilent * 1_000,
});
