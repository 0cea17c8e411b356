/**
 * Owns the oracle: whether a policy admits a packet, and which rule of which group decides. It agrees with the kernel.
 */
import type { EffectivePolicy } from './effective.ts';
import { gonePeers, peerThatNames, type PeerLookup, type GonePeer } from './fleet/rule-peers.ts';
import { isIsolated, isIsolationGroup, isRefusalGroup, withIsolation } from './isolation/isolation.ts';
import { ruleAdmits, unexpired } from './match.ts';
import type { Packet } from './packet.ts';
import type { Direction, Peer, PolicyGroup, StoredRule } from './rule.ts';
import { isServerAccess, type ServerAccess } from './server-access.ts';

/** A rule that matches the packet. */
export interface RuleReason<Kind extends string> {
  readonly kind: Kind;
  readonly group: PolicyGroup;
  readonly direction: Direction;
  readonly index: number;
  readonly rule: StoredRule;
  /** The peer that names the far end, where the rule matches by that and the fleet is known. */
  readonly peer?: Peer;
}

/** Why a packet passes or does not. */
export type Reason =
  | RuleReason<'rule'>
  /** A guardrail refuses it, whatever any group says. */
  | RuleReason<'forbid'>
  /** A guardrail admits it, whatever any group says. */
  | RuleReason<'require'>
  /** The device itself, or the far end, is isolated, and its isolation does not allow the other. */
  | { readonly kind: 'isolated' | 'far-end-isolated' }
  /** The device is isolated, and its isolation allows the far end. */
  | { readonly kind: 'isolation-allows'; readonly peer?: Peer }
  /** Part of a connection that was admitted, or an ICMP error about one: a group is stateful in both directions. */
  | { readonly kind: 'connection'; readonly state: 'established' | 'related' }
  /** Outbound without any explicit allow rule (reference 1.2 (9)). */
  | { readonly kind: 'open' }
  /** Discovery of neighbours, routers or multicast listeners, on an interface that needs it. */
  | { readonly kind: 'discovery' }
  /** The agent's own way to its server. */
  | { readonly kind: 'server' }
  /** The device only forwards it, which is not the device's own traffic. */
  | { readonly kind: 'forwarded' }
  /**
   * `expired`: rules that would admit the packet had they not expired. `peerGone`: rules about such packets that name a
   * device which is no more; only where the fleet is known.
   */
  | {
      readonly kind: 'no-rule';
      readonly expired?: readonly RuleReason<'expired'>[];
      readonly peerGone?: readonly GonePeer[];
    };

export interface Decision {
  readonly verdict: 'accept' | 'drop';
  readonly reason: Reason;
}

export interface DecideOptions {
  /** The interface does neighbour discovery: it is neither point-to-point nor NOARP. */
  readonly neighbourDiscovery?: boolean;
  /** Where the agent finds its server, if that way is to stay open. */
  readonly serverAccess?: ServerAccess | undefined;
  /**
   * Whether connections that the device translates for others, such as containers, count as its own. Default: `guard`,
   * they do.
   */
  readonly containers?: 'guard' | 'ignore';
  /** Who the peers of rules are. A policy that was resolved needs it only to tell by which peer a rule matches. */
  readonly fleet?: PeerLookup | undefined;
}

export const rulesOf = (group: PolicyGroup, direction: Direction): readonly StoredRule[] =>
  direction === 'inbound' ? group.inbound : group.outbound;

/** Whether the direction admits only what a rule names. Inbound always; outbound once a group has any rule. */
export const isClosed = (policy: EffectivePolicy, direction: Direction): boolean =>
  direction === 'inbound' || withIsolation(policy).groups.some((group) => group.outbound.length > 0);

/** Whether a guardrail can refuse anything in this direction. */
export const hasForbid = ({ guardrails }: EffectivePolicy, direction: Direction): boolean =>
  guardrails?.forbid.some((group) => rulesOf(group, direction).length > 0) === true;

/**
 * ICMPv6 router and neighbour solicitation and advertisement, genuine only with a hop limit that no router has lowered,
 * and queries and reports of multicast listeners, which no router passes on.
 */
function isDiscovery({ family, transport, hopLimit }: Packet): boolean {
  if (family !== 6 || transport.kind !== 'icmpv6') return false;
  const { type } = transport;
  if (type >= 133 && type <= 136) return hopLimit === 255;
  return ((type >= 130 && type <= 132) || type === 143) && hopLimit === 1;
}

/** Whether no group has a say, because the packet is not the device's own (reference 1.2 (25)). */
export const isForwardedOnly = ({ forwarded }: Packet, { containers }: DecideOptions): boolean =>
  forwarded === 'routed' || (forwarded !== undefined && containers === 'ignore');

/** Whether the packet passes before any guardrail or group is asked, in a direction that refuses anything. */
export function isPlumbing(packet: Packet, { neighbourDiscovery, serverAccess }: DecideOptions): Reason | undefined {
  if (neighbourDiscovery === true && packet.forwarded === undefined && isDiscovery(packet))
    return { kind: 'discovery' };
  return serverAccess !== undefined && isServerAccess(serverAccess, packet) ? { kind: 'server' } : undefined;
}

const accept = (reason: Reason): Decision => ({ verdict: 'accept', reason });

function matchingRules<Kind extends string>(
  kind: Kind,
  groups: readonly PolicyGroup[],
  packet: Packet,
  { fleet }: DecideOptions,
): RuleReason<Kind>[] {
  const { direction } = packet;
  return groups.flatMap((group) =>
    rulesOf(group, direction).flatMap((rule, index): RuleReason<Kind>[] => {
      if (!ruleAdmits(rule, packet, fleet)) return [];
      const peer = fleet && peerThatNames(rule, packet, fleet);
      return [{ kind, group, direction, index, rule, ...(peer && { peer }) }];
    }),
  );
}

/** Every rule that admits the packet, in the order of the groups: rules have no order (reference 1.2 (6)), people do. */
export const admittingRules = (
  { groups }: EffectivePolicy,
  packet: Packet,
  options: DecideOptions = {},
): RuleReason<'rule'>[] => matchingRules('rule', groups, packet, options);

/** The rules of groups and of `require` guardrails that have expired and would admit the packet otherwise. */
function expiredRules(
  { groups, guardrails }: EffectivePolicy,
  packet: Packet,
  options: DecideOptions,
): readonly RuleReason<'expired'>[] {
  const { direction } = packet;
  return [...(guardrails?.require ?? []), ...groups].flatMap((group) =>
    rulesOf(group, direction).flatMap((rule, index): RuleReason<'expired'>[] => {
      if (rule.expired !== true) return [];
      return ruleAdmits(unexpired(rule), packet, options.fleet)
        ? [{ kind: 'expired', group, direction, index, rule }]
        : [];
    }),
  );
}

/** The verdict on a packet at the driver interface. */
export function decide(effective: EffectivePolicy, packet: Packet, options: DecideOptions = {}): Decision {
  const policy = withIsolation(effective);
  const { direction } = packet;
  if (isForwardedOnly(packet, options)) return accept({ kind: 'forwarded' });
  const closed = isClosed(policy, direction);
  if (!closed && !hasForbid(policy, direction)) return accept({ kind: 'open' });
  if (packet.state === 'established' || packet.state === 'related') {
    return accept({ kind: 'connection', state: packet.state });
  }
  const plumbing = isPlumbing(packet, options);
  if (plumbing !== undefined) return accept(plumbing);
  const [forbidden] = matchingRules('forbid', policy.guardrails?.forbid ?? [], packet, options);
  if (forbidden !== undefined && isRefusalGroup(forbidden.group))
    return { verdict: 'drop', reason: { kind: 'far-end-isolated' } };
  if (forbidden !== undefined) return { verdict: 'drop', reason: forbidden };
  if (!closed) return accept({ kind: 'open' });
  const [required] = matchingRules('require', policy.guardrails?.require ?? [], packet, options);
  if (required !== undefined) return accept(required);
  const [rule] = admittingRules(policy, packet, options);
  if (rule !== undefined && isIsolationGroup(rule.group)) {
    return accept({ kind: 'isolation-allows', ...(rule.peer && { peer: rule.peer }) });
  }
  if (rule !== undefined) return accept(rule);
  if (isIsolated(policy)) return { verdict: 'drop', reason: { kind: 'isolated' } };
  const peerGone = options.fleet === undefined ? [] : gonePeers(policy, packet, options.fleet);
  const expired = expiredRules(policy, packet, options);
  return {
    verdict: 'drop',
    reason: { kind: 'no-rule', ...(expired.length > 0 && { expired }), ...(peerGone.length > 0 && { peerGone }) },
  };
}

/** A rule on which a decision stands. */
export type DecidingRule = Extract<Reason, { readonly rule: StoredRule }>;

/** Every rule on which the verdict stands: as long as one of them is left, the verdict stays. With the verdict. */
export function decidingRules(
  effective: EffectivePolicy,
  packet: Packet,
): { readonly verdict: Decision['verdict']; readonly rules: readonly DecidingRule[] } {
  const policy = withIsolation(effective);
  const { verdict, reason } = decide(policy, packet);
  if (!('rule' in reason)) return { verdict, rules: [] };
  const { forbid, require } = policy.guardrails ?? { forbid: [], require: [] };
  if (reason.kind === 'forbid') return { verdict, rules: matchingRules('forbid', forbid, packet, {}) };
  return { verdict, rules: [...matchingRules('require', require, packet, {}), ...admittingRules(policy, packet)] };
}
