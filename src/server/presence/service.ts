/** Owns the presence of this process while it serves: it records for the other servers which devices hold a stream here. */
import { randomUUID } from 'node:crypto';
import type { Presence } from '../store/devices/presence.ts';
import type { WatchSettings } from '../watch/settings.ts';
import { signEveryMs } from '../watch/signs.ts';
import { DeviceStreams, lookMs } from './device-streams.ts';

export function keepPresence(
  presence: Presence,
  { silentMs }: Pick<WatchSettings, 'silentMs'>,
  onWarning: (message: string, cause: unknown) => void,
) {
  const streams = new DeviceStreams({
    presence,
    process: randomUUID(),
    monotonic: () => performance.now(),
    // Twice for each sign that a device shows.
    requestGapMs: signEveryMs({ silentMs }) / 2,
    onWarning,
  });
  const looking = setInterval(() => void streams.look(), lookMs).unref();
  const close = async (): Promise<void> => {
    clearInterval(looking);
    await streams.close();
  };
  return { streams, close };
}
