/**
 * Owns what the agent keeps on disk. After a crash at any moment, each file is the old or the new one, complete (an
 * intent may be missing).
 */
import { mkdirSync } from 'node:fs';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseLastGoodPolicy, printLastGoodPolicy, type LastGoodPolicy } from './last-good-policy.ts';
import { UnusablePolicy } from './unusable-policy.ts';
import { CounterTotals } from '../kernel/counter-totals.ts';
import {
  prepareFile,
  removeUnfinished,
  writeFileAtomically,
  type PreparedFile,
  type AtomicWriteOptions,
} from '../../node/atomic-write.ts';
import { parseApplyCheck, printApplyCheck, type ApplyCheck } from './apply-check.ts';
import { parseSavedTime, printSavedTime, type SavedTime } from './saved-time.ts';
import type { Address } from '../../policy/address.ts';
import { writeIntentFile } from './intent-file.ts';
import { parseServerAddresses, printServerAddresses, type KeptServer, type ServerName } from './server-addresses.ts';

/** The steps of a write; a test may stop the world at each. */
export type StateFailpoint = 'state-written' | 'state-renamed';

export interface StateFolderOptions {
  readonly folder: string;
  readonly failpoint?: (at: StateFailpoint) => void | Promise<void>;
}

/** An intent that is written down and not in its place yet. */
export type PreparedIntent = PreparedFile;

export type StoredPolicy =
  | { readonly kind: 'found'; readonly record: LastGoodPolicy }
  | { readonly kind: 'absent' }
  | { readonly kind: 'damaged'; readonly why: string };

/** Thrown where a policy cannot be saved. The message is the same for the same reason. */
export class StateUnwritable extends Error {
  readonly code = 'state_unwritable';
}

const names = {
  policy: 'policy.json',
  intent: 'intent.json',
  counters: 'counters.json',
  server: 'server-addresses.json',
  check: 'apply-check.json',
  time: 'time.json',
} as const;
type Name = keyof typeof names;

/**
 * `policy` is the last policy that the kernel took. `intent` is the policy that is about to be put in force: after a
 * crash it shows that the kernel's rules are newer than `policy`, and which policy they belong to.
 */
export class StateFolder {
  readonly #options: StateFolderOptions;

  constructor(options: StateFolderOptions) {
    this.#options = options;
  }

  path(name: Name): string {
    return join(this.#options.folder, names[name]);
  }

  async readPolicy(name: 'policy' | 'intent'): Promise<StoredPolicy> {
    let text: string;
    try {
      text = await readFile(this.path(name), 'utf8');
    } catch (error) {
      if (isCode(error, 'ENOENT')) return { kind: 'absent' };
      return { kind: 'damaged', why: reason(error) };
    }
    try {
      return { kind: 'found', record: parseLastGoodPolicy(text) };
    } catch (error) {
      if (error instanceof UnusablePolicy || error instanceof SyntaxError)
        return { kind: 'damaged', why: error.message };
      throw error;
    }
  }

  /**
   * Replaces the saved policy at one instant, and for good: it is on the disk when this resolves. The intent holds the same then, so that
   * either of the two is enough for the next start. Throws `StateUnwritable`.
   */
  async writePolicy(record: LastGoodPolicy): Promise<void> {
    const { failpoint } = this.#options;
    const text = printLastGoodPolicy(record);
    try {
      await this.#write('policy', text, {
        durable: true,
        ...(failpoint && { failpoint: (at) => failpoint(`state-${at}`) }),
      });
      await this.#write('intent', text, { durable: false });
    } catch (error) {
      throw new StateUnwritable(`cannot write to the state directory (${whyNot(error)})`, { cause: error });
    }
  }

  /** Why a policy cannot be written now; absent where it can. What is tried is a file as large as the one that is saved. */
  async whyUnwritable(): Promise<string | undefined> {
    try {
      const { size } = await stat(this.path('policy')).catch(() => ({ size: 0 }));
      const text = ' '.repeat(size + 1);
      const tried = await this.#inFolder(() => prepareFile(this.path('policy'), text, { mode: 0o600, durable: false }));
      await tried.discard();
      return undefined;
    } catch (error) {
      return whyNot(error);
    }
  }

  /**
   * Writes the policy that is about to be put in force. It is placed just before that happens: until then the earlier
   * intent stays, because it may be the only record of which policy the kernel's rules belong to. It is not forced to
   * the disk, because it matters only after a crash of the agent: after a crash of the machine the kernel has no rules
   * at all.
   */
  prepareIntent(record: LastGoodPolicy): Promise<PreparedIntent> {
    const text = printLastGoodPolicy(record);
    return this.#inFolder(() => prepareFile(this.path('intent'), text, { mode: 0o600, durable: false }));
  }

  /** The same at once, in its place when it returns: where nothing else is done meanwhile, threads and renaming would be all of the wait. */
  writeIntent(record: LastGoodPolicy): void {
    const [path, text] = [this.path('intent'), printLastGoodPolicy(record)];
    try {
      writeIntentFile(path, text);
    } catch (error) {
      if (!isCode(error, 'ENOENT')) throw error;
      mkdirSync(this.#options.folder, { mode: 0o700 });
      writeIntentFile(path, text);
    }
  }

  /** Replaces the check of a policy that was put in force; removes it where there is none. On the disk when this resolves. */
  async writeCheck(check: ApplyCheck | undefined): Promise<void> {
    if (check === undefined) await rm(this.path('check'), { force: true });
    else await this.#write('check', printApplyCheck(check), { durable: true });
  }

  /** The check that the last run left; nothing where there was none, or it cannot be read. */
  async readCheck(): Promise<ApplyCheck | undefined> {
    return parseApplyCheck(await readFile(this.path('check'), 'utf8').catch(() => ''));
  }

  /** On the disk when this resolves: after a loss of power it is all that tells how late it was. */
  async writeTime(time: SavedTime): Promise<void> {
    await this.#write('time', printSavedTime(time), { durable: true });
  }

  /** What the last run knew of the time; nothing where that cannot be read. */
  async readTime(): Promise<SavedTime | undefined> {
    return parseSavedTime(await readFile(this.path('time'), 'utf8').catch(() => ''));
  }

  /** What was counted up to the last time it was saved; nothing where that cannot be read. */
  async readCounterTotals(): Promise<CounterTotals> {
    return CounterTotals.parse(await readFile(this.path('counters'), 'utf8').catch(() => ''));
  }

  /** Not forced to the disk: after a crash of the machine, what the last minute counted is not worth the wait. */
  async saveCounterTotals(totals: CounterTotals): Promise<void> {
    await this.#write('counters', totals.print(), { durable: false });
  }

  /** Where this server was found last; nothing where that cannot be read, or was another server. */
  async readServerAddresses(server: ServerName): Promise<readonly Address[]> {
    return parseServerAddresses(await readFile(this.path('server'), 'utf8').catch(() => ''), server);
  }

  /** On the disk when this resolves: under closed rules, the next start has nothing else to go by. */
  async keepServerAddresses(servers: readonly KeptServer[]): Promise<void> {
    await this.#write('server', printServerAddresses(servers), { durable: true });
  }

  /** Removes files that a killed run left half written. The caller holds the lock. */
  async removeUnfinished(): Promise<void> {
    await removeUnfinished(Object.values(names).map((name) => join(this.#options.folder, name)));
  }

  #write(name: Name, text: string, options: Omit<AtomicWriteOptions, 'mode'>): Promise<void> {
    return this.#inFolder(() => writeFileAtomically(this.path(name), text, { mode: 0o600, ...options }));
  }

  /** Where the folder is gone, it is made again. */
  async #inFolder<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      if (!isCode(error, 'ENOENT')) throw error;
      await mkdir(this.#options.folder, { mode: 0o700 });
      return write();
    }
  }
}

const isCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;
const reason = (error: unknown): string => (error instanceof Error ? error.message : String(error));
/** Without names of passing files, so that it is the same each time: `ENOSPC: no space left on device`. */
const whyNot = (error: unknown): string => reason(error).split(',')[0] ?? '';
