/** Owns writes of several statements, each with its audit entry: those in an organization's order, and those outside of it. */
import type { OrganizationId } from '../../../policy/ids.ts';
import type { Actor } from '../contract/actor.ts';
import type { AuditNote } from '../contract/audit.ts';
import { refuse } from '../contract/errors.ts';
import type { Runner } from '../postgres/connection.ts';
import { statement } from '../postgres/sql.ts';
import { isMember } from '../schema/fragments.ts';
import { auditValue, insertAudit, insertEntries, type AuditSubject } from './audit-entry.ts';
import type { Context } from './context.ts';
import { careful } from './writer.ts';

const openHead = statement<{ revision: number; version: number; is_member: boolean }>(
  'open_head',
  `SELECT h.revision, h.version, ${isMember('$2')} AS is_member FROM heads h WHERE h.org_id = $1`,
);
/**
 * Where no revision was taken: quick writes that looked before, at a member who is gone now, must look again. Values: organization, the version
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
  /** The head as it stood when the write began. */
  readonly head: number;
}

/** A careful write in an organization: checks that it exists and that the actor is a member, and writes the audit entry. */
export function inOrganization<T>(
  context: Context,
  org: OrganizationId,
  by: Actor,
  work: (locked: Locked) => Promise<T>,
  subject: (result: T) => Omit<AuditSubject, 'org_id'> & Partial<AuditSubject>,
): Promise<T> {
  const write = careful(async (tx) => {
    const [row] = await tx.run(openHead, [org, by.user_id]);
    if (row === undefined) return refuse({ code: 'not_found', what: 'organization' });
    if (!row.is_member) return refuse({ code: 'not_a_member' });
    const result = await work({ org, tx, head: row.revision });
    if (by.audit === undefined) await tx.run(closeHead, [org, row.version]);
    else
      await tx.run(closeHeadWithEntry, [
        org,
        row.version,
        auditValue(context, by.audit, { org_id: org, ...subject(result) }),
      ]);
    return result;
  });
  return context.writer.write(org, write);
}

/** Runs a write outside of the organizations' order together with its entry; without a note it is the write alone. */
export function withAuditEntry<T>(
  context: Context,
  note: AuditNote | undefined,
  work: (runner: Runner) => Promise<T>,
  subject: (result: T) => AuditSubject,
): Promise<T> {
  if (note === undefined) return work(context.writes);
  return context.transactions.run(async (tx) => {
    const result = await work(tx);
    await tx.run(insertAudit, [auditValue(context, note, subject(result))]);
    return result;
  });
}
