/** Owns the rules of the base chains, the only ones that see packets by themselves (reference 1.2 (2), (3), (9), (10), (24), (25)). */
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
  type TableName,
} from './ast.ts';
import { fateCounter } from './counters.ts';
import { parseObjectName, type InterfaceName, type ObjectName } from './names.ts';

/** Where packets are judged: those of the device itself, or those it forwards with an address translated. */
export interface Place {
  readonly table: TableName;
  readonly direction: Direction;
}

/** What a base chain does. */
export type BaseContent =
  /** No rules at all: everything passes. */
  | { readonly kind: 'open' }
  /** Everything passes but TCP packets that neither begin a connection nor belong to one. */
  | { readonly kind: 'syn-only' }
  /** The default group's inbound chain. */
  | { readonly kind: 'default' }
  /** What `forbid` drops is dropped, what `server` accepts before aside; all else passes. */
  | (Before & { readonly kind: 'forbidding'; readonly forbid: ObjectName })
  /** The same, and then only what `dispatch` accepts passes; without it nothing new does. */
  | (Before & { readonly kind: 'closed'; readonly forbid?: ObjectName; readonly dispatch?: ObjectName });

/** What passes before everything that a policy can say: `server` keeps the agent's way to its server open. */
interface Before {
  readonly neighbourDiscovery: boolean;
  readonly server?: ObjectName;
}

const names: { readonly [T in TableName]: { readonly [D in Direction]: ObjectName } } = {
  service: { inbound: inboundName, outbound: outboundName },
  'service-forward': {
    inbound: parseObjectName('service-forward-inbound'),
    outbound: parseObjectName('service-forward-outbound'),
  },
};
/**
 * A connection that is redirected is known as such once it is routed. One that leaves is known to have its source
 * translated only after that was done, at the very end.
 */
const hooks: { readonly [T in TableName]: { readonly [D in Direction]: Hook } } = {
  service: { inbound: 'input', outbound: 'output' },
  'service-forward': { inbound: 'forward', outbound: 'postrouting' },
};
export const baseName = ({ table, direction }: Place): ObjectName => names[table][direction];
export const baseHook = ({ table, direction }: Place): Hook => hooks[table][direction];

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

/** Which packets the rules of a base chain are about. */
function matchesAt({ table, direction }: Place, name: InterfaceName): readonly Match[] {
  const driver: Match = node({ kind: 'interface', side: direction === 'inbound' ? 'iifname' : 'oifname', name });
  if (table === 'service') return [driver];
  return direction === 'inbound'
    ? [driver, node({ kind: 'translated', by: 'dnat' })]
    : [driver, node({ kind: 'forwarded' }), node({ kind: 'translated', by: 'snat' })];
}

/**
 * Where a connection that was ended must not be taken up again from its middle: a container goes on sending, and the
 * kernel would track its packets as a new connection outwards, whose answers then pass. A socket of the device is ended itself.
 */
const takesUpNothing = ({ table, direction }: Place): boolean =>
  table === 'service-forward' && direction === 'outbound';
const notSyn: Match = node({ kind: 'notSyn' });

/** Connections that were admitted before, then what passes whatever a policy says, then what is forbidden. */
function leadingRules(
  place: Place,
  here: readonly Match[],
  { neighbourDiscovery, server, forbid }: Before & { readonly forbid?: ObjectName },
): readonly Rule[] {
  const { direction } = place;
  return [
    rule([...here, established], accept, fateCounter(direction, 'established')),
    ...(takesUpNothing(place) ? [rule([...here, notSyn], drop, fateCounter(direction, 'refused'))] : []),
    ...(neighbourDiscovery ? [rule([...here, ...discovery], accept, fateCounter(direction, 'discovery'))] : []),
    ...(server === undefined ? [] : [rule([...here], jump(server))]),
    ...(forbid === undefined ? [] : [rule([...here], jump(forbid))]),
  ];
}

export function baseRules(place: Place, name: InterfaceName, content: BaseContent): readonly Rule[] {
  const { direction } = place;
  const here = matchesAt(place, name);
  switch (content.kind) {
    case 'open':
      return [];
    case 'default':
      // Literally and in this order (reference 1.2 (10)). These two sets of ICMP types are the only ones in a base chain;
      // a packet that passes before their contents are visible is accepted by its family two rules later.
      return [
        rule([...here, established], accept),
        rule([...here, echo[6]], accept),
        rule([...here, echo[4]], accept),
        rule([...here, familyMatch[4]], accept),
        rule([...here, familyMatch[6]], accept),
        rule([...here], drop),
      ];
    case 'syn-only':
      return [rule([...here, established], accept), rule([...here, notSyn], drop)];
    case 'forbidding':
      return leadingRules(place, here, content);
    case 'closed':
      return [
        ...leadingRules(place, here, content),
        ...(content.dispatch === undefined ? [] : [rule([...here], jump(content.dispatch))]),
        // Counted by a rule of its own, so that the drop at the end reads as the reference gives it (1.2 (9), (10)).
        rule([...here], goOn, fateCounter(direction, 'refused')),
        rule([...here], drop),
      ];
    default:
      return content satisfies never;
  }
}

export const baseChain = (place: Place, name: InterfaceName, content: BaseContent): BaseChain =>
  node({ kind: 'base', name: baseName(place), hook: baseHook(place), rules: baseRules(place, name, content) });
