/**
 * Owns the packet totals over both tables. The kernel's counters start again with their table and with the machine;
 * these totals do not.
 */
import { tableNames, type TableName } from '../../nft/ast.ts';
import { readCounter, type Counted } from '../../nft/counters.ts';
import { field, isObject } from '../../policy/json.ts';
import type { CounterReading } from '../../nft/read/counter-reading.ts';

export interface Count {
  readonly packets: number;
  readonly bytes: number;
}

export const nothing: Count = { packets: 0, bytes: 0 };

const format = 1;

export class CounterTotals {
  /** By the name of the counter. */
  readonly #totals = new Map<string, Count>();
  /** What of it the kernel's counters said when they were last read, by their table and name. */
  #seen = new Map<string, CounterReading>();

  /** Takes a reading of all counters in. One that is not among them is gone: it begins at zero when it comes back. */
  see(all: readonly CounterReading[]): void {
    const readings = all.filter(({ name }) => readCounter(name) !== undefined);
    for (const reading of readings) {
      const { packets, bytes } = this.total(reading.name);
      const before = this.#seen.get(keyOf(reading));
      // Less than before, and yet the same counter: somebody has set it to zero.
      const goesOn = before?.incarnation === reading.incarnation && before.packets <= reading.packets;
      const from = goesOn && before !== undefined ? before : nothing;
      this.#totals.set(reading.name, {
        packets: packets + reading.packets - from.packets,
        bytes: bytes + Math.max(0, reading.bytes - from.bytes),
      });
    }
    this.#seen = new Map(readings.map((reading) => [keyOf(reading), reading]));
  }

  total(name: string): Count {
    return this.#totals.get(name) ?? nothing;
  }

  /** Forgets the totals of which this is not true: of groups that have left. */
  keepOnly(isWanted: (counted: Counted) => boolean): void {
    for (const name of this.#totals.keys()) {
      const counted = readCounter(name);
      if (counted === undefined || !isWanted(counted)) this.#totals.delete(name);
    }
  }

  /** For the next start. */
  print(): string {
    const counters = [...this.#totals].map(([name, total]) => {
      const seen = tableNames.flatMap((table) => this.#seen.get(keyOf({ table, name })) ?? []);
      return { name, ...total, seen };
    });
    return `${JSON.stringify({ format, counters })}\n`;
  }

  /** The totals that were printed; an empty one where the text is none: what was counted is no reason to stop. */
  static parse(text: string): CounterTotals {
    const totals = new CounterTotals();
    const value = jsonOf(text);
    const counters = isObject(value) && field(value, 'format') === format ? field(value, 'counters') : undefined;
    for (const counter of Array.isArray(counters) ? (counters as readonly unknown[]) : []) {
      if (!isObject(counter)) continue;
      const [name, total, seen] = [field(counter, 'name'), countOf(counter), field(counter, 'seen')];
      if (typeof name !== 'string' || readCounter(name) === undefined || total === undefined) continue;
      totals.#totals.set(name, total);
      for (const each of Array.isArray(seen) ? (seen as readonly unknown[]) : [seen]) {
        const reading = readingOf(each, name);
        if (reading !== undefined) totals.#seen.set(keyOf(reading), reading);
      }
    }
    return totals;
  }
}

const keyOf = ({ table, name }: { readonly table: TableName; readonly name: string }): string => `${table} ${name}`;

/** Where no table is named, there was only one. */
function readingOf(value: unknown, name: string): CounterReading | undefined {
  if (!isObject(value)) return undefined;
  const [last, incarnation, named] = [countOf(value), field(value, 'incarnation'), field(value, 'table') ?? 'service'];
  const table = tableNames.find((each) => each === named);
  if (last === undefined || table === undefined || typeof incarnation !== 'string') return undefined;
  return { table, name, incarnation, ...last };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function countOf(value: Readonly<Record<string, unknown>>): Count | undefined {
  const [packets, bytes] = [field(value, 'packets'), field(value, 'bytes')];
  const isCount = (number: unknown): number is number => typeof number === 'number' && number >= 0;
  return isCount(packets) && isCount(bytes) ? { packets, bytes } : undefined;
}
