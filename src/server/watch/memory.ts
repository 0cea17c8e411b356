/** Owns the memory limits over all organizations: the largest ring and the least used listing are evicted first. */
import type { Channel } from './channel.ts';
import type { Pool, Segment } from './segment.ts';
import type { WatchSettings } from './settings.ts';
import type { StateCache } from './state-cache.ts';

export function keepWithin(
  settings: Pick<WatchSettings, 'ringsBytes' | 'listingBytes'>,
  channels: readonly Channel[],
  pool: Pool,
  now: number,
): void {
  keepRings(settings.ringsBytes, channels, now);
  if (pool.bytes > settings.listingBytes) keepListings(settings.listingBytes, channels, pool);
}

function keepRings(limit: number, channels: readonly Channel[], now: number): void {
  const total = channels.reduce((sum, channel) => sum + channel.ring.bytes, 0);
  if (total <= limit) return;
  // Every ring gives up the same part: a busy organization keeps more than a quiet one, but all keep something.
  for (const channel of channels) channel.ring.trim(now, Math.floor((channel.ring.bytes * limit) / total));
}

function keepListings(limit: number, channels: readonly Channel[], pool: Pool): void {
  const all: (readonly [StateCache, Segment])[] = [];
  for (const channel of channels)
    for (const cache of channel.caches()) for (const segment of cache.segments) all.push([cache, segment]);
  all.sort(([, a], [, b]) => a.used - b.used);
  // Somewhat below the limit, so that this is not done again at once.
  for (const [cache, segment] of all) {
    if (pool.bytes <= limit * 0.8) return;
    cache.drop(segment);
  }
}
