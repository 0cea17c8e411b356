/** Owns what this process has seen of the history, and the verification of the database against it. */
import type { PipelinedConnections, Transactions } from '../postgres/connection.ts';
import { asUnavailable, isUnverified } from '../postgres/failure.ts';
import { identityOf, verifyHistory, type HistoryChange } from './eras.ts';

/** What was known when a read began: an answer below that is a database that went back. */
export interface HistoryMark {
  readonly heads: ReadonlyMap<string, number>;
  readonly transaction: bigint;
}

/** The head that a write has reached, and the era that wrote it. */
export interface WrittenHead {
  readonly revision: number;
  readonly era?: string | undefined;
}

const warnings: { readonly [Change in Exclude<HistoryChange, 'none'>]: string } = {
  cut: 'the database lost a part of its history: every organization leaps to new revisions. Readers that saw what is lost start afresh, and devices prove anew what they enforce.',
  replaced:
    'another database answers, and a part of its history may be lost: every organization leaps to new revisions. Devices prove anew what they enforce.',
  moved:
    'another primary took over: every organization leaps to new revisions. Nothing that this server has seen is lost.',
};

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
    for (const { org_id, revision } of heads) this.#saw(org_id, revision);
    return true;
  }

  /** A write of this server has committed. In an era that another server began, the head of before is compared first. */
  wrote(org: string, { revision, era }: WrittenHead): void {
    if (era === undefined || this.#eras.has(era)) this.#saw(org, revision);
    // If it fails, the next write or read tries again.
    else this.verify().catch(() => {});
  }

  #saw(org: string, revision: number): void {
    if (revision > (this.#heads.get(org) ?? 0)) this.#heads.set(org, revision);
  }

  /** Compares the database with what was seen. After that writes are accepted, and no head is below one that was seen. */
  verify(): Promise<void> {
    this.#verifying ??= this.#verify()
      .catch((cause: unknown) => {
        throw asUnavailable(cause);
      })
      .finally(() => (this.#verifying = undefined));
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
    const { eras, heads, change } = await transactions.run(async (tx) =>
      verifyHistory(tx, await identityOf(reads), known),
    );
    for (const era of eras) this.#eras.add(era);
    for (const [org, revision] of heads) this.#saw(org, revision);
    // Transactions of a database that was put in the place of another count anew.
    this.#transaction = 0n;
    if (change !== 'none') onWarning(warnings[change], undefined);
  }
}
