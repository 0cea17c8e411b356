/** Owns the port to the kernel's packet filter: the operations that the agent needs, and how they may fail. */
import type { Command, TableName, TableRules } from '../../nft/ast.ts';
import type { EndedCommand } from '../../nft/ended-flows.ts';
import type { EndedListing } from '../../nft/read/ended-flows.ts';
import type { ObjectName } from '../../nft/names.ts';
import type { Installed } from '../../nft/read/listing.ts';
import type { CounterReading } from '../../nft/read/counter-reading.ts';

/**
 * The packet filter of one network namespace, narrowed to our tables.
 *
 * It promises:
 *
 * 1. **One transaction.** `run` makes all changes of its batch or none, and no packet meets a part of them as rules.
 *    The contents of sets that the batch creates may follow a moment later: a caller for whom this matters stages them
 *    first.
 * 2. **In order.** Calls take effect in the order in which they were made, one after the other.
 * 3. **Old or new.** After `refused`, `not_permitted` and `missing` nothing has changed. After `interrupted` and
 *    `timed_out` everything has changed or nothing, and only a listing shows which. The next call works again if it can.
 * 4. **Only ours.** No other table is ever written, and of other tables only the names are read.
 */
export interface Nft {
  /** Resolves when the kernel has taken the whole batch. An empty batch does nothing. */
  run(commands: readonly (Command | EndedCommand)[]): Promise<void>;
  /**
   * Lists one of our tables as the kernel holds it now. Default: `service`. Undefined where the table does not exist.
   * Rules that equal the expected ones at their place may be the same objects, which saves memory.
   */
  list(table?: TableName, expected?: TableRules): Promise<Installed | undefined>;
  /** The table for ended connections; nothing where it is not there. */
  listEnded(): Promise<EndedListing | undefined>;
  /** The elements of a set that rules record into, in nft's JSON; nothing where it is not there. */
  listSet(table: TableName, set: ObjectName): Promise<readonly unknown[] | undefined>;
  /** The counters of our tables at this moment, ours and others'; none of a table that is not there. */
  counters(): Promise<readonly CounterReading[]>;
  /** Whether the process, as the kernel names the author of a change, is one of this port. */
  owns(process: number): boolean;
  /** Waits for what is under way. What is installed stays. Later calls fail with `closed`. */
  close(): Promise<void>;
}

export type NftErrorCode =
  /** nft or the kernel does not take the batch. */
  | 'refused'
  /** The right to change the packet filter (CAP_NET_ADMIN) is missing. */
  | 'not_permitted'
  /** The program cannot be started. */
  | 'missing'
  /** A large batch could not be written down for the program: no space, or no right to write. */
  | 'no_scratch'
  /** The program ended in the middle. */
  | 'interrupted'
  /** The program did not answer in time, and was ended. */
  | 'timed_out'
  /** The program answered with something that is no listing. */
  | 'unreadable'
  | 'closed';

export class NftError extends Error {
  readonly code: NftErrorCode;
  constructor(code: NftErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
