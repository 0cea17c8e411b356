/** Owns the table that keeps ended connections from coming back (reference 1.2 (26)): its commands and their text. */
import type { Direction } from '../policy/rule.ts';
import { tableFamily } from './ast.ts';
import type { InterfaceName } from './names.ts';

/** There only while a connection is to stay ended, so that no packet pays for it otherwise. */
export const endedTable = 'service-ended';
/** Counts the packets that the table drops. */
const endedCounter = 'ended';

/**
 * What elements of a set are: a connection; one of a stream protocol, whose sockets may still be open, which lasts longer; all connections of a protocol
 * without ports between two addresses; or, where these are too many, all that the other side would begin from a port, of which the first is ours and the
 * second the far end's.
 */
export const endedKinds = [
  'stream4',
  'stream6',
  'tuple4',
  'tuple6',
  'pair4',
  'pair6',
  'port-inbound',
  'port-outbound',
] as const;
export type EndedKind = (typeof endedKinds)[number];

/** For how many seconds both sides must be silent, by what the elements of a set are. */
export interface EndedSilence {
  readonly stream: number;
  readonly tuple: number;
  readonly pair: number;
}

/** One element. The fields that its kind does not have are empty, or 0. There may be very many, and addresses are as they were listed. */
export interface EndedElement {
  readonly kind: EndedKind;
  readonly remote: string;
  readonly local: string;
  readonly protocol: number;
  readonly remotePort: number;
  readonly localPort: number;
  /** Who began the connection. */
  readonly direction: Direction;
  /** The port by which rules judge the connection; 0 where it has none. */
  readonly port: number;
  /** Only where the device translates it for others. */
  readonly forwarded?: 'redirected' | 'translated';
}

export interface EndedPlace {
  readonly interface: InterfaceName;
  /** Whether connections that the device translates for others are kept from coming back too. */
  readonly containers: 'guard' | 'ignore';
  readonly silence: EndedSilence;
  /** Elements that a set holds at most. */
  readonly size: number;
}

/** One change of the table; a batch is one transaction. */
export type EndedCommand =
  /** Makes the table anew, without elements, whatever was there. */
  | ({ readonly kind: 'makeEndedTable' } & EndedPlace)
  | { readonly kind: 'removeEndedTable' }
  /** Elements of one kind, never none. Those that are there stay as they are. */
  | { readonly kind: 'addEnded'; readonly of: EndedKind; readonly elements: readonly EndedElement[] }
  /** Each must be there. */
  | { readonly kind: 'deleteEnded'; readonly of: EndedKind; readonly elements: readonly EndedElement[] };

const own = `${tableFamily} ${endedTable}`;

export const isPort = (kind: EndedKind): kind is 'port-inbound' | 'port-outbound' => kind.startsWith('port');
/** Whether the key of an element has both addresses and both ports. */
const isStream = (kind: EndedKind): boolean => kind.startsWith('stream');
export const isTuple = (kind: EndedKind): boolean => isStream(kind) || kind.startsWith('tuple');
const familyOf = (kind: EndedKind): 4 | 6 => (kind.endsWith('4') ? 4 : 6);

function typeOf(kind: EndedKind): string {
  if (isPort(kind)) return 'inet_proto . inet_service';
  const address = `ipv${familyOf(kind)}_addr`;
  return `${address} . ${address} . inet_proto${isTuple(kind) ? ' . inet_service . inet_service' : ''}`;
}

type Way = 'arriving' | 'leaving';

/** The key of a packet for the lookup, the far end's part first. A key of one port is the sender's port. */
function lookUpOf(kind: EndedKind, way: Way): string {
  if (isPort(kind)) return 'meta l4proto . th sport';
  const [far, near] = way === 'arriving' ? ['s', 'd'] : ['d', 's'];
  const header = familyOf(kind) === 4 ? 'ip' : 'ip6';
  const pair = `${header} ${far}addr . ${header} ${near}addr . meta l4proto`;
  return isTuple(kind) ? `${pair} . th ${far}port . th ${near}port` : pair;
}

/** What our side would begin is seen as it leaves, what the far end would begin as it arrives. */
const isSeen = (kind: EndedKind, way: Way): boolean =>
  !isPort(kind) || kind === (way === 'leaving' ? 'port-inbound' : 'port-outbound');

const where = (chain: string, way: Way, name: InterfaceName): string =>
  `add rule ${own} ${chain} ${way === 'arriving' ? 'iifname' : 'oifname'} "${name}"`;
const update = (set: string, key: string): string => `update @${set} { ${key} }`;

/** Every packet that is refused keeps its element for longer: only silence ends it. */
function rulesOf({ name: chain, way, refusal }: Chain, { interface: name }: EndedPlace): readonly string[] {
  return endedKinds
    .filter((kind) => isSeen(kind, way))
    .map((kind) => {
      const looked = lookUpOf(kind, way);
      const isNew = isPort(kind) ? ' ct state new' : '';
      return `${where(chain, way, name)}${isNew} ${looked} @${kind} ${update(kind, looked)} counter name ${endedCounter} goto ${refusal}`;
    });
}

/** A reset says nothing but that the connection is over: also to a far end whose packets are answered here. */
const letResets = (chain: string, name: InterfaceName): string =>
  `${where(chain, 'leaving', name)} tcp flags & rst == rst accept`;

/** Whoever sends by TCP learns that the connection is over: no socket is ended whose packets do not pass the interface. */
const reset = 'reject with tcp reset';
const answering = 'service-ended-answering';
const noting = 'service-ended-noting';
const resetting = 'service-ended-resetting';
/** Connections by TCP of which this device has just sent a packet over the interface. */
const sendingSets = [
  ['sending4', 'stream4'],
  ['sending6', 'stream6'],
] as const;
const sendingFor = 60;

/**
 * A packet of this device meets `output` with the interface that was meant for it at first, and a mark may send it elsewhere after that. So it is
 * dropped and noted where it really leaves, and the socket gets its reset when it tries again. After that it sends nothing more, and its
 * element need not last for days.
 */
function resetRules({ interface: name, silence, size }: EndedPlace): readonly string[] {
  return [
    `add chain ${own} ${answering}`,
    `add rule ${own} ${answering} meta l4proto tcp ${reset}`,
    `add rule ${own} ${answering} drop`,
    `add chain ${own} ${noting}`,
    `add chain ${own} ${resetting} { type filter hook output priority filter; policy accept; }`,
    letResets(resetting, name),
    ...sendingSets.flatMap(([set, stream]) => {
      const looked = lookUpOf(stream, 'leaving');
      const tcp = `meta l4proto tcp ${looked}`;
      const again = `${where(resetting, 'leaving', name)} ${tcp} @${set}`;
      return [
        `add set ${own} ${set} { type ${typeOf(stream)}; size ${size}; flags dynamic,timeout; timeout ${sendingFor}s; }`,
        // A full set ends a rule, so the drop stands in another one.
        `add rule ${own} ${noting} meta l4proto tcp ${update(set, looked)}`,
        `${again} ${looked} @${stream} ${update(stream, `${looked} timeout ${silence.tuple}s`)} ${reset}`,
        `${again} ${reset}`,
      ];
    }),
    `add rule ${own} ${noting} drop`,
  ];
}

interface Chain {
  readonly name: string;
  readonly way: Way;
  readonly hook: string;
  readonly priority: string;
  readonly refusal: string;
}

/** A connection arrives before its destination is translated, and leaves the device, or whom it forwards for, before its source is. */
const chains: readonly Chain[] = [
  { name: 'service-ended-arriving', way: 'arriving', hook: 'prerouting', priority: '-150', refusal: answering },
  { name: 'service-ended-leaving', way: 'leaving', hook: 'postrouting', priority: 'filter', refusal: noting },
];
const forwarding: Chain = {
  name: 'service-ended-forwarded',
  way: 'leaving',
  hook: 'forward',
  priority: 'filter',
  refusal: answering,
};

function secondsOf(kind: EndedKind, { stream, tuple, pair }: EndedSilence): number {
  if (isStream(kind)) return stream;
  return kind.startsWith('pair') ? pair : tuple;
}

const makeTable = (place: EndedPlace): readonly string[] => [
  `add table ${own}`,
  `delete table ${own}`,
  `add table ${own}`,
  `add counter ${own} ${endedCounter}`,
  ...endedKinds.map(
    (kind) =>
      `add set ${own} ${kind} { type ${typeOf(kind)}; size ${place.size}; flags dynamic,timeout; timeout ${secondsOf(kind, place.silence)}s; }`,
  ),
  ...resetRules(place),
  ...[...chains, ...(place.containers === 'guard' ? [forwarding] : [])].flatMap((chain) => [
    `add chain ${own} ${chain.name} { type filter hook ${chain.hook} priority ${chain.priority}; policy accept; }`,
    ...(chain.way === 'leaving' ? [letResets(chain.name, place.interface)] : []),
    ...rulesOf(chain, place),
  ]),
];

/** The ports of an element, in the order of its key. */
const portsOf = ({ kind, remotePort, localPort }: EndedElement): readonly number[] => {
  if (kind === 'port-inbound') return [localPort];
  if (kind === 'port-outbound') return [remotePort];
  return isTuple(kind) ? [remotePort, localPort] : [];
};

function printKey(element: EndedElement): string {
  const { kind, remote, local, protocol } = element;
  return [...(isPort(kind) ? [] : [remote, local]), protocol, ...portsOf(element)].join(' . ');
}

/** What the kernel keeps beside an element: what its key does not tell. */
export const noteOf = ({ direction, protocol, port, forwarded }: EndedElement): string =>
  `${direction} ${protocol} ${port}${forwarded === undefined ? '' : ` ${forwarded}`}`;

/** The lines of a command. */
export function printEnded(command: EndedCommand): readonly string[] {
  switch (command.kind) {
    case 'makeEndedTable':
      return makeTable(command);
    case 'removeEndedTable':
      return [`add table ${own}`, `delete table ${own}`];
    case 'addEnded': {
      const elements = command.elements.map((element) => `${printKey(element)} comment "${noteOf(element)}"`);
      return [`add element ${own} ${command.of} { ${elements.join(', ')} }`];
    }
    case 'deleteEnded':
      return [`delete element ${own} ${command.of} { ${command.elements.map(printKey).join(', ')} }`];
    default:
      return command satisfies never;
  }
}

export const isEndedCommand = <Other extends { readonly kind: string }>(
  command: Other | EndedCommand,
): command is EndedCommand =>
  command.kind === 'makeEndedTable' ||
  command.kind === 'removeEndedTable' ||
  command.kind === 'addEnded' ||
  command.kind === 'deleteEnded';
