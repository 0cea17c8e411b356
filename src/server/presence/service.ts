/** Owns the presence of this process in real time: tells the others which devices hold a stream here, for as long as it serves. */
import { randomUUID } from 'node:crypto';
import type { Presence } from '../store/contract/presence.ts';
import { DeviceStreams, lookMs } from './device-streams.ts';

export function keepPresence(presence: Presence, onWarning: (message: string, cause: unknown) => void) {
  const streams = new DeviceStreams({
    presence,
    process: randomUUID(),
    monotonic: () => performance.now(),
    onWarning,
  });
  const looking = setInterval(() => void streams.look(), lookMs).unref();
  const close = async (): Promise<void> => {
    clearInterval(looking);
    await streams.close();
  };
  return { streams, close };
}
