/** Owns what a selector and a peer mean: which devices they name, and when two of them are the same. */
import type { Peer, Selector } from '../rule.ts';

/** Whether a device with these labels is named: it carries all that the selector asks for. */
export const matches = (selector: Selector, labels: readonly string[]): boolean =>
  'all_devices' in selector || selector.labels.every((label) => labels.includes(label));

export const matchesAny = (selectors: readonly Selector[] | undefined, labels: readonly string[]): boolean =>
  selectors?.some((selector) => matches(selector, labels)) === true;

/** Equal for peers that always name the same devices, however they were written. Labels hold no space. */
export function peerKey(peer: Peer): string {
  if ('device_id' in peer) return `device ${peer.device_id}`;
  return 'all_devices' in peer ? 'all' : `labels ${[...new Set(peer.labels)].toSorted().join(' ')}`;
}

/** Equal for peers that together always name the same devices. */
export const peersKey = (peers: readonly Peer[]): string => peers.map(peerKey).toSorted().join(', ');
