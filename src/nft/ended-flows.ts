/** Owns the table that keeps ended connections from coming back (reference 1.2 (26)): its commands and their text. */
import type { Direction } from '../policy/rule.ts';
import { tableFamily } from './ast.ts';
import type { InterfaceName } from './names.ts';

/** There only while a connection is to stay ended, so that no packet pays for it otherwise. */
export const endedTable = 'service-ended';
/** Counts the packets that the table drops. */
const endedCounter = 'ended';

/**
 * What elements of a set are: a connection; one of a stream protocol whose sockets may still be open, which lasts longer; all connections of a protocol
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
export const isTuple = (kind: EndedKind): boolean => kind.startsWith('stream') || kind.startsWith('tuple');
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

/** Every packet that is dropped keeps its element for longer: only silence ends it. */
function rulesOf(chain: string, way: Way, name: InterfaceName): readonly string[] {
  const where = `${way === 'arriving' ? 'iifname' : 'oifname'} "${name}"`;
  return endedKinds
    .filter((kind) => isSeen(kind, way))
    .map((kind) => {
      const looked = lookUpOf(kind, way);
      const isNew = isPort(kind) ? ' ct state new' : '';
      return `add rule ${own} ${chain} ${where}${isNew} ${looked} @${kind} update @${kind} { ${looked} } counter name ${endedCounter} drop`;
    });
}

/** A connection arrives before its destination is translated, and leaves the device, or whom it forwards for, before its source is. */
const chains = [
  { name: 'service-ended-arriving', way: 'arriving', hook: 'prerouting', priority: '-150', forwarded: false },
  { name: 'service-ended-leaving', way: 'leaving', hook: 'output', priority: 'filter', forwarded: false },
  { name: 'service-ended-forwarded', way: 'leaving', hook: 'forward', priority: 'filter', forwarded: true },
] as const;

function secondsOf(kind: EndedKind, { stream, tuple, pair }: EndedSilence): number {
  if (kind.startsWith('stream')) return stream;
  return kind.startsWith('pair') ? pair : tuple;
}

const makeTable = ({ interface: name, containers, silence, size }: EndedPlace): readonly string[] => [
  `add table ${own}`,
  `delete table ${own}`,
  `add table ${own}`,
  `add counter ${own} ${endedCounter}`,
  ...endedKinds.map(
    (kind) =>
      `add set ${own} ${kind} { type ${typeOf(kind)}; size ${size}; flags dynamic,timeout; timeout ${secondsOf(kind, silence)}s; }`,
  ),
  ...chains
    .filter(({ forwarded }) => !forwarded || containers === 'guard')
    .flatMap(({ name: chain, way, hook, priority }) => [
      `add chain ${own} ${chain} { type filter hook ${hook} priority ${priority}; policy accept; }`,
      ...rulesOf(chain, way, name),
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
