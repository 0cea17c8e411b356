/** Owns the meaning of selectors and peers: which devices they match, and when two of them are equal. */
import type { Peer, Selector } from '../rule.ts';

/** Whether a device with these labels is named: it carries all that the selector asks for. */
export const matches = (selector: Selector, labels: readonly string[]): boolean =>
  'all_devices' in selector || selector.labels.every((label) => labels.includes(label));

export const matchesAny = (selectors: readonly Selector[] | undefined, labels: readonly string[]): boolean =>
  selectors?.some((selector) => matches(selector, labels)) === true;

/** Whether the peer names the device. */
export const isNamed = (
  peer: Peer,
  { id, labels }: { readonly id: string; readonly labels: readonly string[] },
): boolean => ('device_id' in peer ? peer.device_id === id : matches(peer, labels));

/** Equal for peers that always name the same devices, however they were written. Labels hold no space. */
export function peerKey(peer: Peer): string {
  if ('device_id' in peer) return `device ${peer.device_id}`;
  return 'all_devices' in peer ? 'all' : `labels ${[...new Set(peer.labels)].toSorted().join(' ')}`;
}

/** Each list's key is worked out once: rules never change, and their members are looked up by it whenever one of them does. */
const keys = new WeakMap<readonly Peer[], string>();

/** Equal for peers that together always name the same devices. */
export function peersKey(peers: readonly Peer[]): string {
  let key = keys.get(peers);
  if (key === undefined) keys.set(peers, (key = peers.map(peerKey).toSorted().join(', ')));
  return key;
}
