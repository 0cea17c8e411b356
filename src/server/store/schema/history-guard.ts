/** Owns what this process has seen of the history, and the verification of the database against it. */
import type { PipelinedConnections, Transactions } from '../postgres/connection.ts';
import { isUnverified } from '../postgres/failure.ts';
import { identityOf, verifyHistory } from './eras.ts';

/** What was known when a read began: an answer below that is a database that went back. */
export interface HistoryMark {
  readonly heads: ReadonlyMap<string, number>;
  readonly transaction: bigint;
}

export interface HistoryGuardOptions {
  readonly reads: PipelinedConnections;
  readonly transactions: Transactions;
  readonly onWarning: (message: string, cause: unknown) => void;
}

export class HistoryGuard {
  readonly #o: HistoryGuardOptions;
  readonly #heads = new Map<string, number>();
  #transaction = 0n;
  readonly #eras = new Set<string>();
  #verifying: Promise<void> | undefined;

  constructor(options: HistoryGuardOptions) {
    this.#o = options;
  }

  mark(orgs: readonly string[]): HistoryMark {
    return {
      heads: new Map(orgs.map((org) => [org, this.#heads.get(org) ?? 0])),
      transaction: this.#transaction,
    };
  }

  /**
   * Whether an answer is of the history that was known when its read began. What it shows is known from then on. An era that another server
   * began is verified before it counts: a cut that only this server can find is then found at once, and an era that it has verified is never
   * discarded because of a later cut.
   */
  follows(
    mark: HistoryMark,
    heads: readonly { readonly org_id: string; readonly revision: number; readonly era: string }[],
    transaction: bigint,
  ): boolean {
    const isBelow = heads.some(({ org_id, revision }) => revision < (mark.heads.get(org_id) ?? 0));
    const isOfNewEra = heads.some(({ era }) => !this.#eras.has(era));
    if (transaction < mark.transaction || isBelow || isOfNewEra) return false;
    if (transaction > this.#transaction) this.#transaction = transaction;
    for (const { org_id, revision } of heads) this.saw(org_id, revision);
    return true;
  }

  saw(org: string, revision: number): void {
    if (revision > (this.#heads.get(org) ?? 0)) this.#heads.set(org, revision);
  }

  /** Compares the database with what was seen. After that writes are accepted, and no head is below one that was seen. */
  verify(): Promise<void> {
    this.#verifying ??= this.#verify().finally(() => (this.#verifying = undefined));
    return this.#verifying;
  }

  /** Does something that writes; where the history is to be verified first, verifies it and does it then. */
  async whenVerified<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!isUnverified(error)) throw error;
      await this.verify();
      return work();
    }
  }

  async #verify(): Promise<void> {
    const { reads, transactions, onWarning } = this.#o;
    const known = { heads: new Map(this.#heads), transaction: this.#transaction, eras: this.#eras };
    const { eras, leapt } = await transactions.run(async (tx) => verifyHistory(tx, await identityOf(reads), known));
    for (const era of eras) this.#eras.add(era);
    // Transactions of a database that was put in the place of another count anew.
    this.#transaction = 0n;
    if (leapt) {
      const why = 'Readers that saw what is lost start afresh.';
      onWarning(
        `the database lost a part of its history: every organization leaps to new revisions. ${why}`,
        undefined,
      );
    }
  }
}
