/** Owns the parsing of `nft monitor`: which program changed the packet filter, and which changes concern our tables. */
import { tableFamily, tableNames, type TableName } from '../../nft/ast.ts';
import { endedTable } from '../../nft/ended-flows.ts';
import type { TableChange } from './drift.ts';

/** The process that the kernel names as the author of a change. */
export interface Author {
  readonly pid: number;
  readonly name: string;
}

/** One change of the packet filter, as a whole. */
export interface Generation {
  readonly number: number;
  readonly author: Author | undefined;
  /** What it did to our table; absent when it did nothing there. */
  readonly change: TableChange | undefined;
  /** Whether it did anything to the table for ended connections. */
  readonly ended?: boolean;
  /** What it did to our table, in nft's words: the first few lines, shortened. */
  readonly lines: readonly string[];
}

/** A change, or that changes may have been missed. */
export type MonitorEvent =
  | { readonly kind: 'generation'; readonly generation: Generation }
  | { readonly kind: 'lost'; readonly why: string };

/** The beginning of a line is enough: a rule with its addresses may be megabytes long. */
export const longestMonitorLine = 300;
const mostLines = 5;

const change = new RegExp(
  `^(?:add|insert|replace|delete|destroy|reset) (?<object>[a-z]+(?: [a-z]+)?) ${tableFamily} (?<table>${[...tableNames, endedTable].join('|')})(?= |$)(?: (?<name>[^ ]+))?`,
);
const generation = /^# new generation (\d+)(?: by process (\d+) \((.*)\))?/;

/** Takes the lines of `nft monitor` in, collects them, and answers with an event at the end of each change. */
export class MonitorReader {
  #lines: string[] = [];
  #chains = new Set<string>();
  #tables = new Set<TableName>();
  #changed = false;
  #ended = false;

  read(line: string): MonitorEvent | undefined {
    const end = generation.exec(line);
    if (end !== null) return this.#finish(end);
    if (line.startsWith('#')) return { kind: 'lost', why: line.slice(1).trim() };
    if (this.#knowsEnough(line)) return undefined;
    const parts = change.exec(line)?.groups;
    if (parts === undefined) return undefined;
    if (parts['table'] === endedTable) this.#ended = true;
    else this.#changed = true;
    if (this.#lines.length < mostLines) this.#lines.push(line.slice(0, longestMonitorLine).trim());
    const { object, name } = parts;
    const table = tableNames.find((each) => each === parts['table']);
    if (object === 'table' && table !== undefined) this.#tables.add(table);
    else if (table !== undefined && (object === 'chain' || object === 'rule') && name !== undefined)
      this.#chains.add(name);
    return undefined;
  }

  /** To empty a set of thousands of elements is a line for each, and the first ones say it all. */
  #knowsEnough(line: string): boolean {
    if (!this.#changed || this.#lines.length < mostLines || !line.startsWith('delete element ')) return false;
    return this.#ended || !line.startsWith(`delete element ${tableFamily} ${endedTable} `);
  }

  #finish([, number, pid, name]: RegExpExecArray): MonitorEvent {
    const tableChange = this.#changed ? { tables: this.#tables, chains: this.#chains } : undefined;
    const [lines, ended] = [this.#lines, this.#ended];
    this.#lines = [];
    this.#chains = new Set();
    this.#tables = new Set();
    this.#changed = false;
    this.#ended = false;
    const author = pid === undefined ? undefined : { pid: Number(pid), name: name ?? '' };
    const generated = { number: Number(number), author, change: tableChange, lines, ...(ended && { ended }) };
    return { kind: 'generation', generation: generated };
  }
}
