/** Owns the rules of the two base chains, the only ones that see packets by themselves (reference 1.2 (2), (3), (9), (10)). */
import type { Direction, Family } from '../policy/rule.ts';
import {
  accept,
  drop,
  goOn,
  icmpType,
  icmpv6Type,
  inboundName,
  jump,
  node,
  outboundName,
  rule,
  type BaseChain,
  type Hook,
  type Match,
  type Rule,
} from './ast.ts';
import { fateCounter } from './counters.ts';
import type { InterfaceName, ObjectName } from './names.ts';

/** What a base chain does. */
export type BaseContent =
  /** No rules at all: everything passes. */
  | { readonly kind: 'open' }
  /** The default group's inbound chain. */
  | { readonly kind: 'default' }
  /** What `dispatch` accepts passes, and all else is dropped; without it nothing new passes. */
  | { readonly kind: 'closed'; readonly neighbourDiscovery: boolean; readonly dispatch?: ObjectName };

export const baseName: { readonly [D in Direction]: ObjectName } = { inbound: inboundName, outbound: outboundName };
export const baseHook: { readonly [D in Direction]: Hook } = { inbound: 'input', outbound: 'output' };

/** Established connections, and ICMP errors about them: without these, replies to what was admitted would die. */
const established: Match = node({ kind: 'established' });

/** Echo request and echo reply. */
export const echo: { readonly [F in Family]: Match } = {
  4: node({ kind: 'icmpTypes', family: 4, types: [icmpType.echoReply, icmpType.echoRequest] }),
  6: node({ kind: 'icmpTypes', family: 6, types: [icmpv6Type.echoRequest, icmpv6Type.echoReply] }),
};

export const familyMatch: { readonly [F in Family]: Match } = {
  4: node({ kind: 'family', family: 4 }),
  6: node({ kind: 'family', family: 6 }),
};

/**
 * Router and neighbour discovery, genuine only with the hop limit that no router has lowered. A range of types rather
 * than a set of them: base chains make no sets, so that a flip makes none.
 */
const discovery: readonly Match[] = [
  node({
    kind: 'icmpTypeRange',
    family: 6,
    first: icmpv6Type.routerSolicitation,
    last: icmpv6Type.neighbourAdvertisement,
  }),
  node({ kind: 'hopLimit', value: 255 }),
];

export function baseRules(direction: Direction, name: InterfaceName, content: BaseContent): readonly Rule[] {
  const here: Match = node({ kind: 'interface', side: direction === 'inbound' ? 'iifname' : 'oifname', name });
  switch (content.kind) {
    case 'open':
      return [];
    case 'default':
      // Literally and in this order (reference 1.2 (10)). These two sets of ICMP types are the only ones in a base chain;
      // a packet that passes before their contents are visible is accepted by its family two rules later.
      return [
        rule([here, established], accept),
        rule([here, echo[6]], accept),
        rule([here, echo[4]], accept),
        rule([here, familyMatch[4]], accept),
        rule([here, familyMatch[6]], accept),
        rule([here], drop),
      ];
    case 'closed':
      return [
        rule([here, established], accept, fateCounter(direction, 'established')),
        ...(content.neighbourDiscovery
          ? [rule([here, ...discovery], accept, fateCounter(direction, 'discovery'))]
          : []),
        ...(content.dispatch === undefined ? [] : [rule([here], jump(content.dispatch))]),
        // Counted by a rule of its own, so that the drop at the end reads as the reference gives it (1.2 (9), (10)).
        rule([here], goOn, fateCounter(direction, 'refused')),
        rule([here], drop),
      ];
    default:
      return content satisfies never;
  }
}

export const baseChain = (direction: Direction, name: InterfaceName, content: BaseContent): BaseChain =>
  node({
    kind: 'base',
    name: baseName[direction],
    hook: baseHook[direction],
    rules: baseRules(direction, name, content),
  });
