/** Owns the oracle: whether a policy admits a packet, and which rule of which group says so. True to the kernel. */
import type { EffectivePolicy } from './effective.ts';
import { ruleAdmits } from './match.ts';
import type { Packet } from './packet.ts';
import type { Direction, PolicyGroup, StoredRule } from './rule.ts';
import { isServerAccess, type ServerAccess } from './server-access.ts';

/** Why a packet passes, or that nothing lets it pass. */
export type Reason =
  | {
      readonly kind: 'rule';
      readonly group: PolicyGroup;
      readonly direction: Direction;
      readonly index: number;
      readonly rule: StoredRule;
    }
  /** Part of a connection that was admitted, or an ICMP error about one: a group is stateful in both directions. */
  | { readonly kind: 'connection'; readonly state: 'established' | 'related' }
  /** Outbound without any explicit allow rule (reference 1.2 (9)). */
  | { readonly kind: 'open' }
  /** Neighbour or router discovery, on an interface that needs it. */
  | { readonly kind: 'discovery' }
  /** The agent's own way to its server. */
  | { readonly kind: 'server' }
  /** The device only forwards it, which is not the device's own traffic. */
  | { readonly kind: 'forwarded' }
  | { readonly kind: 'no-rule' };

export interface Decision {
  readonly verdict: 'accept' | 'drop';
  readonly reason: Reason;
}

export interface DecideOptions {
  /** The interface does neighbour discovery: it is neither point-to-point nor NOARP. */
  readonly neighbourDiscovery?: boolean;
  /** Where the agent finds its server, if that way is to stay open. */
  readonly serverAccess?: ServerAccess | undefined;
  /** Whether connections that the device translates for others, such as containers, count as its own; they do unless told. */
  readonly containers?: 'guard' | 'ignore';
}

export const rulesOf = (group: PolicyGroup, direction: Direction): readonly StoredRule[] =>
  direction === 'inbound' ? group.inbound : group.outbound;

/** Whether the direction admits only what a rule names. Inbound always; outbound once there is any rule. */
export const isClosed = (policy: EffectivePolicy, direction: Direction): boolean =>
  direction === 'inbound' || policy.groups.some((group) => group.outbound.length > 0);

/** ICMPv6 router and neighbour solicitation and advertisement; genuine only with a hop limit that no router has lowered. */
export const isDiscovery = ({ family, transport, hopLimit }: Packet): boolean =>
  family === 6 && transport.kind === 'icmpv6' && transport.type >= 133 && transport.type <= 136 && hopLimit === 255;

/** Whether no group has a say, because the packet is not the device's own (reference 1.2 (25)). */
export const isForwardedOnly = ({ forwarded }: Packet, { containers }: DecideOptions): boolean =>
  forwarded === 'routed' || (forwarded !== undefined && containers === 'ignore');

/** Whether the packet passes before any group is asked, in a direction that is closed. */
export function isPlumbing(packet: Packet, { neighbourDiscovery, serverAccess }: DecideOptions): Reason | undefined {
  if (neighbourDiscovery === true && packet.forwarded === undefined && isDiscovery(packet))
    return { kind: 'discovery' };
  return serverAccess !== undefined && isServerAccess(serverAccess, packet) ? { kind: 'server' } : undefined;
}

const accept = (reason: Reason): Decision => ({ verdict: 'accept', reason });

/** Every rule that admits the packet, in the order of the groups: rules have no order (reference 1.2 (6)), people do. */
export function admittingRules(policy: EffectivePolicy, packet: Packet): Extract<Reason, { kind: 'rule' }>[] {
  const { direction } = packet;
  return policy.groups.flatMap((group) =>
    rulesOf(group, direction).flatMap((rule, index) =>
      ruleAdmits(rule, packet) ? [{ kind: 'rule' as const, group, direction, index, rule }] : [],
    ),
  );
}

/** The verdict on a packet at the driver interface. */
export function decide(policy: EffectivePolicy, packet: Packet, options: DecideOptions = {}): Decision {
  if (isForwardedOnly(packet, options)) return accept({ kind: 'forwarded' });
  if (!isClosed(policy, packet.direction)) return accept({ kind: 'open' });
  if (packet.state === 'established' || packet.state === 'related') {
    return accept({ kind: 'connection', state: packet.state });
  }
  const plumbing = isPlumbing(packet, options);
  if (plumbing !== undefined) return accept(plumbing);
  const [rule] = admittingRules(policy, packet);
  return rule === undefined ? { verdict: 'drop', reason: { kind: 'no-rule' } } : accept(rule);
}
