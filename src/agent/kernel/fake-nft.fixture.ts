/** Owns a packet filter in memory that answers as the kernel does: tests of the agent run on it without any rights. */
import type { Command } from '../../nft/ast.ts';
import type { Installed } from '../../nft/listing.ts';
import type { Reading } from '../../nft/reading.ts';
import { NftError, type Nft, type NftErrorCode } from './nft.ts';
import { applyCommands, Refused } from './table-model.ts';

export class FakeNft implements Nft {
  /** What is written in tests as the author of a change that this port made. */
  readonly pid = 1;
  #state: Installed | undefined;
  #closed = false;
  #failure: { readonly code: NftErrorCode; readonly effect: 'none' | 'done' } | undefined;
  #transactions = 0;
  #counts = new Map<string, Reading>();
  #incarnations = 0;

  /** How many batches were taken so far. */
  get transactions(): number {
    return this.#transactions;
  }

  async run(commands: readonly Command[]): Promise<void> {
    await this.#turn();
    if (commands.length === 0) return;
    const next = this.#after(commands);
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure?.effect !== 'none') {
      // A new table has new counters, though by the same names.
      if (commands.some(({ kind }) => kind === 'deleteTable')) this.#counts.clear();
      this.#state = next;
      this.#transactions++;
    }
    if (failure !== undefined) throw new NftError(failure.code, `a test wants nft to be ${failure.code}`);
  }

  async list(): Promise<Installed | undefined> {
    await this.#turn();
    return this.#state;
  }

  async counters(): Promise<readonly Reading[]> {
    await this.#turn();
    const names = (this.#state?.objects ?? []).flatMap(({ object, name }) => (object === 'counter' ? [name] : []));
    this.#counts = new Map(names.map((name) => [name, this.#counts.get(name) ?? this.#newCounter(name)]));
    return [...this.#counts.values()];
  }

  /** Packets come by, of a hundred bytes each. */
  async pass(name: string, packets: number): Promise<void> {
    const counter = (await this.counters()).find((each) => each.name === name);
    if (counter === undefined) throw new Error(`nothing counts ${name}`);
    const bytes = counter.bytes + packets * 100;
    this.#counts.set(name, { ...counter, packets: counter.packets + packets, bytes });
  }

  #newCounter(name: string): Reading {
    return { name, incarnation: String(++this.#incarnations), packets: 0, bytes: 0 };
  }

  owns(process: number): boolean {
    return process === this.pid;
  }

  async close(): Promise<void> {
    await this.#turn();
    this.#closed = true;
  }

  /** Somebody else's hand: changes the table past the port. */
  tamper(change: (table: Installed | undefined) => Installed | undefined): void {
    this.#state = change(this.#state);
    if (this.#state === undefined) this.#counts.clear();
  }

  /** The next batch fails so, with its effect or without. */
  failNext(code: NftErrorCode, effect: 'none' | 'done' = 'none'): void {
    this.#failure = { code, effect };
  }

  clearFailure(): void {
    this.#failure = undefined;
  }

  #after(commands: readonly Command[]): Installed | undefined {
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
