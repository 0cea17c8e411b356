/**
 * Owns the nearest rule: of a packet that no rule admits, the rule that would admit it with the fewest changes, and what does not match.
 *
 *     nearestRule(policy, packet, { fleet })?.differs; // ['port']: same protocol, the far end is named, another port
 */
import { rulesOf, type DecideOptions } from '../decide.ts';
import type { EffectivePolicy } from '../effective.ts';
import { isAboutTransport, namesFar, unexpired } from '../match.ts';
import type { Packet, Transport } from '../packet.ts';
import type { PolicyGroup, StoredRule } from '../rule.ts';

/** The fields in which a rule and a packet may differ. `expires_at`: the rule has expired. */
export const ruleFields = ['expires_at', 'ip_protocol', 'port', 'far'] as const;
type RuleField = (typeof ruleFields)[number];

interface NearestRule {
  readonly group: PolicyGroup;
  readonly index: number;
  readonly rule: StoredRule;
  /** In the order of `ruleFields`; never empty. */
  readonly differs: readonly RuleField[];
}

const anyPort = { from_port: 0, to_port: 0 } as const;
/** The transport that the rule is about, with the port of the packet where it has one. */
function transportOf({ ip_protocol, from_port }: StoredRule, { transport }: Packet): Transport {
  const dport = 'dport' in transport ? transport.dport : from_port;
  if (ip_protocol === 'tcp' || ip_protocol === 'udp') return { kind: ip_protocol, dport };
  if (ip_protocol === 'icmp') return { kind: 'icmp', type: 8 };
  if (ip_protocol === 'icmpv6') return { kind: 'icmpv6', type: 128 };
  return { kind: 'tcp', dport };
}

/** Each field is judged with the others made to match. */
function differences(rule: StoredRule, packet: Packet, { fleet }: DecideOptions): readonly RuleField[] {
  const valid = unexpired(rule);
  const isAnyPorts = isAboutTransport({ ...valid, ...anyPort }, packet);
  const about = transportOf(valid, packet);
  const isPortRight =
    'dport' in packet.transport
      ? isAboutTransport(valid, { ...packet, transport: isAnyPorts ? packet.transport : about })
      : isAnyPorts
        ? isAboutTransport(valid, packet)
        : true;
  return [
    ...(valid !== rule ? (['expires_at'] as const) : []),
    ...(isAnyPorts ? [] : (['ip_protocol'] as const)),
    ...(isPortRight ? [] : (['port'] as const)),
    ...(namesFar(valid, packet, fleet) ? [] : (['far'] as const)),
  ];
}

/** A rule about the protocol and the port of the packet is nearer than any other; otherwise fewer differences are. */
const distance = (differs: readonly RuleField[]): number =>
  (differs.includes('ip_protocol') || differs.includes('port') ? ruleFields.length : 0) + differs.length;

/**
 * The rule of a `require` guardrail or a group that is nearest to the packet; of several the first, in the order of the groups and of their rules. Undefined where the direction has no rule, or
 * where a rule admits the packet.
 */
export function nearestRule(
  { groups, guardrails }: EffectivePolicy,
  packet: Packet,
  options: DecideOptions = {},
): NearestRule | undefined {
  let nearest: NearestRule | undefined;
  for (const group of [...(guardrails?.require ?? []), ...groups]) {
    for (const [index, rule] of rulesOf(group, packet.direction).entries()) {
      const differs = differences(rule, packet, options);
      if (differs.length === 0) return undefined;
      if (nearest === undefined || distance(differs) < distance(nearest.differs))
        nearest = { group, index, rule, differs };
    }
  }
  return nearest;
}
