/**
 * Owns lookups between rules and the fleet: which peer of a rule matches an address, and which peers no longer exist.
 */
import type { EffectivePolicy } from '../effective.ts';
import { isAboutTransport, ruleRanges } from '../match.ts';
import type { Packet } from '../packet.ts';
import { hasAddress } from '../range.ts';
import type { Direction, Peer, PolicyGroup, StoredRule } from '../rule.ts';
import type { Fleet } from './fleet.ts';

/** What is asked of the fleet here. */
export type PeerLookup = Pick<Fleet, 'addressesOf' | 'get'>;

/**
 * The first peer of the rule that matches the packet's far end. Undefined where the rule's own ranges contain the far
 * end.
 */
export function peerThatNames(rule: StoredRule, packet: Packet, fleet: PeerLookup): Peer | undefined {
  if (rule.peers === undefined) return undefined;
  const family = packet.family === 4 ? 'v4' : 'v6';
  if (hasAddress(ruleRanges(rule)[family], packet.remote)) return undefined;
  return rule.peers.find((peer) => hasAddress(fleet.addressesOf(peer)[family], packet.remote));
}

/** A peer that names a device which is no more: it matches nothing, and the rule stays. */
export interface GonePeer {
  readonly group: PolicyGroup;
  readonly direction: Direction;
  readonly index: number;
  readonly peer: Peer;
}

const isGone = (peer: Peer, fleet: Pick<Fleet, 'get'>): boolean =>
  'device_id' in peer && fleet.get(peer.device_id) === undefined;

/** The peers of groups' rules about such packets that name a device which is no more. */
export function gonePeers({ groups }: EffectivePolicy, packet: Packet, fleet: PeerLookup): readonly GonePeer[] {
  const { direction } = packet;
  return groups.flatMap((group) =>
    group[direction].flatMap((rule, index) =>
      (rule.expired !== true && isAboutTransport(rule, packet) ? (rule.peers ?? []) : [])
        .filter((peer) => isGone(peer, fleet))
        .map((peer): GonePeer => ({ group, direction, index, peer })),
    ),
  );
}
