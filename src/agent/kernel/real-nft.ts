/** Owns the real packet filter: transactions through one long-lived `nft -i`, which it restarts when needed. */
import { mkdir, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../client/clock.ts';
import { tableNames, type Command, type TableName, type TableRules } from '../../nft/ast.ts';
import { endedTable, type EndedCommand } from '../../nft/ended-flows.ts';
import { readEnded, type EndedListing } from '../../nft/read/ended-flows.ts';
import { ListingReader } from '../../nft/read/listing-text.ts';
import { NoListing, type Installed } from '../../nft/read/listing.ts';
import type { ObjectName } from '../../nft/names.ts';
import { printParts } from '../../nft/print.ts';
import { elementsOf } from '../../nft/read/recorded.ts';
import { parseCounterReadings, type CounterReading } from '../../nft/read/counter-reading.ts';
import {
  batchLine,
  countersLine,
  includeLine,
  listLine,
  readNftReply,
  setLine,
  tablesLine,
  type NftReply,
} from '../../nft/session.ts';
import { openFreshFile } from '../../node/atomic-write.ts';
import { ChannelError, type NetlinkChannel } from '../netlink/channel.ts';
import { isTableAbsent } from '../netlink/nftables/transaction.ts';
import { changeOverNetlink } from './netlink-batch.ts';
import { NftError, type Nft } from './nft.ts';
import { NftSession } from './nft-session.ts';
import { AdaptiveTimeout } from './adaptive-timeout.ts';

export interface RealNftOptions {
  readonly clock: Clock;
  /** A directory of our own for large batches; memory rather than disk, if there is a choice. */
  readonly scratch: string;
  /** The command line that nft is started through, such as one that enters a network namespace. */
  readonly prefix?: readonly string[];
  readonly program?: string;
  /** Milliseconds for one answer, besides what a large batch takes; a minute unless given. */
  readonly timeout?: number;
  /** The short way for what can be said over netlink; absent: all goes through nft. */
  readonly netlink?: NetlinkChannel;
  /** Lines after which a fresh nft takes over: it keeps every line in memory. 10,000 unless given. */
  readonly lifetime?: number;
  /** Bytes of a batch or listing after which it does too: nft gives no memory back. A million unless given. */
  readonly heavy?: number;
}

/**
 * Longer batches go through a file: nft reads lines letter by letter, and a line must fit into one write, because nft
 * would run the beginning of a line whose end never comes.
 */
const longestLine = 2_048;
/** Bytes from which on the size of a batch may be why it takes so long. */
const largeBatch = 1_000_000;
/** Bytes of the listing of a set, some 500 tuples. */
const heavySet = 65_536;
/** Milliseconds that a helper which is starting may take before nft is asked instead. */
const helperGrace = 250;
/** Events may name an author long after it ended, and numbers are given out anew only after very many. */
const knownAuthors = 6;

export class RealNft implements Nft {
  readonly #options: Required<Omit<RealNftOptions, 'timeout' | 'netlink'>> & Pick<RealNftOptions, 'netlink'>;
  readonly #file: string;
  readonly #pids = new Set<number>();
  readonly #timeout: AdaptiveTimeout;
  #process: NftSession | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #lost = false;
  #closed = false;

  constructor(options: RealNftOptions) {
    this.#options = { prefix: [], program: 'nft', lifetime: 10_000, heavy: largeBatch, ...options };
    this.#timeout = new AdaptiveTimeout(options.timeout);
    this.#file = join(options.scratch, `batch-${process.pid}.nft`);
  }

  /** Starts nft, so that the first request finds it running. If it cannot be started, that request fails. */
  async start(): Promise<void> {
    await this.#running();
  }

  run(commands: readonly (Command | EndedCommand)[]): Promise<void> {
    return this.#inTurn(async () => {
      if (commands.length === 0 || (await this.#changeOverNetlink(commands))) return;
      const { line, size } = await this.#lineFor(commands);
      const answer = await this.#ask(line, { size }).catch((error: unknown) => {
        throw size < largeBatch ? error : withSize(error, size);
      });
      if (answer.kind === 'done') return;
      if (answer.kind === 'not_permitted') throw new NftError('not_permitted', notPermitted(answer.detail));
      throw new NftError('refused', `nft refused the batch: ${answer.detail}`);
    });
  }

  list(table: TableName = 'service', expected?: TableRules): Promise<Installed | undefined> {
    return this.#inTurn(async () => {
      if (await this.#isAbsent(table)) return undefined;
      const reader = new ListingReader(table, expected);
      const answer = await this.#ask(listLine(table), { listing: reader });
      return isListed(answer) ? readable(() => reader.end()) : undefined;
    });
  }

  listEnded(): Promise<EndedListing | undefined> {
    return this.#inTurn(async () => {
      if (await this.#isAbsent(endedTable)) return undefined;
      const listing = await this.#listing(listLine(endedTable));
      return listing === undefined ? undefined : readable(() => readEnded(listing));
    });
  }

  listSet(table: TableName, set: ObjectName): Promise<readonly unknown[] | undefined> {
    return this.#inTurn(async () => {
      const answer = await this.#ask(setLine(table, set));
      if (!isListed(answer)) return undefined;
      const { json = '' } = answer;
      // Recorded tuples are read once a minute. 1,000 of them would leave nft with 2.6 MB more until the next minute.
      if (json.length >= heavySet) await this.#process?.end();
      return readable(() => elementsOf(JSON.parse(json), set));
    });
  }

  counters(): Promise<readonly CounterReading[]> {
    return this.#inTurn(async () => {
      const tables = await this.#listing(tablesLine);
      const all: CounterReading[] = [];
      for (const table of tableNames) {
        const counters = await this.#listing(countersLine(table));
        if (tables === undefined || counters === undefined) continue;
        all.push(...readable(() => parseCounterReadings(tables, counters, table)));
      }
      return all;
    });
  }

  owns(process: number): boolean {
    return this.#pids.has(process) || this.#options.netlink?.owns(process) === true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#queue;
    await this.#process?.end();
    await rm(this.#file, { force: true }).catch(() => {});
  }

  /** A batch that was lost on the short way may be what the helper cannot carry: the next one takes the long way. */
  async #changeOverNetlink(commands: readonly (Command | EndedCommand)[]): Promise<boolean> {
    if (this.#lost) {
      this.#lost = false;
      return false;
    }
    try {
      return await changeOverNetlink(this.#options.netlink, commands);
    } catch (error) {
      this.#lost = true;
      throw error;
    }
  }

  /** Whether the table is certainly not there; nft would be asked for a listing of nothing. */
  async #isAbsent(table: TableName | typeof endedTable): Promise<boolean> {
    const { netlink } = this.#options;
    if (netlink === undefined || !(await netlink.isRunning(helperGrace))) return false;
    try {
      return await isTableAbsent(netlink, table);
    } catch (error) {
      if (!(error instanceof ChannelError)) throw error;
      return false;
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new NftError('closed', 'the packet filter is closed'));
    const result = this.#queue.then(work);
    this.#queue = result.catch(() => {});
    return result;
  }

  /** `size` is that of the batch which the line leads to; `listing` reads what is listed as it comes, and the answer has it not. */
  async #ask(
    line: string,
    { size, listing }: { readonly size?: number; readonly listing?: ListingReader } = {},
  ): Promise<NftReply> {
    const session = await this.#running();
    try {
      const hear = listing && ((part: string): void => listing.push(part));
      const answer = readNftReply(await session.ask(line, this.#timeout.for(size), hear));
      this.#timeout.reset();
      // 50,000 rules leave it with 250 MB for good: the next question goes to a fresh one.
      const listed = answer.kind === 'done' ? (answer.json?.length ?? 0) : 0;
      if (Math.max(size ?? 0, listing?.length ?? listed) >= this.#options.heavy) await session.end();
      return answer;
    } catch (error) {
      if (error instanceof NftError && error.code === 'timed_out') this.#timeout.grow();
      throw error;
    }
  }

  /** What the line lists; nothing where our table is not there. */
  async #listing(line: string): Promise<unknown> {
    const answer = await this.#ask(line);
    return isListed(answer) ? readable(() => JSON.parse(answer.json ?? '') as unknown) : undefined;
  }

  async #running(): Promise<NftSession> {
    const { clock, prefix, program, lifetime } = this.#options;
    if (this.#process !== undefined && this.#process.asked >= lifetime) await this.#process.end();
    if (this.#process?.alive !== true) {
      // Those before may still be named as authors by events that are under way; much older ones may have other owners by now.
      this.#process = new NftSession({ clock, prefix, program });
      const { pid } = this.#process;
      if (pid !== undefined) this.#pids.add(pid);
      for (const oldest of [...this.#pids].slice(0, -knownAuthors)) this.#pids.delete(oldest);
    }
    return this.#process;
  }

  async #lineFor(
    commands: readonly (Command | EndedCommand)[],
  ): Promise<{ readonly line: string; readonly size: number }> {
    const parts = printParts(commands);
    const first = parts.next().value ?? '';
    if (first.length <= longestLine) return { line: batchLine(commands), size: first.length };
    try {
      return { line: includeLine(this.#file), size: await this.#write(first, parts) };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new NftError('no_scratch', `cannot write the batch file for nft: ${reason}`, { cause: error });
    }
  }

  /** A directory for passing files may be swept up at any time: then it is made again. */
  async #write(first: string, rest: Iterable<string>): Promise<number> {
    const file = await this.#openBatch();
    try {
      let size = 0;
      size += (await file.write(first)).bytesWritten;
      for (const part of rest) size += (await file.write(part)).bytesWritten;
      return size;
    } finally {
      await file.close();
    }
  }

  async #openBatch(): Promise<FileHandle> {
    const create = (): Promise<FileHandle> => openFreshFile(this.#file, 0o600);
    try {
      return await create();
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error) || error.code !== 'ENOENT') throw error;
      await mkdir(this.#options.scratch, { mode: 0o700 });
      return create();
    }
  }
}

/** Whether nft has listed; false where our table is not there. */
function isListed(answer: NftReply): answer is Extract<NftReply, { kind: 'done' }> {
  if (answer.kind === 'not_permitted') throw new NftError('not_permitted', notPermitted(answer.detail));
  if (answer.kind === 'refused') throw new NftError('unreadable', `nft cannot list the table: ${answer.detail}`);
  return answer.kind === 'done';
}

function readable<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SyntaxError) && !(error instanceof NoListing)) throw error;
    throw new NftError('unreadable', `cannot read the output of nft: ${error.message}`, { cause: error });
  }
}

/** The size of a batch that took too long may be why. */
function withSize(error: unknown, size: number): unknown {
  if (!(error instanceof NftError) || error.code !== 'timed_out') return error;
  const message = `${error.message} about a batch of ${Math.round(size / 1_000)} kB`;
  return new NftError('timed_out', message, { cause: error });
}

const notPermitted = (detail: string): string =>
  `the agent has no permission to change the packet filter (it needs CAP_NET_ADMIN): ${detail}`;
