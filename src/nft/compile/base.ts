/** Owns the rules of the base chains, the only ones that see packets by themselves (reference 1.2 (2), (3), (9), (10), (24), (25)), and what of the table for forwarded connections hangs on them alone. */
import type { Direction, Family } from '../../policy/rule.ts';
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
  protocolNumber,
  rule,
  type BaseChain,
  type HelperChain,
  type Hook,
  type Match,
  type Rule,
  type TableName,
  type TableRules,
} from '../ast.ts';
import { reasonCounter, type PacketReason } from '../counters.ts';
import { allHelpers } from './helpers.ts';
import { parseObjectName, type InterfaceName, type ObjectName } from '../names.ts';
import type { PeerMaps } from './peer-maps.ts';
import { isNew, recorderHelpers, type Recorder, type RecorderChains } from './recorder.ts';

/** Where packets are judged: those of the device itself, or those it forwards with an address translated. */
export interface HookPoint {
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
  | (EarlyRules & { readonly kind: 'forbidding'; readonly forbid: ObjectName })
  /** The same, and then only what `dispatch` accepts passes; without it nothing new does. */
  | (EarlyRules & { readonly kind: 'closed'; readonly forbid?: ObjectName; readonly dispatch?: ObjectName });

/** What passes before everything that a policy can say: `discovery` where the interface needs it, and `server` keeps the agent's way to its server open. */
interface EarlyRules {
  readonly discovery?: ObjectName;
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
export const baseName = ({ table, direction }: HookPoint): ObjectName => names[table][direction];
export const baseHook = ({ table, direction }: HookPoint): Hook => hooks[table][direction];

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
 * Router and neighbour discovery, genuine only with the hop limit that no router has lowered, and multicast listener
 * discovery, which no router passes on: a switch that hears no reports sends the device no multicast, and so no
 * neighbour finds it (RFC 4890 4.4.1). In a chain of its own: a packet that opens a flow passes one rule for it.
 */
const discoveryMatches: readonly (readonly Match[])[] = [
  [
    node({
      kind: 'icmpTypeRange',
      family: 6,
      first: icmpv6Type.routerSolicitation,
      last: icmpv6Type.neighbourAdvertisement,
    }),
    node({ kind: 'hopLimit', value: 255 }),
  ],
  [
    node({ kind: 'icmpTypeRange', family: 6, first: icmpv6Type.listenerQuery, last: icmpv6Type.listenerDone }),
    node({ kind: 'hopLimit', value: 1 }),
  ],
  [node({ kind: 'icmpTypes', family: 6, types: [icmpv6Type.listenerReport2] }), node({ kind: 'hopLimit', value: 1 })],
];
export const discoveryRules = (direction: Direction): readonly Rule[] =>
  discoveryMatches.map((matches) => rule(matches, accept, reasonCounter(direction, 'discovery')));
const isIcmpv6: Match = node({ kind: 'protocol', protocol: protocolNumber.icmpv6 });

/** Which packets the rules of a base chain are about. */
function matchesAt({ table, direction }: HookPoint, name: InterfaceName): readonly Match[] {
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
const takesUpNothing = ({ table, direction }: HookPoint): boolean =>
  table === 'service-forward' && direction === 'outbound';
const notSyn: Match = node({ kind: 'notSyn' });

/** The rules that hang on no policy. */
interface FixedRules {
  readonly name: InterfaceName;
  readonly here: readonly Match[];
  readonly established: Rule;
  readonly establishedUncounted: Rule;
  readonly notSyn: Rule;
  readonly notSynUncounted: Rule;
  readonly refused: Rule;
  readonly drop: Rule;
}

function makeFixedRules(place: HookPoint, name: InterfaceName): FixedRules {
  const here = matchesAt(place, name);
  const reason = (what: PacketReason): ObjectName => reasonCounter(place.direction, what);
  return {
    name,
    here,
    established: rule([...here, established], accept, reason('established')),
    establishedUncounted: rule([...here, established], accept),
    notSyn: rule([...here, notSyn], drop, reason('refused')),
    notSynUncounted: rule([...here, notSyn], drop),
    // Counted by a rule of its own, so that the drop at the end reads as the reference gives it (1.2 (9), (10)).
    refused: rule([...here], goOn, reason('refused')),
    drop: rule([...here], drop),
  };
}

/**
 * The rules of the interface that was requested last. The next policy gets the same objects, so comparing them needs no
 * deep look.
 */
const kept: { readonly [T in TableName]: { [D in Direction]?: FixedRules } } = { service: {}, 'service-forward': {} };

function fixedRules(place: HookPoint, name: InterfaceName): FixedRules {
  const { table, direction } = place;
  const known = kept[table][direction];
  if (known?.name === name) return known;
  return (kept[table][direction] = makeFixedRules(place, name));
}

/** Connections that were admitted before, then what passes whatever a policy says, then what is forbidden. */
function leadingRules(
  place: HookPoint,
  { here, established: before, notSyn: middle }: FixedRules,
  { discovery, server, forbid }: EarlyRules & { readonly forbid?: ObjectName },
): readonly Rule[] {
  return [
    before,
    ...(takesUpNothing(place) ? [middle] : []),
    ...(discovery === undefined ? [] : [rule([...here, isIcmpv6], jump(discovery))]),
    ...(server === undefined ? [] : [rule([...here], jump(server))]),
    ...(forbid === undefined ? [] : [rule([...here], jump(forbid))]),
  ];
}

const noChains: RecorderChains = {};

export function baseRules(
  place: HookPoint,
  name: InterfaceName,
  content: BaseContent,
  { refused, admitted, answer }: RecorderChains = noChains,
): readonly Rule[] {
  const fixed = fixedRules(place, name);
  const { here } = fixed;
  // Everything that comes this far passes, so it is recorded before it is known which rule lets it.
  const passing = admitted === undefined ? [] : [rule([...here, isNew], jump(admitted))];
  switch (content.kind) {
    case 'open':
      return passing;
    case 'default':
      // Literally and in this order (reference 1.2 (10)). These two sets of ICMP types are the only ones in a base chain;
      // a packet that passes before their contents are visible is accepted by its family two rules later.
      return [
        fixed.establishedUncounted,
        ...passing,
        rule([...here, echo[6]], accept),
        rule([...here, echo[4]], accept),
        rule([...here, familyMatch[4]], accept),
        rule([...here, familyMatch[6]], accept),
        fixed.drop,
      ];
    case 'syn-only':
      return [fixed.establishedUncounted, fixed.notSynUncounted];
    case 'forbidding':
      return [...leadingRules(place, fixed, content), ...passing];
    case 'closed':
      return [
        ...leadingRules(place, fixed, content),
        ...(content.dispatch === undefined ? [] : [rule([...here], jump(content.dispatch))]),
        ...(refused === undefined ? [] : [rule([...here, isNew], jump(refused))]),
        fixed.refused,
        ...(answer === undefined ? [] : [rule([...here], jump(answer))]),
        fixed.drop,
      ];
    default:
      return content satisfies never;
  }
}

export const baseChain = (
  place: HookPoint,
  name: InterfaceName,
  content: BaseContent,
  recorder?: RecorderChains,
): BaseChain =>
  node({
    kind: 'base',
    name: baseName(place),
    hook: baseHook(place),
    rules: baseRules(place, name, content, recorder),
  });

/** Whether the device forwards packets at all. */
export type Forwarding = 'on' | 'off';

/** What one direction becomes at one place: what its base chain does, and the chains that it needs for that. */
export interface Part {
  readonly content: BaseContent;
  readonly helpers: readonly HelperChain[];
}

/** Parts of the table for forwarded connections that hang on no policy: nothing new passes, or all that begins as it should. */
export const refusing: Part = { content: { kind: 'closed' }, helpers: [] };
const synOnly: Part = { content: { kind: 'syn-only' }, helpers: [] };

/** Everything for connections with a translated source: the rules of the device's own, without discovery and the agent's way. */
export function translated(
  { content, helpers }: Part,
  into: Part | undefined,
  forwarding: Forwarding,
): Part | undefined {
  // Where redirected connections can be refused, those that were ended must not come back by the other way.
  if (content.kind !== 'closed' && content.kind !== 'forbidding') return into && synOnly;
  if (content.kind === 'closed' && forwarding !== 'on') return refusing;
  const { discovery, server, ...judged } = content;
  return { content: judged, helpers: helpers.filter(({ name }) => name !== discovery && name !== server) };
}

interface ForwardParts {
  readonly into: Part | undefined;
  readonly out: Part | undefined;
  readonly name: InterfaceName;
  readonly recorders: { readonly [D in Direction]: Recorder };
}

/** The table that was made last of parts which hang on no policy: most policies have the same. */
let fixedTable: (ForwardParts & { readonly rules: TableRules | undefined }) | undefined;
const isFixed = (part: Part | undefined): boolean => part === undefined || part === refusing || part === synOnly;

export function forwardRules(parts: ForwardParts, maps: PeerMaps): TableRules | undefined {
  const { into, out, name } = parts;
  if (!isFixed(into) || !isFixed(out)) return makeForwardRules(parts, maps);
  const known = fixedTable;
  if (known !== undefined && known.into === into && known.out === out && known.name === name) return known.rules;
  const rules = makeForwardRules(parts, maps);
  fixedTable = { ...parts, rules };
  return rules;
}

function makeForwardRules({ into, out, name, recorders }: ForwardParts, maps: PeerMaps): TableRules | undefined {
  if (into === undefined && out === undefined) return undefined;
  const table = 'service-forward';
  const base = (direction: Direction, part: Part | undefined): BaseChain | undefined =>
    part && baseChain({ table, direction }, name, part.content, isFixed(part) ? undefined : recorders[direction]);
  const [inbound, outbound] = [base('inbound', into), base('outbound', out)];
  const bases = { ...(inbound && { inbound }), ...(outbound && { outbound }) };
  const helpers = withRecorders(recorders, Object.values(bases), allHelpers([into, out]));
  return node({ ...maps.objectsOf([...Object.values(bases), ...helpers]), ...bases, helpers });
}

/** All chains besides the base chains, each one's targets before it. */
export const withRecorders = (
  recorders: { readonly [D in Direction]: Recorder },
  bases: readonly BaseChain[],
  helpers: readonly HelperChain[],
): readonly HelperChain[] => {
  const chains = [...bases, ...helpers];
  const recording = [recorders.inbound, recorders.outbound].map((each) => ({ helpers: recorderHelpers(each, chains) }));
  return allHelpers([...recording, { helpers }]);
};
