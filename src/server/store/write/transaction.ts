/** Owns writes of several statements, each with its audit entry: inside an organization's order and outside of it. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Actor, Authority } from '../data/actor.ts';
import type { Runner } from '../postgres/connection.ts';
import { auditRow, auditValue, insertAudit, type AuditSubject } from './audit-entry.ts';
import type { Context } from './context.ts';
import { recorded } from './idempotency.ts';
import { holdRight } from './right.ts';
import { DryRunResult, type Locked } from './run-transaction.ts';
import { now } from './stamp.ts';
import { transactionWrite } from './writer.ts';

export type { Locked };

/** A transaction write in an organization, with its audit entry. That the organization is there and the right holds is checked before it begins. */
export function inOrganization<T>(
  context: Context,
  org: OrganizationId,
  by: Actor,
  work: (locked: Locked) => Promise<T>,
  subject: (result: T) => Omit<AuditSubject, 'org_id'> & Partial<AuditSubject>,
  options: { readonly onlyReads?: boolean } = {},
): Promise<T> {
  const run = async (locked: Locked): Promise<T> => {
    const result = await work(locked);
    if (by.audit !== undefined) {
      const { org_id, ...entry } = { org_id: org, ...subject(result) };
      locked.records.note(auditRow(context, { ...by.audit, ...entry, organization_id: org_id ?? undefined }));
    }
    return result;
  };
  return context.writer.write(org, transactionWrite(by, run, options));
}

/** A write outside of the organizations' order, with its audit entry if it has a note. Its right is checked first, and held until the commit. */
export async function outsideOrganizations<T>(
  context: Context,
  by: Authority,
  work: (tx: Runner) => Promise<T>,
  subject: (result: T) => AuditSubject,
): Promise<T> {
  const { right, audit, onCommitted, idempotency } = by;
  const write = async (tx: Runner): Promise<T> => {
    await holdRight(tx, right, now(context));
    const result = await recorded(context, tx, idempotency, () => work(tx));
    if (audit !== undefined) await tx.run(insertAudit, [auditValue(context, audit, subject(result))]);
    return result;
  };
  const result = await context.guard.whenVerified(() => committed(context, by, write));
  if (by.isDryRun !== true) onCommitted?.();
  return result;
}

/** The result of a transaction that is committed, or taken back where the write is a dry run. */
export async function committed<T>(
  { transactions }: Pick<Context, 'transactions'>,
  { isDryRun }: Authority,
  work: (tx: Runner) => Promise<T>,
): Promise<T> {
  if (isDryRun !== true) return transactions.run(work);
  try {
    return await transactions.run(async (tx) => {
      throw new DryRunResult(await work(tx));
    });
  } catch (cause) {
    if (cause instanceof DryRunResult) return cause.value as T;
    throw cause;
  }
}
