/** Owns writes of several statements, each with its audit entry: inside an organization's order and outside of it. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Actor, Authority } from '../contract/actor.ts';
import type { ModelInTransaction } from '../model/organizations.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { auditValue, insertAudit, insertEntries, type AuditSubject } from './audit-entry.ts';
import type { Context } from './context.ts';
import { recorded } from './idempotency.ts';
import { holdRight } from './right.ts';
import { now } from './stamp.ts';
import { transactionWrite } from './writer.ts';

/**
 * Where no revision was taken: single-statement writes that looked before, at a member who is gone now, must look again. Values: organization, the version
 * as it was at the opening.
 */
const closing = 'UPDATE heads SET version = version + 1 WHERE org_id = $1 AND version = $2';
const closeHead = statement<never>('close_head', closing);
const closeHeadWithEntry = statement<never>(
  'close_head_with_entry',
  `WITH entry AS (${insertEntries('$3')}) ${closing}`,
);

/** An organization whose head this transaction holds. */
export interface Locked {
  readonly org: OrganizationId;
  readonly tx: Runner;
  /** The head at the start of the write. */
  readonly head: number;
  /** The organization as the transaction sees it. */
  readonly model: ModelInTransaction;
}

/** A transaction write in an organization, with its audit entry. That the organization is there and the right holds is checked before it begins. */
export function inOrganization<T>(
  context: Context,
  org: OrganizationId,
  by: Actor,
  work: (locked: Locked) => Promise<T>,
  subject: (result: T) => Omit<AuditSubject, 'org_id'> & Partial<AuditSubject>,
): Promise<T> {
  const write = transactionWrite(context, by, async (tx, { revision, version }, model) => {
    const result = await work({ org, tx, head: revision, model });
    if (by.audit === undefined) await tx.run(closeHead, [org, version]);
    else
      await tx.run(closeHeadWithEntry, [
        org,
        version,
        auditValue(context, by.audit, { org_id: org, ...subject(result) }),
      ]);
    return result;
  });
  return context.writer.write(org, write);
}

/** A write outside of the organizations' order, with its audit entry if it has a note. Its right is checked first, and held until the commit. */
export async function outsideOrganizations<T>(
  context: Context,
  { right, audit, onCommitted, idempotency }: Authority,
  work: (tx: Runner) => Promise<T>,
  subject: (result: T) => AuditSubject,
): Promise<T> {
  const write = async (tx: Runner): Promise<T> => {
    await holdRight(tx, right, now(context));
    const result = await recorded(context, tx, idempotency, () => work(tx));
    if (audit !== undefined) await tx.run(insertAudit, [auditValue(context, audit, subject(result))]);
    return result;
  };
  const result = await context.guard.whenVerified(() => context.transactions.run(write));
  onCommitted?.();
  return result;
}
