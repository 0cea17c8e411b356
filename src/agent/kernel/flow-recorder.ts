/** Owns the reading of what the kernel has recorded: turns to the other generation of sets, then reads and empties the first (docs/decisions/ruleset.md). */
import type { Command, RecordSet, TableName } from '../../nft/ast.ts';
import type { CounterReading } from '../../nft/read/counter-reading.ts';
import { tuplesOf, type RecordedTuple } from '../../nft/read/recorded.ts';
import { generationSet, readRecordSetName, unrecordedCounter } from '../../nft/recording.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import type { GroupId } from '../../policy/ids.ts';
import type { Nft } from './nft.ts';

/** The sets of one table that rules in force record into. */
export interface RecordingTable {
  readonly table: TableName;
  readonly sets: readonly RecordSet[];
}

export interface Recorded {
  readonly tuples: readonly RecordedTuple[];
  /** Packets that found no room. */
  readonly unrecorded: number;
}

/** What the kernel has recorded since it was last read. */
export interface ObservedTraffic extends Recorded {
  readonly observed: 'refused' | 'all';
  /** Milliseconds for which the rules in force have recorded this without a break, by the monotonic clock. */
  readonly recordedFor: number;
  /** Another object where other rules are in force, and the same where only devices that they name have changed. Absent where none are. */
  readonly rules?: object | undefined;
  /** What was in force since the call before, the newest first. */
  readonly policies: PoliciesInForce;
}

export interface PoliciesInForce {
  readonly known: readonly EffectivePolicy[];
  /** Whether these are all: of very many only the newest are held. */
  readonly areAll: boolean;
  /** The groups that all of them have, also those that are not held; undefined where one of them is not known. */
  readonly groups: readonly GroupId[] | undefined;
}

/** Milliseconds after which no packet is on its way through the rules of the generation before. */
const settling = 100;

export const tupleKey = ({ direction, verdict, family, far, protocol, port }: RecordedTuple): string =>
  `${direction} ${verdict} ${family} ${far} ${protocol} ${port}`;

/**
 * Its calls are made one at a time. Throws `NftError`, and then nothing is lost: everything is read first and emptied in one transaction, so a later call
 * reads what this one did not empty.
 */
export class FlowRecorder {
  readonly #nft: Nft;
  readonly #wait: (milliseconds: number) => Promise<void>;
  /** What the counters showed when they were last read. */
  readonly #seen = new Map<TableName, { readonly incarnation: string; readonly packets: number }>();

  constructor({ nft, wait }: { readonly nft: Nft; readonly wait: (milliseconds: number) => Promise<void> }) {
    this.#nft = nft;
    this.#wait = wait;
  }

  /** Everything that was recorded since the last call, in all of these tables. */
  async take(tables: readonly RecordingTable[]): Promise<Recorded> {
    const finished: (RecordingTable & { readonly generation: 1 | 2 })[] = [];
    for (const { table, sets } of tables) {
      const isSecond = ((await this.#nft.listSet(table, generationSet)) ?? []).length > 0;
      const turn: Command = isSecond
        ? { kind: 'flushSet', table, name: generationSet }
        : { kind: 'startSecondGeneration', table, set: generationSet };
      await this.#nft.run([turn]);
      finished.push({ table, sets, generation: isSecond ? 2 : 1 });
    }
    if (finished.length === 0) return { tuples: [], unrecorded: 0 };
    await this.#wait(settling);
    const tuples: RecordedTuple[] = [];
    const filled: Command[] = [];
    for (const { table, sets, generation } of finished) {
      for (const { name } of sets) {
        // No packet goes into the sets of this generation any more.
        if (readRecordSetName(name)?.generation !== generation) continue;
        const elements = (await this.#nft.listSet(table, name)) ?? [];
        if (elements.length === 0) continue;
        tuples.push(...tuplesOf(name, elements));
        filled.push({ kind: 'flushSet', table, name });
      }
    }
    const counters = (await this.#nft.counters()).filter(({ name }) => name === unrecordedCounter);
    await this.#nft.run(filled);
    return { tuples: added(tuples), unrecorded: this.#unrecorded(counters) };
  }

  #unrecorded(counters: readonly CounterReading[]): number {
    let sum = 0;
    for (const { table, incarnation, packets } of counters) {
      const before = this.#seen.get(table);
      const from = before?.incarnation === incarnation && before.packets <= packets ? before.packets : 0;
      sum += packets - from;
      this.#seen.set(table, { incarnation, packets });
    }
    return sum;
  }
}

/** The same tuple may have been recorded in both tables. */
function added(tuples: readonly RecordedTuple[]): readonly RecordedTuple[] {
  const sums = new Map<string, RecordedTuple>();
  for (const tuple of tuples) {
    const before = sums.get(tupleKey(tuple));
    sums.set(tupleKey(tuple), before === undefined ? tuple : { ...tuple, packets: before.packets + tuple.packets });
  }
  return [...sums.values()];
}
