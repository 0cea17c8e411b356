/** Owns what every part of the store shares, and the small readers of answers that all of them use. */
import type { OrganizationId } from '../../../policy/ids.ts';
import { auditValue, insertAudit, type Told } from './audit-entry.ts';
import type { Lanes, Runner, Transactions } from '../postgres/connection.ts';
import { StoreError, type StoreProblem } from '../contract/errors.ts';
import type { Hints } from '../postgres/hints.ts';
import { statement } from '../postgres/sql.ts';
import type { Actor } from '../contract/actor.ts';
import type { Page } from '../contract/page.ts';
import type { Phase } from '../contract/phase.ts';
import { careful, type Writer } from './writer.ts';

export interface Context {
  readonly phase: Phase;
  /** For reading. */
  readonly reads: Lanes;
  /** For single statements that write, so that no long listing is in their way. */
  readonly writes: Lanes;
  readonly transactions: Transactions;
  readonly writer: Writer;
  readonly hints: Hints;
  readonly clock: () => number;
  readonly newId: () => string;
}

export const now = (context: Context): string => new Date(context.clock()).toISOString();

export const refuse = (problem: StoreProblem): never => {
  throw new StoreError(problem);
};

const nobody = '00000000-0000-0000-0000-000000000000';

/** The two values that end every paged statement: `id > $n` and `LIMIT $n+1` (null is no limit). */
export const pageValues = (page: Page | undefined): [string, number | null] => [
  page?.after ?? nobody,
  page?.limit ?? null,
];

const openHead = statement<{ revision: number; owner_id: string; is_member: boolean }>(
  'open_head',
  `SELECT h.revision, o.owner_id, EXISTS (SELECT FROM members m WHERE m.org_id = $1 AND m.user_id = $2) AS is_member
   FROM heads h JOIN organizations o ON o.id = h.org_id WHERE h.org_id = $1`,
);
const closeHead = statement<never>(
  'close_head',
  'UPDATE heads SET revision = $2, version = version + 1 WHERE org_id = $1',
);
/** The same, with an entry of the audit. */
const closeHeadTold = statement<never>(
  'close_head_told',
  `WITH told AS (${insertAudit.text.replace('$1', '$3')}) ${closeHead.text}`,
);

/** The organization's counter in the hands of a careful write. */
export interface Ledger {
  readonly org: OrganizationId;
  readonly tx: Runner;
  readonly owner_id: string;
  /** The head as it stood. */
  readonly head: number;
  /** The next revision. Each is used for exactly one row of the log. */
  take(): number;
  /** The next so many revisions; gives the one before the first. */
  takeMany(count: number): number;
}

/**
 * A careful write in an organization: checks that it exists and that the actor is a member, moves the head past what was taken, and tells
 * the audit.
 */
export function inOrganization<T>(
  context: Pick<Context, 'newId' | 'clock' | 'writer'>,
  org: OrganizationId,
  by: Actor,
  work: (ledger: Ledger) => Promise<T>,
  told: (result: T) => Omit<Told, 'org_id'> & Partial<Told>,
): Promise<T> {
  const write = careful(async (tx) => {
    const [row] = await tx.run(openHead, [org, by.user_id]);
    if (row === undefined) return refuse({ code: 'not_found', what: 'organization' });
    if (!row.is_member) return refuse({ code: 'not_a_member' });
    let last = row.revision;
    const takeMany = (count: number): number => {
      last += count;
      return last - count;
    };
    const result = await work({
      org,
      tx,
      owner_id: row.owner_id,
      head: row.revision,
      takeMany,
      take: () => takeMany(1) + 1,
    });
    if (by.audit === undefined) await tx.run(closeHead, [org, last]);
    else await tx.run(closeHeadTold, [org, last, auditValue(context, by.audit, { org_id: org, ...told(result) })]);
    return result;
  });
  return context.writer.write(org, write);
}
