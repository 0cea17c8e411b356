/** Owns the names of what records first packets in the kernel: the sets of each generation, and the counter of packets that found no room. */
import type { Direction, Family } from '../policy/rule.ts';
import type { RecordSet, Rule } from './ast.ts';
import { parseObjectName, type ObjectName } from './names.ts';

/** What agents record, by the setting of the organization. `off` and `counters` leave the rules as they are specified. */
export type Observe = 'off' | 'counters' | 'refused' | 'all';
export type RecordedVerdict = 'refused' | 'admitted';

/**
 * Rules record into one generation of sets while the agent reads and empties the other, so no packet is lost between reading and emptying. A packet
 * looks up which one it is.
 */
export type Generation = 1 | 2;

/** Elements that a set holds at most (reference 1.2 (28)). */
export const mostRecorded = 4_096;
/** What no agent reads goes after this time. */
export const keptMinutes = 10;

/** Holds both families while the second generation records. */
export const generationSet = parseObjectName('observed-second');
/** Counts packets that found no room. */
export const unrecordedCounter = parseObjectName('unrecorded');

/** Which tuples a set holds: those with a port, or those of a protocol without one. */
export interface RecordedKind {
  readonly direction: Direction;
  readonly verdict: RecordedVerdict;
  readonly family: Family;
  readonly ports: boolean;
  readonly generation: Generation;
}

const prefix: { readonly [D in Direction]: string } = { inbound: 'in', outbound: 'out' };

export const recordSetName = ({ direction, verdict, family, ports, generation }: RecordedKind): ObjectName =>
  parseObjectName(`${prefix[direction]}-${verdict}-${ports ? 'port' : 'plain'}${family}-${generation}`);

const form = /^(in|out)-(refused|admitted)-(port|plain)([46])-([12])$/;

/** What the set of this name holds; nothing where it is none of ours. */
export function readRecordSetName(name: string): RecordedKind | undefined {
  const [, way, verdict, ports, family, generation] = form.exec(name) ?? [];
  if (way === undefined) return undefined;
  return {
    direction: way === 'in' ? 'inbound' : 'outbound',
    verdict: verdict === 'refused' ? 'refused' : 'admitted',
    family: family === '4' ? 4 : 6,
    ports: ports === 'port',
    generation: generation === '1' ? 1 : 2,
  };
}

/** Whether the name is one that we give to sets. */
export const isRecordSetName = (name: string): boolean =>
  name === generationSet || readRecordSetName(name) !== undefined;

/** The sets that rules record into or look up, each once. */
export function recordSetsOf(chains: readonly { readonly rules: readonly Rule[] }[]): readonly RecordSet[] {
  const sets = new Map<string, RecordSet>();
  for (const { record, matches } of chains.flatMap(({ rules }) => rules)) {
    if (matches[0]?.kind === 'secondGeneration') sets.set(generationSet, { name: generationSet, kind: 'generation' });
    if (record === undefined) continue;
    const { set: name, family, port } = record;
    sets.set(name, { name, kind: `${port === undefined ? 'plain' : 'port'}${family}` });
  }
  return [...sets.values()];
}
