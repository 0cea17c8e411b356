/** Owns the names of our counters: which packets each counts, and the parsing of a name. */
import { isUuid, parseGroupId, type GroupId } from '../policy/ids.ts';
import type { Direction } from '../policy/rule.ts';
import type { Rule } from './ast.ts';
import { parseObjectName, type ObjectName } from './names.ts';

/**
 * What a closed direction counts besides what groups admit: packets of connections that were admitted before, neighbour
 * and router discovery, the agent's way to its server, and what nothing admits.
 */
const packetReasons = ['established', 'discovery', 'server', 'refused'] as const;
export type PacketReason = (typeof packetReasons)[number];

/** What one counter counts: new connections that a group admits, or packets of one reason. */
export interface Counted {
  readonly direction: Direction;
  readonly what: PacketReason | { readonly group: GroupId };
}

const prefix: { readonly [D in Direction]: string } = { inbound: 'in-', outbound: 'out-' };

const named = ({ direction, what }: Counted): ObjectName =>
  parseObjectName(`${prefix[direction]}${typeof what === 'string' ? what : what.group}`);

export const reasonCounter = (direction: Direction, what: PacketReason): ObjectName => named({ direction, what });
export const groupCounter = (direction: Direction, group: GroupId): ObjectName => named({ direction, what: { group } });

/** What the counter of this name counts; nothing where it is none of ours. */
export function readCounter(name: string): Counted | undefined {
  const direction: Direction = name.startsWith(prefix.inbound) ? 'inbound' : 'outbound';
  if (!name.startsWith(prefix[direction])) return undefined;
  const rest = name.slice(prefix[direction].length);
  const reason = packetReasons.find((each) => each === rest);
  if (reason !== undefined) return { direction, what: reason };
  return isUuid(rest) && rest === rest.toLowerCase() ? { direction, what: { group: parseGroupId(rest) } } : undefined;
}

/** The counters that rules name, each once. */
export const countersOf = (chains: readonly { readonly rules: readonly Rule[] }[]): readonly ObjectName[] => [
  ...new Set(chains.flatMap(({ rules }) => rules.flatMap(({ counter }) => counter ?? []))),
];
