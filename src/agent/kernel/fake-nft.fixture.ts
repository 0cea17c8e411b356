/** Owns an in-memory packet filter that answers as the kernel does, so that tests of the agent need no privileges. */
import { tableNames, type Command, type TableName } from '../../nft/ast.ts';
import { isEndedCommand, type EndedCommand, type EndedElement } from '../../nft/ended-flows.ts';
import type { EndedListing } from '../../nft/read/ended-flows.ts';
import type { Installed, InstalledTables } from '../../nft/read/listing.ts';
import type { CounterReading } from '../../nft/read/counter-reading.ts';
import { NftError, type Nft, type NftErrorCode } from './nft.ts';
import { applyCommands, noTables, Refused } from './table-model.ts';

/** The table for ended connections. */
interface EndedState {
  readonly rules: string;
  readonly elements: ReadonlyMap<string, EndedElement>;
}

const keyOf = (element: EndedElement): string =>
  [element.kind, element.remote, element.local, element.protocol, element.remotePort, element.localPort].join(' ');

function afterEnded(state: EndedState | undefined, command: EndedCommand): EndedState | undefined {
  if (command.kind === 'removeEndedTable') return undefined;
  if (command.kind === 'makeEndedTable') return { rules: JSON.stringify(command), elements: new Map() };
  const refuse = (): never => {
    throw new NftError('refused', 'nft refused the batch: No such file or directory');
  };
  const { rules, elements: before } = state ?? refuse();
  const elements = new Map(before);
  for (const each of command.elements) {
    if (command.kind === 'addEnded') elements.set(keyOf(each), elements.get(keyOf(each)) ?? each);
    else if (!elements.delete(keyOf(each))) refuse();
  }
  return { rules, elements };
}

export class FakeNft implements Nft {
  /** What is written in tests as the author of a change that this port made. */
  readonly pid = 1;
  #state: InstalledTables = noTables;
  #closed = false;
  #failure: { readonly code: NftErrorCode; readonly effect: 'none' | 'done' } | undefined;
  #transactions = 0;
  #ended: EndedState | undefined;
  #counts = new Map<string, CounterReading>();
  #incarnations = 0;
  /** What sets hold, by table and name. */
  readonly #elements = new Map<string, readonly unknown[]>();

  /** How many batches were taken so far. */
  get transactions(): number {
    return this.#transactions;
  }

  async run(all: readonly (Command | EndedCommand)[]): Promise<void> {
    await this.#turn();
    if (all.length === 0) return;
    const commands = all.filter((command) => !isEndedCommand(command));
    const next = this.#after(commands);
    const ended = all.filter((command) => isEndedCommand(command)).reduce(afterEnded, this.#ended);
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure?.effect !== 'none') {
      // A new table has new counters, though by the same names.
      for (const { kind, table = 'service' } of commands) if (kind === 'deleteTable') this.#forget(table);
      for (const command of commands) this.#recorded(command);
      this.#state = next;
      this.#ended = ended;
      this.#transactions++;
    }
    if (failure !== undefined) throw new NftError(failure.code, `a test wants nft to be ${failure.code}`);
  }

  async list(table: TableName = 'service'): Promise<Installed | undefined> {
    await this.#turn();
    return this.#state[table];
  }

  async listEnded(): Promise<EndedListing | undefined> {
    await this.#turn();
    return this.#ended && { elements: [...this.#ended.elements.values()], rules: this.#ended.rules };
  }

  async listSet(table: TableName, set: string): Promise<readonly unknown[] | undefined> {
    await this.#turn();
    const isThere = this.#state[table]?.objects.some(({ object, name }) => object === 'set' && name === set) === true;
    return isThere ? (this.#elements.get(`${table} ${set}`) ?? []) : undefined;
  }

  /** Packets come by that rules record. */
  record(set: string, elements: readonly unknown[], table: TableName = 'service'): void {
    this.#elements.set(`${table} ${set}`, [...(this.#elements.get(`${table} ${set}`) ?? []), ...elements]);
  }

  #recorded(command: Command): void {
    const { table = 'service' } = command;
    if (command.kind === 'flushSet') this.#elements.delete(`${table} ${command.name}`);
    if (command.kind === 'startSecondGeneration') this.#elements.set(`${table} ${command.set}`, ['ipv4', 'ipv6']);
  }

  /** Somebody else's hand, or time that passed: changes the table for ended connections past the port. */
  tamperEnded(change: (ended: EndedListing) => EndedListing | undefined): void {
    const now = this.#ended && change({ elements: [...this.#ended.elements.values()], rules: this.#ended.rules });
    this.#ended = now && { rules: now.rules, elements: new Map(now.elements.map((each) => [keyOf(each), each])) };
  }

  async counters(): Promise<readonly CounterReading[]> {
    await this.#turn();
    const all = tableNames.flatMap((table) =>
      (this.#state[table]?.objects ?? []).flatMap(({ object, name }) =>
        object === 'counter' ? [this.#counts.get(`${table} ${name}`) ?? this.#newCounter(table, name)] : [],
      ),
    );
    this.#counts = new Map(all.map((reading) => [`${reading.table} ${reading.name}`, reading]));
    return all;
  }

  /** Packets come by, of a hundred bytes each. */
  async pass(name: string, packets: number, table: TableName = 'service'): Promise<void> {
    const counter = (await this.counters()).find((each) => each.table === table && each.name === name);
    if (counter === undefined) throw new Error(`nothing counts ${name}`);
    const bytes = counter.bytes + packets * 100;
    this.#counts.set(`${table} ${name}`, { ...counter, packets: counter.packets + packets, bytes });
  }

  #newCounter(table: TableName, name: string): CounterReading {
    return { table, name, incarnation: String(++this.#incarnations), packets: 0, bytes: 0 };
  }

  owns(process: number): boolean {
    return process === this.pid;
  }

  async close(): Promise<void> {
    await this.#turn();
    this.#closed = true;
  }

  /** Somebody else's hand: changes the table past the port. */
  tamper(change: (table: Installed | undefined) => Installed | undefined, table: TableName = 'service'): void {
    this.#state = { ...this.#state, [table]: change(this.#state[table]) };
    if (this.#state[table] === undefined) this.#forget(table);
  }

  #forget(table: TableName): void {
    for (const key of this.#counts.keys()) if (key.startsWith(`${table} `)) this.#counts.delete(key);
    for (const key of this.#elements.keys()) if (key.startsWith(`${table} `)) this.#elements.delete(key);
  }

  /** The next batch fails so, with its effect or without. */
  failNext(code: NftErrorCode, effect: 'none' | 'done' = 'none'): void {
    this.#failure = { code, effect };
  }

  clearFailure(): void {
    this.#failure = undefined;
  }

  #after(commands: readonly Command[]): InstalledTables {
    try {
      return applyCommands(this.#state, commands);
    } catch (error) {
      if (error instanceof Refused) throw new NftError('refused', `nft refused the batch: ${error.message}`);
      throw error;
    }
  }

  async #turn(): Promise<void> {
    await Promise.resolve();
    if (this.#closed) throw new NftError('closed', 'the packet filter is closed');
  }
}
